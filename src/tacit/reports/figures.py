"""Pictures of results: one function says what is drawn, another draws it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tacit.experiments.recorder import RunRecord, read_correct

PALETTE = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")  # safe for colour-blind eyes


class Curve(NamedTuple):
    """One method's running accuracy in percent, and where it ends."""

    label: str
    steps: NDArray[np.int64]
    percent: NDArray[np.float64]


def running_accuracy_curves(folder: Path, records: Sequence[RunRecord]) -> list[Curve]:
    """The running accuracy of each run, the best on top; the first steps, which only jump about, are left out."""
    curves = []
    for record in records:
        correct = read_correct(folder, record.id)
        steps = np.arange(1, len(correct) + 1)
        percent = 100 * np.cumsum(correct) / steps
        curves.append(Curve(record.method, steps[20:], percent[20:]))
    return sorted(curves, key=lambda curve: -curve.percent[-1])


def draw_running_accuracy(curves: Sequence[Curve], title: str, path: Path) -> None:
    """Lines that name themselves at their ends, so that no legend has to be matched by colour."""
    with mpl.rc_context({"font.size": 11, "svg.hashsalt": "tacit"}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        ends = _spread([curve.percent[-1] for curve in curves], gap=3.2)
        for curve, colour, end in zip(curves, PALETTE * len(curves), ends, strict=False):
            axes.plot(curve.steps, curve.percent, color=colour, linewidth=2)
            label = f" {curve.label} {curve.percent[-1]:.1f}"
            axes.annotate(label, (curve.steps[-1], end), color=colour, va="center", annotation_clip=False)
        axes.set(title=title, xlabel="decisions", ylabel="right so far (%)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        figure.savefig(path, dpi=150)


def _spread(heights: Sequence[float], gap: float) -> list[float]:
    """Heights in falling order, moved down where needed so that labels do not overlap."""
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - gap) if placed else height)
    return placed
