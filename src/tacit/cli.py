"""The command line: reads arguments, prints, and leaves the work to the rooms below."""

import enum
import functools
import importlib.util
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from tacit import __version__
from tacit.contracts import Dataset
from tacit.errors import TacitError


def _lazy(name: str) -> ModuleType:
    """A module that loads when it is first used, so that ``--help`` does not wait for numba and scipy."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from tacit import registry
    from tacit.datasets import catalog
    from tacit.experiments import checks, progress, runner, spec
    from tacit.experiments import reproduce as reproducing
    from tacit.experiments.recorder import RunRecord
    from tacit.reports import figures, page, paper, tables
else:
    catalog = _lazy("tacit.datasets.catalog")
    registry = _lazy("tacit.registry")
    checks = _lazy("tacit.experiments.checks")
    runner = _lazy("tacit.experiments.runner")
    spec = _lazy("tacit.experiments.spec")
    progress = _lazy("tacit.experiments.progress")
    reproducing = _lazy("tacit.experiments.reproduce")
    figures = _lazy("tacit.reports.figures")
    page = _lazy("tacit.reports.page")
    paper = _lazy("tacit.reports.paper")
    tables = _lazy("tacit.reports.tables")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Decisions that learn from silence.",
    epilog="Example: tacit demo",
)
datasets_app = typer.Typer(
    help="What data there is, where it comes from, its terms, and whether it is here.",
    epilog="Example: tacit datasets info digits",
)
app.add_typer(datasets_app, name="datasets")

out = Console()
errors = Console(stderr=True)


class Part(enum.StrEnum):
    """A part of the paper."""

    table1 = enum.auto()
    table2 = enum.auto()
    figures = enum.auto()
    all = enum.auto()


Label = Annotated[str | None, typer.Option(help="The label column of your own file.")]
Edges = Annotated[Path | None, typer.Option(help="A file of row pairs, the graph of your own file.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="How many processes; the cores unless said otherwise.")]
Engine = Annotated[str, typer.Option(help="local: processes of this machine; ray: a Ray cluster, or one started here.")]
Address = Annotated[str | None, typer.Option(help="The address of a Ray cluster.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for a script to read.")]


def _print_version(asked: bool) -> None:
    if asked:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def _tacit(
    _: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Nothing: all the work is in the commands."""


@app.command(epilog="Example: tacit demo --out somewhere")
def demo(
    out_folder: Annotated[Path, typer.Option("--out", help="Where the picture and the results go.")] = Path(
        "tacit-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another order of the data.")] = 0,
    as_json: AsJson = False,
) -> None:
    """The whole idea in under a minute: methods side by side on handwritten digits, half of the answers silent."""
    methods = ["linucb", "rogcn", "bilinucb-kmeans", "gcnucb"]
    data = catalog.load_dataset("digits", scaling="l2")
    if not as_json:
        out.print(
            f"{len(data.y)} handwritten digits arrive one at a time. Name each at once; half of the time the world "
            "says right or wrong, half of the time nothing. (The first run also compiles: a few seconds more.)\n",
            highlight=False,
        )
    experiment = spec.Experiment(datasets=[data], methods=methods, missing=[0.5], seeds=[seed])
    records = _execute([experiment], out_folder, jobs=1, fresh=True, quiet=as_json)
    _show(records, as_json=as_json)
    picture = out_folder / "running-accuracy.png"
    curves = figures.running_accuracy_curves(out_folder, records)
    figures.draw_running_accuracy(curves, "digits, half of the answers silent", picture)
    if not as_json:
        out.print(f"\nThe curves: [bold]{picture}[/bold]   Every step: {out_folder / 'traces'}", soft_wrap=True)


