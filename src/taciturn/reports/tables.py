"""Tables of results: one row per method and setting, as text, Markdown, LaTeX or a table for the terminal."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from rich.table import Table

from taciturn.experiments.recorder import RunRecord, Setting
from taciturn.registry import METHODS

RowKind = Literal["method", "reference", "constant arm"]


class Row(NamedTuple):
    """The accuracy of one method on a data set and setting, in percent: mean and standard deviation over seeds.

    `label` is the data set as shown, `dataset` its name, `scaling` that of the data's rows and of the agent. The row of
    the constant arm was not run, so it has no scaling and its times are None.
    """

    label: str
    dataset: str
    missing: Setting
    delay: Setting
    method: str
    scaling: str
    kind: RowKind
    runs: int
    mean: float
    deviation: float
    seconds: float | None
    step_milliseconds: float | None

    @property
    def silent(self) -> str:
        """The setting as text."""
        return silent_text(self.missing, self.delay)

    @property
    def group(self) -> tuple[str, str]:
        """The data set and the setting as text; rows of one group are compared with each other."""
        return self.label, self.silent


def dataset_labels(records: Sequence[RunRecord]) -> dict[str, str]:
    """Return a label for each data set's fingerprint: its name, with the file where it matters or names are equal."""
    names = {record.fingerprint: record.dataset for record in records}
    sources = {record.fingerprint: record.source for record in records}
    labels = {}
    for fingerprint, name in names.items():
        if list(names.values()).count(name) > 1:
            labels[fingerprint] = f"{name} ({sources[fingerprint]}, {fingerprint[:6]})"
        elif name == "internet-ads":  # the paper used all rows, and only one of the two files has them
            labels[fingerprint] = f"{name} ({sources[fingerprint]})"
        else:
            labels[fingerprint] = name
    return labels


def accuracy_rows(records: Sequence[RunRecord]) -> list[Row]:
    """Return the rows in the order in which the settings first appear, the best constant arm first in each."""
    labels = dataset_labels(records)
    groups: dict[tuple[str, str, str], dict[tuple[str, str], list[RunRecord]]] = {}
    for record in records:
        if record.error is None:
            methods = groups.setdefault((record.fingerprint, record.missing, record.delay), {})
            methods.setdefault((record.method, scaling_text(record)), []).append(record)
    rows = []
    for (fingerprint, _, _), methods in groups.items():
        rows.append(_constant_row(labels[fingerprint], [record for group in methods.values() for record in group]))
        rows += [_method_row(labels[fingerprint], group) for group in methods.values()]
    return rows


def _constant_row(label: str, group: list[RunRecord]) -> Row:
    by_seed = {record.seed: 100 * record.constant_accuracy for record in group}
    return _row(label, group[0], f"always {group[0].constant_arm}", "constant arm", list(by_seed.values()))


def _method_row(label: str, group: list[RunRecord]) -> Row:
    method = group[0].method
    scaling = scaling_text(group[0])
    kind: RowKind = "reference" if method in METHODS and METHODS[method].reference else "method"
    row = _row(label, group[0], method, kind, [100 * (record.accuracy or 0.0) for record in group])
    seconds = float(np.mean([record.seconds for record in group]))
    per_step = 1000 * sum(record.seconds for record in group) / sum(record.steps for record in group)
    return row._replace(scaling=scaling, seconds=seconds, step_milliseconds=per_step)


def _row(label: str, record: RunRecord, method: str, kind: RowKind, percents: list[float]) -> Row:
    deviation = float(np.std(percents, ddof=1)) if len(percents) > 1 else float("nan")
    return Row(
        label=label,
        dataset=record.dataset,
        missing=record.missing_setting,
        delay=record.delay_setting,
        method=method,
        scaling="",
        kind=kind,
        runs=len(percents),
        mean=float(np.mean(percents)),
        deviation=deviation,
        seconds=None,
        step_milliseconds=None,
    )


def mark_down(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [list(header), ["---"] * len(header), *map(list, lines)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"


HEADER = ("data", "silent", "method", "right", "seeds", "seconds", "ms per step", "scaling")


def row_texts(rows: Sequence[Row]) -> list[list[str]]:
    """Return the cells of each row, in the order of `HEADER`."""
    return [
        [
            row.label,
            row.silent,
            row.method,
            f"{row.mean:.1f} %" + (f" ± {row.deviation:.1f}" if row.runs > 1 else ""),
            str(row.runs),
            "" if row.seconds is None else f"{row.seconds:.1f}",
            "" if row.step_milliseconds is None else f"{row.step_milliseconds:.2f}",
            row.scaling,
        ]
        for row in rows
    ]


def best_rows(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """Return the row with the highest mean of each group, the first of equal ones."""
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.group not in best or row.mean > best[row.group].mean:
            best[row.group] = row
    return best


def accuracy_table(records: Sequence[RunRecord]) -> Table:
    """Return the table for the terminal: the best of each group in bold, the constant arm and references dim."""
    rows = accuracy_rows(records)
    best = best_rows(rows)
    table = Table(box=None, header_style="bold")
    for i, column in enumerate(HEADER):
        is_number = 3 <= i <= 6
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row, texts in zip(rows, row_texts(rows), strict=True):
        is_best = row.mean == best[row.group].mean
        table.add_row(*texts, style="bold" if is_best else None if row.kind == "method" else "dim")
    return table


def accuracy_markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    return mark_down(HEADER, row_texts(rows))


def accuracy_latex(rows: Sequence[Row]) -> str:
    """Return the rows as a LaTeX table, the best of each group in bold."""
    best = best_rows(rows)
    header = r"Data & Silent & Method & Right (\%) & Scaling \\"
    lines = [r"\begin{tabular}{lllrl}", r"\toprule", header, r"\midrule"]
    for row in rows:
        right = f"{row.mean:.1f}" + (rf" $\pm$ {row.deviation:.1f}" if row.runs > 1 else "")
        if row.mean == best[row.group].mean:
            right = rf"\textbf{{{right}}}"
        cells = [_latex(text) for text in (row.label, row.silent, row.method)]
        lines.append(" & ".join([*cells, right, _latex(row.scaling)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex(text: str) -> str:
    for sign in ("\\", "%", "_", "&", "#", "$"):
        text = text.replace(sign, "\\" + sign if sign != "\\" else r"\textbackslash ")
    return text


def scaling_text(record: RunRecord) -> str:
    """Return how the data's rows and the agent scaled: "l1 rows, agent l1", "agent auto" or "none"."""
    parts = [] if record.scaling == "none" else [f"{record.scaling} rows"]
    agent = record.params.get("scaling", "none")
    parts += [] if agent == "none" else [f"agent {agent}"]
    return ", ".join(parts) or "none"


def silent_text(missing: Setting, delay: Setting) -> str:
    """Return the share of missing rewards, their mechanism unless at random, and the delay if any, as text."""
    text = f"{missing.value:.0%}" + ("" if missing.kind == "mcar" else f" by {missing.kind}")
    if delay.value == 0:
        return text
    return f"{text}, {delay.value:g} late" + ("" if delay.kind == "fixed" else f" ({delay.kind})")


def setting_text(record: RunRecord) -> str:
    """Return the setting of a run as text."""
    return silent_text(record.missing_setting, record.delay_setting)
