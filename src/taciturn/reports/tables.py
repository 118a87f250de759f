"""Tables of results: rows for people, over the records of runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from taciturn.experiments.recorder import RunRecord


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
    return Row(label, silent_text(group[0]), name, len(by_seed), mean, deviation, None, None)


def _row(label: str, group: list[RunRecord]) -> Row:
    mean, deviation = _mean_and_deviation([100 * (record.accuracy or 0.0) for record in group])
    seconds = float(np.mean([record.seconds for record in group]))
    per_step = 1000 * sum(record.seconds for record in group) / sum(record.steps for record in group)
    return Row(label, silent_text(group[0]), group[0].method, len(group), mean, deviation, seconds, per_step)


def _mean_and_deviation(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def mark_down(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [list(header), ["---"] * len(header), *map(list, lines)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"


HEADER = ("data", "silent", "method", "right", "seeds", "seconds", "ms a step")


def row_texts(rows: Sequence[Row]) -> list[list[str]]:
    """The rows as text."""
    return [
        [
            row.dataset,
            row.silent,
            row.method,
            f"{row.mean:.1f} %" + (f" ± {row.deviation:.1f}" if row.runs > 1 else ""),
            str(row.runs),
            "" if row.seconds is None else f"{row.seconds:.1f}",
            "" if row.step_milliseconds is None else f"{row.step_milliseconds:.2f}",
        ]
        for row in rows
    ]


def best_means(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    """The best mean of each data set and silence."""
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        best[row.dataset, row.silent] = max(row.mean, best.get((row.dataset, row.silent), 0.0))
    return best


def accuracy_table(records: Sequence[RunRecord]) -> Table:
    """For the terminal: one line a setting, the best method of each data set and silence in bold."""
    rows = accuracy_rows(records)
    best = best_means(rows)
    table = Table(box=None, header_style="bold")
    for i, column in enumerate(HEADER):
        table.add_column(column, justify="right" if i > 2 else "left", no_wrap=i > 2, overflow="fold")
    for row, texts in zip(rows, row_texts(rows), strict=True):
        style = "bold" if row.mean == best[row.dataset, row.silent] else "dim" if row.seconds is None else None
        table.add_row(*texts, style=style)
    return table


def accuracy_markdown(rows: Sequence[Row]) -> str:
    """The same as Markdown."""
    return mark_down(HEADER, row_texts(rows))


def accuracy_latex(rows: Sequence[Row]) -> str:
    """The same as a LaTeX table, the best of each setting in bold."""
    best = best_means(rows)
    lines = [r"\begin{tabular}{lllr}", r"\toprule", r"Data & Silent & Method & Right (\%) \\", r"\midrule"]
    for row in rows:
        right = f"{row.mean:.1f}" + (rf" $\pm$ {row.deviation:.1f}" if row.runs > 1 else "")
        if row.mean == best[row.dataset, row.silent]:
            right = rf"\textbf{{{right}}}"
        cells = [_latex(text) for text in (row.dataset, row.silent, row.method)]
        lines.append(" & ".join([*cells, right]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex(text: str) -> str:
    for sign in ("\\", "%", "_", "&", "#", "$"):
        text = text.replace(sign, "\\" + sign if sign != "\\" else r"\textbackslash ")
    return text


def silent_text(record: RunRecord) -> str:
    """The share of silence in words, with what it depends on and how late answers are."""
    mechanism, _, rate = record.missing.partition(":")
    distribution, _, delay = record.delay.partition(":")
    text = f"{float(rate):.0%}" + ("" if mechanism == "mcar" else f" by {mechanism}")
    return (
        text
        if float(delay) == 0
        else f"{text}, {float(delay):g} late" + ("" if distribution == "fixed" else f" ({distribution})")
    )
