"""The leaderboard's main picture, drawn with matplotlib: results and mean ranks against silence."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taciturn.errors import TaciturnError
from taciturn.plotting import LABEL_HEIGHT, PALETTE, label_ends
from taciturn.reports.charts import short
from taciturn.reports.leaderboard import Leaderboard, read_leaderboard
from taciturn.reports.leaderboard_text import rate_text

Points = Sequence[tuple[int, float]]
"""Places of rates, and what is drawn there."""


def draw_leaderboard(folder: Path, path: Path) -> None:
    """Draw the mean result over ranked data sets, and the mean rank, against silence, to a file: PNG or SVG.

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
    with mpl.rc_context({"font.size": 11, "svg.hashsalt": "taciturn"}):
        figure = Figure(figsize=(8, 9), layout="constrained")
        above, below = figure.subplots(2, 1)
        below.invert_yaxis()
        _draw(above, board, results, measure.digits)
        _draw(below, board, ranks, 1)
        above.set_title(board.info.title, parse_math=False)
        above.set(ylabel=measure.axis)
        below.set(ylabel=f"mean rank of {len(board.methods)} methods, 1 is best")
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _ranks(board: Leaderboard, method: str) -> Points:
    places = {setting: place for place, setting in enumerate(board.silence)}
    return [(places[setting], ranked.mean_ranks[method]) for setting, ranked in board.rate_rankings.items()]


def _draw(axes: Axes, board: Leaderboard, lines: Mapping[str, Points], digits: int) -> None:
    """Draw one line a method over the rates of silence, evenly spaced."""
    colours = dict(zip(lines, PALETTE, strict=False))  # of a method the same in both pictures
    drawn = {method: points for method, points in lines.items() if points}
    for method, points in drawn.items():
        axes.plot(*zip(*points, strict=True), color=colours[method], linewidth=2, marker="o", markersize=4)
    low, high = sorted(axes.get_ylim())
    texts = [f"  {short(method)} {points[-1][1]:.{digits}f}" for method, points in drawn.items()]
    ends = [points[-1] for points in drawn.values()]
    label_ends(axes, texts, ends, [colours[method] for method in drawn], LABEL_HEIGHT * (high - low))
    axes.set_xticks(range(len(board.silence)), [rate_text(setting) for setting in board.silence])
    axes.set(xlabel="silent")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
