"""Checks of user input that several packages share."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import InvalidData, TaciturnError

LARGEST = 1e15
"""The largest absolute value of a feature; it keeps sums of squares within the range of single precision."""


def check_number(name: str, value: object, low: float, high: float = math.inf, *, whole: bool = False) -> None:
    """Raise unless a parameter is a finite number from `low` to `high`, and an integer where `whole`."""
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(number := float(value)) or not low <= number <= high:  # type: ignore[arg-type]
        what = "a whole number" if whole else "a number"
        limits = f"from {low:g} to {high:g}" if high < math.inf else f"from {low:g}"
        raise TaciturnError(f"{name}={value!r} is not allowed; {what} {limits} is")


def check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise unless a parameter is one of the allowed values."""
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in allowed):
        raise TaciturnError(f"{name}={value!r} is not allowed; {' or '.join(map(repr, allowed))} is")


def arm_indices(y: Any, rows: int, arms: int) -> NDArray[np.int64]:
    """Return y (N,) as int64; raise unless it holds one index of an arm for each row."""
    indices = np.asarray(y)
    if arms < 2:
        raise InvalidData(f"there must be at least 2 arms, not {arms}")
    if indices.shape != (rows,):
        raise InvalidData(f"{rows} rows of features and labels of shape {indices.shape}; each row needs one")
    if not np.issubdtype(indices.dtype, np.integer) or (indices < 0).any() or (indices >= arms).any():
        raise InvalidData(f"y must hold indices of the {arms} arms, 0 to {arms - 1}")
    return indices.astype(np.int64)


def undirected_edges(edges: Any, rows: int) -> NDArray[np.int64]:
    """Return pairs of row indices (E, 2), each once, smaller first, without loops; raise where a row does not exist."""
    try:
        pairs = np.asarray(edges)
    except ValueError:  # ragged
        pairs = np.asarray(None)
    if pairs.size == 0 and pairs.ndim <= 2:
        return np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InvalidData(f"edges have shape {pairs.shape} and type {pairs.dtype}; pairs of row indices are needed")
    wrong = ((pairs < 0) | (pairs >= rows)).any(axis=1)
    if wrong.any():
        edge = pairs[wrong][0].tolist()
        raise InvalidData(f"edge {edge} names a row that does not exist; there are 0 to {rows - 1}")
    pairs = np.sort(pairs.astype(np.int64), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
