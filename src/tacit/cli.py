"""The command line: reads arguments, prints, and leaves the work to the rooms below."""

import importlib.util
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
    from tacit.datasets import catalog
    from tacit.experiments import progress, runner
    from tacit.experiments.recorder import RunRecord
    from tacit.reports import figures, tables
else:
    catalog = _lazy("tacit.datasets.catalog")
    runner = _lazy("tacit.experiments.runner")
    progress = _lazy("tacit.experiments.progress")
    figures = _lazy("tacit.reports.figures")
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

Label = Annotated[str | None, typer.Option(help="The label column of your own file.")]
Edges = Annotated[Path | None, typer.Option(help="A file of row pairs, the graph of your own file.")]
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
    experiment = runner.Experiment(datasets=[data], methods=methods, missing=[0.5], seeds=[seed])
    records = _execute(experiment, out_folder, fresh=True, quiet=as_json)
    _show(records, as_json=as_json)
    picture = out_folder / "running-accuracy.png"
    curves = figures.running_accuracy_curves(out_folder, records)
    figures.draw_running_accuracy(curves, "digits, half of the answers silent", picture)
    if not as_json:
        out.print(f"\nThe curves: [bold]{picture}[/bold]   Every step: {out_folder / 'traces'}", soft_wrap=True)


@app.command(epilog="Example: tacit run --data cora,cnae9 --methods linucb,gcnucb --missing .25,.5 --out results")
def run(
    data: Annotated[
        str, typer.Option(help="Names of data sets, or paths of .npz, .csv or .svm files; commas between.")
    ],
    methods: Annotated[str, typer.Option(help="Names of methods, commas between.")],
    out_folder: Annotated[
        Path, typer.Option("--out", help="The folder for results; runs that are there are not repeated.")
    ],
    missing: Annotated[str, typer.Option(help="Silent shares: .25, context:.5 or reward:.5; commas between.")] = "0.5",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 10,
    preset: Annotated[str | None, typer.Option(help="Settings of a paper: paper.")] = None,
    scaling: Annotated[str, typer.Option(help="Rows at unit l1 or l2 length, or none.")] = "l1",
    label: Label = None,
    edges: Edges = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on data, once for every missing rate and seed; what was interrupted goes on where it stopped."""
    loaded = [
        catalog.load_dataset(name, scaling=scaling, label=label, edges=edges, progress=sys.stderr.isatty())
        for name in _split("--data", data)
    ]
    experiment = runner.Experiment(
        datasets=loaded,
        methods=_split("--methods", methods),
        missing=_split("--missing", missing),
        seeds=range(seeds),
        preset=preset,
    )
    _show(_execute(experiment, out_folder, fresh=False, quiet=as_json), as_json=as_json)


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


def _split(option: str, text: str) -> list[str]:
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        raise TacitError(f"{option} is empty")
    return items


def _execute(experiment: "runner.Experiment", folder: Path, *, fresh: bool, quiet: bool) -> "list[RunRecord]":
    runs = runner.expand(experiment)
    with progress.step_bars(shown=not quiet) as bars:

        def line(run: "runner.Run") -> progress.Advance:
            label = f"{run.dataset.name} {run.method} {run.missing} seed {run.seed}"
            return bars.add(label, len(run.dataset.y) - len(run.dataset.arms))

        return list(runner.execute(runs, folder, fresh=fresh, on_step=line))


def _show(records: "list[RunRecord]", *, as_json: bool) -> None:
    if as_json:
        _print_json(records)
    else:
        out.print(tables.accuracy_table(records))


def _print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def _fail(message: object, code: int = 2) -> NoReturn:
    Console(stderr=True).print(f"tacit: {message}", style="red", soft_wrap=True, markup=False, highlight=False)
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
