"""``report.html``: one page with everything, that needs no network."""

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import TaciturnError
from taciturn.experiments.recorder import RunRecord, read_commands, read_correct, read_runs
from taciturn.reports import charts, paper, ranks, tables

SKIP = 20  # the first steps of a running accuracy only jump about


def write_report(folder: Path) -> Path:
    """Read a results folder and write ``report.html``, ``tables.md`` and ``tables.tex`` into it."""
    records = list({record.id: record for record in read_runs(folder)}.values())
    good = finished_runs(folder)
    rows = tables.accuracy_rows(good)
    (folder / "tables.md").write_text(tables.accuracy_markdown(rows), encoding="utf-8")
    (folder / "tables.tex").write_text(tables.accuracy_latex(rows), encoding="utf-8")
    parts = [
        _section("Summary", _summary(records, rows)),
        _section("Accuracy", sortable(tables.HEADER, tables.row_texts(rows))),
        *_paper_sections(good),
        _section("Is it more than luck?", _luck(good)),
        _section("Running accuracy", "".join(_curves(folder, good))),
        _section("Accuracy against silence", "".join(_against_silence(good))),
        _section("Accuracy against time", "".join(_against_time(good))),
        *_spaces(folder),
        _section("Runs", _runs(records)),
        _section("How it was made", _provenance(folder, records)),
    ]
    shell = files("taciturn.reports").joinpath("page.html").read_text(encoding="utf-8")
    names = ", ".join(sorted({record.dataset for record in good}))
    page = shell.replace("{{title}}", escape(f"taciturn: {names}")).replace(
        "{{body}}", "\n".join(part for part in parts if part)
    )
    target = folder / "report.html"
    scratch = target.with_suffix(".tmp")
    scratch.write_text(page, encoding="utf-8")
    scratch.replace(target)
    return target


def finished_runs(folder: Path) -> list[RunRecord]:
    """The runs of a folder that did not fail, the last line of each."""
    latest = {record.id: record for record in read_runs(folder)}
    good = [record for record in latest.values() if record.error is None]
    if not good:
        raise TaciturnError(f"{folder} holds no finished runs; taciturn run --out {folder} makes some")
    return good


def _section(title: str, body: str) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in title.lower()).strip("-")
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{body}</section>' if body else ""


