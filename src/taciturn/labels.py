"""Where labels beside the ends of lines go."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST = 22
"""The most characters of a name beside a line."""


def short(label: str) -> str:
    """Return a label that fits beside a chart."""
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"


def place_labels(heights: Sequence[float], gap: float, low: float, high: float) -> NDArray[np.float64]:
    """Return the heights of labels as near as possible to those of their lines, at least `gap` apart, from low to high.

    The sum of squared moves is the least possible, and labels keep the order of their lines; equal heights keep the
    order in which they are given. Where there is no room for all gaps, all are equally smaller.
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    wanted = np.asarray(heights, np.float64)
    if not wanted.size:
        return wanted
    order = np.argsort(wanted, kind="stable")
    steps = np.arange(len(wanted)) * min(gap, (high - low) / max(len(wanted) - 1, 1))
    # Less its gaps below, a label may be anywhere from the one below it on: an isotonic regression, whose best solution
    # within bounds is the best one without, clipped.
    free = isotonic_regression(wanted[order] - steps).x
    placed = np.empty_like(wanted)
    placed[order] = np.clip(free, low, max(low, high - steps[-1])) + steps
    return placed
