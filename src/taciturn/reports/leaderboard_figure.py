"""The leaderboard's main picture, drawn with matplotlib: results and mean ranks against silence."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taciturn.errors import TaciturnError
from taciturn.figure_style import WIDTHS, label_ends, look, print_style, save, tidy
from taciturn.labels import short
from taciturn.reports.leaderboard import Leaderboard, read_leaderboard
from taciturn.reports.leaderboard_text import rate_text

Points = Sequence[tuple[int, float]]
"""Places of rates, and what is drawn there."""


def draw_leaderboard(folder: Path, path: Path) -> list[Path]:
    """Draw the mean result over ranked data sets, and the mean rank, against silence; return the files.

    The ending of `path` is SVG, PNG or PDF; one without is written as all three.

    At most ten methods are drawn, each labelled at the right end of its line. The result is the accuracy, and the mean
    reward where no ranked data set has one right arm; a method has a point where it finished all data sets.
    """
    board = read_leaderboard(folder)
    if not board.methods:
        raise TaciturnError(f"{folder} has no finished runs on data sets that are ranked: there is nothing to draw")
    measure = board.ranked_measures[0]
    means = {method: board.complete_means(method, measure) for method in board.shown_methods}
    results = {method: [(x, measure.scale * y) for x, y in points] for method, points in means.items()}
    ranks = {method: _ranks(board, method) for method in board.shown_methods}
    with print_style():
        figure = Figure(figsize=(WIDTHS[2], 1.1 * WIDTHS[2]), layout="constrained")
        above, below = figure.subplots(2, 1)
        below.invert_yaxis()
        above.set_title(board.info.title, loc="left", parse_math=False)
        above.set(ylabel=measure.axis)
        below.set(ylabel=f"mean rank of {len(board.methods)} methods, 1 is best")
        _draw(above, board, results)
        _draw(below, board, ranks)
        _label(above, results, measure.digits)
        _label(below, ranks, 1)
        return save(figure, path)


def _ranks(board: Leaderboard, method: str) -> Points:
    places = {setting: place for place, setting in enumerate(board.silence)}
    return [(places[setting], ranked.mean_ranks[method]) for setting, ranked in board.rate_rankings.items()]


def _draw(axes: Axes, board: Leaderboard, lines: Mapping[str, Points]) -> None:
    """Draw one line a method over the rates of silence, evenly spaced."""
    for number, points in enumerate(lines.values()):
        if points:
            colour, dashes, marker = look(number)  # of a method the same in both pictures
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=dashes, marker=marker, markersize=4)
    axes.set_xticks(range(len(board.silence)), [rate_text(setting) for setting in board.silence])
    axes.set(xlabel="silent")
    tidy(axes)


def _label(axes: Axes, lines: Mapping[str, Points], digits: int) -> None:
    """Label each line at its right end."""
    drawn = [(method, *points[-1], look(number)) for number, (method, points) in enumerate(lines.items()) if points]
    texts = [f"{short(method)} {y:.{digits}f}" for method, _, y, _ in drawn]
    label_ends(axes, texts, [(x, y) for _, x, y, _ in drawn], [one for *_, one in drawn])
