"""Ours beside what was printed: one row a cell of the paper's tables."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table

from taciturn.experiments.recorder import RunRecord
from taciturn.registry import preset_file
from taciturn.reports.tables import accuracy_rows, dataset_labels, mark_down


class Cell(NamedTuple):
    """A cell of a printed table: means and standard deviations in percent."""

    table: str
    dataset: str
    silent: str
    method: str
    runs: int
    ours: float
    ours_deviation: float
    printed: float | None
    printed_deviation: float | None

    @property
    def difference(self) -> float | None:
        """Ours less printed."""
        return None if self.printed is None else self.ours - self.printed

    @property
    def verdict(self) -> str:
        """Whether ours lies within the printed mean ± its standard deviation."""
        if self.difference is None or self.printed_deviation is None:
            return ""
        if abs(self.difference) <= self.printed_deviation:
            return "within"
        return "above" if self.difference > 0 else "below"


def comparison(records: Sequence[RunRecord]) -> list[Cell]:
    """All cells of table 1 and table 2 that runs with the paper's settings speak of, with the best constant arm."""
    paper = preset_file("paper")
    chosen = [record for record in records if record.preset == "paper" and record.error is None]
    names = {label: _name(chosen, fingerprint) for fingerprint, label in dataset_labels(chosen).items()}
    shares = {f"{rate:.0%}": i for i, rate in enumerate(paper["experiment"]["missing"])}
    cells = []
    for row in accuracy_rows(chosen):
        for table, columns in paper["printed"].items():
            methods = columns.get(names[row.dataset], {})
            if row.silent not in shares or (row.method not in methods and not row.method.startswith("always ")):
                continue
            if row.method.startswith("always ") and not (table == "table1" and methods):
                continue
            printed = methods.get(row.method, [(None, None)] * len(shares))[shares[row.silent]]
            summary = (row.runs, row.mean, row.deviation)
            cells.append(Cell(table, row.dataset, row.silent, row.method, *summary, *printed))
    return sorted(cells, key=lambda cell: cell.table)


def _name(records: Sequence[RunRecord], fingerprint: str) -> str:
    return next(record.dataset for record in records if record.fingerprint == fingerprint)


HEADER = ("silent", "method", "ours", "printed", "difference", "printed ± sd")
TITLES = {"table1": "Table 1", "table2": "Table 2"}


def sections(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells by table and data set, under a title each."""
    parts: dict[str, list[Cell]] = {}
    for cell in cells:
        parts.setdefault(f"{TITLES[cell.table]}: {cell.dataset}", []).append(cell)
    return parts


def cell_texts(cell: Cell) -> list[str]:
    """A cell as a row of text."""
    ours = f"{cell.ours:.1f}" + (f" ± {cell.ours_deviation:.1f}" if cell.runs > 1 else "")
    printed = "" if cell.printed is None else f"{cell.printed:.1f} ± {cell.printed_deviation:.1f}"
    difference = "" if cell.difference is None else f"{cell.difference:+.1f}"
    return [cell.silent, cell.method, ours, printed, difference, cell.verdict]


def comparison_tables(cells: Sequence[Cell]) -> Iterator[Table]:
    """The comparison for the terminal, a table a section."""
    styles = {"within": "green", "above": "cyan", "below": "red", "": "dim"}
    for title, section in sections(cells).items():
        table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="bold")
        for i, column in enumerate(HEADER):
            table.add_column(column, justify="right" if 2 <= i <= 4 else "left", no_wrap=True)
        for cell in section:
            table.add_row(*cell_texts(cell), style=styles[cell.verdict])
        yield table


def comparison_markdown(cells: Sequence[Cell]) -> str:
    """The comparison as Markdown, a table a section."""
    parts = sections(cells).items()
    return "\n".join(f"### {title}\n\n{mark_down(HEADER, [*map(cell_texts, section)])}" for title, section in parts)
