"""The state of a scale as a file holds it, and what must be true of it."""

from typing import Any

import numpy as np

from taciturn.kernels import scale
from taciturn.validate import LARGEST_SCALED

SMALLEST_UNIT = 1e-250
"""Numbers that differ by less are taken for equal: their inverse must be finite."""

SMALLEST_INVERSE = 1e-102
"""Units are below the inverse of this: numbers are of at most `LARGEST_SCALED`."""

MAX_BINS, MAX_BINS_EACH = 64, 8
"""How many bins there are in all and for a column; a wide table has none, because features cost their square."""

MAX_ROWS = 2**62

COUNTS = {
    "n_rows": "n_rows",
    "n_slots": "n_slots",
    "width": "width",
    "renewed_at": "_renewed_at",
    "binned_from": "binned_from",
}
"""Counts in a file, and the attributes that hold them."""

NO_BINS = scale.Bins(np.zeros(0, np.int32), np.zeros((0, MAX_BINS_EACH - 1)), np.zeros(0, np.int32))


TYPES = {
    "is_number": np.bool_,
    "present": np.int64,
    "missing": np.int64,
    "origin": np.float64,
    "total": np.float64,
    "squares": np.float64,
    "mean": np.float64,
    "inverse": np.float64,
    "slot": np.int32,
    "flag": np.int32,
    "flags_present": np.bool_,
}
"""What `ScaleState` holds of each column."""


def new_state(n_columns: int) -> scale.ScaleState:
    """Columns of which nothing is known."""
    state = scale.ScaleState(**{name: np.zeros(n_columns, dtype) for name, dtype in TYPES.items()})
    state.slot[:] = state.flag[:] = -1
    return state


def checked(state: dict[str, Any], n_columns: int, n_held: int) -> tuple[scale.ScaleState, scale.Bins]:
    """The columns and bins of a file; `ValueError` unless all is sound for so many columns and rows that are held."""
    for name, dtype in TYPES.items():
        held = state[name]
        if not isinstance(held, np.ndarray) or held.dtype != dtype or held.shape != (n_columns,):
            raise ValueError(f"the scale's {name} does not fit")
        if held.dtype.kind == "f" and not np.isfinite(held).all():
            raise ValueError(f"the scale's {name} is not finite")
    found = scale.ScaleState(**{name: state[name] for name in TYPES})
    if not all(type(state[name]) is int and 0 <= state[name] <= MAX_ROWS for name in COUNTS):
        raise ValueError("the scale's counts are not counts")
    if type(state["by_position"]) is not bool or type(state["constant"]) is not bool:
        raise ValueError("the scale's settings are not truth values")
    bins = scale.Bins(**state["bins"])
    _check_moments(found, state["n_rows"], n_held)
    _check_bins(bins, found)
    _check_slots(found, bins, state["n_slots"])
    if not state["n_slots"] <= max(state["width"], 1) <= 2 * state["n_slots"] + 32:
        raise ValueError("the width of the scale does not fit")
    if state["n_slots"] > 1 + 2 * n_columns + MAX_BINS:
        raise ValueError("the scale has too many slots")
    found.mean[~found.is_number], found.inverse[~found.is_number] = 0.0, 1.0  # files of before have 0 for both
    return found, bins


def _check_moments(state: scale.ScaleState, n_rows: int, n_held: int) -> None:
    """Raise `ValueError` unless counts fit together, and centers and units can be those of numbers in contexts."""
    counts = state.present, state.missing
    if n_rows < n_held or any((count < 0).any() or (count > n_rows).any() for count in counts):
        raise ValueError("the counts of the scale do not fit")
    if (state.present > n_rows - state.missing).any():
        raise ValueError("the counts of the scale do not fit")
    moments = state.origin, state.mean, state.total / max(n_rows, 1), np.sqrt(np.abs(state.squares) / max(n_rows, 1))
    if any((np.abs(moment) > 2 * LARGEST_SCALED).any() for moment in moments):
        raise ValueError("the moments of the scale are not allowed")
    units = state.inverse[state.inverse != 0]
    if not ((units >= SMALLEST_INVERSE) & (units <= 2.0 / SMALLEST_UNIT)).all():
        raise ValueError("the units of the scale are not allowed")


def _check_bins(bins: scale.Bins, state: scale.ScaleState) -> None:
    """Raise `ValueError` unless bins are of different numbers, with rising edges."""
    count = len(bins.columns)
    wanted = ((np.int32, (count,)), (np.float64, (count, MAX_BINS_EACH - 1)), (np.int32, (count,)))
    for held, (dtype, shape) in zip(bins, wanted, strict=True):
        if not isinstance(held, np.ndarray) or held.dtype != dtype or held.shape != shape:
            raise ValueError("the bins do not fit")
    inside = (bins.columns >= 0) & (bins.columns < len(state.slot))
    if count > MAX_BINS or not inside.all() or (np.diff(bins.columns) <= 0).any():
        raise ValueError("the columns of the bins are not sound")
    rising = (bins.edges[:, 1:] >= bins.edges[:, :-1]).all() and (bins.edges > -np.inf).all()  # false for NaN too
    if not state.is_number[bins.columns].all() or not rising or (bins.slots < 1).any():
        raise ValueError("the edges of the bins are not sound")


def _check_slots(state: scale.ScaleState, bins: scale.Bins, n_slots: int) -> None:
    """Raise `ValueError` unless every slot is used once, there are few others, and every word has one."""
    of_bins = (bins.slots[:, None] + np.arange(1 + np.isfinite(bins.edges).sum(axis=1).max(initial=0))).ravel()
    slots = np.concatenate([state.slot, state.flag, of_bins])
    used = slots[slots >= 0]
    if n_slots > 1 + len(used) - len(of_bins) + len(bins.slots) * MAX_BINS_EACH:
        raise ValueError("the scale has slots that nothing uses")
    if (slots < -1).any() or len(np.unique(used)) != len(used) or not ((used >= 1) & (used < n_slots)).all():
        raise ValueError("the slots of the scale are not sound")
    if (state.flag[~state.is_number] >= 0).any():
        raise ValueError("a column of the scale has a flag that is no number")
    if (state.slot[~state.is_number] < 0).any() or (state.slot[state.inverse > 0] < 0).any():
        raise ValueError("a column of the scale has no slot")
