"""The pictures of the leaderboard's page: results against silence, and which ranks differ."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from taciturn.measures import Measure
from taciturn.reports import charts
from taciturn.reports.document import figure
from taciturn.reports.leaderboard import Leaderboard
from taciturn.reports.leaderboard_text import rate_text
from taciturn.reports.rank_chart import critical_difference_diagram


def silence_charts(board: Leaderboard) -> Iterator[str]:
    """Yield the main picture, once for each measure: mean results against silence, one line a method."""
    for measure in board.ranked_measures:
        series = [
            one._replace(hidden=method not in board.shown_methods)
            for i, method in enumerate(_coloured(board))
            if (one := _line(board, measure, method, i)) is not None
        ]
        if series:
            count = sum(board.measures[data] == measure for data in board.ranked_data)
            caption = (
                f"Mean over the data sets that count ({count}), {measure.axis}. A line has a point where its method "
                "finished all of them. The rates are evenly spaced, not to scale."
            )
            yield _against_silence(board, series, measure, f"{measure.axis} against silence", caption)


def _coloured(board: Leaderboard) -> list[str]:
    """Return the ranked methods in the order of their colours: those of pictures first, so that theirs differ."""
    return [*board.shown_methods, *(method for method in board.methods if method not in board.shown_methods)]


def _line(board: Leaderboard, measure: Measure, method: str, number: int) -> charts.Series | None:
    """Return the mean result of a method against silence, at rates where it finished all data sets of a measure."""
    points = board.complete_means(method, measure)
    if not points:
        return None
    x, y = np.array(points, np.float64).T
    dashed = number >= charts.COLOURS
    return charts.Series(method, number % charts.COLOURS, x, measure.scale * y, dashed=dashed)


def rank_charts(board: Leaderboard) -> str:
    """Return a critical-difference diagram for each rate."""
    drawn = []
    for i, (setting, ranked) in enumerate(board.rate_rankings.items()):
        if ranked.friedman is None or ranked.critical_difference is None:
            continue
        title = f"Mean ranks at {rate_text(setting)} silence over {ranked.blocks} data sets"
        p = f"p = {ranked.friedman:.2g}" if ranked.friedman >= 1e-4 else "p < 0.0001"
        caption = f"{title}. Friedman's test of equal methods: {p}."
        diagram = figure(f'<div class="wide">{critical_difference_diagram(ranked, title)}</div>', caption)
        is_open = " open" if i == len(board.rate_rankings) // 2 else ""
        drawn.append(f"<details{is_open}><summary><h3>{rate_text(setting)} silent</h3></summary>{diagram}</details>")
    if not drawn:
        return "<p>A test of ranks needs three methods and two data sets at the same rate.</p>" if board.methods else ""
    return (
        "<p>Methods that a bar joins are not significantly different (Nemenyi, 5 %). The more methods there are, and "
        "the fewer data sets, the longer the bars.</p>" + "".join(drawn)
    )


def data_chart(board: Leaderboard, data: str) -> str:
    """Return the chart of one data set; empty where there are no two rates."""
    measure, series = board.measures[data], []
    for i, method in enumerate(board.shown_methods):
        cells = [(x, board.cells.get((data, setting, method))) for x, setting in enumerate(board.silence)]
        points = [(x, measure.scale * cell.mean) for x, cell in cells if cell is not None and cell.mean is not None]
        if points:
            series.append(charts.Series(method, i, *np.array(points, np.float64).T))
    constant = [(x, board.constant_arm(data, setting)[1]) for x, setting in enumerate(board.silence)]
    known = [(x, measure.scale * mean) for x, mean in constant if mean is not None]
    if len(known) < 2 or not series:
        return ""
    x, y = np.array(known, np.float64).T
    series.append(charts.Series("best constant arm", 6, x, y, dashed=True))
    caption = f"{data}: mean over seeds against silence."
    return _against_silence(board, series, measure, f"{data} against silence", caption)


def _against_silence(
    board: Leaderboard, series: Sequence[charts.Series], measure: Measure, title: str, caption: str
) -> str:
    labels: dict[str, Any] = {"x_label": "silent", "y_label": measure.axis, "digits": measure.digits}
    names = [rate_text(setting) for setting in board.silence]
    svg = charts.chart(series, title=title, x_names=names, **labels)
    return figure(f'<div class="wide">{svg}</div>', caption)
