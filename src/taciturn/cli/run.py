"""``taciturn demo`` and ``taciturn run``."""

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taciturn.cli.running import run_experiments, show
from taciturn.cli.shared import Address, AsJson, Edges, Engine, Jobs, Label, lazy, out, split
from taciturn.errors import TaciturnError

if TYPE_CHECKING:
    from taciturn import registry
    from taciturn.datasets import catalog
    from taciturn.experiments import checks, runner, spec
    from taciturn.reports import curves, figures
else:
    registry = lazy("taciturn.registry")
    catalog = lazy("taciturn.datasets.catalog")
    checks = lazy("taciturn.experiments.checks")
    runner = lazy("taciturn.experiments.runner")
    spec = lazy("taciturn.experiments.spec")
    curves = lazy("taciturn.reports.curves")
    figures = lazy("taciturn.reports.figures")

app = typer.Typer()


@app.command(epilog="Example: taciturn demo --out somewhere")
def demo(
    out_folder: Annotated[Path, typer.Option("--out", help="Where the picture and the results go.")] = Path(
        "taciturn-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another order of the data.")] = 0,
    as_json: AsJson = False,
) -> None:
    """The whole idea in under a minute: methods side by side on handwritten digits, half of the answers silent."""
    methods = ["linucb", "rogcn", "bilinucb-kmeans", "gcnucb", "viewucb"]
    data = catalog.load_dataset("digits", scaling="l2")
    if not as_json:
        out.print(
            f"{len(data.y)} handwritten digits arrive one at a time. Name each at once; half of the time the world "
            "says right or wrong, half of the time nothing. (The first run also compiles: a few seconds more.)\n",
            highlight=False,
        )
    experiment = spec.Experiment(datasets=[data], methods=methods, missing=[0.5], seeds=[seed])
    records = run_experiments([experiment], out_folder, jobs=1, fresh=True, quiet=as_json)
    show(records, as_json=as_json)
    picture = out_folder / "running-accuracy.png"
    drawn = curves.accuracy_curves(out_folder, records)
    figures.draw_running_accuracy(drawn, "digits, half of the rewards missing", picture)
    if not as_json:
        out.print(f"\nThe curves: [bold]{picture}[/bold]   Every step: {out_folder / 'traces'}", soft_wrap=True)


@app.command(epilog="Example: taciturn run --data cora,cnae9 --methods linucb,gcnucb --missing .25,.5 --out results")
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
    delay: Annotated[
        str | None, typer.Option(help="Decisions until an answer comes: 0, 5, geometric:20, half:100.")
    ] = None,
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
        "data": split(data),
        "methods": _own_agent(agent, split(methods)),
        "missing": split(missing),
        "delay": split(delay),
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
            raise TaciturnError(f"say what to run: --{key} is missing or empty")
    experiment = _experiment(spec.Spec(**words))
    where: dict[str, Any] = {"jobs": jobs or runner.default_jobs(), "engine": engine, "address": address}
    records = run_experiments([experiment], out_folder, quiet=as_json, **where)
    show(records, as_json=as_json)


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
    except TaciturnError:
        raise
    except Exception as error:  # noqa: BLE001 - anybody's code
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise TaciturnError(f"{agent} does not pass check_agent: {reason}") from None
    return [*(methods or []), agent]
