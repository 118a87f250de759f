"""The numbers of a leaderboard as text, and its main table as Markdown."""

from rich.markup import escape
from rich.table import Table

from taciturn.experiments.recorder import Setting
from taciturn.intervals import interval_text
from taciturn.measures import Measure
from taciturn.reports.cells import Cell, SettingKey
from taciturn.reports.leaderboard import Leaderboard
from taciturn.reports.standings import Standing
from taciturn.reports.tables import mark_down, share_text

WON = "won\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}tied\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}lost"


def rate_text(setting: SettingKey) -> str:
    """Return the rate of a setting on the axis of silence as text."""
    return share_text(Setting.parse(setting[0]).value)


def standing_header(board: Leaderboard) -> list[str]:
    """Return the columns of the main table."""
    rates = [rate_text(setting) for setting in board.rate_rankings]
    results = [measure.axis for measure in board.ranked_measures]
    against = f"{WON} against {board.info.recommended}"
    return ["method", "library", "mean rank", *rates, against, *results, "ms a step", "MB"]


def standing_texts(standing: Standing) -> list[str]:
    """Return a row of the main table, in the order of `standing_header`; what is not known is a dash."""
    return [
        standing.method,
        standing.library,
        f"{standing.rank:.2f}",
        *(f"{rank:.1f}" for rank in standing.ranks.values()),
        "–" if standing.tally is None else str(standing.tally),
        *(result_text(measure, mean) for measure, mean in standing.means.items()),
        number_text(standing.ms_per_step, 2),
        number_text(standing.mb, 0),
    ]


def result_text(measure: Measure, mean: float | None) -> str:
    """Return a mean from 0 to 1 as it is shown; a dash where there is none."""
    return number_text(None if mean is None else measure.scale * mean, measure.digits)


def number_text(value: float | None, digits: int) -> str:
    """Return a number with its digits; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def leaderboard_markdown(board: Leaderboard) -> str:
    """Return the main table as Markdown."""
    return mark_down(standing_header(board), [*map(standing_texts, board.standings)])


def leaderboard_table(board: Leaderboard) -> Table:
    """Return the main table for the terminal, without what is beside the ranks, the results and the times."""
    shown = [name for name in standing_header(board) if name != "MB" and not name.startswith("won")]
    ours = f"coloured: {escape(board.info.recommended)}, which is recommended"
    table = Table(title=board.info.title, caption=f"mean ranks, 1 is best, at each share of silence; {ours}")
    for name in shown:
        table.add_column(name, justify="left" if name in ("method", "library") else "right")
    for standing in board.standings:
        texts = dict(zip(standing_header(board), standing_texts(standing), strict=True))
        table.add_row(
            *(escape(texts[name]) for name in shown),
            style="cyan" if standing.method == board.info.recommended else None,
        )
    return table


def cell_text(cell: Cell) -> str:
    """Return the mean of a cell with its 95 % interval, and how many of its runs failed, if any."""
    if not cell.finished:
        return "failed"
    shown = result_text(cell.measure, cell.mean)
    if cell.interval is not None:
        shown += " " + interval_text([result_text(cell.measure, end) for end in cell.interval])
    return shown + (f" ({cell.failed} of {len(cell.runs)} failed)" if cell.failed else "")
