"""How objects show themselves: a few lines of text in a shell, a small HTML table in a notebook.

The HTML is self-contained: no scripts, nothing from the network, and no colours of its own, so that it is readable on
light and dark pages alike.
"""

from collections.abc import Collection, Iterable, Iterator
from html import escape
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from taciturn.validate import shown

WIDTH = 100
"""A summary that is no longer than this is one line of text."""

MAX_ITEMS = 5
"""How many names or numbers of a list are written out."""

MAX_CHARACTERS = 32
"""How long one name or value can be."""

CELL = "text-align:left;padding:0 1em 0 0;border:0;background:transparent"


class Table(NamedTuple):
    """Rows of text under a header."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Summary(NamedTuple):
    """What is shown of an object: a title, facts by name, and tables that only HTML has room for."""

    title: str
    facts: dict[str, str]
    tables: tuple[Table, ...] = ()

    def text(self) -> str:
        """One line where it fits, otherwise one for each fact."""
        line = f"{self.title} ({', '.join(f'{name} {value}' for name, value in self.facts.items())})"
        if len(line) <= WIDTH:
            return line
        width = max(map(len, self.facts))
        return "\n".join([self.title, *(f"  {name:{width}}  {value}" for name, value in self.facts.items())])

    def html(self) -> str:
        """A table of the facts, and the other tables under it; all text is escaped."""
        facts = Table((), list(self.facts.items()))
        tables = "".join(map(_html_table, (facts, *self.tables)))
        return f'<div style="line-height:1.5"><strong>{escape(self.title)}</strong>{tables}</div>'


def _html_table(table: Table) -> str:
    head = "".join(_html_cells("th", table.header))
    rows = "".join(f"<tr>{''.join(_html_cells('td', row))}</tr>" for row in table.rows)
    return f'<table style="border-collapse:collapse;margin:.3em 0">{f"<tr>{head}</tr>" if head else ""}{rows}</table>'


def _html_cells(tag: str, texts: Iterable[str]) -> Iterator[str]:
    return (f'<{tag} style="{CELL}">{escape(text)}</{tag}>' for text in texts)


class Displayed:
    """An object that shows its `_summary` in shells and notebooks, and completes to its public names."""

    __slots__ = ()

    def _summary(self) -> Summary:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]


def brief(value: object) -> str:
    """The value as Python writes it, on one line and at most `MAX_CHARACTERS` long."""
    return _cut(shown(value))


def name_text(value: object) -> str:
    """A name as its user wrote it, on one line and at most `MAX_CHARACTERS` long."""
    return _cut(" ".join(value.split())) if isinstance(value, str) and value.isprintable() else brief(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def some(values: Collection[object]) -> str:
    """The first few values, and "…" where there are more."""
    first = [brief(value) for value in islice(values, MAX_ITEMS)]
    return ", ".join([*first, "…"] if len(values) > MAX_ITEMS else first)


def counted(values: Collection[object]) -> str:
    """How many there are, and the first few."""
    return f"{len(values)}: {some(values)}"


def numbers(values: np.ndarray[Any, Any]) -> str:
    """The first few numbers of an array (N,), with three digits."""
    first = [f"{value:.3g}" for value in values[:MAX_ITEMS]]
    return " ".join([*first, "…"] if len(values) > MAX_ITEMS else first)


def percent(share: float | None) -> str:
    """A share as "12.3 %", or "unknown" for None."""
    return "unknown" if share is None else f"{share:.1%}".replace("%", " %")


def counts(numbers_by_name: dict[str, int]) -> str:
    """The counts that are not zero, as "3 pending, 5 silent"; "none" where all are."""
    return ", ".join(f"{number} {name}" for name, number in numbers_by_name.items() if number) or "none"
