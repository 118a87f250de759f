"""Numbers of any unit on a common scale: kernels of `features.scale`.

A raw row has a value x_j for some columns. A column of numbers has the scale ``z_j = (x_j − μ_j) · i_j``; other columns
keep their value. The scaled row has a slot for each z_j that ever differed from zero, one for each flag that says where
a number is missing, the slot 0 for a constant 1, and slots for the bins of some columns (`Bins`).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import inlined_kernel, kernel

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
    is_number, present, missing, origin, total, squares = state[:6]
    for entry in range(columns.shape[0]):
        j = columns[entry]
        if not is_number[j]:
            continue
        x = values[entry]
        if math.isnan(x):
            missing[j] += sign
            continue
        if present[j] == 0 and sign > 0:
            origin[j] = x
            total[j] = 0.0
            squares[j] = 0.0
        present[j] += sign
        difference = x - origin[j]
        total[j] += sign * difference
        squares[j] += sign * difference * difference


def absent_columns(columns: Columns, wanted: Columns) -> Columns:
    """Those of some columns (rising) that a row does not have."""
    return wanted[~np.isin(wanted, columns)]


def take_row(
    state: ScaleState, layout: Layout, columns: Columns, values: Floats, most: float
) -> tuple[bool, Columns, Floats, Columns, Floats]:
    """Whether a row has something new, the row with outliers at their bound, and, if nothing is new, its scaled row."""
    is_new, raw, made = take_rows(state, layout, CSR(np.array([0, len(columns)]), columns, values), most)
    return is_new, *_only_row(raw), *_only_row(made)


def take_rows(state: ScaleState, layout: Layout, rows: CSR, most: float) -> tuple[bool, CSR, CSR]:
    """As `take_row`, for all rows of a sparse matrix; the results are not complete if one has something new."""
    n_rows = len(rows.indptr) - 1
    raw = _room(n_rows, len(rows.columns) + n_rows * len(layout.far_zeros))
    made = _room(n_rows, _scaled_size(layout, n_rows, len(raw.columns)))
    return _scale(state, layout, 0, rows, most, raw, made, True), raw, made


def scale_row(state: ScaleState, layout: Layout, columns: Columns, values: Floats) -> tuple[Columns, Floats]:
    """The scaled row: slots (rising) and their values."""
    return _only_row(scale_rows(state, layout, 0, CSR(np.array([0, len(columns)]), columns, values)))


def scale_rows(state: ScaleState, layout: Layout, first: int, rows: CSR) -> CSR:
    """All rows of a sparse matrix, scaled one by one; those before the row `first` have no bins."""
    n_rows = len(rows.indptr) - 1
    made = _room(n_rows, _scaled_size(layout, n_rows, len(rows.columns)))
    _scale(state, layout, first, rows, np.inf, rows, made, False)
    size = made.indptr[-1]
    return CSR(made.indptr, made.columns[:size], made.values[:size])


def _room(n_rows: int, size: int) -> CSR:
    """Rows to be written, of so many entries at most; only what is written takes memory."""
    return CSR(np.zeros(n_rows + 1, np.int64), np.empty(size, np.int32), np.empty(size))


def _scaled_size(layout: Layout, n_rows: int, n_entries: int) -> int:
    """The most entries that the scaled rows of so many rows and entries can have."""
    return n_rows * (1 + len(layout.expected) + len(layout.bins.columns)) + 2 * n_entries


def _only_row(rows: CSR) -> tuple[Columns, Floats]:
    end = rows.indptr[1]
    return rows.columns[:end], rows.values[:end]


# One kernel does all of the above, and its parts are compiled as lines of it: to compile each, and again as a part of
# what calls it, took three times as long. For the same reason loops stand for sorting and for assignments to slices.


@inlined_kernel
def _bound(
    state: ScaleState,
    far_zeros: Columns,
    columns: Columns,
    values: Floats,
    start: int,
    stop: int,
    most: float,
    to_columns: Columns,
    to_values: Floats,
    at: int,
) -> int:
    """Write a row with each number at most `most` of its units from its mean, from `at` on; returns where it ends.

    A zero that is farther becomes an entry.
    """
    is_number, mean, inverse = state.is_number, state.mean, state.inverse
    n_zeros, entry, zero = far_zeros.shape[0], start, 0
    while entry < stop or zero < n_zeros:
        if zero < n_zeros and (entry == stop or far_zeros[zero] < columns[entry]):
            j, x = far_zeros[zero], 0.0
            zero += 1
        else:
            j, x = columns[entry], values[entry]
            entry += 1
            if zero < n_zeros and far_zeros[zero] == j:
                zero += 1
        if is_number[j] and inverse[j] > 0.0:
            reach = most / inverse[j]
            if x > mean[j] + reach:
                x = mean[j] + reach
            elif x < mean[j] - reach:
                x = mean[j] - reach
        to_columns[at], to_values[at] = j, x
        at += 1
    return at


@inlined_kernel
def _is_new(state: ScaleState, watched: Columns, columns: Columns, values: Floats, start: int, stop: int) -> bool:
    """Whether a row needs slots or units that there are not yet."""
    is_number, present, mean, inverse, flag = state.is_number, state.present, state.mean, state.inverse, state.flag
    found = False
    for entry in range(start, stop):
        j, x = columns[entry], values[entry]
        if is_number[j]:
            if math.isnan(x):
                found = found or flag[j] < 0
            else:
                found = found or (inverse[j] == 0.0 and (x != mean[j] or present[j] == 0))
    entry = start
    for w in range(watched.shape[0]):
        while entry < stop and columns[entry] < watched[w]:
            entry += 1
        found = found or entry == stop or columns[entry] != watched[w]
    return found


@inlined_kernel
def _write_bins(
    bins: Bins,
    zeros: bool,  # noqa: FBT001
    columns: Columns,
    values: Floats,
    start: int,
    stop: int,
    slots: Columns,
    scaled: Floats,
    count: int,
) -> int:
    """Write an entry of 1 for the bin of each number from `count` on, and return the number of entries then."""
    of_bins, edges, bin_slots = bins
    entry = start
    for m in range(of_bins.shape[0]):
        j = of_bins[m]
        while entry < stop and columns[entry] < j:
            entry += 1
        x = values[entry] if entry < stop and columns[entry] == j else 0.0 if zeros else math.nan
        if not math.isnan(x):
            low, high = 0, edges.shape[1]
            while low < high:  # the first edge that is not below x
                middle = (low + high) // 2
                if edges[m, middle] < x:
                    low = middle + 1
                else:
                    high = middle
            slots[count], scaled[count] = bin_slots[m] + low, 1.0
            count += 1
    return count


@inlined_kernel
def _sort(slots: Columns, scaled: Floats, first: int, stop: int) -> None:
    """Bring the entries of a row, whose slots differ, into the order of their slots (Shell's method)."""
    gap = (stop - first) // 2
    while gap > 0:
        for i in range(first + gap, stop):
            slot, value, to = slots[i], scaled[i], i
            while to >= first + gap and slots[to - gap] > slot:
                slots[to], scaled[to] = slots[to - gap], scaled[to - gap]
                to -= gap
            slots[to], scaled[to] = slot, value
        gap = 1 if gap == 2 else gap * 5 // 11


@inlined_kernel
def _write(
    state: ScaleState,
    layout: Layout,
    has_bins: bool,  # noqa: FBT001
    columns: Columns,
    values: Floats,
    start: int,
    stop: int,
    slots: Columns,
    scaled: Floats,
    first: int,
) -> int:
    """Write the scaled row from the entry `first` on, slots rising; returns where it ends."""
    is_number, mean, inverse = state.is_number, state.mean, state.inverse
    slot, flag, flags_present, expected = state.slot, state.flag, state.flags_present, layout.expected
    count = first
    if layout.constant:
        slots[count], scaled[count] = 0, 1.0
        count += 1
    for entry in range(start, stop):
        j, x = columns[entry], values[entry]
        if not is_number[j]:
            slots[count], scaled[count] = slot[j], x
            count += 1
            continue
        has_value = not math.isnan(x)
        if has_value and slot[j] >= 0:
            slots[count], scaled[count] = slot[j], (x - mean[j]) * inverse[j]
            count += scaled[count] != 0.0
        if flag[j] >= 0 and flags_present[j] == has_value:
            slots[count], scaled[count] = flag[j], 1.0
            count += 1
    entry = start
    for e in range(expected.shape[0]):
        j = expected[e]
        while entry < stop and columns[entry] < j:
            entry += 1
        if entry == stop or columns[entry] != j:
            if layout.zeros:
                slots[count], scaled[count] = slot[j], -mean[j] * inverse[j]
            else:
                slots[count], scaled[count] = flag[j], 1.0
            count += 1
    if has_bins:
        count = _write_bins(layout.bins, layout.zeros, columns, values, start, stop, slots, scaled, count)
    rises = True
    for entry in range(first + 1, count):
        rises = rises and slots[entry] > slots[entry - 1]
    if not rises:
        _sort(slots, scaled, first, count)
    return count


@kernel
def _scale(
    state: ScaleState,
    layout: Layout,
    first: int,
    rows: CSR,
    most: float,
    raw: CSR,
    made: CSR,
    taking: bool,  # noqa: FBT001
) -> bool:
    """Write scaled rows (`made`); rows before `first` have no bins.

    With `taking`, rows come for the first time: they are written with outliers at their bound (`raw`), and the first
    that has something new is the last; returns whether there is one. Otherwise `raw` are the rows themselves.
    """
    indptr, columns, values = rows
    raw_ends, raw_columns, raw_values = raw
    ends, slots, scaled = made
    for row in range(indptr.shape[0] - 1):
        if taking:
            raw_ends[row + 1] = _bound(
                state,
                layout.far_zeros,
                columns,
                values,
                indptr[row],
                indptr[row + 1],
                most,
                raw_columns,
                raw_values,
                raw_ends[row],
            )
        start, stop = raw_ends[row], raw_ends[row + 1]
        if taking and _is_new(state, layout.watched, raw_columns, raw_values, start, stop):
            return True
        has_bins = row >= first
        ends[row + 1] = _write(state, layout, has_bins, raw_columns, raw_values, start, stop, slots, scaled, ends[row])
    return False


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
