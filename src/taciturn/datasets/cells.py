"""What the cells of a text file are: numbers, flags, dates or words, decided for each column over all of its cells."""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from taciturn.datasets.table import Column, number_column, words_column
from taciturn.features.schema import MISSING
from taciturn.validate import LARGEST

Parse = Callable[[list[str]], list[Any]]
"""Returns the values of cells that have one, or raises `ValueError` where a cell is of another kind."""


def parse_numbers(cells: list[str]) -> list[float]:
    """Read numbers; whole ones of more than 15 digits identify something and are words."""
    values = list(map(float, cells))
    if "_" in "".join(cells):  # Python reads 1_000, nobody else does
        raise ValueError("_")
    if not np.all(np.abs(values) < LARGEST) and any(len(cell) > 15 and cell.lstrip("+-").isdigit() for cell in cells):
        raise ValueError("an identifier")
    return values


def parse_comma_numbers(cells: list[str]) -> list[float]:
    """Read numbers with a point or a comma before their decimals."""
    return parse_numbers([cell.replace(",", ".") for cell in cells])


def parse_flags(cells: list[str]) -> list[bool]:
    """Read true and false, in any case."""
    lowered = [cell.lower() for cell in cells]
    if not {"true", "false"}.issuperset(lowered):
        raise ValueError("neither true nor false")
    return [cell == "true" for cell in lowered]


def parse_dates(cells: list[str]) -> list[dt.datetime]:
    """Read dates and times as in ISO 8601."""
    if not all(re.match(r"\d{4}-\d{2}-\d{2}", cell) for cell in cells):
        raise ValueError("not a date")
    return list(map(dt.datetime.fromisoformat, cells))


def parsers(*, decimal_comma: bool) -> dict[str, Parse]:
    """Return the parser of each kind that is not words, in the order in which they are tried."""
    number = parse_comma_numbers if decimal_comma else parse_numbers
    return {"number": number, "flag": parse_flags, "date": parse_dates}


class KindOfColumn:
    """The kind of a column, given its cells piece by piece: the first that all cells with a value are, else words."""

    def __init__(self, parsers: dict[str, Parse]) -> None:
        self._parsers = dict(parsers)
        self._empty = True

    @property
    def kind(self) -> str:
        """A kind with a parser, "words", or "empty" where no cell has a value."""
        return "empty" if self._empty else next(iter(self._parsers), "words")

    def look(self, cells: Sequence[str]) -> None:
        """Rule out the kinds that a cell is not of."""
        present = [cell for cell in map(str.strip, cells) if cell not in MISSING]
        self._empty = self._empty and not present
        for kind, parse in list(self._parsers.items()):
            try:
                parse(present)
            except ValueError:
                del self._parsers[kind]


class ColumnBuilder:
    """A column of a known kind, given its cells piece by piece; equal words are held once."""

    def __init__(self, name: str, kind: str, parse: Parse | None) -> None:
        self._name, self._kind, self._parse = name, kind, parse
        self._pieces: list[Any] = []
        self._known: dict[Any, Any] = {}

    def add(self, cells: Sequence[str]) -> None:
        """Convert the next cells."""
        stripped = list(map(str.strip, cells))
        present = [cell for cell in stripped if cell not in MISSING]
        values: Sequence[Any] = present if self._parse is None else self._parse(present)
        absent = np.nan if self._kind == "number" else None
        if len(present) < len(stripped):
            following = iter(values)
            values = [absent if cell in MISSING else next(following) for cell in stripped]
        if self._kind == "number":
            self._pieces.append(np.array(values, dtype=np.float64))
        else:
            self._pieces += [self._known.setdefault(value, value) for value in values]

    def column(self) -> Column:
        """Return all cells so far as a column."""
        if self._kind == "number":
            return number_column(self._name, np.concatenate(self._pieces))
        is_words = self._kind == "words"
        return words_column(self._name, self._pieces) if is_words else Column(self._name, self._kind, self._pieces)
