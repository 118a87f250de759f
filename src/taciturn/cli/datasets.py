"""``taciturn datasets``."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from taciturn.cli.shared import AsJson, Edges, Label, lazy, out, print_json
from taciturn.contracts import Dataset

if TYPE_CHECKING:
    from taciturn.datasets import catalog
else:
    catalog = lazy("taciturn.datasets.catalog")

app = typer.Typer(
    help="Named data sets: source, licence terms, and whether the file is on this machine.",
    epilog="Example: taciturn datasets info digits",
)


@app.callback(invoke_without_command=True)
def _datasets(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        list_datasets(as_json)


@app.command("list", epilog="Example: taciturn datasets list --json")
def list_datasets(as_json: AsJson = False) -> None:
    """List all named data sets."""
    rows = [_about(name) for name in catalog.CATALOG]
    if as_json:
        print_json(rows)
        return
    table = Table.grid(padding=(0, 2))
    for row in rows:
        status = "[green]on this machine[/green]" if row["here"] else "not on this machine"
        table.add_row(f"[bold]{row['name']}[/bold]", f"{row['about']} ({status})")
        table.add_row("", f"[dim]{row['shape']}; from {row['home']}; terms: {row['terms']}[/dim]")
    out.print(table)


@app.command(epilog="Example: taciturn datasets fetch cora")
def fetch(name: Annotated[str, typer.Argument(help="The data set's name.")], as_json: AsJson = False) -> None:
    """Download a data set unless it is on this machine."""
    path = catalog.fetch_dataset(name, progress=sys.stderr.isatty())
    if as_json:
        print_json({"name": name, "file": str(path) if path else None})
    else:
        out.print(f"{name}: {path or 'included in scikit-learn'}", soft_wrap=True)


@app.command(epilog="Example: taciturn datasets info warfarin")
def info(
    name: Annotated[str, typer.Argument(help="The data set's name, or a file.")],
    label: Label = None,
    edges: Edges = None,
    as_json: AsJson = False,
) -> None:
    """Show a data set's size, arms, graph, source and terms."""
    data = catalog.load_dataset(name, label=label, edges=edges, progress=sys.stderr.isatty())
    facts = (_about(name) if name in catalog.CATALOG else {"name": data.name}) | _facts(data)
    if as_json:
        print_json(facts)
        return
    table = Table(box=None, show_header=False)
    for key, value in facts.items():
        table.add_row(key, str(value))
    out.print(table)


def _about(name: str) -> dict[str, Any]:
    entry = catalog.CATALOG[name]
    file = catalog.local_file(name)
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
