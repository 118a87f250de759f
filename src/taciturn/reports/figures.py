"""Figures drawn with matplotlib: running accuracies and context spaces."""

import itertools
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from taciturn.experiments.recorder import RunRecord
from taciturn.figure_style import WIDTHS, print_style, save
from taciturn.plotting import Curve, draw_curves, label_curves
from taciturn.reports.curves import accuracy_curves, method_numbers
from taciturn.reports.tables import data_labels, setting_text


def write_figures(folder: Path, records: Sequence[RunRecord], *, columns: int = 2) -> dict[str, list[Path]]:
    """Write the running accuracy for each data set and setting into ``figures/``, each as SVG, PNG and PDF.

    They are as wide as one or two `columns` of a page. Returned are the files by title.
    """
    groups: dict[str, list[RunRecord]] = {}
    labels, numbers = data_labels(records), method_numbers(records)
    for record in records:
        groups.setdefault(f"{labels[record.data_key]}, {setting_text(record)}", []).append(record)
    (folder / "figures").mkdir(exist_ok=True)
    stems: dict[str, str] = {}
    for title in groups:
        stems[title] = _new_stem(title, stems.values())
    written = {}
    for title, group in groups.items():
        curves = accuracy_curves(folder, group)
        looks = [numbers[curve.label] for curve in curves]
        path = folder / "figures" / stems[title]
        written[title] = draw_running_accuracy(curves, title, path, columns=columns, numbers=looks)
    return written


def _new_stem(title: str, taken: Collection[str]) -> str:
    """Return the name of a figure's files, which no other figure has: titles can differ by signs alone."""
    stem = "-".join(re.findall(r"[a-z0-9]+", title.lower())) or "figure"
    numbered = (f"{stem}-{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([stem], numbered) if name not in taken)


def draw_space(file: Path, method: str, path: Path) -> list[Path]:
    """Draw a context space that `write_spaces` wrote: contexts as dots, arm vectors as crosses, one colour per arm.

    Where every arm has its own vector for a context, all of them are drawn; those of wrong arms are faint. Returned
    are the files, as of `save`.
    """
    with np.load(file, allow_pickle=False) as arrays:
        points, weights, truth, arm = (arrays[name] for name in ("points", "weights", "truth", "arm"))
        accuracy = float(arrays["accuracy"])
    colours = mpl.colormaps["tab10"]
    shared = arm < 0
    shade = np.where(shared, truth, arm)
    bold = shared | (arm == truth)
    with print_style():
        figure = Figure(figsize=(WIDTHS[1], WIDTHS[1]), layout="constrained")
        axes = figure.add_subplot()
        for mask, alpha in ((~bold, 0.12), (bold, 0.9)):
            x, y = points[mask].T
            axes.scatter(x, y, c=colours(shade[mask] % 10), s=4, alpha=alpha, linewidths=0, rasterized=True)
        x, y = weights.T
        of_arm = colours(np.arange(len(weights)) % 10)
        axes.scatter(x, y, c=of_arm, s=60, marker="X", edgecolors="black", linewidths=0.6)
        axes.set(title=f"{method}, greedy: {accuracy:.0%} right", xticks=[], yticks=[])
        return save(figure, path)


def draw_running_accuracy(
    curves: Sequence[Curve], title: str, path: Path, *, columns: int = 2, numbers: Sequence[int] | None = None
) -> list[Path]:
    """Draw curves, each labelled at its right end, as wide as so many columns of a page; return the files of `save`.

    `numbers` are those of their looks, counted by default.
    """
    with print_style():
        width = WIDTHS[columns]
        figure = Figure(figsize=(width, width * (0.72 if columns == 1 else 0.5)), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(title, loc="left", parse_math=False)
        draw_curves(axes, curves, numbers)
        label_curves(axes, curves, numbers)
        return save(figure, path)
