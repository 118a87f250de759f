"""What was made of each column of a data set."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taciturn.contracts import Dataset
from taciturn.datasets.table import Column, Table
from taciturn.features.schema import ISO_DATE

BECOMES = {
    "number": "a column, brought to a common scale",
    "category": "a column for each value",
    "text": "a column for each word and pair of words",
    "flag": "a column of 0 and 1",
    "date": "columns for day, weekday, time of day and of year",
    "tags": "a column for each tag",
    "vector": "a column for each number",
    "empty": "nothing: it is left out",
}
"""What agents make of a column of each kind, unless they are told otherwise or rows are scaled."""

SAID_AS = {"category": "categorical", "text": "text"}
"""The argument of `Features` that names columns of these kinds."""

SHOWN_LENGTH, SHOWN_VALUES = 40, 3


class ColumnFacts(NamedTuple):
    """A column: its kind, how many distinct values and missing cells it has, and what agents make of it.

    `low` and `high` are the range of numbers and dates; `examples` are the most frequent of other values. Of lists,
    values are counted one by one.
    """

    name: str
    kind: str
    distinct: int
    missing: int
    low: float | str | None
    high: float | str | None
    examples: list[str]
    becomes: str


def describe(data: Dataset, at_most: int | None = None) -> list[ColumnFacts]:
    """Return the facts of the first `at_most` columns, or of all."""
    return [_facts(column) for column in islice(_columns(data), at_most)]


def n_columns(data: Dataset) -> int:
    """Return the number of columns of the file, array or frame."""
    if isinstance(data.contexts, Table):
        return len(data.contexts.columns)
    return 1 if isinstance(data.contexts, list) else int(data.X.shape[1])


def _columns(data: Dataset) -> Iterator[Column]:
    contexts: Any = data.contexts
    if isinstance(contexts, Table):
        yield from contexts.columns
    elif isinstance(contexts, list):
        yield Column((data.features or ["text"])[0], "text", contexts)
    else:
        by_column = sp.csc_matrix(contexts) if sp.issparse(contexts) else contexts
        for c in range(by_column.shape[1]):
            values = by_column[:, [c]].toarray().ravel() if sp.issparse(contexts) else by_column[:, c]
            yield Column(data.features[c] if data.features else str(c), "number", values)


def _facts(column: Column) -> ColumnFacts:
    missing, becomes = column.missing, _becomes(column)
    if isinstance(column.values, list):
        counts = Counter(_words(column))
        dates = sorted(counts, key=str) if column.kind == "date" else []
        low, high = (str(dates[0]), str(dates[-1])) if dates else (None, None)
        examples = [] if dates else [_short(value) for value, _ in counts.most_common(SHOWN_VALUES)]
        return ColumnFacts(column.name, column.kind, len(counts), missing, low, high, examples, becomes)
    present = column.values[~np.isnan(column.values)]
    span = (float(present.min()), float(present.max()))
    return ColumnFacts(column.name, column.kind, len(np.unique(present)), missing, *span, [], becomes)


def _becomes(column: Column) -> str:
    becomes = BECOMES[column.kind]
    if column.missing and column.kind != "empty":
        becomes += ", and one that says that it is missing"
    if column.kind in SAID_AS and any(value is not None and ISO_DATE.fullmatch(value) for value in column.values):
        # An agent judges a column by its first value, and would refuse the words after a date.
        becomes += f"; some cells are dates, so say features=Features({SAID_AS[column.kind]}=[{column.name!r}])"
    return becomes


def _words(column: Column) -> Iterator[Any]:
    """Yield the values of a column that are there; of lists, each item."""
    for value in column.values:
        if value is not None:
            yield from value if isinstance(value, list) else [value]


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"
