"""Running accuracy over the steps of runs, for charts and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.experiments.recorder import RunRecord, read_correct

SKIPPED_STEPS = 20
"""The first steps, over which a running accuracy varies too much to show; shorter runs show their last step."""


class Curve(NamedTuple):
    """The running accuracy of one method in percent: mean and standard deviation over its runs, (T,) each.

    `deviation` is None where there is one run.
    """

    method: str
    steps: NDArray[np.int64]
    percent: NDArray[np.float64]
    deviation: NDArray[np.float64] | None


def accuracy_curve(folder: Path, method: str, records: Sequence[RunRecord]) -> Curve:
    """Return the curve over runs of one method, as long as the shortest of them."""
    runs = [read_correct(folder, record.id) for record in records]
    length = min(map(len, runs))
    steps = np.arange(1, length + 1)
    percent = np.array([100 * np.cumsum(run[:length]) / steps for run in runs])
    shown = slice(min(SKIPPED_STEPS, length - 1), None)
    deviation = percent.std(axis=0, ddof=1)[shown] if len(runs) > 1 else None
    return Curve(method, steps[shown], percent.mean(axis=0)[shown], deviation)


def accuracy_curves(folder: Path, records: Sequence[RunRecord]) -> list[Curve]:
    """Return one curve per method, the most accurate at the last step first."""
    by_method: dict[str, list[RunRecord]] = {}
    for record in records:
        by_method.setdefault(record.method, []).append(record)
    curves = [accuracy_curve(folder, method, group) for method, group in by_method.items()]
    return sorted(curves, key=lambda curve: -curve.percent[-1])
