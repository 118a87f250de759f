"""Tables of results: rows for people, over the records of runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from tacit.experiments.recorder import RunRecord


class Row(NamedTuple):
    """A method on a data set at a missing rate, over its seeds."""

    dataset: str
    missing: str
    method: str
    runs: int
    mean: float
    deviation: float
    seconds: float
    step_milliseconds: float


def accuracy_rows(records: Sequence[RunRecord]) -> list[Row]:
    """Means over seeds, in the order in which the settings first appear."""
    groups: dict[tuple[str, str, str], list[RunRecord]] = {}
    for record in records:
        groups.setdefault((record.dataset, record.missing, record.method), []).append(record)
    return [_row(group) for group in groups.values()]


def _row(group: list[RunRecord]) -> Row:
    percent = np.array([100 * record.accuracy for record in group])
    seconds = float(np.mean([record.seconds for record in group]))
    per_step = 1000 * sum(record.seconds for record in group) / max(sum(record.steps for record in group), 1)
    deviation = float(percent.std(ddof=1)) if len(group) > 1 else float("nan")
    first = group[0]
    mean = float(percent.mean())
    return Row(first.dataset, first.missing, first.method, len(group), mean, deviation, seconds, per_step)


def accuracy_table(records: Sequence[RunRecord]) -> Table:
    """One line a setting, the best method of each data set and missing rate in bold."""
    rows = accuracy_rows(records)
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        best[row.dataset, row.missing] = max(row.mean, best.get((row.dataset, row.missing), 0.0))
    table = Table(box=None, header_style="bold")
    for column in ("data", "silent", "method"):
        table.add_column(column)
    for column in ("right", "seeds", "seconds", "ms a step"):
        table.add_column(column, justify="right")
    for row in rows:
        right = f"{row.mean:.1f} %" + (f" ± {row.deviation:.1f}" if row.runs > 1 else "")
        style = "bold" if row.mean == best[row.dataset, row.missing] else None
        cells = (row.dataset, _silent_text(row.missing), row.method, right, str(row.runs))
        table.add_row(*cells, f"{row.seconds:.1f}", f"{row.step_milliseconds:.2f}", style=style)
    return table


def _silent_text(missing: str) -> str:
    mechanism, _, rate = missing.partition(":")
    return f"{float(rate):.0%}" + ("" if mechanism == "mcar" else f" by {mechanism}")
