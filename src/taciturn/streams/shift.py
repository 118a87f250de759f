"""Shifted features: what a context becomes once the features have drifted, whatever kind of context it is."""

import datetime as dt
from collections import Counter
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

    - Of arrays, of vectors within mappings and of a mapping's numbers, half of the columns that vary trade places, at
      least two, each on the scale of its new place: where x stood in column i, ``μ_j + (x − μ_i)·σ_j/σ_i`` stands in
      j, with the means μ and standard deviations σ over the data set. One column alone is mirrored, ``2μ − x``.
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
        trade = _trading_numbers(contexts, rng)
        changed, change = trade is not None, trade or np.array
    else:
        changes, numbers = _column_changes(dataset, rng)
        changed, change = bool(changes) or numbers is not None, partial(_changed_context, changes, numbers)
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


def _trading_numbers(numbers: NDArray[Any], rng: np.random.Generator) -> Change | None:
    """Return how half of the columns of numbers (N, D), NaN where missing, trade places in a row (D,).

    None where no column varies.
    """
    columns = np.asarray(numbers, np.float64).T
    known = [column[~np.isnan(column)] for column in columns]
    varying = [i for i, column in enumerate(known) if column.size and column.min() < column.max()]
    if not varying:
        return None
    traded = _traded(varying, rng) or {varying[0]: varying[0]}
    sources, places = (np.array(ends) for ends in zip(*traded.items(), strict=True))
    (source_means, source_spreads), (means, spreads) = (
        np.array([(known[i].mean(), known[i].std()) for i in ends]).T for ends in (sources, places)
    )
    gains = -np.ones(1) if len(varying) == 1 else spreads / source_spreads

    def change(row: NDArray[Any]) -> NDArray[np.float64]:
        moved = np.array(row, np.float64)
        moved[places] = means + (moved[sources] - source_means) * gains
        return moved

    return change


def _column_changes(
    dataset: Dataset, rng: np.random.Generator
) -> tuple[dict[tuple[Hashable, str], Change], Change | None]:
    """Return how the values of each column and kind change, for those that do, and how columns of numbers trade."""
    found: dict[tuple[Hashable, str], list[Any]] = {}
    for row, context in enumerate(dataset.contexts):
        for name, value in _named(context).items():
            kind = _kind(value)
            if kind == "other":
                raise InvalidData(
                    f"{dataset.name}: drift='features' cannot shift row {row}, column {name!r}, which holds a "
                    f"{type(value).__name__}; numbers, words, true or false, dates and lists of these are allowed"
                )
            if kind != "as it is":
                found.setdefault((name, kind), []).append(value)
    kinds = Counter(name for name, _ in found)
    names = [name for name, kind in found if kind == "number" and kinds[name] == 1]
    trade = _trading_numbers(np.array([_numbers(_named(context), names) for context in dataset.contexts]), rng)
    others = {column: values for column, values in found.items() if column[0] not in names}
    made = {column: CHANGES[column[1]](values, rng) for column, values in others.items()}
    changes = {column: change for column, change in made.items() if change is not None}
    return changes, None if trade is None else partial(_with_traded_numbers, names, trade)


def _numbers(context: Mapping[Hashable, Any], names: Sequence[Hashable]) -> list[float]:
    """Return the numbers of some columns, NaN where one is missing."""
    values: Iterable[Any] = (context.get(name) for name in names)
    return [np.nan if is_missing(value) else float(value) for value in values]


def _with_traded_numbers(
    names: Sequence[Hashable], trade: Change, context: Mapping[Hashable, Any]
) -> dict[Hashable, Any]:
    """Return a context whose columns of numbers have traded places; a missing number trades its place too."""
    before = _numbers(context, names)
    after = trade(before).tolist()
    moved = {name: new for name, old, new in zip(names, before, after, strict=True) if not _same(old, new)}
    return {**context, **{name: None if np.isnan(new) else new for name, new in moved.items()}}


def _same(old: float, new: float) -> bool:
    return old == new or (np.isnan(old) and np.isnan(new))


def _named(context: Any) -> Mapping[Hashable, Any]:
    """Return a context as a mapping; a plain text is that of one column."""
    return context if isinstance(context, Mapping) else {TEXT_COLUMN: context}


def _changed_context(changes: dict[tuple[Hashable, str], Change], numbers: Change | None, context: Any) -> Any:
    """Return the shifted context, of the kind that it was."""
    changed = {
        name: changes[name, _kind(value)](value) if (name, _kind(value)) in changes else value
        for name, value in _named(context).items()
    }
    if numbers is not None:
        changed = numbers(changed)
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
    """Return the change of numbers in a column that also holds other things, which trades with no other."""
    mirror = _trading_numbers(np.array(values, np.float64)[:, None], rng)
    return None if mirror is None else lambda value: float(mirror(np.array([value]))[0])


def _change_vectors(values: Sequence[Sequence[float]], rng: np.random.Generator) -> Change | None:
    """Return the change of vectors; where their lengths differ, the positions that all have trade places."""
    shortest = min(map(len, values))
    trade = _trading_numbers(np.array([vector[:shortest] for vector in values], np.float64), rng)
    return None if trade is None else lambda vector: trade(vector).tolist()


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
