"""Tables of results: rows for people, over the records of runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from tacit.experiments.recorder import RunRecord


class Row(NamedTuple):
    """A method on a data set at a missing rate, over its seeds; times are None for what did not run."""

    dataset: str
    missing: str
    method: str
    runs: int
    mean: float
    deviation: float
    seconds: float | None
    step_milliseconds: float | None


def dataset_labels(records: Sequence[RunRecord]) -> dict[str, str]:
    """A label for each data set's fingerprint: its name, with the file where that matters or names are equal."""
    names = {record.fingerprint: record.dataset for record in records}
    sources = {record.fingerprint: record.source for record in records}
    labels = {}
    for fingerprint, name in names.items():
        if list(names.values()).count(name) > 1:
            labels[fingerprint] = f"{name} ({sources[fingerprint]}, {fingerprint[:6]})"
        elif name == "internet-ads":  # the paper's column is about all rows; results must say which file they are of
            labels[fingerprint] = f"{name} ({sources[fingerprint]})"
        else:
            labels[fingerprint] = name
    return labels


def accuracy_rows(records: Sequence[RunRecord]) -> list[Row]:
    """Means over seeds, in the order in which the settings first appear, each after the best constant arm."""
    labels = dataset_labels(records)
    groups: dict[tuple[str, str], dict[str, list[RunRecord]]] = {}
    for record in records:
        methods = groups.setdefault((record.fingerprint, record.missing), {})
        methods.setdefault(record.method, []).append(record)
    rows = []
    for (fingerprint, _), methods in groups.items():
        rows.append(_constant_row(labels[fingerprint], [record for group in methods.values() for record in group]))
        rows += [_row(labels[fingerprint], group) for group in methods.values()]
    return rows


def _constant_row(label: str, group: list[RunRecord]) -> Row:
    by_seed = {record.seed: 100 * record.constant_accuracy for record in group}
    mean, deviation = _mean_and_deviation(list(by_seed.values()))
    return Row(label, group[0].missing, f"always {group[0].constant_arm}", len(by_seed), mean, deviation, None, None)


def _row(label: str, group: list[RunRecord]) -> Row:
    mean, deviation = _mean_and_deviation([100 * record.accuracy for record in group])
    seconds = float(np.mean([record.seconds for record in group]))
    per_step = 1000 * sum(record.seconds for record in group) / sum(record.steps for record in group)
    return Row(label, group[0].missing, group[0].method, len(group), mean, deviation, seconds, per_step)


def _mean_and_deviation(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def accuracy_table(records: Sequence[RunRecord]) -> Table:
    """One line a setting, the best method of each data set and missing rate in bold."""
    rows = accuracy_rows(records)
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        best[row.dataset, row.missing] = max(row.mean, best.get((row.dataset, row.missing), 0.0))
    table = Table(box=None, header_style="bold")
    for column in ("data", "silent", "method"):
        table.add_column(column, overflow="fold")
    for column in ("right", "seeds", "seconds", "ms a step"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        right = f"{row.mean:.1f} %" + (f" ± {row.deviation:.1f}" if row.runs > 1 else "")
        seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
        per_step = "" if row.step_milliseconds is None else f"{row.step_milliseconds:.2f}"
        style = "bold" if row.mean == best[row.dataset, row.missing] else "dim" if row.seconds is None else None
        cells = (row.dataset, _silent_text(row.missing), row.method, right, str(row.runs), seconds, per_step)
        table.add_row(*cells, style=style)
    return table


def _silent_text(missing: str) -> str:
    mechanism, _, rate = missing.partition(":")
    return f"{float(rate):.0%}" + ("" if mechanism == "mcar" else f" by {mechanism}")
