"""Contexts as the library takes them, in the form that JSON can hold."""

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from taciturn.errors import InvalidContext
from taciturn.features.containers import all_contexts, one_context
from taciturn.features.schema import TAKEN, is_missing
from taciturn.validate import shown

MAX_EXACT = 2**53
"""Integers up to here are exact in every JSON reader."""


def json_context(x: Any) -> Any:
    """A context as a list of numbers, {name: value} or {"indices", "values", "size"}; null where a value is missing."""
    given = one_context(x)
    if sp.issparse(given):
        return {"indices": given.indices.tolist(), "values": _numbers(given.data), "size": int(given.shape[-1])}
    if isinstance(given, Mapping):
        return {str(name): _value(str(name), value) for name, value in given.items()}
    return _numbers(given)


def json_contexts(X: Any) -> list[Any]:
    """The contexts of a batch: the rows of a matrix, frame or table, or the items of a list."""
    rows = []
    for i, x in enumerate(all_contexts(X)):
        try:
            rows.append(json_context(x))
        except InvalidContext as error:
            raise InvalidContext(f"row {i}: {error}", feature=error.feature, row=i) from None
    return rows


def _numbers(array: Any) -> list[float | None]:
    floats = np.asarray(array, float)
    if np.isinf(floats).any():
        at = int(np.isinf(floats).argmax())
        raise InvalidContext(f"the context holds {floats[at]} at feature {at}; a finite number is needed")
    values: list[float | None] = floats.tolist()
    return [None if value != value else value for value in values] if np.isnan(floats).any() else values  # noqa: PLR0124 - NaN


def _value(name: str, value: Any) -> Any:
    """The value of a feature; a date becomes ISO text, a duration seconds."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(inner): _value(f"{name}.{inner}", item) for inner, item in value.items()}
    if isinstance(value, set | frozenset):  # in one order, so that equal requests are equal
        return [_value(name, item) for item in sorted(value, key=str)]
    if isinstance(value, list | tuple | np.ndarray):
        return [_value(name, item) for item in value]
    if is_missing(value):
        return None
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[us]"))
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    return _number(name, value.item() if isinstance(value, np.generic) else value)


def _number(name: str, value: Any) -> float:
    try:
        number = float(value) if isinstance(value, Decimal | Fraction) else value
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if not isinstance(number, int | float):
        message = f"feature {name!r} is {shown(value)} ({type(value).__name__}); {TAKEN} is needed"
        raise InvalidContext(message, feature=name)
    if isinstance(number, int) and abs(number) > MAX_EXACT:
        message = f"feature {name!r} is {shown(number)}; a whole number from -2^53 to 2^53 is needed, or text"
        raise InvalidContext(message, feature=name)
    if not math.isfinite(number):
        raise InvalidContext(f"feature {name!r} is {number}; a finite number is needed", feature=name)
    return number
