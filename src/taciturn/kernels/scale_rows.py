"""Rows on the scale of `kernels.scale`, whatever is in them.

All rows are handled at once, as keys that rise: ``row << ROW | column``, and in the same way for slots. Of a single row
the keys are its columns. Nothing of this is compiled: to compile it took longer than all the rest of a first decision,
and to hand over so many arrays as long as these calls.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.scale import (
    BELOW,
    CONSTANT,
    Bins,
    Columns,
    Flags,
    Floats,
    Full,
    Ints,
    Layout,
    ScaleState,
    full,
    scale_full,
)

Keys = NDArray[Any]  # of 32 bits for one row, else of 64

ROW = 32
"""Bits of a key that are the column or the slot."""

PIECE = 2**16
"""About so many entries, and places where one could be, are worked on at a time."""

ONES = np.ones(64)

NO_BINS = Bins(CONSTANT[:0], np.zeros((0, 0)), CONSTANT[:0])


def absent_columns(columns: Columns, wanted: Columns) -> Columns:
    """Those of some columns (rising) that a row does not have."""
    return wanted[~np.isin(wanted, columns)]


class Entries(NamedTuple):
    """Some rows."""

    n_rows: int
    keys: Keys  # (E,), rising
    columns: Columns  # (E,)
    values: Floats  # (E,)


def take_row(
    state: ScaleState, layout: Layout, columns: Columns, values: Floats, most: float
) -> tuple[bool, Columns, Floats, Columns, Floats]:
    """Whether a row has something new, the row with outliers at their bound, and, if nothing is new, its scaled row.

    A number is an outlier where it is more than `most` of its units from its mean; so can be a zero that the row does
    not have, which becomes an entry.
    """
    is_new, raw, slots, scaled = _take(state, layout, Entries(1, columns, columns, values), most)
    return is_new, raw.columns, raw.values, slots, scaled


def take_rows(state: ScaleState, layout: Layout, rows: CSR, most: float) -> tuple[bool, CSR, CSR]:
    """As `take_row`, for all rows of a sparse matrix; the results are not complete if one has something new."""
    n_rows = len(rows.indptr) - 1
    raw = _room(n_rows, len(rows.columns) + n_rows * len(layout.far_zeros))
    made = _room(n_rows, _scaled_size(layout, n_rows, len(raw.columns)))
    of_full = full(state, layout)
    for first, stop in _pieces(layout, rows, 0, n_rows):
        entries = _entries(rows, first, stop)
        scaled = _scaled_if_full(layout, of_full, entries, most)
        if scaled is None:
            is_new, entries, keys, values = _take(state, layout, entries, most)
            if is_new:
                return True, raw, made
            scaled = keys, values
        _write(raw, first, stop, entries.keys, entries.values)
        _write(made, first, stop, *scaled)
    return False, raw, made


def scale_row(state: ScaleState, layout: Layout, columns: Columns, values: Floats) -> tuple[Columns, Floats]:
    """The scaled row: slots (rising) and their values."""
    return _scale(state, layout, Entries(1, columns, columns, values))


def scale_rows(state: ScaleState, layout: Layout, first_binned: int, rows: CSR) -> CSR:
    """All rows of a sparse matrix, scaled one by one; those before the row `first_binned` have no bins."""
    n_rows = len(rows.indptr) - 1
    made = _room(n_rows, _scaled_size(layout, n_rows, len(rows.columns)))
    without = layout._replace(bins=NO_BINS)
    first_binned = min(first_binned, n_rows)
    for laid_out, start, end in ((without, 0, first_binned), (layout, first_binned, n_rows)):
        of_full = full(state, laid_out)
        for first, stop in _pieces(laid_out, rows, start, end):
            entries = _entries(rows, first, stop)
            scaled = _scaled_if_full(laid_out, of_full, entries, np.inf)
            _write(made, first, stop, *(scaled or _scale(state, laid_out, entries)))
    size = made.indptr[-1]
    return CSR(made.indptr, made.columns[:size], made.values[:size])


def _scaled_if_full(layout: Layout, of_full: Full, entries: Entries, most: float) -> tuple[Keys, Floats] | None:
    """As `_scale`, by `scale_full` if that can be."""
    n_rows = entries.n_rows
    if not n_rows or not len(entries.keys) or not _is_full(layout, entries):
        return None
    made = scale_full(of_full, entries.values.reshape(n_rows, -1), most)
    if made is None:
        return None
    slots, scaled = made
    return (slots if n_rows == 1 else (np.arange(n_rows) << ROW)[:, None] | slots).ravel(), scaled.ravel()


def _room(n_rows: int, size: int) -> CSR:
    """Rows to be written, of so many entries at most; only what is written takes memory."""
    return CSR(np.zeros(n_rows + 1, np.int64), np.empty(size, np.int32), np.empty(size))


def _scaled_size(layout: Layout, n_rows: int, n_entries: int) -> int:
    """The most entries that the scaled rows of so many rows and entries can have."""
    return n_rows * (1 + len(layout.expected) + len(layout.bins.columns)) + 2 * n_entries


def _pieces(layout: Layout, rows: CSR, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The rows from `start` to before `end` in pieces of bounded memory: the first row and the end of each."""
    n_rows = len(rows.indptr) - 1
    size = len(rows.columns) + n_rows * (1 + len(layout.expected) + len(layout.watched) + layout.bins.edges.size)
    at_a_time = max(PIECE * n_rows // max(size, 1), 1)
    for first in range(start, end, at_a_time):
        yield first, min(first + at_a_time, end)


def _entries(rows: CSR, first: int, stop: int) -> Entries:
    """The rows from `first` to before `stop`."""
    ends = rows.indptr[first : stop + 1]
    columns, values = rows.columns[ends[0] : ends[-1]], rows.values[ends[0] : ends[-1]]
    n_rows = stop - first
    row_of = np.repeat(np.arange(n_rows), np.diff(ends))
    return Entries(n_rows, columns if n_rows == 1 else row_of << ROW | columns, columns, values)


def _write(rows: CSR, first: int, stop: int, keys: Keys, values: Floats) -> None:
    """Write the rows from `first` to before `stop` behind those that are written."""
    start = rows.indptr[first]
    rows.indptr[first + 1 : stop + 1] = start + keys.searchsorted(np.arange(1, stop - first + 1) << ROW)
    rows.columns[start : start + len(keys)] = _columns_of(keys)
    rows.values[start : start + len(keys)] = values


def _columns_of(keys: Keys) -> Columns:
    return keys if keys.dtype == np.int32 else (keys & (1 << ROW) - 1).astype(np.int32)


def _in_all_rows(columns: Columns, n_rows: int) -> Keys:
    """The keys of some columns in every row (n_rows · m,)."""
    return columns if n_rows == 1 else ((np.arange(n_rows) << ROW)[:, None] | columns).ravel()


def _in_rows_of(keys: Keys, columns: Columns, slots: Columns) -> Keys:
    """The keys of slots, in the rows of other keys, which are of such columns."""
    return slots if keys.dtype == np.int32 else keys - columns | slots


def _ones(count: int) -> Floats:
    """As many ones; nobody writes to them."""
    return ONES[:count] if count <= len(ONES) else np.ones(count)


def _is_full(layout: Layout, entries: Entries) -> bool:
    """Whether no value of any row is absent."""
    return len(entries.keys) == entries.n_rows * layout.n_columns


def _found(entries: Entries, wanted: Keys) -> tuple[Ints, Flags]:
    """Where entries of such keys are, and whether they are."""
    at = entries.keys.searchsorted(wanted)
    if not len(entries.keys):
        return at, np.zeros(len(wanted), np.bool_)
    return at, entries.keys.take(at, mode="clip") == wanted


def _absent(layout: Layout, columns: Columns, entries: Entries) -> Keys:
    """The keys of those columns that a row does not have, for all rows."""
    if not len(columns) or _is_full(layout, entries):
        return columns[:0]
    wanted = _in_all_rows(columns, entries.n_rows)
    return wanted[~_found(entries, wanted)[1]]


@np.errstate(over="ignore")  # of outliers
def _standardized(state: ScaleState, entries: Entries) -> tuple[Floats, float]:
    """``z`` of all entries, and the largest of them without its sign, which is NaN if one is."""
    columns = entries.columns
    scaled = entries.values - state.mean.take(columns)
    scaled *= state.inverse.take(columns)
    sizes = np.abs(scaled)
    return scaled, float(sizes[sizes.argmax()]) if len(sizes) else 0.0


def _take(state: ScaleState, layout: Layout, entries: Entries, most: float) -> tuple[bool, Entries, Keys, Floats]:
    """As `take_row` for some rows."""
    if len(layout.far_zeros):
        entries = _with_zeros(layout, entries)
    scaled, largest = _standardized(state, entries)
    if not largest < most * BELOW:  # or one is NaN
        entries = entries._replace(values=_bounded(state, entries, most))
        scaled, largest = _standardized(state, entries)
    if _is_new(state, layout, entries, scaled, largest):
        return True, entries, entries.keys[:0], scaled[:0]
    return False, entries, *_placed(state, layout, entries, scaled, largest)


def _scale(state: ScaleState, layout: Layout, entries: Entries) -> tuple[Keys, Floats]:
    """Keys (rising) and values of scaled rows, in which nothing is new."""
    return _placed(state, layout, entries, *_standardized(state, entries))


def _with_zeros(layout: Layout, entries: Entries) -> Entries:
    """Rows with an entry for each zero that is far."""
    absent = _absent(layout, layout.far_zeros, entries)
    keys = np.concatenate((entries.keys, absent))
    order = keys.argsort(kind="stable")
    keys, values = keys[order], np.concatenate((entries.values, np.zeros(len(absent))))[order]
    return Entries(entries.n_rows, keys, _columns_of(keys), values)


def _bounded(state: ScaleState, entries: Entries, most: float) -> Floats:
    """The values, with each number at most `most` of its units from its mean."""
    values = entries.values.copy()
    at = np.flatnonzero(state.is_number[entries.columns] & (state.inverse[entries.columns] > 0.0))
    columns, numbers = entries.columns[at], values[at]
    mean, reach = state.mean[columns], most / state.inverse[columns]
    high, low = mean + reach, mean - reach
    values[at] = np.where(numbers > high, high, np.where(numbers < low, low, numbers))
    return values


def _is_new(state: ScaleState, layout: Layout, entries: Entries, scaled: Floats, largest: float) -> bool:
    """Whether a row needs slots or units that there are not yet."""
    _, _, columns, values = entries
    if len(_absent(layout, layout.watched, entries)):
        return True
    if math.isnan(largest) and (state.flag[columns[np.isnan(values)]] < 0).any():
        return True
    if np.count_nonzero(scaled) == len(scaled):
        return False
    new = (values != state.mean.take(columns)) | (state.present.take(columns) == 0)
    new &= (state.inverse.take(columns) == 0.0) & ~np.isnan(values)
    return bool(np.count_nonzero(new))


def _placed(state: ScaleState, layout: Layout, entries: Entries, scaled: Floats, largest: float) -> tuple[Keys, Floats]:
    """Keys of slots (rising) and values of scaled rows, by ``z`` of their entries."""
    n_rows, keys, columns, values = entries
    slots = _in_rows_of(keys, columns, state.slot.take(columns))
    if np.count_nonzero(scaled) < len(scaled):
        kept = (scaled != 0.0) | ~state.is_number.take(columns)
        slots, scaled = slots[kept], scaled[kept]
    if math.isnan(largest):
        kept = ~np.isnan(scaled)
        slots, scaled = slots[kept], scaled[kept]
    found, made = [slots], [scaled]
    if layout.constant:
        found.append(_in_all_rows(CONSTANT, n_rows))
        made.append(_ones(n_rows))
    if layout.flagged:
        flag = state.flag.take(columns)
        on = (flag >= 0) & (state.flags_present.take(columns) != np.isnan(values))
        found.append(_in_rows_of(keys, columns, flag)[on])
        made.append(_ones(len(found[-1])))
    absent = _absent(layout, layout.expected, entries)
    if len(absent):
        columns = _columns_of(absent)
        found.append(_in_rows_of(absent, columns, (state.slot if layout.zeros else state.flag)[columns]))
        made.append(-state.mean[columns] * state.inverse[columns] if layout.zeros else _ones(len(columns)))
    if len(layout.bins.columns):
        found.append(_keys_of_bins(layout, entries))
        made.append(_ones(len(found[-1])))
    slots = np.concatenate(found)
    order = slots.argsort(kind="stable")
    return slots.take(order), np.concatenate(made).take(order)


def _keys_of_bins(layout: Layout, entries: Entries) -> Keys:
    """The keys of the bins that numbers fall into."""
    of_bins, edges, bin_slots = layout.bins
    wanted = _in_all_rows(of_bins, entries.n_rows)
    at, has = _found(entries, wanted)
    values = np.full(len(wanted), 0.0 if layout.zeros else np.nan)
    values[has] = entries.values[at[has]]
    below = np.add.reduce(edges < values.reshape(-1, len(of_bins), 1), axis=2, dtype=np.int32)
    keys = _in_rows_of(wanted, _columns_of(wanted), (below + bin_slots).ravel())
    return np.asarray(keys[~np.isnan(values)])
