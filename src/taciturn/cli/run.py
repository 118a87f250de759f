"""``taciturn demo`` and ``taciturn run``."""

import contextlib
import dataclasses
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taciturn.cli.running import run_experiments, show, with_agent
from taciturn.cli.shared import Address, AsJson, Edges, Engine, Jobs, Label, lazy, out, split
from taciturn.errors import TaciturnError
from taciturn.experiments import workers

if TYPE_CHECKING:
    from taciturn.datasets import catalog
    from taciturn.experiments import spec
    from taciturn.reports import curves, figures
else:
    catalog = lazy("taciturn.datasets.catalog")
    spec = lazy("taciturn.experiments.spec")
    curves = lazy("taciturn.reports.curves")
    figures = lazy("taciturn.reports.figures")

app = typer.Typer()

SLOWEST_FIRST = ("gcnucb", "viewucb", "rogcn", "bilinucb-kmeans", "linucb")
DEMO_METHODS = ("linucb", "rogcn", "bilinucb-kmeans", "gcnucb", "viewucb")


@app.command(epilog="Example: taciturn demo --out somewhere")
def demo(
    out_folder: Annotated[Path, typer.Option("--out", help="The results folder, also for the figure.")] = Path(
        "taciturn-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Determines the order and the missing rewards.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare five methods on handwritten digits with half of the rewards missing, in under a minute."""
    jobs = min(2, workers.default_jobs())  # what one compiles at the first start, the other need not wait for
    experiment = demo_experiment(seed)
    if not as_json:
        out.print(
            f"{len(experiment.datasets[0])} handwritten digits arrive one at a time, and an agent names each. Half of "
            "the time it receives the reward, 1 if right and 0 if wrong; half of the time nothing.\n",
            highlight=False,
        )
    records = run_experiments(
        [experiment], out_folder, jobs=jobs, fresh=True, quiet=as_json, meanwhile=_import_matplotlib
    )
    records.sort(key=lambda record: DEMO_METHODS.index(record.method))
    show(records, as_json=as_json)
    figure = out_folder / "running-accuracy"
    drawn = curves.accuracy_curves(out_folder, records)
    figures.draw_running_accuracy(drawn, "digits, half of the rewards missing", figure)
    if not as_json:
        others = "also .svg and .pdf"
        out.print(f"\nFigure: [bold]{figure}.png[/bold] ({others})   Traces: {out_folder / 'traces'}", soft_wrap=True)


def _import_matplotlib() -> None:
    """Half a second that need not follow the runs; where it is not installed, drawing says so."""
    with contextlib.suppress(ImportError):
        for module in ("matplotlib.figure", "matplotlib.backends.backend_agg"):
            importlib.import_module(module)


def demo_experiment(seed: int) -> "spec.Experiment":
    """Return the experiment of the demo: what `taciturn run --data digits` runs by default, with five methods."""
    methods = sorted(DEMO_METHODS, key=SLOWEST_FIRST.index)  # so that two processes end at about the same time
    return dataclasses.replace(load_experiment(spec.Spec(data=["digits"], methods=methods)), seeds=[seed])


@app.command(epilog="Example: taciturn run --data cora,cnae9 --methods linucb,gcnucb --missing .25,.5 --out results")
def run(
    spec_file: Annotated[
        Path | None, typer.Argument(metavar="[SPEC.toml]", help="The experiment as a TOML file.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Names of data sets, or files (see docs/datasets.md), comma-separated.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Names of methods, comma-separated.")] = None,
    agent: Annotated[
        str | None, typer.Option(help="Your own agent, as package.module:Class or 'command:PROGRAM ARGUMENTS'.")
    ] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="The results folder; runs that it has are not repeated.")
    ] = Path("results"),
    missing: Annotated[
        str | None, typer.Option(help="Shares of missing rewards: .25, context:.5, reward:.5; comma-separated.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(help="Decisions until a reward comes: 0, 5, geometric:20, half:100; comma-separated.")
    ] = None,
    drift: Annotated[
        str | None,
        typer.Option(help="What changes half-way, or after a share of the rounds: none, labels, features:.25."),
    ] = None,
    restart: Annotated[
        str | None, typer.Option(help="Shares of the rounds after which agents are restarted: none, .5.")
    ] = None,
    max_nodes: Annotated[
        str | None, typer.Option(help="How many contexts agents hold at most: none, 500; comma-separated.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="The number of seeds, from 0.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="The maximal number of rounds of each stream.")] = None,
    cost_weight: Annotated[
        float | None,
        typer.Option(help="How much costs count, from 0 to 1; for data with a reward and a cost for every arm."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="The settings of a paper: paper.")] = None,
    scaling: Annotated[
        str | None,
        typer.Option(help="Scale rows to unit l1 or l2 norm; by default none, and what the paper did with --preset."),
    ] = None,
    label: Label = None,
    edges: Edges = None,
    jobs: Jobs = None,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on data sets, once for every setting and seed; an interrupted experiment is resumed."""
    flags = {
        "data": split(data),
        "methods": with_agent(agent, split(methods)),
        "missing": split(missing),
        "delay": split(delay),
        "drift": split(drift),
        "restart": split(restart),
        "max_nodes": split(max_nodes),
        "seeds": seeds,
        "steps": steps,
        "cost_weight": cost_weight,
        "preset": preset,
        "scaling": scaling,
        "label": label,
        "edges": None if edges is None else str(edges),
    }
    values = spec.read_spec(spec_file) if spec_file else {}
    values |= {key: value for key, value in flags.items() if value is not None}
    for key in ("data", "methods"):
        if not values.get(key):
            raise TaciturnError(f"--{key} is missing or empty; give at least one name")
    experiment = load_experiment(spec.Spec(**values))
    options: dict[str, Any] = {"jobs": jobs or workers.default_jobs(), "engine": engine, "address": address}
    records = run_experiments([experiment], out_folder, quiet=as_json, **options)
    show(records, as_json=as_json)


def load_experiment(given: "spec.Spec") -> "spec.Experiment":
    """Return the experiment with its data sets loaded; `label` and `edges` are for the files among them."""
    options: dict[str, Any] = {"scaling": given.row_scaling, "progress": sys.stderr.isatty()}
    own: dict[str, Any] = options | {"label": given.label, "edges": given.edges}
    named = [name for name in given.data if name in catalog.CATALOG]
    if named == given.data:
        options = own  # a label that is for none of them is refused
    datasets = [catalog.load_dataset(name, **(options if name in named else own)) for name in given.data]
    return spec.experiment_of(given, datasets)
