"""``taciturn datasets``."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from taciturn.cli.shared import AsJson, Edges, Label, lazy, out, print_json
from taciturn.contracts import Dataset

if TYPE_CHECKING:
    from taciturn.datasets import catalog, describe
else:
    catalog = lazy("taciturn.datasets.catalog")
    describe = lazy("taciturn.datasets.describe")

SHOWN_ARMS, SHOWN_COLUMNS = 12, 30
JSON_COLUMNS = 10_000

STATUSES = ("On this machine", "Downloaded when asked for", "To be had by hand")

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
    width = max(len(row["name"]) for row in rows)
    for status in STATUSES:
        chosen = [row for row in rows if _status(row) == status]
        if chosen:
            out.print(f"[green]{status}[/green]", _entries(chosen, width))


@app.command(epilog="Example: taciturn datasets fetch cora")
def fetch(name: Annotated[str, typer.Argument(help="The data set's name.")], as_json: AsJson = False) -> None:
    """Download a data set unless it is on this machine."""
    path = catalog.fetch_dataset(name, progress=sys.stderr.isatty())
    if as_json:
        print_json({"name": name, "file": str(path) if path else None})
    else:
        out.print(f"{name}: {path or 'included in scikit-learn'}", soft_wrap=True)


@app.command(epilog="Example: taciturn datasets info mine.csv --label best")
def info(
    name: Annotated[str, typer.Argument(help="The data set's name, or a file.")],
    label: Label = None,
    edges: Edges = None,
    as_json: AsJson = False,
) -> None:
    """Show a data set's size, arms, graph, source and terms, and what was made of each column; download nothing."""
    if name in catalog.CATALOG and label is None and edges is None and not _about(name)["here"]:
        _info_from_catalog(name, as_json)
        return
    data = catalog.load_dataset(name, label=label, edges=edges)
    facts = (_about(name) if name in catalog.CATALOG else {"name": data.name}) | _facts(data)
    if as_json:
        columns = [column._asdict() for column in describe.describe(data, JSON_COLUMNS)]
        print_json(facts | {"arms": _arm_counts(data), "columns": columns})
        return
    out.print(_fact_table(facts | {"arms": _arm_shares(data)}), "", _column_table(data), highlight=False)
    hidden = describe.n_columns(data) - SHOWN_COLUMNS
    if hidden > 0:
        out.print(f"… and {hidden} more columns; --json shows them", highlight=False)


def _info_from_catalog(name: str, as_json: bool) -> None:
    """Show what is known of a data set that is not on this machine."""
    facts = _about(name)
    if as_json:
        print_json(facts)
        return
    out.print(_fact_table(facts), highlight=False)
    out.print(f"\n{catalog.how_to_get(name)}", highlight=False, soft_wrap=True, markup=False)


def _status(row: dict[str, Any]) -> str:
    return STATUSES[0] if row["here"] else STATUSES[1] if row["download"] else STATUSES[2]


def _entries(rows: list[dict[str, Any]], width: int) -> Table:
    """Return the names in a column of this width; beside them what the data is, its shape, source and terms."""
    table = Table.grid(padding=(0, 2))
    table.add_column(width=width + 2)
    for row in rows:
        facts = f"[dim]{row['shape']}; {row['home']}; {row['terms']}[/dim]"
        table.add_row(f"  [bold]{row['name']}[/bold]", f"{row['about']}\n{facts}")
    return table


def _fact_table(facts: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False)
    for key, value in facts.items():
        table.add_row(key, escape(str(value)))
    return table


def _about(name: str) -> dict[str, Any]:
    entry = catalog.CATALOG[name]
    file = catalog.local_file(name)
    facts = {"name": name, "about": entry.about, "shape": entry.shape, "home": entry.home, "terms": entry.terms}
    here = not entry.files or file is not None
    return facts | {"here": here, "file": str(file) if file else None, "download": bool(entry.sources)}


def _facts(data: Dataset) -> dict[str, Any]:
    return {
        "source": data.source,
        "rows": len(data),
        "features": describe.n_columns(data),
        "arms": None,  # in its place: as counts or as text
        "edges": None if data.edges is None else len(data.edges),
        "rewards": "for every arm" if data.rewards is not None else "1 for the right arm",
        "fingerprint": data.fingerprint,
    }


def _arm_counts(data: Dataset) -> dict[str, int]:
    return {str(arm): int((data.y == k).sum()) for k, arm in enumerate(data.arms)}


def _arm_shares(data: Dataset) -> str:
    """Return how many arms there are, and the share of rows of the most frequent ones."""
    counts = sorted(_arm_counts(data).items(), key=lambda item: -item[1])
    shares = [f"{arm} {count / len(data):.1%}" for arm, count in counts[:SHOWN_ARMS]]
    more = [f"{len(counts) - SHOWN_ARMS} more"] if len(counts) > SHOWN_ARMS else []
    return f"{len(counts)}: {', '.join(shares + more)}"


def _column_table(data: Dataset) -> Table:
    """Return what was made of each column, at most `SHOWN_COLUMNS` of them."""
    table = Table(box=None, header_style="bold")
    for header in ("column", "kind", "distinct", "missing", "values", "becomes"):
        table.add_column(header, justify="right" if header in ("distinct", "missing") else "left", overflow="fold")
    for column in describe.describe(data, SHOWN_COLUMNS):
        values = (
            ", ".join(column.examples) if column.low is None else f"{_number(column.low)} to {_number(column.high)}"
        )
        cells = (column.name, column.kind, str(column.distinct), str(column.missing), values, column.becomes)
        table.add_row(*map(escape, cells))
    return table


def _number(value: float | str | None) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
