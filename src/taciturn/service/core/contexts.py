"""Contexts in JSON: what they can be, how long and how deep, and how they become contexts of agents."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from taciturn.errors import InvalidContext
from taciturn.features.containers import TEXT_COLUMN
from taciturn.features.named import MAX_DEPTH
from taciturn.validate import shown

MAX_EXACT = 2**53
"""Integers up to here are exact in every JSON reader."""

MAX_NAME = 256
"""Characters of the name of a feature, that of its outer features included, and of a word: agents remember them."""

MAX_TEXT = 50_000
"""Characters of a text."""

JSONContext = list[float | None] | dict[str, float | str | bool | list[Any] | dict[str, Any] | None] | str
"""A context in a request: [values], {"feature": value}, {"indices": […], "values": […], "size": n} or a text."""


def parse_context(given: JSONContext) -> Any:
    """Convert a JSON context to a CSR matrix (1, size) where it is sparse; agents take the others as they are."""
    return _parse_sparse(given) if is_sparse(given) else given


def is_named(given: JSONContext) -> bool:
    """Whether a context has names, which open features: {"feature": value} or a text."""
    return not isinstance(given, list) and not is_sparse(given)


def is_sparse(given: JSONContext) -> bool:
    """Whether a context is {"indices": […], "values": […], "size": n}: no feature can be a list called indices."""
    return isinstance(given, dict) and isinstance(given.get("indices"), list)


def positions(given: JSONContext) -> int:
    """Number of features of a context without names, before it is validated; 0 for one with names."""
    if isinstance(given, list):
        return len(given)
    if not isinstance(given, dict) or not is_sparse(given):
        return 0
    size = given.get("size")
    return int(min(size, MAX_EXACT)) if isinstance(size, float) else 0


def count_values(given: JSONContext) -> int:
    """How many values a context has, nested ones included; `InvalidContext` for too long a name, word or text."""
    if isinstance(given, list):
        return len(given)
    if isinstance(given, str):
        _check_text(TEXT_COLUMN, given)
        return 1
    return max(positions(given), len(given["indices"])) if is_sparse(given) else _count_values(given, "", 1)  # type: ignore[arg-type]


def _count_values(given: dict[str, Any], prefix: str, depth: int) -> int:
    """How many values an object has, nested ones and items of lists included."""
    count = len(given)
    for key, value in given.items():
        name = prefix + key if prefix else key
        if len(name) > MAX_NAME:
            message = f"the name {shown(name[:40])}… of a feature has {len(name)} characters; {MAX_NAME} are allowed"
            raise InvalidContext(message, feature=name[:40] + "…")
        if type(value) is float:  # what most values are
            continue
        if isinstance(value, str):
            _check_text(name, value)
        elif isinstance(value, list):
            count += len(value)
            _check_items(name, value)
        elif isinstance(value, dict):
            if depth >= MAX_DEPTH:
                message = f"feature {name!r} is an object {depth + 1} deep; {MAX_DEPTH} are allowed"
                raise InvalidContext(message, feature=name)
            count += _count_values(value, name + ".", depth + 1)
        elif type(value) is int:
            _check_whole(name, value)
    return count


def _check_text(name: str, text: str) -> None:
    if len(text) > MAX_TEXT:
        message = f"feature {name!r} is a text of {len(text)} characters; {MAX_TEXT} are allowed"
        raise InvalidContext(message, feature=name)


def _check_items(name: str, items: list[Any]) -> None:
    """Raise unless all items of a list are words, numbers, truth values or null."""
    for position, item in enumerate(items):
        if isinstance(item, str) and len(item) > MAX_NAME:
            message = f"feature {name!r} has a word of {len(item)} characters; {MAX_NAME} are allowed"
            raise InvalidContext(message, feature=f"{name}[{position}]")
        if isinstance(item, list | dict):
            kind = "a list" if isinstance(item, list) else "an object"
            message = f"feature {name!r} is a list with {kind} in it; a list of words or of numbers is needed"
            raise InvalidContext(message, feature=f"{name}[{position}]")
        if type(item) is int:
            _check_whole(f"{name}[{position}]", item)


def _check_whole(name: str, value: int) -> None:
    if abs(value) > MAX_EXACT:
        message = f"feature {name!r} is {shown(value)}; a whole number from -2^53 to 2^53 is needed, or text"
        raise InvalidContext(message, feature=name)


def check_words(given: JSONContext, kinds: Mapping[Any, str]) -> None:
    """Raise `InvalidContext` for a word that is too long, since agents remember it: a text has several, or is so named.

    `kinds` are those of the agent's columns.
    """
    if is_named(given):
        for name, text in _texts({TEXT_COLUMN: given} if isinstance(given, str) else given, ""):  # type: ignore[arg-type]
            if len(text) > MAX_NAME and kinds.get(name) != "text" and len(text.split()) == 1:
                message = f"feature {name!r} is a word of {len(text)} characters; {MAX_NAME} are allowed"
                raise InvalidContext(f"{message}, or the column is named in features.text", feature=name)


def _texts(given: dict[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """The names and values of all features that are strings."""
    for key, value in given.items():
        if isinstance(value, str):
            yield prefix + key, value
        elif isinstance(value, dict):
            yield from _texts(value, f"{prefix}{key}.")


def _parse_sparse(given: Any) -> sp.csr_matrix:
    if given.keys() != {"indices", "values", "size"}:
        raise InvalidContext(f"a sparse context has indices, values and size, not {', '.join(given)}"[:300])
    indices, values, size = given["indices"], given["values"], given["size"]
    if not isinstance(values, list) or len(values) != len(indices):
        raise InvalidContext("a sparse context needs as many values as indices")
    if not isinstance(size, float) or not 0 < size <= np.iinfo(np.int32).max or size != int(size):
        raise InvalidContext(f"size {shown(size)} of a sparse context is not allowed; a whole number from 1 is")
    columns, data = _numbers(indices), _numbers([np.nan if value is None else value for value in values])
    if len(columns) and not ((columns >= 0) & (columns < size) & (columns == np.floor(columns))).all():
        raise InvalidContext(f"indices of a sparse context are whole numbers from 0 to {int(size) - 1}")
    return sp.csr_matrix((data, columns.astype(np.int32), [0, len(columns)]), shape=(1, int(size)))


def _numbers(items: list[Any]) -> Any:
    """The items of a list as floats; `InvalidContext` unless they are numbers."""
    if not all(type(item) in (int, float) for item in items):
        raise InvalidContext("the indices and values of a sparse context are numbers; a value can be null")
    try:
        return np.array(items, float)
    except OverflowError:
        raise InvalidContext("the indices and values of a sparse context are numbers of at most 1e100") from None
