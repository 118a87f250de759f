"""Kernels at both ends of a decision: check and sparsify the context, then select an arm."""

import math

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import kernel

Floats = NDArray[np.float64]


@kernel
def first_invalid(values: Floats, largest: float, nan: bool) -> int:  # noqa: FBT001 - numba
    """Return the index of the first value with ``|value| > largest``, or NaN unless `nan`; −1 if all are valid."""
    for i in range(values.shape[0]):
        if not abs(values[i]) <= largest and not (nan and math.isnan(values[i])):  # false for NaN too
            return i
    return -1


@kernel
def is_sound_row(columns: NDArray[np.int32], values: Floats, width: int, largest: float, nan: bool) -> bool:  # noqa: FBT001
    """Return whether columns rise from 0 to below `width`, and all values are valid as in `first_invalid`."""
    before = -1
    for i in range(columns.shape[0]):
        if columns[i] <= before or columns[i] >= width:
            return False
        if not abs(values[i]) <= largest and not (nan and math.isnan(values[i])):
            return False
        before = columns[i]
    return True


def nonzeros(dense: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Return the indices and values of the nonzero entries of a row (D,); NaN counts as nonzero."""
    columns = dense.nonzero()[0]
    return columns.astype(np.int32), dense.take(columns)


@kernel
def argmax_tied(bounds: Floats, tie: float, times_chosen: NDArray[np.int64], balance: bool) -> int:  # noqa: FBT001 - numba
    """Return the arm with the highest of the upper bounds (K,), or −1 if one of them is NaN or +infinite.

    Bounds of at least ``max − tie·|max|`` tie with the maximum. The first tied arm is returned; with `balance`, the
    first of the tied arms that were chosen least often (``times_chosen`` (K,)).
    """
    highest = bounds[0]
    for k in range(1, bounds.shape[0]):
        if bounds[k] > highest or math.isnan(bounds[k]):  # NaN stays the highest
            highest = bounds[k]
    threshold = highest - tie * abs(highest)
    arm = -1
    for k in range(bounds.shape[0]):
        if bounds[k] >= threshold and (arm < 0 or (balance and times_chosen[k] < times_chosen[arm])):
            arm = k
    return arm
