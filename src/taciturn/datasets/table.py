"""Tables: named columns of one kind each, read row by row as {column: value}."""

import datetime as dt
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from taciturn.contracts import Contexts
from taciturn.errors import InvalidData
from taciturn.features.schema import is_missing
from taciturn.validate import LARGEST, shown


class Column(NamedTuple):
    """A column of a table.

    `kind` is "number", "category", "text", "flag", "date", "tags", "vector", or "empty" where all cells are missing.
    `values` are an array (N,) of numbers, NaN where missing, or a list of N strings, booleans, datetimes or lists of
    strings or numbers, None where missing.
    """

    name: str
    kind: str
    values: NDArray[np.float64] | list[Any]

    @property
    def missing(self) -> int:
        """The number of cells without a value."""
        if isinstance(self.values, list):
            return sum(value is None for value in self.values)
        return int(np.isnan(self.values).sum())

    def value(self, row: int) -> Any:
        """Return the value of a row, None where it is missing."""
        value = self.values[row]
        if isinstance(self.values, list):
            return value
        return None if value != value else float(value)  # noqa: PLR0124 - NaN


class Table(Sequence[dict[str, Any]]):
    """Columns of equal length as a sequence of contexts; a row is made when it is asked for, so memory stays small."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = list(columns)
        self._given = [column for column in self.columns if column.kind != "empty"]

    def __len__(self) -> int:
        return len(self.columns[0].values)

    @overload
    def __getitem__(self, row: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, row: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, row: int | slice) -> Any:
        """Return the context of a row, {column: value}, or a list of several; columns without values are left out."""
        if isinstance(row, slice):
            return [self[i] for i in range(len(self))[row]]
        return {column.name: column.value(row) for column in self._given}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def hash_parts(self) -> Iterator[bytes]:
        """Yield bytes that differ for different tables."""
        for column in self._given:
            yield repr((column.name, column.kind)).encode()
            if isinstance(column.values, np.ndarray):
                yield column.values.tobytes()
            else:
                yield repr(column.values).encode(errors="surrogatepass")


def contexts_of(table: Table) -> Contexts:
    """Return the contexts of a table in their simplest form.

    An array (N, D) where all cells are numbers, the texts where the only column holds text, otherwise the table.
    """
    kinds = {column.kind for column in table.columns}
    if kinds == {"number"} and not any(column.missing for column in table.columns):
        return np.column_stack([column.values for column in table.columns])
    if kinds == {"text"} and len(table.columns) == 1:
        return [value or "" for value in table.columns[0].values]
    return table


def make_column(name: str, values: Sequence[Any]) -> Column:
    """Return the column of Python values, of the kind that all of them are; None and NaN are missing.

    Durations become seconds. Values of several kinds, and whole numbers of more than 15 digits, which identify
    something, become words.
    """
    cells = [None if is_missing(value) else value for value in values]
    types = {type(value) for value in cells if value is not None}
    if not types:
        return Column(name, "empty", cells)
    if all(issubclass(kind, dt.timedelta) for kind in types):
        return make_column(name, [None if value is None else value.total_seconds() for value in cells])
    if types <= {bool, np.bool_}:
        return Column(name, "flag", [None if value is None else bool(value) for value in cells])
    if all(issubclass(kind, Real | np.bool_) or kind.__name__ == "Decimal" for kind in types):
        numbers = np.array([np.nan if value is None else float(value) for value in cells])
        if all(issubclass(kind, int | np.integer) for kind in types) and np.nanmax(np.abs(numbers)) >= LARGEST:
            return words_column(name, [None if value is None else str(value) for value in cells])
        return number_column(name, numbers)
    if all(issubclass(kind, dt.date) for kind in types):
        return Column(name, "date", [None if value is None else _datetime(value) for value in cells])
    if all(issubclass(kind, list | tuple | np.ndarray) for kind in types):
        return _list_column(name, cells)
    _refuse_other_types(name, cells)
    return words_column(name, [None if value is None else str(value) for value in cells])


def number_column(name: str, numbers: NDArray[np.float64]) -> Column:
    """Return a column of numbers (N,), NaN where missing; refuse infinite and very large ones."""
    wrong = np.flatnonzero(np.abs(numbers) > LARGEST)
    if wrong.size:
        row = int(wrong[0])
        needed = f"a finite number is needed, of at most {LARGEST:g}"
        raise InvalidData(f"row {row}, column {name!r} holds {numbers[row]:g}; {needed}")
    return Column(name, "number", numbers)


def words_column(name: str, cells: list[str | None]) -> Column:
    """Return a column of text where a cell has several words, as agents decide it, otherwise of categories."""
    several = any(len(cell.split()) > 1 for cell in cells if cell is not None)
    return Column(name, "text" if several else "category", cells)


def _datetime(value: dt.date) -> dt.datetime:
    if hasattr(value, "to_pydatetime"):  # pandas
        return value.to_pydatetime(warn=False)  # type: ignore[no-any-return]
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _list_column(name: str, cells: list[Any]) -> Column:
    """Return a column of tags, which are lists of words, or of vectors, which are lists of numbers."""
    lists = [None if value is None else list(value) for value in cells]
    for kind, of in (("tags", str), ("vector", Real)):
        if all(isinstance(item, of) for items in lists if items is not None for item in items):
            return Column(name, kind, lists)
    row = next(row for row, items in enumerate(lists) if items)
    raise InvalidData(f"row {row}, column {name!r} holds {shown(lists[row])}; lists of words or of numbers are allowed")


def _refuse_other_types(name: str, cells: list[Any]) -> None:
    allowed = (str, Real, np.bool_, dt.date)
    for row, value in enumerate(cells):
        if value is not None and not isinstance(value, allowed):
            raise InvalidData(
                f"row {row}, column {name!r} holds a {type(value).__name__}; "
                "numbers, words, true or false, dates and lists of words are allowed"
            )
