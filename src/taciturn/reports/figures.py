"""Pictures of results: one function says what is drawn, another draws it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from taciturn.experiments.recorder import RunRecord, read_correct
from taciturn.reports.tables import dataset_labels, silent_text

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


def write_figures(folder: Path, records: Sequence[RunRecord]) -> list[Path]:
    """``figures/*.svg`` and ``*.png``: the running accuracy of every data set and silence."""
    groups: dict[str, list[RunRecord]] = {}
    labels = dataset_labels(records)
    for record in records:
        groups.setdefault(f"{labels[record.fingerprint]}, {silent_text(record)} silent", []).append(record)
    (folder / "figures").mkdir(exist_ok=True)
    written = []
    for title, group in groups.items():
        stem = "-".join(re.findall(r"[a-z0-9]+", title.lower()))
        curves = mean_accuracy_curves(folder, group)
        for ending in ("svg", "png"):
            path = folder / "figures" / f"{stem}.{ending}"
            draw_running_accuracy(curves, title, path)
            written.append(path)
    return written


def mean_accuracy_curves(folder: Path, records: Sequence[RunRecord]) -> list[Curve]:
    """The running accuracy of each method, as the mean over its runs, the best on top."""
    by_method: dict[str, list[NDArray[np.float64]]] = {}
    for record in records:
        correct = read_correct(folder, record.id)
        by_method.setdefault(record.method, []).append(100 * np.cumsum(correct) / np.arange(1, len(correct) + 1))
    curves = []
    for method, runs in by_method.items():
        length = min(map(len, runs))
        mean = np.mean([run[:length] for run in runs], axis=0)
        curves.append(Curve(method, np.arange(1, length + 1)[20:], mean[20:]))
    return sorted(curves, key=lambda curve: -curve.percent[-1])


def draw_space(file: Path, method: str, path: Path) -> None:
    """A plane of contexts and arm vectors: colours are arms, crosses the arm vectors.

    Where every arm has its own view of a context, it is drawn once an arm: bold where that arm is the right one.
    """
    with np.load(file, allow_pickle=False) as arrays:
        points, weights, truth, arm = (arrays[name] for name in ("points", "weights", "truth", "arm"))
        accuracy = float(arrays["accuracy"])
    colours = mpl.colormaps["tab10"]
    own = arm < 0
    shade = np.where(own, truth, arm)
    bold = own | (arm == truth)
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.add_subplot()
    for mask, alpha in ((~bold, 0.12), (bold, 0.9)):
        x, y = points[mask].T
        axes.scatter(x, y, c=colours(shade[mask] % 10), s=9, alpha=alpha, linewidths=0)
    x, y = weights.T
    axes.scatter(x, y, c=colours(np.arange(len(weights)) % 10), s=160, marker="X", edgecolors="black")
    axes.set(title=f"{method}, greedy: {accuracy:.0%} right", xticks=[], yticks=[])
    figure.savefig(path, dpi=150)


def draw_running_accuracy(curves: Sequence[Curve], title: str, path: Path) -> None:
    """Lines that name themselves at their ends, so that no legend has to be matched by colour."""
    with mpl.rc_context({"font.size": 11, "svg.hashsalt": "taciturn"}):
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
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _spread(heights: Sequence[float], gap: float) -> list[float]:
    """Heights in falling order, moved down where needed so that labels do not overlap."""
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - gap) if placed else height)
    return placed