def sortable(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table whose columns sort at a click, or by keyboard."""
    head = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _summary(records: list[RunRecord], rows: list[tables.Row]) -> str:
    failed = sum(record.error is not None for record in records)
    best: dict[tuple[str, str], tables.Row] = {}
    for row in rows:
        if row.mean > best.get((row.dataset, row.silent), row).mean or (row.dataset, row.silent) not in best:
            best[row.dataset, row.silent] = row
    texts = {row: (escape(f"{row.dataset}, {row.silent} silent"), escape(row.method)) for row in best.values()}
    items = "".join(
        f"<li>{where}: <b>{method}</b>, {row.mean:.1f} % right</li>" for row, (where, method) in texts.items()
    )
    lost = f' <strong class="bad">{failed} runs failed; see below.</strong>' if failed else ""
    return f"<p>{len(records)} runs.{lost} The best of each setting:</p><ul>{items}</ul>"


def _paper_sections(records: list[RunRecord]) -> Iterator[str]:
    note = ""
    if any(record.cut_short for record in records):
        note = "<p class='bad'>Some of these runs were cut short; the printed numbers are about whole streams.</p>"
    for title, cells in paper.sections(paper.comparison(records)).items():
        yield _section(f"The paper's {title}", note + sortable(paper.HEADER, [*map(paper.cell_texts, cells)]))


def _luck(records: list[RunRecord]) -> str:
    parts = []
    ranked = ranks.ranking(records)
    if ranked is not None:
        lines = [[method, f"{rank:.2f}"] for method, rank in ranked.mean_ranks.items()]
        parts.append(
            f"<p>Mean ranks over {ranked.blocks} settings, 1 is best. That all methods are alike has p = "
            f"{ranked.friedman:.2g} (Friedman); ranks closer than {ranked.critical_difference:.2f} are not told apart "
            "at 5 % (Nemenyi).</p>" + sortable(("method", "mean rank"), lines)
        )
    pairs = [[d.better, d.worse, f"{d.difference:.1f}", f"{d.p:.2g}"] for d in ranks.duels(records)]
    if pairs:
        parts.append(
            "<p>Pairs of methods over runs with the same data, silence and seed: the mean difference in points, and "
            "Wilcoxon's p after Holm's correction.</p>" + sortable(("better", "than", "points", "p"), pairs)
        )
    return "".join(parts)


def _groups(records: list[RunRecord]) -> dict[tuple[str, str], dict[str, list[RunRecord]]]:
    """The runs by data set and silence, then by method."""
    labels = tables.dataset_labels(records)
    groups: dict[tuple[str, str], dict[str, list[RunRecord]]] = {}
    for record in records:
        key = (labels[record.fingerprint], tables.silent_text(record))
        groups.setdefault(key, {}).setdefault(record.method, []).append(record)
    return groups


def _colours(records: list[RunRecord]) -> dict[str, int]:
    """A colour for every method, the same in all charts."""
    return {method: i % charts.COLOURS for i, method in enumerate(sorted({record.method for record in records}))}


def _curves(folder: Path, records: list[RunRecord]) -> Iterator[str]:
    colours = _colours(records)
    for (dataset, silent), methods in _groups(records).items():
        series = [_running(folder, method, colours[method], group) for method, group in methods.items()]
        title = f"{dataset}, {silent} silent"
        yield _figure(charts.chart(series, title=title, x_label="decisions", y_label="right so far (%)"), title)


def _running(folder: Path, method: str, colour: int, group: list[RunRecord]) -> charts.Series:
    """The mean running accuracy over resamplings, with a band of one standard deviation."""
    runs = [read_correct(folder, record.id) for record in group]
    length = min(map(len, runs))
    steps = np.arange(1, length + 1)
    percent: NDArray[np.float64] = np.array([100 * np.cumsum(run[:length]) / steps for run in runs])
    first = min(SKIP, length - 1)
    spread = percent.std(axis=0, ddof=1)[first:] if len(runs) > 1 else None
    return charts.Series(method, colour, steps[first:].astype(float), percent.mean(axis=0)[first:], spread)


def _against_silence(records: list[RunRecord]) -> Iterator[str]:
    colours = _colours(records)
    points: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for (dataset, _), methods in _groups(records).items():
        for method, group in methods.items():
            mechanism, _, rate = group[0].missing.partition(":")
            mean = float(np.mean([100 * (record.accuracy or 0.0) for record in group]))
            key = (dataset, f"{mechanism}, delay {group[0].delay}")
            points.setdefault(key, {}).setdefault(method, []).append((100 * float(rate), mean))
    for (dataset, kind), methods_here in points.items():
        if all(len(line) < 2 for line in methods_here.values()):
            continue
        series = [
            charts.Series(method, colours[method], *np.array(sorted(at)).T) for method, at in methods_here.items()
        ]
        title = f"{dataset} ({kind})"
        yield _figure(charts.chart(series, title=title, x_label="silent (%)", y_label="right (%)"), title)


def _against_time(records: list[RunRecord]) -> Iterator[str]:
    colours = _colours(records)
    for (dataset, silent), methods in _groups(records).items():
        series = []
        for method, group in methods.items():
            per_step = np.array([1000 * np.mean([record.seconds / record.steps for record in group])])
            mean = np.array([np.mean([100 * (record.accuracy or 0.0) for record in group])])
            series.append(charts.Series(method, colours[method], per_step, mean, line=False))
        title = f"{dataset}, {silent} silent"
        svg = charts.chart(series, title=title, x_label="milliseconds a step", y_label="right (%)", log_x=True)
        yield _figure(svg, title)


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _spaces(folder: Path) -> Iterator[str]:
    """What agents see, where `taciturn reproduce` has put it on a plane."""
    drawn = []
    for file in sorted((folder / "spaces").glob("*.npz")):
        with np.load(file, allow_pickle=False) as arrays:
            points, weights, truth, arm = (arrays[name] for name in ("points", "weights", "truth", "arm"))
            accuracy = float(arrays["accuracy"])
        own = arm < 0
        caption = f"{file.stem}, greedy, {accuracy:.0%} right: contexts (dots) and arm vectors (diamonds) by t-SNE"
        svg = charts.plane(points, weights, np.where(own, truth, arm), own | (arm == truth), caption)
        drawn.append(_figure(svg, caption))
    yield _section("What the agents see", "".join(drawn))


def _runs(records: list[RunRecord]) -> str:
    header = ("data", "method", "missing", "delay", "seed", "right", "steps", "seconds", "MB", "id", "error")
    lines = [
        [
            record.dataset,
            record.method,
            record.missing,
            record.delay,
            str(record.seed),
            "" if record.accuracy is None else f"{100 * record.accuracy:.2f}",
            str(record.steps),
            f"{record.seconds:.2f}",
            "" if record.peak_memory_mb is None else f"{record.peak_memory_mb:.0f}",
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
    sources = {record.dataset: f"{record.source}, fingerprint {record.fingerprint}" for record in records}
    facts = {
        "versions": versions,
        "data": sources,
        "parameters": params,
        "page made by": f"taciturn {version('taciturn')}",
    }
    text = escape(json.dumps(facts, indent=2))
    details = f"<details><summary>Versions, data and parameters</summary><pre>{text}</pre></details>"
    return f"<p>Commands:</p><pre>{escape(commands)}</pre>{details}"
