"""Tables of results: rows for people, over the records of runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from tacit.experiments.recorder import RunRecord


class Row(NamedTuple):
    """A method on a data set at a missing rate, over its seeds; times are None for what did not run."""

    dataset: str
    silent: str
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
    groups: dict[tuple[str, str, str], dict[str, list[RunRecord]]] = {}
    for record in records:
        if record.error is None:
            methods = groups.setdefault((record.fingerprint, record.missing, record.delay), {})
            methods.setdefault(record.method, []).append(record)
    rows = []
    for (fingerprint, _, _), methods in groups.items():
        rows.append(_constant_row(labels[fingerprint], [record for group in methods.values() for record in group]))
        rows += [_row(labels[fingerprint], group) for group in methods.values()]
    return rows


def _constant_row(label: str, group: list[RunRecord]) -> Row:
    by_seed = {record.seed: 100 * record.constant_accuracy for record in group}
    mean, deviation = _mean_and_deviation(list(by_seed.values()))
    name = f"always {group[0].constant_arm}"
    return Row(label, _silent_text(group[0]), name, len(by_seed), mean, deviation, None, None)


def _row(label: str, group: list[RunRecord]) -> Row:
    mean, deviation = _mean_and_deviation([100 * (record.accuracy or 0.0) for record in group])
    seconds = float(np.mean([record.seconds for record in group]))
    per_step = 1000 * sum(record.seconds for record in group) / sum(record.steps for record in group)
    return Row(label, _silent_text(group[0]), group[0].method, len(group), mean, deviation, seconds, per_step)


def _mean_and_deviation(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def mark_down(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [list(header), ["---"] * len(header), *map(list, lines)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"


def accuracy_table(records: Sequence[RunRecord]) -> Table:
    """One line a setting, the best method of each data set and missing rate in bold."""
    rows = accuracy_rows(records)
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        best[row.dataset, row.silent] = max(row.mean, best.get((row.dataset, row.silent), 0.0))
    table = Table(box=None, header_style="bold")
    for column in ("data", "silent", "method"):
        table.add_column(column, overflow="fold")
    for column in ("right", "seeds", "seconds", "ms a step"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        right = f"{row.mean:.1f} %" + (f" ± {row.deviation:.1f}" if row.runs > 1 else "")
        seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
        per_step = "" if row.step_milliseconds is None else f"{row.step_milliseconds:.2f}"
        style = "bold" if row.mean == best[row.dataset, row.silent] else "dim" if row.seconds is None else None
        cells = (row.dataset, row.silent, row.method, right, str(row.runs), seconds, per_step)
        table.add_row(*cells, style=style)
    return table


def _silent_text(record: RunRecord) -> str:
    mechanism, _, rate = record.missing.partition(":")
    distribution, _, delay = record.delay.partition(":")
    text = f"{float(rate):.0%}" + ("" if mechanism == "mcar" else f" by {mechanism}")
    return (
        text
        if float(delay) == 0
        else f"{text}, {float(delay):g} late" + ("" if distribution == "fixed" else f" ({distribution})")
    )
