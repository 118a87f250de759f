"""Figures drawn with matplotlib: running accuracies and context spaces."""

import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from taciturn.experiments.recorder import RunRecord
from taciturn.plotting import Curve, draw_curves
from taciturn.reports.curves import accuracy_curves
from taciturn.reports.tables import data_labels, setting_text


def write_figures(folder: Path, records: Sequence[RunRecord]) -> list[Path]:
    """Write ``figures/*.svg`` and ``*.png``, the running accuracy for each data set and setting; return the files."""
    groups: dict[str, list[RunRecord]] = {}
    labels = data_labels(records)
    for record in records:
        groups.setdefault(f"{labels[record.data_key]}, {setting_text(record)}", []).append(record)
    (folder / "figures").mkdir(exist_ok=True)
    written = []
    for title, group in groups.items():
        stem = "-".join(re.findall(r"[a-z0-9]+", title.lower()))
        curves = accuracy_curves(folder, group)
        for ending in ("svg", "png"):
            path = folder / "figures" / f"{stem}.{ending}"
            draw_running_accuracy(curves, title, path)
            written.append(path)
    return written


def draw_space(file: Path, method: str, path: Path) -> None:
    """Draw a context space that `write_spaces` wrote: contexts as dots, arm vectors as crosses, one colour per arm.

    Where every arm has its own vector for a context, all of them are drawn; those of wrong arms are faint.
    """
    with np.load(file, allow_pickle=False) as arrays:
        points, weights, truth, arm = (arrays[name] for name in ("points", "weights", "truth", "arm"))
        accuracy = float(arrays["accuracy"])
    colours = mpl.colormaps["tab10"]
    shared = arm < 0
    shade = np.where(shared, truth, arm)
    bold = shared | (arm == truth)
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
    """Draw curves, each labelled at its right end, to a file."""
    with mpl.rc_context({"font.size": 11, "svg.hashsalt": "taciturn"}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot(title=title)
        draw_curves(axes, curves, bands=False)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
