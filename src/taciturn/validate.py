"""Checks of user input that several packages share."""

import re
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import InvalidData, TaciturnError

LARGEST = 1e15
"""The largest absolute value of a feature; it keeps sums of squares within the range of single precision."""

LARGEST_SCALED = 1e100
"""The same where features are scaled, which takes squares of them in double precision."""

MANY = 1_000_000_000
"""An upper bound for counts of decisions, steps and the like, which nobody reaches."""

LARGEST_SEED = 2**128 - 1

AGENT_NAME = re.compile("^[a-z0-9][a-z0-9_-]{0,63}$")
"""The names that an agent of a service can have."""

WHOLE = (int, np.integer)
NUMBER = (*WHOLE, float, np.floating)


def check_number(name: str, value: object, low: float, high: float, *, whole: bool = False) -> None:
    """Raise unless a parameter is a number from `low` to `high`, and an integer where `whole`."""
    is_number = isinstance(value, WHOLE if whole else NUMBER) and not isinstance(value, bool)
    number: Any = float(value) if isinstance(value, np.floating) else value  # a float32 overflows where it is compared
    if not is_number or not low <= number <= high:  # false for NaN too
        what = "a whole number" if whole else "a number"
        raise TaciturnError(f"{name}={shown(value)} is not allowed; {what} from {low:g} to {high:g} is")


def shown(value: object) -> str:
    """A value as one short line for an error."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"(a whole number of {value.bit_length()} bits)"
    try:
        return " ".join(repr(value).split())[:100]
    except ValueError:  # it holds a whole number of more digits than Python writes
        return f"(a {type(value).__name__} with a very large number)"


def check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise unless a parameter is one of the allowed values."""
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in allowed):
        raise TaciturnError(f"{name}={shown(value)} is not allowed; {' or '.join(map(repr, allowed))} is")


def base_address(url: str) -> str | None:
    """An address of HTTP to which a path can be added, without a slash at its end; None if this is not one.

    One with a user, a password or a query is not. An error about it should not show it: a key may be there by mistake.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    plain = url.isascii() and url.isprintable() and not any(character in url for character in " ?#@")
    return url.rstrip("/") if valid and plain else None


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


def arm_values(name: str, values: Any, rows: int, arms: int, low: float, high: float) -> NDArray[np.float64]:
    """Return values (N, K) as float64; raise unless there is one from `low` to `high` for each row and arm."""
    array = np.asarray(values)
    if array.shape != (rows, arms) or array.dtype.kind not in "biuf":
        raise InvalidData(
            f"{name} have shape {array.shape} and type {array.dtype}; ({rows}, {arms}) numbers are needed"
        )
    floats = array.astype(np.float64)
    wrong = np.argwhere(~((floats >= low) & (floats <= high)))
    if len(wrong):
        row, arm = wrong[0].tolist()
        raise InvalidData(
            f"{name} of row {row}, arm {arm} are {floats[row, arm]:g}; from {low:g} to {high:g} is allowed"
        )
    return floats


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
