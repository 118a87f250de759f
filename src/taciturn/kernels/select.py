"""What every decision passes through: numbers checked on the way in, an arm picked on the way out."""

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import kernel

Floats = NDArray[np.float64]


@kernel
def first_invalid(values: Floats, largest: float) -> int:
    """The place of the first number that is not finite or larger than allowed, or −1."""
    for i in range(values.shape[0]):
        if not abs(values[i]) <= largest:  # false for NaN too
            return i
    return -1


@kernel
def nonzeros(dense: Floats) -> tuple[NDArray[np.int32], Floats]:
    """The places and values of all entries of a row (D,) that are not zero; NaN is not."""
    count = 0
    for c in range(dense.shape[0]):
        count += dense[c] != 0.0
    columns, values = np.empty(count, np.int32), np.empty(count)
    place = 0
    for c in range(dense.shape[0]):
        if dense[c] != 0.0:
            columns[place], values[place] = c, dense[c]
            place += 1
    return columns, values


@kernel
def argmax_tied(bounds: Floats, tie: float, times_chosen: NDArray[np.int64], balance: bool) -> int:  # noqa: FBT001 - numba
    """The first arm whose bound (K,) is highest up to `tie`, relatively; with `balance`, of those the least chosen.

    −1 where no bound is a number to compare with.
    """
    top = bounds.max()
    enough = top - tie * abs(top)
    arm = -1
    for k in range(bounds.shape[0]):
        if bounds[k] >= enough and (arm < 0 or (balance and times_chosen[k] < times_chosen[arm])):
            arm = k
    return arm
