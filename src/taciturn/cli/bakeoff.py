"""``taciturn bakeoff``."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from taciturn.cli.running import print_left_out, report_failures, run_all, with_agent
from taciturn.cli.shared import Address, AsJson, Edges, Jobs, Label, errors, lazy, out, split
from taciturn.contracts import Dataset
from taciturn.errors import TaciturnError
from taciturn.experiments import workers

if TYPE_CHECKING:
    from taciturn.datasets import catalog
    from taciturn.experiments import bakeoff as baking
    from taciturn.experiments import bakeoff_info, spec
    from taciturn.reports import leaderboard, leaderboard_page, leaderboard_text
else:
    catalog = lazy("taciturn.datasets.catalog")
    baking = lazy("taciturn.experiments.bakeoff")
    bakeoff_info = lazy("taciturn.experiments.bakeoff_info")
    spec = lazy("taciturn.experiments.spec")
    leaderboard = lazy("taciturn.reports.leaderboard")
    leaderboard_page = lazy("taciturn.reports.leaderboard_page")
    leaderboard_text = lazy("taciturn.reports.leaderboard_text")

app = typer.Typer()


@app.command(epilog="Example: taciturn bakeoff --quick --agent mine:MyAgent --out bakeoff")
def bakeoff(
    spec_file: Annotated[
        Path | None,
        typer.Argument(metavar="[SPEC.toml]", help="Your own version of the file that --print-spec prints."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A look, in minutes.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Every axis at every rate, five seeds: for a Ray cluster.")
    ] = False,
    data: Annotated[
        str | None, typer.Option(help="These data sets or files in place of all others, comma-separated.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="These methods in place of all others, comma-separated.")] = None,
    agent: Annotated[
        str | None, typer.Option(help="Also your own agent: package.module:Class or 'command:PROGRAM ARGUMENTS'.")
    ] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="The results folder; runs that it has are not repeated.")
    ] = Path("bakeoff"),
    seeds: Annotated[int | None, typer.Option(min=1, help="The number of seeds, from 0.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="The maximal number of rounds of each stream.")] = None,
    label: Label = None,
    edges: Edges = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="Download data sets that are not on this machine.")] = False,
    jobs: Jobs = None,
    engine: Annotated[
        str | None,
        typer.Option(help="local: processes on this machine; ray: a Ray cluster; by default local, with --full ray."),
    ] = None,
    address: Address = None,
    print_spec: Annotated[bool, typer.Option("--print-spec", help="Print the built-in TOML file and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare everybody's methods where answers do not come, and write leaderboard.html; an interrupted one is resumed.

    Without --quick or --full it takes an hour on two cores.
    """
    if print_spec:
        sys.stdout.write(baking.built_in_spec())
        return
    if quick and full:
        raise TaciturnError("--quick and --full are two sizes; give one of them")
    given = baking.read_bakeoff(spec_file)
    size: bakeoff_info.Size = "quick" if quick else "full" if full else "default"
    flags = {"data": split(data), "methods": split(methods), "seeds": seeds, "steps": steps, "label": label}
    flags["edges"] = None if edges is None else str(edges)
    changed = {key: value for key, value in flags.items() if value is not None}
    is_own = spec_file is not None or bool(changed)
    planner = baking.Planner(given, _Loader(fetch=fetch), print_left_out)
    plan = planner.plan("own" if is_own else size, _blocks(given.blocks(size), changed, with_agent(agent, []) or []))
    out_folder.mkdir(parents=True, exist_ok=True)
    bakeoff_info.write_info(out_folder, plan.info)
    options: dict[str, Any] = {"engine": engine or ("ray" if full else "local"), "address": address}
    try:
        records = run_all(plan.runs, out_folder, jobs=jobs or workers.default_jobs(), quiet=as_json, **options)
    except KeyboardInterrupt:
        _write(out_folder, as_json=as_json)
        raise
    _write(out_folder, as_json=as_json)
    report_failures(records)


def _blocks(blocks: "dict[str, spec.Spec]", changed: dict[str, Any], added: list[str]) -> "dict[str, spec.Spec]":
    """Return the blocks with what flags say in place of what the file says, and with methods added."""
    replaced = {name: dataclasses.replace(block, **changed) for name, block in blocks.items()}
    return {name: dataclasses.replace(block, methods=[*block.methods, *added]) for name, block in replaced.items()}


class _Loader:
    """Loads the data sets of blocks: those on this machine, and with `fetch` also others."""

    def __init__(self, *, fetch: bool) -> None:
        self._fetch = fetch

    def __call__(self, name: str, block: "spec.Spec") -> Dataset:
        options: dict[str, Any] = {"scaling": block.row_scaling, "progress": sys.stderr.isatty()}
        if name in catalog.CATALOG:
            if not self._fetch:
                catalog.require_local(name)
            return catalog.load_dataset(name, **options)
        return catalog.load_dataset(name, label=block.label, edges=block.edges, **options)


def _write(folder: Path, *, as_json: bool) -> None:
    """Write the leaderboard of what the folder holds, and print its table, or all of it as JSON."""
    with errors.status("writing the leaderboard"):
        page, data = leaderboard_page.write_leaderboard(folder)
    if as_json:
        sys.stdout.write(data.read_text(encoding="utf-8"))
        return
    out.print(leaderboard_text.leaderboard_table(leaderboard.read_leaderboard(folder)))
    out.print(f"\n[bold]{escape(str(page))}[/bold], and for programs {escape(str(data))}", soft_wrap=True)
