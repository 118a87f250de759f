"""Running accuracy, or mean reward, over the steps of runs, for charts and figures."""

from collections.abc import Sequence
from pathlib import Path

from taciturn.experiments.recorder import RunRecord, read_earned
from taciturn.plotting import Curve, mean_curve


def method_numbers(records: Sequence[RunRecord]) -> dict[str, int]:
    """Return a number for every method: its look, the same in all charts and figures of a report."""
    return {method: number for number, method in enumerate(sorted({record.method for record in records}))}


def accuracy_curve(folder: Path, method: str, records: Sequence[RunRecord]) -> Curve:
    """Return the curve over runs of one method, as long as the shortest of them."""
    return mean_curve(method, [read_earned(folder, record.id) for record in records], records[0].measure)


def accuracy_curves(folder: Path, records: Sequence[RunRecord]) -> list[Curve]:
    """Return one curve per method of a data set and setting, the highest at the last step first."""
    by_method: dict[str, list[RunRecord]] = {}
    for record in records:
        by_method.setdefault(record.method, []).append(record)
    curves = [accuracy_curve(folder, method, group) for method, group in by_method.items()]
    return sorted(curves, key=lambda curve: -curve.mean[-1])
