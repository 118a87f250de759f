"""Numbers of any unit on a common scale: kernels of `features.scale`.

A raw row has a value x_j for some columns. A column of numbers has the scale ``z_j = (x_j − μ_j) · i_j``; other columns
keep their value. The scaled row has a slot for each z_j that ever differed from zero, one for each flag that says where
a number is missing, the slot 0 for a constant 1, and slots for the bins of some columns (`Bins`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]
Flags = NDArray[np.bool_]


class ScaleState(NamedTuple):
    """What is known of C columns."""

    is_number: Flags
    present: Ints  # how many rows had a value; zeros of a row by position do not count
    missing: Ints  # how many rows by position had NaN
    origin: Floats  # the first value: sums are taken of differences from it, so that nothing cancels
    total: Floats  # Σ (x − origin)
    squares: Floats  # Σ (x − origin)²
    mean: Floats  # μ
    inverse: Floats  # i, 0 while all values were equal
    slot: Columns  # of z, −1 where there is none
    flag: Columns  # the slot of the flag, −1 where there is none
    flags_present: Flags  # whether the flag is 1 where there is a value, otherwise where there is none


class Bins(NamedTuple):
    """Columns of numbers that are also told apart by where they fall."""

    columns: Columns  # (M,), rising
    edges: Floats  # (M, B−1): bin b has edges[b−1] < x ≤ edges[b]; rising, with +∞ where there are fewer
    slots: Columns  # (M,): of the first bin


class Layout(NamedTuple):
    """What a scaled row has beside the values of its columns. Columns rise."""

    bins: Bins
    expected: Columns  # of which an absent value matters: it is flagged or, with `zeros`, its z is not 0
    watched: Columns  # that all rows had so far; with `zeros`, that had one value so far, which is not 0
    far_zeros: Columns  # where 0 is an outlier
    constant: bool  # whether there is the constant entry
    zeros: bool  # whether an absent value is the number 0; otherwise it is missing


@kernel
def observe(state: ScaleState, columns: Columns, values: Floats, sign: int) -> None:
    """Count a row in (`sign` 1) or out (−1) of the moments; in place."""
    for entry in range(columns.shape[0]):
        j = columns[entry]
        if not state.is_number[j]:
            continue
        x = values[entry]
        if np.isnan(x):
            state.missing[j] += sign
            continue
        if state.present[j] == 0 and sign > 0:
            state.origin[j] = x
            state.total[j] = 0.0
            state.squares[j] = 0.0
        state.present[j] += sign
        difference = x - state.origin[j]
        state.total[j] += sign * difference
        state.squares[j] += sign * difference * difference


@kernel
def absent_columns(columns: Columns, wanted: Columns) -> Columns:
    """Those of some columns (rising) that a row does not have."""
    missing = np.empty(wanted.shape[0], np.int32)
    count, entry = 0, 0
    for j in wanted:
        while entry < columns.shape[0] and columns[entry] < j:
            entry += 1
        if entry == columns.shape[0] or columns[entry] != j:
            missing[count] = j
            count += 1
    return missing[:count]


@kernel
def _is_new(state: ScaleState, layout: Layout, columns: Columns, values: Floats) -> bool:
    """Whether a row needs slots or units that there are not yet."""
    for entry in range(columns.shape[0]):
        j, x = columns[entry], values[entry]
        if state.is_number[j]:
            if np.isnan(x):
                if state.flag[j] < 0:
                    return True
            elif state.inverse[j] == 0.0 and (x != state.mean[j] or state.present[j] == 0):
                return True
    return bool(absent_columns(columns, layout.watched).shape[0] > 0)


@kernel
def _bounded(
    state: ScaleState, far_zeros: Columns, columns: Columns, values: Floats, most: float
) -> tuple[Columns, Floats]:
    """The row with each number at most `most` of its units from its mean; a zero that is not becomes an entry."""
    zeros = absent_columns(columns, far_zeros)
    if zeros.shape[0]:
        both = np.concatenate((columns, zeros))
        order = np.argsort(both)
        columns, values = both[order], np.concatenate((values, np.zeros(zeros.shape[0])))[order]
    bounded = values.copy()
    for entry in range(columns.shape[0]):
        j = columns[entry]
        if state.is_number[j] and state.inverse[j] > 0.0:
            reach = most / state.inverse[j]
            if values[entry] > state.mean[j] + reach:
                bounded[entry] = state.mean[j] + reach
            elif values[entry] < state.mean[j] - reach:
                bounded[entry] = state.mean[j] - reach
    return columns, bounded


@kernel
def _bin_entries(
    bins: Bins,
    columns: Columns,
    values: Floats,
    zeros: bool,  # noqa: FBT001
    slots: Columns,
    scaled: Floats,
    count: int,
) -> int:
    """Write an entry of 1 for the bin of each number from `count` on, and return the number of entries then."""
    entry = 0
    for m in range(bins.columns.shape[0]):
        j = bins.columns[m]
        while entry < columns.shape[0] and columns[entry] < j:
            entry += 1
        x = values[entry] if entry < columns.shape[0] and columns[entry] == j else 0.0 if zeros else np.nan
        if not np.isnan(x):
            slots[count], scaled[count] = bins.slots[m] + np.searchsorted(bins.edges[m], x), 1.0
            count += 1
    return count


@kernel
def _scaled_size(layout: Layout, n_entries: int) -> int:
    """The most entries that the scaled row of a row with so many can have."""
    return int(1 + 2 * n_entries + layout.expected.shape[0] + layout.bins.columns.shape[0])


@kernel
def _write_scaled(
    state: ScaleState, layout: Layout, columns: Columns, values: Floats, slots: Columns, scaled: Floats, first: int
) -> int:
    """Write the scaled row from the entry `first` on, slots rising; returns where it ends."""
    count = first
    if layout.constant:
        slots[count], scaled[count] = 0, 1.0
        count += 1
    for entry in range(columns.shape[0]):
        j, x = columns[entry], values[entry]
        if not state.is_number[j]:
            slots[count], scaled[count] = state.slot[j], x
            count += 1
            continue
        has_value = not np.isnan(x)
        if has_value and state.slot[j] >= 0:
            slots[count], scaled[count] = state.slot[j], (x - state.mean[j]) * state.inverse[j]
            count += scaled[count] != 0.0
        if state.flag[j] >= 0 and state.flags_present[j] == has_value:
            slots[count], scaled[count] = state.flag[j], 1.0
            count += 1
    for j in absent_columns(columns, layout.expected):
        if layout.zeros:
            slots[count], scaled[count] = state.slot[j], -state.mean[j] * state.inverse[j]
        else:
            slots[count], scaled[count] = state.flag[j], 1.0
        count += 1
    count = _bin_entries(layout.bins, columns, values, layout.zeros, slots, scaled, count)
    for entry in range(first + 1, count):
        if slots[entry] < slots[entry - 1]:  # most rows rise as they are
            order = np.argsort(slots[first:count])
            slots[first:count], scaled[first:count] = slots[first:count][order], scaled[first:count][order]
            break
    return count


@kernel
def scale_row(state: ScaleState, layout: Layout, columns: Columns, values: Floats) -> tuple[Columns, Floats]:
    """The scaled row: slots (rising) and their values."""
    size = _scaled_size(layout, columns.shape[0])
    slots, scaled = np.empty(size, np.int32), np.empty(size)
    count = _write_scaled(state, layout, columns, values, slots, scaled, 0)
    return slots[:count], scaled[:count]


@kernel
def take_row(
    state: ScaleState, layout: Layout, columns: Columns, values: Floats, most: float
) -> tuple[bool, Columns, Floats, Columns, Floats]:
    """Whether a row has something new, the row with outliers at their bound, and, if nothing is new, its scaled row."""
    columns, values = _bounded(state, layout.far_zeros, columns, values, most)
    if _is_new(state, layout, columns, values):
        return True, columns, values, columns, values
    slots, scaled = scale_row(state, layout, columns, values)
    return False, columns, values, slots, scaled


@kernel
def take_rows(state: ScaleState, layout: Layout, rows: CSR, most: float) -> tuple[bool, CSR, CSR]:
    """As `take_row`, for all rows of a sparse matrix; the results are not complete if one has something new."""
    indptr, columns, values = rows
    n_rows = indptr.shape[0] - 1
    raw_size = columns.shape[0] + n_rows * layout.far_zeros.shape[0]
    raw_ends, raw_columns, raw_values = np.zeros(n_rows + 1, np.int64), np.empty(raw_size, np.int32), np.empty(raw_size)
    size = n_rows * _scaled_size(layout, 0) + 2 * raw_size
    ends, slots, scaled = np.zeros(n_rows + 1, np.int64), np.empty(size, np.int32), np.empty(size)
    is_new = False
    for row in range(n_rows):
        start, end = indptr[row], indptr[row + 1]
        some, of_them = _bounded(state, layout.far_zeros, columns[start:end], values[start:end], most)
        if _is_new(state, layout, some, of_them):
            is_new = True
            break
        raw_ends[row + 1] = raw_ends[row] + some.shape[0]
        raw_columns[raw_ends[row] : raw_ends[row + 1]] = some
        raw_values[raw_ends[row] : raw_ends[row + 1]] = of_them
        ends[row + 1] = _write_scaled(state, layout, some, of_them, slots, scaled, ends[row])
    return is_new, CSR(raw_ends, raw_columns, raw_values), CSR(ends, slots, scaled)


@kernel
def scale_rows(state: ScaleState, before: Layout, since: Layout, first: int, rows: CSR) -> CSR:
    """All rows of a sparse matrix, scaled one by one: by one layout before the row `first`, by another from it on."""
    indptr, columns, values = rows
    n_rows = indptr.shape[0] - 1
    # Only what is written takes memory.
    size = n_rows * max(_scaled_size(before, 0), _scaled_size(since, 0)) + 2 * columns.shape[0]
    ends, slots, scaled = np.zeros(n_rows + 1, np.int64), np.empty(size, np.int32), np.empty(size)
    for row in range(n_rows):
        start, end = indptr[row], indptr[row + 1]
        layout = since if row >= first else before
        ends[row + 1] = _write_scaled(state, layout, columns[start:end], values[start:end], slots, scaled, ends[row])
    return CSR(ends, slots[: ends[n_rows]], scaled[: ends[n_rows]])


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
