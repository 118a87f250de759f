"""Our results compared with the paper's printed ones, cell by cell."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table

from taciturn.experiments.recorder import RunRecord
from taciturn.registry import preset_file
from taciturn.reports.tables import Row, RowKind, accuracy_rows, mark_down


class Cell(NamedTuple):
    """A cell of a printed table: means and standard deviations in percent; `printed` is None for the constant arm."""

    table: str
    dataset: str
    silent: str
    method: str
    scaling: str
    kind: RowKind
    runs: int
    ours: float
    ours_deviation: float
    printed: float | None
    printed_deviation: float | None

    @property
    def difference(self) -> float | None:
        """Our mean minus the printed one."""
        return None if self.printed is None else self.ours - self.printed

    @property
    def verdict(self) -> str:
        """Whether our mean is within one printed standard deviation of the printed mean, above or below; or nothing."""
        if self.difference is None or self.printed_deviation is None:
            return ""
        if abs(self.difference) <= self.printed_deviation:
            return "within"
        return "above" if self.difference > 0 else "below"


def comparison(records: Sequence[RunRecord]) -> list[Cell]:
    """Return the cells of tables 1 and 2 for which there are runs with the paper's preset, table 1 first.

    Table 1 also has a cell for the best constant arm of each data set and missing rate.
    """
    chosen = [record for record in records if record.preset == "paper" and record.error is None]
    rows = accuracy_rows(chosen)
    return [
        _cell(table, row, methods)
        for table, datasets in preset_file("paper")["printed"].items()
        for row in rows
        if (methods := datasets.get(row.dataset))
        and _is_printed_setting(row)
        and (table == "table1" if row.kind == "constant arm" else row.method in methods)
    ]


def _is_printed_setting(row: Row) -> bool:
    """Whether the paper has results for a row's setting: missing at random, at its rates, without delay or more."""
    rates = preset_file("paper")["experiment"]["missing"]
    return row.missing.kind == "mcar" and row.missing.value in rates and row.delay.value == 0 and not row.also


def _cell(table: str, row: Row, methods: dict[str, list[tuple[float, float]]]) -> Cell:
    column = preset_file("paper")["experiment"]["missing"].index(row.missing.value)
    printed = (None, None) if row.kind == "constant arm" else methods[row.method][column]
    summary = (row.runs, row.mean, row.deviation)
    return Cell(table, row.label, row.silent, row.method, row.scaling, row.kind, *summary, *printed)


HEADER = ("silent", "method", "ours (sd)", "printed (sd)", "difference", "within printed sd", "scaling")
TITLES = {"table1": "Table 1", "table2": "Table 2"}


def sections(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Return the cells by title, one title for each table and data set."""
    parts: dict[str, list[Cell]] = {}
    for cell in cells:
        parts.setdefault(f"{TITLES[cell.table]}: {cell.dataset}", []).append(cell)
    return parts


def cell_texts(cell: Cell) -> list[str]:
    """Return a cell as a row of text, in the order of `HEADER`."""
    ours = f"{cell.ours:.1f}" + (f" ({cell.ours_deviation:.1f})" if cell.runs > 1 else "")
    printed = "" if cell.printed is None else f"{cell.printed:.1f} ({cell.printed_deviation:.1f})"
    difference = "" if cell.difference is None else f"{cell.difference:+.1f}"
    return [cell.silent, cell.method, ours, printed, difference, cell.verdict, cell.scaling]


def comparison_tables(cells: Sequence[Cell]) -> Iterator[Table]:
    """Yield the comparison for the terminal, one table per section; what all its cells share stands below it."""
    styles = {"within": "green", "above": "cyan", "below": "red", "": "dim"}
    for title, section in sections(cells).items():
        scalings = {cell.scaling for cell in section if cell.scaling}
        columns, caption = (HEADER[:-1], f"scaling: {scalings.pop()}") if len(scalings) == 1 else (HEADER, None)
        table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="bold")
        table.caption, table.caption_justify, table.padding = caption, "left", (0, 1, 0, 0)
        for i, column in enumerate(columns):
            is_number = 2 <= i <= 4
            table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
        for cell in section:
            table.add_row(*cell_texts(cell)[: len(columns)], style=styles[cell.verdict])
        yield table


def comparison_markdown(cells: Sequence[Cell]) -> str:
    """Return the comparison as Markdown, one table per section."""
    parts = sections(cells).items()
    return "\n".join(f"### {title}\n\n{mark_down(HEADER, [*map(cell_texts, section)])}" for title, section in parts)
