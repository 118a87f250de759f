"""``report.html``: one page with all tables and charts, which loads nothing from the network."""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from taciturn.errors import TaciturnError
from taciturn.experiments.recorder import RunRecord, latest_runs, read_commands
from taciturn.measures import REWARD, RIGHT, Measure
from taciturn.plotting import band_text
from taciturn.reports import charts, paper, ranks, tables
from taciturn.reports.curves import accuracy_curve, method_numbers
from taciturn.reports.document import figure, fill, section, sortable, sortable_rows
from taciturn.system import atomic_write


def write_report(folder: Path, figures: Mapping[str, Sequence[Path]] = MappingProxyType({})) -> Path:
    """Write ``report.html``, ``tables.md`` and ``tables.tex`` into a results folder; return the page.

    `figures` are the files that `write_figures` wrote there, by title: the page links to them.
    """
    records = latest_runs(folder)
    good = finished_runs(folder)
    rows = tables.accuracy_rows(good)
    atomic_write(folder / "tables.md", tables.accuracy_markdown(rows).encode())
    atomic_write(folder / "tables.tex", tables.accuracy_latex(rows).encode())
    results = _results(good)
    parts = [
        section("Summary", _summary(records, rows)),
        section(results.capitalize(), _results_table(rows)),
        *_paper_sections(good),
        section("Significance", _significance(good)),
        section(f"Running {results}", "".join(_curves(folder, good, figures))),
        section(f"{results.capitalize()} against silence", "".join(_against_silence(good))),
        section(f"{results.capitalize()} against time", "".join(_against_time(good))),
        *_spaces(folder),
        section("Runs", _runs(records)),
        section("Provenance", _provenance(folder, records)),
    ]
    names = ", ".join(sorted({record.dataset for record in good}))
    page = fill("page.html", title=escape(f"taciturn: {names}"), body="\n".join(part for part in parts if part))
    target = folder / "report.html"
    atomic_write(target, page.encode())
    return target


def finished_runs(folder: Path) -> list[RunRecord]:
    """Return the last record of each run that did not fail; raise where there is none."""
    good = [record for record in latest_runs(folder) if record.error is None]
    if not good:
        raise TaciturnError(f"{folder} holds no finished runs; taciturn run --out {folder} writes some")
    return good


def _results(records: list[RunRecord]) -> str:
    """Return what there is in these results, for headings."""
    names = {RIGHT: "accuracy", REWARD: "mean reward"}
    return " and ".join(names[measure] for measure in names if measure in {record.measure for record in records})


def _summary(records: list[RunRecord], rows: list[tables.Row]) -> str:
    failed = sum(record.error is not None for record in records)
    items = "".join(f"<li>{_highest(row)}</li>" for row in tables.best_rows(rows).values())
    failures = f' <strong class="bad">{failed} runs failed; see below.</strong>' if failed else ""
    about = "The highest mean of each setting, in bold where it is the best by test:"
    return f"<p>{len(records)} runs.{failures} {about}</p><ul>{items}</ul>"


def _highest(row: tables.Row) -> str:
    """Return the highest mean of a data set and setting in words."""
    method = f"<b>{escape(row.method)}</b>" if row.mark == "first" else escape(row.method)
    beside = ", not distinguishable from others" if row.mark == "level" else ""
    return f"{escape(', '.join(row.group))}: {method}, {row.measure.text(row.mean / row.measure.scale)}{beside}"


def _results_table(rows: list[tables.Row]) -> str:
    """Return the table of results, those that are best by test in bold, and its caption."""
    header = tables.header(rows)
    lines = []
    for row, texts in zip(rows, tables.row_texts(rows), strict=True):
        bold = header.index(row.measure.name) if row.mark == "first" else None
        cells = (f"<b>{escape(text)}</b>" if i == bold else escape(text) for i, text in enumerate(texts))
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"{sortable_rows(header, lines)}<p>{escape(tables.note(rows))}</p>"


