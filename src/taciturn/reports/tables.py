"""Tables of results: one row per method and setting, as text, Markdown, LaTeX or a table for the terminal."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from taciturn.experiments.recorder import RunRecord, Setting
from taciturn.intervals import INTERVAL, interval_text, mean_interval
from taciturn.measures import REWARD, RIGHT, Measure
from taciturn.registry import METHODS
from taciturn.reports.best import LEVEL_SIGN, RULE, TOLD, best_of

RowKind = Literal["method", "reference", "constant arm"]
Mark = Literal["first", "level", ""]
NUMBERS = (RIGHT.name, REWARD.name, "regret", "seeds", "seconds", "ms per step")
"""The columns of numbers."""


class Row(NamedTuple):
    """The result of one method on a data set and setting: mean and standard deviation over seeds.

    They are what `measure` says: the accuracy in percent, or the mean reward where every arm has one; then `regret` is
    the mean regret, otherwise None. `label` is the data set as shown, `dataset` its name, `scaling` that of the data's
    rows and of the agent; `also` says what drifted, a restart and the bound on memory, if any. The row of the constant
    arm was not run, so it has no scaling and its times are None. `interval` is the 95 % interval of the mean, None with
    one run; `by_seed` are the results from 0 to 1, over `steps` steps each; `mark` is what `best_of` says of the row.
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
    measure: Measure = RIGHT
    regret: float | None = None
    also: str = ""
    interval: tuple[float, float] | None = None
    by_seed: Mapping[int, float] = MappingProxyType({})
    steps: int = 1
    mark: Mark = ""

    def results(self, unit: str) -> dict[str, str]:
        """The columns of results that the row has: the mean with a unit and its interval, marked; and the regret."""
        shown = self.measure.number(self.mean) + unit
        if self.interval is not None:
            shown += " " + interval_text([*map(self.measure.number, self.interval)])
        cells = {self.measure.name: shown + (f" {LEVEL_SIGN}" if self.mark == "level" else "")}
        return cells if self.regret is None else cells | {"regret": f"{self.regret:.1f}"}

    @property
    def silent(self) -> str:
        """The missing rewards and their delay as text."""
        return silent_text(self.missing, self.delay)

    @property
    def group(self) -> tuple[str, str]:
        """The data set and the setting as text; rows of one group are compared with each other."""
        return self.label, _setting(self.silent, self.also)


DataKey = tuple[str, float, str]


def data_labels(records: Sequence[RunRecord]) -> dict[DataKey, str]:
    """Return the label of each data set by the `data_key` of its runs: its name, and what costs weigh if anything.

    The file is added where it matters or names are equal, and the measure to runs of before rewards were graded.
    """
    names, keys = _names(records), {record.data_key for record in records}
    labels = {}
    for fingerprint, weight, measure in keys:
        label = names[fingerprint] + (f", cost weight {weight:g}" if weight else "")
        is_graded_too = measure == RIGHT.name and any(key[0] == fingerprint and key[2] != measure for key in keys)
        labels[fingerprint, weight, measure] = f"{label}, one right arm" if is_graded_too else label
    return labels


def _names(records: Sequence[RunRecord]) -> dict[str, str]:
    """Return a name for each data set's fingerprint, with the file where it matters or names are equal."""
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
    labels = data_labels(records)
    groups: dict[tuple[DataKey, Hashable], dict[tuple[str, str], list[RunRecord]]] = {}
    for record in records:
        if record.error is None:
            methods = groups.setdefault((record.data_key, record.setting_key), {})
            methods.setdefault((record.method, scaling_text(record)), []).append(record)
    rows = []
    for (data, _), methods in groups.items():
        label = labels[data]
        constant = _constant_row(label, [record for group in methods.values() for record in group])
        rows += _marked([constant, *(_method_row(label, group) for group in methods.values())])
    return rows


def _marked(rows: list[Row]) -> list[Row]:
    """Return the rows of one data set and setting with their marks."""
    compared = {i: row.by_seed for i, row in enumerate(rows) if row.method != TOLD}
    best = best_of(compared, min(row.steps for row in rows))
    marks: dict[int, Mark] = dict.fromkeys(best.level, "level")
    if best.first is not None:
        marks[best.first] = "first"
    return [row._replace(mark=marks.get(i, "")) for i, row in enumerate(rows)]


