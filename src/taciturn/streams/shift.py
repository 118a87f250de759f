"""Shifted features: what a context becomes once the features have drifted, whatever kind of context it is."""

import datetime as dt
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import Dataset
from taciturn.errors import InvalidData
from taciturn.features.containers import TEXT_COLUMN
from taciturn.features.schema import is_missing
from taciturn.features.text import WORD
from taciturn.streams.drift import derangement

Change = Callable[[Any], Any]
"""Takes a value, or a context, and returns what it becomes."""


def shift_of(dataset: Dataset, rng: np.random.Generator) -> Change:
    """Return what a data set's features drift by: a function from a context, or rows of a CSR matrix, to the shifted.

    - Numbers of arrays, mappings and vectors within mappings move by ``z·σ``, with z of the standard normal
      distribution, one for each column, and σ the column's standard deviation over the data set.
    - Of a CSR matrix, half of the columns trade places: the values of one stand in another.
    - Of words, categories, tags and flags, half of a column's distinct values, at least two, trade places: from then on
      one is said where another was meant. Of text, these are its words.
    - Dates and missing values stay as they are.

    Raise `InvalidData` for other values, and where nothing would change.
    """
    contexts: Any = dataset.contexts
    if sp.issparse(contexts):
        changed, change = _trading_columns(contexts.shape[1], rng)
    elif isinstance(contexts, np.ndarray):
        offsets = _offsets(contexts, rng)
        changed, change = bool(offsets.any()), partial(np.add, offsets)
    else:
        changes = _column_changes(dataset, rng)
        changed, change = bool(changes), partial(_changed_context, changes)
    if not changed:
        raise InvalidData(f"{dataset.name}: drift='features' needs a column of two different values; there is none")
    return change


def _trading_columns(n: int, rng: np.random.Generator) -> tuple[bool, Change]:
    """Return whether half of n columns can trade places, and the function that does so to rows of a CSR matrix."""
    traded = _traded(range(n), rng)
    places = np.array([traded.get(column, column) for column in range(n)], np.int32)

    def change(rows: sp.csr_matrix) -> sp.csr_matrix:
        moved = sp.csr_matrix((rows.data.copy(), places[rows.indices], rows.indptr), shape=rows.shape)
        moved.sort_indices()
        return moved

    return bool(traded), change


def _traded(values: Iterable[Any], rng: np.random.Generator) -> dict[Any, Any]:
    """Return which value stands for which other one: half of the distinct ones, at least two; none of fewer."""
    distinct = sorted(set(values), key=lambda value: (str(type(value)), value))
    if len(distinct) < 2:
        return {}
    chosen = rng.permutation(len(distinct))[: max(2, len(distinct) // 2)]
    others = chosen[derangement(len(chosen), rng)]
    return {distinct[one]: distinct[other] for one, other in zip(chosen, others, strict=True)}


def _offsets(numbers: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return z·σ for each column (D,) of numbers (N, D), NaN where missing."""
    known = [column[~np.isnan(column)] for column in np.asarray(numbers, np.float64).T]
    spreads = np.array([column.std() if column.size else 0.0 for column in known])
    return np.asarray(rng.standard_normal(len(known)) * spreads)


def _column_changes(dataset: Dataset, rng: np.random.Generator) -> dict[tuple[Hashable, str], Change]:
    """Return how the values of each column and kind change, for those that do."""
    found: dict[tuple[Hashable, str], list[Any]] = {}
    for row, context in enumerate(dataset.contexts):
        for name, value in _named(context).items():
            kind = _kind(value)
            if kind == "other":
                raise InvalidData(
                    f"{dataset.name}: drift='features' cannot shift row {row}, column {name!r}, which holds a "
                    f"{type(value).__name__}; numbers, words, true or false, dates and lists of these are allowed"
                )
            if kind in CHANGES:
                found.setdefault((name, kind), []).append(value)
    made = {column: CHANGES[column[1]](values, rng) for column, values in found.items()}
    return {column: change for column, change in made.items() if change is not None}


def _named(context: Any) -> Mapping[Hashable, Any]:
    """Return a context as a mapping; a plain text is that of one column."""
    return context if isinstance(context, Mapping) else {TEXT_COLUMN: context}


def _changed_context(changes: dict[tuple[Hashable, str], Change], context: Any) -> Any:
    """Return the shifted context, of the kind that it was."""
    changed = {
        name: changes[name, _kind(value)](value) if (name, _kind(value)) in changes else value
        for name, value in _named(context).items()
    }
    return changed if isinstance(context, Mapping) else changed[TEXT_COLUMN]


def _kind(value: Any) -> str:
    """Return the kind of a value: one of `CHANGES`, "as it is", or "other" for what cannot be shifted."""
    if isinstance(value, list | tuple | np.ndarray):
        kinds = {_kind(item) for item in value if not is_missing(item)}
        return LISTS.get("".join(kinds), "other")
    if isinstance(value, bool | np.bool_):
        return "flag"
    if is_missing(value) or isinstance(value, dt.date):
        return "as it is"
    if isinstance(value, str):
        return "word"
    return "number" if isinstance(value, Real) else "other"


def _change_numbers(values: Sequence[float], rng: np.random.Generator) -> Change | None:
    (offset,) = _offsets(np.array(values, np.float64)[:, None], rng).tolist()
    return (lambda value: value + offset) if offset else None


def _change_vectors(values: Sequence[Sequence[float]], rng: np.random.Generator) -> Change | None:
    """Return the change of vectors, each position of its own; where their lengths differ, those that are there."""
    padded = np.full((len(values), max(map(len, values))), np.nan)
    for row, vector in zip(padded, values, strict=True):
        row[: len(vector)] = vector
    offsets = _offsets(padded, rng)
    return (lambda vector: (np.array(vector, float) + offsets[: len(vector)]).tolist()) if offsets.any() else None


def _change_flags(values: Sequence[bool], rng: np.random.Generator) -> Change | None:
    traded = _traded(map(bool, values), rng)
    return traded.__getitem__ if traded else None


def _change_words(values: Sequence[str], rng: np.random.Generator) -> Change | None:
    """Return the change of text where a value has several words, as agents decide it, otherwise of categories."""
    if any(len(value.split()) > 1 for value in values):
        traded = _traded((word.casefold() for value in values for word in WORD.findall(value)), rng)
        change: Change = lambda value: WORD.sub(lambda word: traded.get(word[0].casefold(), word[0]), value)  # noqa: E731
    else:
        traded = _traded(values, rng)
        change = lambda value: traded.get(value, value)  # noqa: E731
    return change if traded else None


def _change_tags(values: Sequence[Sequence[str]], rng: np.random.Generator) -> Change | None:
    traded = _traded((tag for tags in values for tag in tags if not is_missing(tag)), rng)
    return (lambda tags: [traded.get(tag, tag) for tag in tags]) if traded else None


CHANGES: dict[str, Callable[[Any, np.random.Generator], Change | None]] = {
    "number": _change_numbers,
    "vector": _change_vectors,
    "flag": _change_flags,
    "word": _change_words,
    "tags": _change_tags,
}
"""How the change of each kind is made from a column's values; None where nothing changes."""

LISTS = {"": "as it is", "word": "tags", "number": "vector"}
"""The kind of a list by that of its items."""
