"""Numbers of any unit on a common scale: kernels of `features.scale`.

A raw row has a value x_j for some columns. A column of numbers has the scale ``z_j = (x_j − μ_j) · i_j``; other columns
keep their value. The scaled row has a slot for each z_j that ever differed from zero, one for each flag that says where
a number is missing, the slot 0 for a constant 1, and slots for the bins of some columns (`Bins`). Here is how such rows
are described; `kernels.scale_rows` makes them, and `scale_full` those that have everything and nothing odd.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]
Flags = NDArray[np.bool_]

BELOW = 1 - 1e-9
"""Numbers that are within the bound by so much are so however it is rounded."""

CONSTANT = np.zeros(1, np.int32)
"""The slot of the constant."""


class ScaleState(NamedTuple):
    """What is known of C columns."""

    is_number: Flags
    present: Ints  # how many rows had a value; zeros of a row by position do not count
    missing: Ints  # how many rows by position had NaN
    origin: Floats  # the first value: sums are taken of differences from it, so that nothing cancels
    total: Floats  # Σ (x − origin)
    squares: Floats  # Σ (x − origin)²
    mean: Floats  # μ
    inverse: Floats  # i, 0 while all values were equal; a column that is no number has μ = 0 and i = 1
    slot: Columns  # of z, −1 where there is none
    flag: Columns  # the slot of the flag of a number, −1 where there is none
    flags_present: Flags  # whether the flag is 1 where there is a value, otherwise where there is none


class Bins(NamedTuple):
    """Columns of numbers that are also told apart by where they fall."""

    columns: Columns  # (M,), rising
    edges: Floats  # (M, B−1): bin b has edges[b−1] < x ≤ edges[b]; rising, with +∞ where there are fewer
    slots: Columns  # (M,): of the first bin


class Layout(NamedTuple):
    """What a scaled row has beside the values of its columns. Columns rise."""

    bins: Bins
    n_columns: int
    expected: Columns  # of which an absent value matters: it is flagged or, with `zeros`, its z is not 0
    watched: Columns  # that all rows had so far; with `zeros`, that had one value so far, which is not 0
    far_zeros: Columns  # where 0 is an outlier
    flagged: bool  # whether some column has a flag
    constant: bool  # whether there is the constant entry
    zeros: bool  # whether an absent value is the number 0; otherwise it is missing


def observe(state: ScaleState, columns: Columns, values: Floats, sign: int) -> None:
    """Count a row in (`sign` 1) or out (−1) of the moments; in place."""
    _observe(*state[:6], columns, values, sign)


@kernel
def _observe(
    is_number: Flags,
    present: Ints,
    missing: Ints,
    origin: Floats,
    total: Floats,
    squares: Floats,
    columns: Columns,
    values: Floats,
    sign: int,
) -> None:
    for entry in range(columns.shape[0]):
        j, x = columns[entry], values[entry]
        if not is_number[j]:
            continue
        if math.isnan(x):
            missing[j] += sign
            continue
        if present[j] == 0 and sign > 0:
            origin[j], total[j], squares[j] = x, 0.0, 0.0
        present[j] += sign
        difference = x - origin[j]
        total[j] += sign * difference
        squares[j] += sign * difference * difference


class Full(NamedTuple):
    """How rows with a value in every column are scaled, if none is an outlier, missing or at its mean.

    All of them have the same slots, except that a bin is somewhere in the range of its column.
    """

    mean: Floats  # (C,)
    inverse: Floats  # (C,)
    bins: Bins
    ones: Floats  # (1, n): for the constant, flags and bins
    slots: Columns  # of z, the constant, flags and bins, (1, W)
    order: Ints  # in which slots rise (W,)


def full(state: ScaleState, layout: Layout) -> Full:
    """What `scale_full` needs; it holds until the state or the layout changes."""
    n = layout.n_columns
    flagged = (state.flag[:n] >= 0) & state.flags_present[:n]
    others = (CONSTANT[: layout.constant], state.flag[:n][flagged], layout.bins.slots)
    slots = np.concatenate((state.slot[:n], *others))
    ones = np.ones((1, len(slots) - n))
    return Full(state.mean[:n], state.inverse[:n], layout.bins, ones, slots[None], slots.argsort())


def scale_full(full: Full, values: Floats, most: float) -> tuple[Columns, Floats] | None:
    """Slots (n, W) and values (n, W) of rows (n, C), or None unless all are as `Full` says."""
    _, _, bins, _, slots, order = full
    scaled = standardized(full, values)
    sizes = np.abs(scaled)
    if not (sizes.item(sizes.argmax()) < most * BELOW and sizes.item(sizes.argmin()) > 0.0):  # false for NaN too
        return None
    n = len(values)
    if len(bins.columns):
        below = np.add.reduce(bins.edges < values.take(bins.columns, axis=1)[:, :, None], axis=2, dtype=np.int32)
        fixed = slots[:, : -len(bins.columns)]
        slots = np.concatenate((fixed if n == 1 else fixed.repeat(n, axis=0), below + bins.slots), axis=1)
    elif n > 1:
        slots = slots.repeat(n, axis=0)
    return slots.take(order, axis=1), in_slots(full, scaled)


@np.errstate(over="ignore")  # of outliers
def standardized(full: Full, values: Floats) -> Floats:
    """``z`` (n, C) of rows (n, C)."""
    scaled = values - full.mean
    scaled *= full.inverse
    return scaled


def in_slots(full: Full, scaled: Floats) -> Floats:
    """The values (n, W) of rows of ``z`` (n, C), with ones for all that rows have beside them."""
    n = len(scaled)
    return np.concatenate((scaled, full.ones if n == 1 else full.ones.repeat(n, axis=0)), axis=1).take(
        full.order, axis=1
    )


@kernel
def distances_from(rows: CSR, centers: Floats, zeros: bool) -> tuple[Ints, Ints, Floats]:  # noqa: FBT001
    """For each column: how many values there are, how many of them are its center (C,), and ``Σ (x − center)²``.

    With `zeros` an entry that a row does not have is the value 0. Columns whose center is NaN have no result.
    """
    indptr, columns, values = rows
    n_columns, n_rows = centers.shape[0], indptr.shape[0] - 1
    count, equal = np.zeros(n_columns, np.int64), np.zeros(n_columns, np.int64)
    stored, squares = np.zeros(n_columns, np.int64), np.zeros(n_columns)
    for entry in range(indptr[0], indptr[n_rows]):
        j, x = columns[entry], values[entry]
        stored[j] += 1
        if not np.isnan(x) and not np.isnan(centers[j]):
            count[j] += 1
            equal[j] += x == centers[j]
            squares[j] += (x - centers[j]) ** 2
    if zeros:
        for j in range(n_columns):
            implied = n_rows - stored[j]
            count[j] += implied
            if centers[j] == 0.0:
                equal[j] += implied
            elif not np.isnan(centers[j]):
                squares[j] += implied * centers[j] ** 2
    return count, equal, squares