def _constant_row(label: str, group: list[RunRecord]) -> Row:
    by_seed = {record.seed: record for record in group}.values()
    rewards = [(record.seed, record.constant_reward) for record in by_seed if record.constant_reward is not None]
    results = rewards or [(record.seed, record.constant_accuracy) for record in by_seed]
    arms = {record.constant_arm for record in by_seed}  # the best one of each seed's own rows
    name = f"always {arms.pop()}" if len(arms) == 1 else "best constant arm"
    row = _row(label, group[0], name, "constant arm", results)
    return row._replace(regret=_mean(map(_constant_regret, by_seed)))


def _constant_regret(record: RunRecord) -> float | None:
    """The regret of the constant arm on the stream of a run, which had the same best arms."""
    if record.regret is None or record.mean_reward is None or record.constant_reward is None:
        return None
    return record.regret + record.steps * (record.mean_reward - record.constant_reward)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values; None where there is none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _method_row(label: str, group: list[RunRecord]) -> Row:
    method = group[0].method
    scaling = scaling_text(group[0])
    kind: RowKind = "reference" if method in METHODS and METHODS[method].reference else "method"
    row = _row(label, group[0], method, kind, [(record.seed, record.result or 0.0) for record in group])
    seconds = float(np.mean([record.seconds for record in group]))
    per_step = 1000 * sum(record.seconds for record in group) / sum(record.steps for record in group)
    regret = _mean(record.regret for record in group)
    return row._replace(scaling=scaling, seconds=seconds, step_milliseconds=per_step, regret=regret)


def _row(label: str, record: RunRecord, method: str, kind: RowKind, results: list[tuple[int, float]]) -> Row:
    means = [mean for _, mean in results]
    scale = record.measure.scale
    shown = [scale * mean for mean in means]
    ends = mean_interval(means)
    deviation = float(np.std(shown, ddof=1)) if len(shown) > 1 else float("nan")
    return Row(
        label=label,
        dataset=record.dataset,
        missing=record.missing_setting,
        delay=record.delay_setting,
        method=method,
        scaling="",
        kind=kind,
        runs=len(shown),
        mean=float(np.mean(shown)),
        deviation=deviation,
        seconds=None,
        step_milliseconds=None,
        measure=record.measure,
        also=also_text(record),
        interval=None if ends is None else (scale * float(ends[0]), scale * float(ends[1])),
        by_seed=dict(results),
        steps=record.steps,
    )


