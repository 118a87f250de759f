"""Checks that more than one room makes of what users give."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import InvalidData, TaciturnError

LARGEST = 1e15
"""The largest feature that is taken: beyond it, squares and single precision lose all meaning."""


def check_number(name: str, value: object, low: float, high: float = math.inf, *, whole: bool = False) -> None:
    """Raise unless a parameter is a finite number, or a whole one, from `low` to `high`."""
    good = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not good or not math.isfinite(number := float(value)) or not low <= number <= high:  # type: ignore[arg-type]
        what = "a whole number" if whole else "a number"
        limits = f"from {low:g} to {high:g}" if high < math.inf else f"from {low:g}"
        raise TaciturnError(f"{name}={value!r} is not allowed; {what} {limits} is")


def check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise unless a parameter is one of a few values."""
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in allowed):
        raise TaciturnError(f"{name}={value!r} is not allowed; {' or '.join(map(repr, allowed))} is")


def arm_places(y: Any, rows: int, arms: int) -> NDArray[np.int64]:
    """The right arm of each row (N,), as its place among the arms."""
    places = np.asarray(y)
    if arms < 2:
        raise InvalidData(f"there must be at least 2 arms, not {arms}")
    if places.shape != (rows,):
        raise InvalidData(f"{rows} rows of features and labels of shape {places.shape}; each row needs one")
    if not np.issubdtype(places.dtype, np.integer) or (places < 0).any() or (places >= arms).any():
        raise InvalidData(f"y holds something else than places of the {arms} arms, 0 to {arms - 1}")
    return places.astype(np.int64)


def undirected_edges(edges: Any, rows: int) -> NDArray[np.int64]:
    """Pairs of rows (E, 2), each once, smaller number first, without loops; raise where one does not exist."""
    try:
        pairs = np.asarray(edges)
    except ValueError:  # ragged
        pairs = np.asarray(None)
    if pairs.size == 0 and pairs.ndim <= 2:
        return np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InvalidData(f"edges have shape {pairs.shape} and type {pairs.dtype}; pairs of row numbers are needed")
    wrong = ((pairs < 0) | (pairs >= rows)).any(axis=1)
    if wrong.any():
        edge = pairs[wrong][0].tolist()
        raise InvalidData(f"edge {edge} names a row that does not exist; there are 0 to {rows - 1}")
    pairs = np.sort(pairs.astype(np.int64), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