@app.command(epilog="Example: tacit run --data cora,cnae9 --methods linucb,gcnucb --missing .25,.5 --out results")
def run(
    spec_file: Annotated[
        Path | None, typer.Argument(metavar="[SPEC.toml]", help="The experiment as a TOML file.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data sets by name, or .npz, .csv or .svm files; commas between.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Names of methods, commas between.")] = None,
    agent: Annotated[str | None, typer.Option(help="An agent of your own, as package.module:Class.")] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="The results folder; what it has is not done again.")
    ] = Path("results"),
    missing: Annotated[
        str | None, typer.Option(help="Silent shares: .25, context:.5, reward:.5; commas between.")
    ] = None,
    delay: Annotated[str | None, typer.Option(help="Decisions until an answer comes: 0, 5, geometric:20.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds, from 0.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="At most so many rounds of each stream.")] = None,
    preset: Annotated[str | None, typer.Option(help="Settings of a paper: paper.")] = None,
    scaling: Annotated[str | None, typer.Option(help="Rows at unit l1 or l2 length, or none.")] = None,
    label: Label = None,
    edges: Edges = None,
    jobs: Jobs = None,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on data, once for every missing rate and seed; what was interrupted goes on where it stopped."""
    flags = {
        "data": _split(data),
        "methods": _own_agent(agent, _split(methods)),
        "missing": _split(missing),
        "delay": _split(delay),
        "seeds": seeds,
        "steps": steps,
        "preset": preset,
        "scaling": scaling,
        "label": label,
        "edges": None if edges is None else str(edges),
    }
    words = spec.read_spec(spec_file) if spec_file else {}
    words |= {key: value for key, value in flags.items() if value is not None}
    for key in ("data", "methods"):
        if not words.get(key):
            raise TacitError(f"say what to run: --{key} is missing or empty")
    experiment = _experiment(spec.Spec(**words))
    where: dict[str, Any] = {"jobs": jobs or runner.default_jobs(), "engine": engine, "address": address}
    records = _execute([experiment], out_folder, quiet=as_json, **where)
    _show(records, as_json=as_json)


def _experiment(words: "spec.Spec") -> "spec.Experiment":
    """Load the data that an experiment names."""
    options: dict[str, Any] = {
        "scaling": words.scaling,
        "label": words.label,
        "edges": words.edges,
        "progress": sys.stderr.isatty(),
    }
    return spec.Experiment(
        datasets=[catalog.load_dataset(name, **options) for name in words.data],
        methods=words.methods,
        missing=words.missing,
        delay=words.delay,
        seeds=range(words.seeds),
        preset=words.preset,
        params=words.params,
        steps=words.steps,
    )


def _own_agent(agent: str | None, methods: list[str] | None) -> list[str] | None:
    """Add an agent of the user's own to the methods, once it has passed `check_agent`."""
    if agent is None:
        return methods
    sys.path.insert(0, str(Path.cwd()))  # where people keep what they are working on
    factory = functools.partial(registry.make, agent)
    try:
        checks.check_agent(factory)
    except TacitError:
        raise
    except Exception as error:  # noqa: BLE001 - anybody's code
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise TacitError(f"{agent} does not pass check_agent: {reason}") from None
    return [*(methods or []), agent]


@app.command(epilog="Example: tacit reproduce table2 --quick")
def reproduce(
    what: Annotated[Part, typer.Argument(help="Which part of the paper.")] = Part.all,
    quick: Annotated[bool, typer.Option("--quick", help="2 resamplings and at most 600 steps of each stream.")] = False,
    datasets: Annotated[str | None, typer.Option(help="Only these data sets, commas between.")] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="The results folder.")] = Path("reproduction"),
    jobs: Jobs = None,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """The paper's tables and figures, every number beside the printed one; what the folder has is not done again."""
    loaded = _paper_data(what, _split(datasets))
    experiments = list(reproducing.paper_experiments(what.value, loaded, quick=quick))
    if not experiments:
        raise TacitError("none of the data sets is here, so there is nothing to do; see tacit datasets")
    where: dict[str, Any] = {"jobs": jobs or runner.default_jobs(), "engine": engine, "address": address}
    records = _execute(experiments, out_folder, quiet=as_json, **where)
    cells = paper.comparison(records)
    (out_folder / "comparison.md").write_text(paper.comparison_markdown(cells), encoding="utf-8")
    if as_json:
        _print_json([cell._asdict() for cell in cells])
    else:
        for table in paper.comparison_tables(cells):
            out.print(table, "")
        if quick:
            out.print("Quick: the printed numbers are about whole streams and 10 resamplings.", style="yellow")
        out.print(f"As Markdown: [bold]{out_folder / 'comparison.md'}[/bold]", soft_wrap=True)
    if what in (Part.figures, Part.all):
        _paper_figures(out_folder, loaded, records, quick=quick)
    _report_failures(records)


@app.command(epilog="Example: tacit report results")
def report(
    folder: Annotated[Path, typer.Argument(help="A results folder, from tacit run or tacit reproduce.")],
    as_json: AsJson = False,
) -> None:
    """Make report.html, a page that needs no network, and tables.md, tables.tex and figures/ beside it."""
    with errors.status("drawing"):
        target = page.write_report(folder)
        pictures = figures.write_figures(folder, page.finished_runs(folder))
    if as_json:
        _print_json({"report": str(target), "figures": [str(picture) for picture in pictures]})
    else:
        out.print(f"[bold]{target}[/bold], and {len(pictures)} pictures in {folder / 'figures'}", soft_wrap=True)


def _paper_data(what: Part, only: list[str] | None) -> list[Dataset]:
    """The data sets of a part of the paper that can be had; the others are named in a line each."""
    wanted = reproducing.paper_datasets(what.value)
    unknown = [name for name in only or [] if name not in wanted]
    if unknown:
        raise registry.unknown_name(f"data set of {what.value}", unknown[0], wanted)
    loaded = []
    for name in only or wanted:
        try:
            loaded.append(catalog.load_dataset(name, progress=sys.stderr.isatty()))
        except TacitError as error:
            errors.print(f"left out: {error}", style="yellow", soft_wrap=True, markup=False, highlight=False)
    return loaded


def _paper_figures(folder: Path, datasets: list[Dataset], records: "list[RunRecord]", *, quick: bool) -> None:
    """Figures a, b and c, where their data set is here."""
    data = next((data for data in datasets if data.name == reproducing.FIGURE_DATA), None)
    if data is None:
        return
    pictures = folder / "figures"
    pictures.mkdir(exist_ok=True)
    half = [record for record in records if record.dataset == data.name and record.missing == "mcar:0.5"]
    curves = figures.mean_accuracy_curves(folder, half)
    figures.draw_running_accuracy(curves, "CNAE-9, half of the answers silent", pictures / "a-running-accuracy.png")
    with errors.status("putting what the agents see on a plane (t-SNE), half a minute"):
        reproducing.write_spaces(folder, data, steps=reproducing.QUICK_STEPS if quick else None)
    for letter, method in zip("bc", reproducing.SPACES, strict=True):
        figures.draw_space(folder / "spaces" / f"{method}.npz", method, pictures / f"{letter}-space-{method}.png")


@datasets_app.callback(invoke_without_command=True)
def _datasets(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        list_datasets(as_json)


@datasets_app.command("list", epilog="Example: tacit datasets list --json")
def list_datasets(as_json: AsJson = False) -> None:
    """All data sets that have a name."""
    rows = [_about(name) for name in catalog.CATALOG]
    if as_json:
        _print_json(rows)
        return
    table = Table.grid(padding=(0, 2))
    for row in rows:
        here = "[green]here[/green]" if row["here"] else "not here"
        table.add_row(f"[bold]{row['name']}[/bold]", f"{row['about']} ({here})")
        table.add_row("", f"[dim]{row['shape']}; from {row['home']}; terms: {row['terms']}[/dim]")
    out.print(table)


@datasets_app.command(epilog="Example: tacit datasets fetch cora")
def fetch(name: Annotated[str, typer.Argument(help="The data set's name.")], as_json: AsJson = False) -> None:
    """Download a data set, if it is not here."""
    path = catalog.fetch_dataset(name, progress=sys.stderr.isatty())
    if as_json:
        _print_json({"name": name, "file": str(path) if path else None})
    else:
        out.print(f"{name}: {path or 'comes with scikit-learn'}", soft_wrap=True)


@datasets_app.command(epilog="Example: tacit datasets info warfarin")
def info(
    name: Annotated[str, typer.Argument(help="The data set's name, or a file.")],
    label: Label = None,
    edges: Edges = None,
    as_json: AsJson = False,
) -> None:
    """What a data set holds: its size, arms, graph, source and terms."""
    data = catalog.load_dataset(name, label=label, edges=edges, progress=sys.stderr.isatty())
    facts = (_about(name) if name in catalog.CATALOG else {"name": data.name}) | _facts(data)
    if as_json:
        _print_json(facts)
        return
    table = Table(box=None, show_header=False)
    for key, value in facts.items():
        table.add_row(key, str(value))
    out.print(table)


def _about(name: str) -> dict[str, Any]:
    entry = catalog.CATALOG[name]
    file = catalog.located(name)
    facts = {"name": name, "about": entry.about, "shape": entry.shape, "home": entry.home, "terms": entry.terms}
    return facts | {"here": not entry.files or file is not None, "file": str(file) if file else None}


def _facts(data: Dataset) -> dict[str, Any]:
    counts = {str(arm): int((data.y == k).sum()) for k, arm in enumerate(data.arms)}
    return {
        "source": data.source,
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
        "arms": counts,
        "edges": None if data.edges is None else len(data.edges),
        "fingerprint": data.fingerprint,
    }


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]


def _execute(
    experiments: "list[spec.Experiment]", folder: Path, *, jobs: int, quiet: bool, **options: Any
) -> "list[RunRecord]":
    """Do the runs, with a bar for each or one for all; the records come in the order of the experiments."""
    command = shlex.join(["tacit", *sys.argv[1:]])
    runs = list({run.id: run for experiment in experiments for run in spec.expand(experiment)}.values())
    if jobs == 1 and options.get("engine") != "ray":
        with progress.step_bars(shown=not quiet) as bars:

            def line(run: "spec.Run") -> progress.Advance:
                label = f"{run.dataset.name} {run.task.method} {run.task.missing} seed {run.task.seed}"
                return bars.add(label, len(run.task.stream(run.dataset)))

            records = list(runner.execute(runs, folder, command=command, on_step=line, **options))
    else:
        with progress.runs_bar(len(runs), shown=not quiet) as advance:
            records = []
            for record in runner.execute(runs, folder, jobs=jobs, command=command, **options):
                records.append(record)
                advance(record.dataset, record.method, record.accuracy)
    place = {run.id: i for i, run in enumerate(runs)}
    return sorted(records, key=lambda record: place[record.id])


def _show(records: "list[RunRecord]", *, as_json: bool) -> None:
    if as_json:
        _print_json(records)
    else:
        out.print(tables.accuracy_table(records))
    _report_failures(records)


def _report_failures(records: "list[RunRecord]") -> None:
    failed = [record for record in records if record.error is not None]
    if failed:
        first = failed[0]
        where = f"{first.dataset} {first.method} {first.missing} seed {first.seed}"
        _fail(f"{len(failed)} of {len(records)} runs failed; the first, {where}: {first.error}", 1)


def _print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def _fail(message: object, code: int = 2) -> NoReturn:
    errors.print(f"tacit: {message}", style="red", soft_wrap=True, markup=False, highlight=False)
    raise SystemExit(code)


def main() -> None:
    """Run the command line: bad input ends in one line and exit code 2, never in a traceback."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if not message:  # called with nothing at all: the help was the answer
            raise SystemExit(2) from None
        _fail(message)
    except ModuleNotFoundError as error:
        _fail(f"this needs {error.name}, which is not installed; pip install 'tacit[plot]' brings it")
    except (TacitError, OSError) as error:
        _fail(error)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted; the runs that finished are kept", 130)
    raise SystemExit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