def mark_down(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [list(header), ["---"] * len(header), *map(list, lines)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"


def result_header(rows: Sequence[Row]) -> list[str]:
    """Return the columns of results: "right" where one arm is, "mean reward" and "regret" where every arm has one."""
    measures = {row.measure for row in rows} or {RIGHT}
    return [*([RIGHT.name] if RIGHT in measures else []), *([REWARD.name, "regret"] if REWARD in measures else [])]


def header(rows: Sequence[Row]) -> list[str]:
    """Return the names of the columns that rows need."""
    also = ["also"] if any(row.also for row in rows) else []
    return ["data", "silent", *also, "method", *result_header(rows), "seeds", "seconds", "ms per step", "scaling"]


def row_texts(rows: Sequence[Row]) -> list[list[str]]:
    """Return the cells of each row, in the order of `header`."""
    results, also = result_header(rows), "also" in header(rows)
    return [
        [
            row.label,
            row.silent,
            *([row.also] if also else []),
            row.method,
            *(row.results(row.measure.unit).get(name, "") for name in results),
            str(row.runs),
            "" if row.seconds is None else f"{row.seconds:.1f}",
            "" if row.step_milliseconds is None else f"{row.step_milliseconds:.2f}",
            row.scaling,
        ]
        for row in rows
    ]


def note(rows: Sequence[Row]) -> str:
    """Return the caption of a table: what its intervals and marks are."""
    if all(row.interval is None for row in rows):
        return "One seed: how much of a difference is chance is not known, so nothing is marked."
    return f"[low, high]: {INTERVAL}. {RULE}"


def best_rows(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """Return the row with the highest mean of each group, the first of equal ones, whatever tests say of it."""
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.group not in best or row.mean > best[row.group].mean:
            best[row.group] = row
    return best


def accuracy_table(records: Sequence[RunRecord]) -> Table:
    """Return the table for the terminal: what is best by test in bold, the constant arm and references dim.

    Where there are intervals they take the place of the seconds, so that 80 columns are enough.
    """
    rows = accuracy_rows(records)
    table = Table(box=None, header_style="bold", pad_edge=False)  # the demo's fits into 80 columns
    table.caption, table.caption_justify, table.caption_style = Text(note(rows)), "left", "dim"
    names = header(rows)
    shown = [name for name in names if name != "seconds" or all(row.interval is None for row in rows)]
    for column in shown:
        is_number = column in NUMBERS
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row, line in zip(rows, row_texts(rows), strict=True):
        texts = dict(zip(names, line, strict=True))
        plain = None if row.kind == "method" else "dim"
        table.add_row(*(escape(texts[name]) for name in shown), style="bold" if row.mark == "first" else plain)
    return table


def accuracy_markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table with its caption below, results that are best by test in bold."""
    names, lines = header(rows), row_texts(rows)
    for row, line in zip(rows, lines, strict=True):
        place = names.index(row.measure.name)
        line[place] = f"**{line[place]}**" if row.mark == "first" else line[place]
    return f"{mark_down(names, lines)}\n{note(rows)}\n"


def accuracy_latex(rows: Sequence[Row]) -> str:
    """Return the rows as a LaTeX table, results that are best by test in bold; its caption is a comment before it."""
    results, also = result_header(rows), "also" in header(rows)
    names = ["Data", "Silent", *(["Also"] if also else []), "Method"]
    titles = [r"Right (\%)" if name == RIGHT.name else name.capitalize() for name in results]
    first = " & ".join([*names, *titles, "Scaling"]) + r" \\"
    lines = [f"% {_latex(note(rows))}"]
    lines += [rf"\begin{{tabular}}{{{'l' * len(names)}{'r' * len(results)}l}}", r"\toprule", first, r"\midrule"]
    for row in rows:
        texts = row.results(unit="")
        shown = texts[row.measure.name].replace(f" {LEVEL_SIGN}", r"$^\ddagger$")
        texts[row.measure.name] = rf"\textbf{{{shown}}}" if row.mark == "first" else shown
        cells = [_latex(text) for text in (row.label, row.silent, *([row.also] if also else []), row.method)]
        lines.append(" & ".join([*cells, *(texts.get(name, "") for name in results), _latex(row.scaling)]) + r" \\")
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


def share_text(share: float) -> str:
    """Return a share in percent with the digits that it has: 90%, 99.5%."""
    return f"{100 * share:.6g}%"


def silent_text(missing: Setting, delay: Setting) -> str:
    """Return the share of missing rewards, their mechanism unless at random, and the delay if any, as text."""
    text = share_text(missing.value) + ("" if missing.kind == "mcar" else f" by {missing.kind}")
    if delay.value == 0:
        return text
    return f"{text}, {delay.value:g} late" + ("" if delay.kind == "fixed" else f" ({delay.kind})")


def also_text(record: RunRecord) -> str:
    """Return what drifted, when the agent was restarted and how many contexts it held at most, if anything, as text."""
    kind, share = record.drift_setting
    parts = [] if kind == "none" else [f"{kind} drift at {share_text(share)}"]
    parts += [] if record.restart is None else [f"restart at {share_text(record.restart)}"]
    parts += [] if record.max_nodes is None else [f"{record.max_nodes} nodes"]
    return ", ".join(parts)


def setting_text(record: RunRecord) -> str:
    """Return the setting of a run as text."""
    return _setting(silent_text(record.missing_setting, record.delay_setting), also_text(record))


def _setting(silent: str, also: str) -> str:
    return f"{silent} silent" + (f", {also}" if also else "")