def _paper_sections(records: list[RunRecord]) -> Iterator[str]:
    note = ""
    if any(record.cut_short for record in records):
        note = "<p class='bad'>Some of these runs were cut short; the printed numbers are for whole streams.</p>"
    for title, cells in paper.sections(paper.comparison(records)).items():
        yield section(f"The paper's {title}", note + sortable(paper.HEADER, [*map(paper.cell_texts, cells)]))


def _significance(records: list[RunRecord]) -> str:
    parts = []
    ranked = ranks.ranking(records)
    if ranked is not None and ranked.friedman is not None:
        lines = [[method, f"{rank:.2f}"] for method, rank in ranked.mean_ranks.items()]
        parts.append(
            f"<p>Mean ranks over {ranked.blocks} settings, 1 is best. Friedman's test of equal methods: p = "
            f"{ranked.friedman:.2g}. Mean ranks that differ by less than {ranked.critical_difference:.2f} are not "
            "significantly different at 5 % (Nemenyi).</p>" + sortable(("method", "mean rank"), lines)
        )
    pairs = [[t.better, t.worse, f"{t.difference:.1f}", f"{t.p:.2g}"] for t in ranks.paired_tests(records)]
    if pairs:
        hundredths = " (of mean rewards, in hundredths)" if any(record.measure == REWARD for record in records) else ""
        parts.append(
            "<p>Pairs of methods over runs with the same data, setting and seed: the mean difference in percentage "
            f"points{hundredths}, and the p-value of Wilcoxon's signed-rank test after Holm's correction.</p>"
            + sortable(("better", "than", "points", "p"), pairs)
        )
    return "".join(parts)


def _groups(records: list[RunRecord]) -> dict[tuple[str, str], dict[str, list[RunRecord]]]:
    """Return the runs by data set and setting as text, then by method."""
    labels = tables.data_labels(records)
    groups: dict[tuple[str, str], dict[str, list[RunRecord]]] = {}
    for record in records:
        key = (labels[record.data_key], tables.setting_text(record))
        groups.setdefault(key, {}).setdefault(record.method, []).append(record)
    return groups


def _colours(records: list[RunRecord]) -> dict[str, int]:
    """Return a colour index for every method, the same in all charts."""
    return {method: number % charts.COLOURS for method, number in method_numbers(records).items()}


def _curves(folder: Path, records: list[RunRecord], figures: Mapping[str, Sequence[Path]]) -> Iterator[str]:
    colours = _colours(records)
    for (dataset, setting), methods in _groups(records).items():
        curves = [accuracy_curve(folder, method, group) for method, group in methods.items()]
        series = [
            charts.Series(curve.label, colours[curve.label], curve.steps.astype(float), curve.mean, curve.band)
            for curve in curves
        ]
        title, measure = f"{dataset}, {setting}", _measure(methods)
        labels: dict[str, Any] = {"x_label": "decisions", "y_label": measure.running, "digits": measure.digits}
        bands = band_text(curves)
        caption = f"{title}. Band: {bands}." if bands else f"{title}."
        files = [path.relative_to(folder).as_posix() for path in figures.get(title, ())]
        yield figure(charts.chart(series, title=title, **labels), caption, files)


def _measure(methods: dict[str, list[RunRecord]]) -> Measure:
    """Return the measure of the runs of one data set."""
    return next(iter(methods.values()))[0].measure


def _mean_result(group: list[RunRecord]) -> float:
    """Return the mean result over seeds, as large as it is shown."""
    return float(np.mean([record.measure.scale * (record.result or 0.0) for record in group]))


def _against_silence(records: list[RunRecord]) -> Iterator[str]:
    colours = _colours(records)
    points: dict[tuple[str, str, Measure], dict[str, list[tuple[float, float]]]] = {}
    for (dataset, _), methods in _groups(records).items():
        for method, group in methods.items():
            mechanism, rate = group[0].missing_setting
            also = "".join(f", {part}" for part in [tables.also_text(group[0])] if part)
            key = (dataset, f"{mechanism}, delay {group[0].delay}{also}", group[0].measure)
            points.setdefault(key, {}).setdefault(method, []).append((100 * rate, _mean_result(group)))
    for (dataset, kind, measure), methods_here in points.items():
        if all(len(line) < 2 for line in methods_here.values()):
            continue
        series = [
            charts.Series(method, colours[method], *np.array(sorted(at)).T) for method, at in methods_here.items()
        ]
        title = f"{dataset} ({kind})"
        labels: dict[str, Any] = {"x_label": "silent (%)", "y_label": measure.axis, "digits": measure.digits}
        yield figure(charts.chart(series, title=title, **labels), title)


def _against_time(records: list[RunRecord]) -> Iterator[str]:
    colours = _colours(records)
    for (dataset, setting), methods in _groups(records).items():
        series = []
        for method, group in methods.items():
            per_step = np.array([1000 * np.mean([record.seconds / record.steps for record in group])])
            mean = np.array([_mean_result(group)])
            series.append(charts.Series(method, colours[method], per_step, mean, line=False))
        title, measure = f"{dataset}, {setting}", _measure(methods)
        labels: dict[str, Any] = {"x_label": "milliseconds per step", "y_label": measure.axis, "digits": measure.digits}
        yield figure(charts.chart(series, title=title, log_x=True, **labels), title)


def _spaces(folder: Path) -> Iterator[str]:
    """Draw the context spaces that `taciturn reproduce` wrote, if any."""
    drawn = []
    for file in sorted((folder / "spaces").glob("*.npz")):
        with np.load(file, allow_pickle=False) as arrays:
            points, weights, truth, arm = (arrays[name] for name in ("points", "weights", "truth", "arm"))
            accuracy = float(arrays["accuracy"])
        shared = arm < 0
        caption = f"{file.stem}, greedy, {accuracy:.0%} right: contexts (dots) and arm vectors (diamonds) by t-SNE"
        svg = charts.plane(points, weights, np.where(shared, truth, arm), shared | (arm == truth), caption)
        drawn.append(figure(svg, caption))
    yield section("Context spaces", "".join(drawn))


def _runs(records: list[RunRecord]) -> str:
    names = ["mean_reward", "regret", "cost_weight"] if any(record.measure == REWARD for record in records) else []
    also = any(map(tables.also_text, records))
    header = [
        "data",
        "method",
        "missing",
        "delay",
        *(["also"] if also else []),
        "seed",
        "right",
        *(name.replace("_", " ") for name in names),
    ]
    header += ["steps", "seconds", "MB", "scaling", "id", "error"]
    lines = [
        [
            record.dataset,
            record.method,
            record.missing,
            record.delay,
            *([tables.also_text(record)] if also else []),
            str(record.seed),
            "" if record.accuracy is None else f"{100 * record.accuracy:.2f}",
            *("" if getattr(record, name) is None else f"{getattr(record, name):.4g}" for name in names),
            str(record.steps),
            f"{record.seconds:.2f}",
            "" if record.peak_memory_mb is None else f"{record.peak_memory_mb:.0f}",
            tables.scaling_text(record),
            record.id,
            record.error or "",
        ]
        for record in records
    ]
    return f"<details><summary>All {len(records)} runs</summary>{sortable(header, lines)}</details>"


def _provenance(folder: Path, records: list[RunRecord]) -> str:
    commands = "\n".join(read_commands(folder)) or "(not recorded)"
    versions = {name: value for record in records for name, value in record.versions.items()}
    params = {record.method: record.params for record in records}
    sources = {
        record.dataset: f"{record.source}, scaling {record.scaling}, fingerprint {record.fingerprint}"
        for record in records
    }
    facts = {
        "versions": versions,
        "data": sources,
        "parameters": params,
        "report written by": f"taciturn {version('taciturn')}",
    }
    text = escape(json.dumps(facts, indent=2))
    details = f"<details><summary>Versions, data and parameters</summary><pre>{text}</pre></details>"
    return f"<p>Commands:</p><pre>{escape(commands)}</pre>{details}"
