"""Contexts as compressed sparse rows, which grow at the end and are evicted from."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.arrays import IN_PAGES, LARGE, cut_of, grown, in_pages
from taciturn.agents.parts.part import Part, Sizes, in_range, is_array, require, with_spare
from taciturn.contracts import SparseRow
from taciturn.kernels.csr import CSR
from taciturn.kernels.views import full_width
from taciturn.validate import LARGEST, LARGEST_SCALED

WIDE = 512
"""Of rows with as many columns at least, and no zeros, the columns are not held: they are all that there are."""

PIECE = 2**17
"""So many entries are made from others at a time, so that they do not count beside those that are held."""

NO_ENTRIES = SparseRow(np.zeros(0, np.int32), np.zeros(0))


@lru_cache(maxsize=4)
def _shared_columns(width: int) -> NDArray[np.int32]:
    return np.tile(np.arange(width, dtype=np.int32), max(4 * PIECE // width, 1))


def columns_of_full(width: int, rows: int = 1) -> NDArray[np.int32]:
    """``0 … width−1``, as often as there are rows; of few rows, shared by all who ask for them."""
    shared = _shared_columns(width)
    return shared[: rows * width] if rows * width <= len(shared) else np.tile(shared[:width], rows)


class RowStore(Part):
    """Contexts as compressed sparse rows that grow at the end.

    While all rows are wide and have no zeros, their columns are not held if `spare_columns` is set: `rows` makes them.
    Nothing that is computed depends on it.
    """

    at_unit_length = False
    """Whether all rows are of length 1 or 0."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.n_features = 0
        self.spare_columns = False
        self.spare_values = False  # of rows that can be made of others
        self._width = 0  # of rows whose columns are not held
        self._indptr = np.zeros(16, np.int64)
        self._entries: tuple[NDArray[Any], ...] = (np.zeros(256, np.int32), np.zeros(256))  # columns and values
        self._last, self._last_row = -1, NO_ENTRIES  # the row that came last: it is read next, as a rule

    def append(self, row: SparseRow) -> int:
        """Add a row at the end and return its number."""
        if self._width or (self.count == 0 and self.spare_columns):
            self._fit_columns(len(row.columns), is_full=is_full(row))
        if self._width:
            self._append(row.values)
            return self.count - 1
        entries = self._next_entries(len(row.columns))
        all_columns, all_values = self._entries
        columns, values = all_columns[entries], all_values[entries]
        columns[...] = row.columns
        values[...] = row.values
        self._last_row = SparseRow(columns, values)
        self._last = node = self.count - 1
        return node

    def _fit_columns(self, width: int, *, is_full: bool) -> None:
        """Hold columns, or no longer, as is right with rows of such a width that come."""
        if self.count == 0 and is_full:
            self._width, self._entries = width, self._entries[-1:]
        elif self._width and not (is_full and width == self._width):
            self._hold_columns()

    def hold_columns(self) -> None:
        """Hold columns from now on, whatever rows come."""
        self.spare_columns = False
        self._hold_columns()

    def _hold_columns(self) -> None:
        if self._width:
            columns = self.columns.copy()
            self._width, self._entries = 0, (columns, self._values)

    def _append(self, *parts: NDArray[Any]) -> None:
        """Add a row with such entries."""
        entries = self._next_entries(len(parts[0]))
        for array, part in zip(self._entries, parts, strict=True):
            array[entries] = part

    def _next_entries(self, size: int) -> slice:
        """Where the entries of a row more are, which there is room for now."""
        count = self.count
        start = self._indptr.item(count)
        stop = start + size
        if stop > len(self._entries[0]) or stop > len(self._entries[-1]):
            self._make_room(stop)
        if count + 2 > len(self._indptr):
            self._indptr = grown(self._indptr, count + 2, 0)
        self._indptr[count + 1] = stop
        self.count = count + 1
        return slice(start, stop)

    def extend(self, rows: CSR) -> None:
        """Add rows at the end."""
        if self._width or (self.count == 0 and self.spare_columns):
            width = full_width(rows)
            self._fit_columns(width, is_full=width >= WIDE)
        entries = self._next_entries_of(rows.indptr)
        for array, part in zip(self._entries, rows[1:] if not self._width else rows[2:], strict=True):
            array[entries] = part

    def _next_entries_of(self, indptr: NDArray[np.int64]) -> slice:
        """Where the entries of several rows more are, which there is room for now."""
        first, count = int(self._indptr[self.count]), self.count + len(indptr) - 1
        ends = first + indptr
        self._make_room(int(ends[-1]))
        self._indptr = grown(self._indptr, count + 1, 0)
        self._indptr[self.count : count + 1] = ends
        self.count = count
        return slice(first, int(ends[-1]))

    def _forget_last(self) -> None:
        """Rows move: the last one is read anew, and a view of it keeps no array of before."""
        self._last, self._last_row = -1, NO_ENTRIES

    def clear(self) -> None:
        """Drop all rows; others will take their place in memory."""
        self.count = 0
        self._forget_last()
        self._indptr[0] = 0

    def _make_room(self, stop: int) -> None:
        """Have room for entries up to `stop`; arrays grow one after the other, so that one at a time is held twice."""
        for at, array in enumerate(self._entries):
            if stop > len(array):
                self._forget_last()
                longer = in_pages(with_spare(2 * stop if array.nbytes >= LARGE else stop), array.dtype)
                used = int(self._indptr[self.count])
                longer[:used] = array[:used]
                self._entries = (*self._entries[:at], longer, *self._entries[at + 1 :])

    @property
    def columns(self) -> NDArray[np.int32]:
        """The columns of all entries, and spare ones; made where they are not held."""
        return columns_of_full(self._width, self.count) if self._width else self._entries[0]

    @property
    def _values(self) -> NDArray[np.float64]:
        return self._entries[-1]

    @property
    def dense_singles(self) -> NDArray[np.float32] | None:
        """The rows (T, W) in single precision, where those in double precision are not held."""
        return None

    @property
    def is_full(self) -> bool:
        """Whether all rows are wide and have no zeros, and columns are not held."""
        return self._width > 0

    @property
    def dense(self) -> NDArray[np.float64] | None:
        """The rows (T, W), as a view, where they are wide and have no zeros and columns are not held; else None."""
        if not self._width:
            return None
        return self._values[: self.count * self._width].reshape(self.count, self._width)

    def __getitem__(self, node: int) -> SparseRow:
        """One row, as a view."""
        if node == self._last:
            return self._last_row
        entries = slice(self._indptr.item(node), self._indptr.item(node + 1))  # by numbers of Python: half the time
        columns = columns_of_full(self._width) if self._width else self.columns[entries]
        return SparseRow(columns, self._values[entries])

    @property
    def rows(self) -> CSR:
        """All rows, as views for kernels."""
        stop = self._indptr[self.count]
        return CSR(self._indptr[: self.count + 1], self.columns[:stop], self._values[:stop])

    @property
    def rows_or_full(self) -> tuple[CSR, bool]:
        """All rows, and whether each has the columns 0, 1, …; then those of all are not made."""
        if not self._width:
            return self.rows, False
        return CSR(self._indptr[: self.count + 1], columns_of_full(self._width), self._values[: self.n_entries]), True

    def pieces(self) -> Iterator[tuple[int, CSR]]:
        """All rows, some at a time, and the number of the first of them."""
        if not self._width:
            yield 0, self.rows
            return
        at_once = max(PIECE // self._width, 1)
        for first in range(0, self.count, at_once):
            stop = min(first + at_once, self.count)
            yield first, self._full_rows(slice(first, stop))

    def at(self, nodes: NDArray[np.int64]) -> tuple[CSR, NDArray[np.int64]]:
        """Rows for kernels, and which of them are those at some nodes."""
        return self.rows, nodes

    def some(self, nodes: NDArray[np.int64]) -> CSR:
        """The rows at some nodes, as a copy."""
        if self._width:
            return self._full_rows(nodes)
        indptr, columns, values = self.rows
        lengths = indptr[nodes + 1] - indptr[nodes]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(indptr[nodes] - ends[:-1], lengths) + np.arange(ends[-1])
        return CSR(ends, columns[entries], values[entries])

    def _full_rows(self, of: Any) -> CSR:
        """Some of the rows whose columns are not held."""
        values = self._values[: self.count * self._width].reshape(self.count, self._width)[of]
        indptr = np.arange(len(values) + 1, dtype=np.int64) * self._width
        return CSR(indptr, columns_of_full(self._width, len(values)), values.reshape(-1))

    @property
    def approximate(self) -> CSR:
        """All rows, in any precision, for a search that is exact in the end."""
        return self.rows

    def matrix(self, start: int, stop: int) -> sp.csr_matrix:
        """Some of the rows as a copied CSR matrix."""
        indptr = self._indptr[start : stop + 1]
        entries = slice(indptr[0], indptr[-1])
        columns = columns_of_full(self._width, stop - start).copy() if self._width else self.columns[entries].copy()
        parts = (self._values[entries].copy(), columns, (indptr - indptr[0]).astype(np.int32))
        return sp.csr_matrix(parts, shape=(stop - start, self.n_features))

    def allocate(self, n_arms: int, n_features: int) -> None:
        """The number of features."""
        self.n_features = n_features

    def add_features(self, n_features: int) -> None:
        """The number of features."""
        self.n_features = n_features

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all rows but these, which are renumbered in their order."""
        cut, indptr = cut_of(nodes, self.count), self._indptr
        lengths = np.diff(indptr[: self.count + 1])[cut.moved]
        offsets, size = np.cumsum(lengths) - lengths, int(lengths.sum())
        entries = np.repeat(indptr[cut.moved] - offsets, lengths) + np.arange(size)
        start = int(indptr[cut.last]) - size if cut.moves_up else int(indptr[cut.first])
        for array in self._entries:
            array[start : start + size] = array[entries]
        self.count = len(nodes)
        self._forget_last()
        if cut.moves_up:
            self._entries = tuple(array[start:] for array in self._entries)
            self._indptr = indptr[cut.dropped :]
            self._indptr[: len(lengths)] = start + offsets
            self._indptr[: self.count + 1] -= start
        else:
            indptr[cut.first : self.count] = start + offsets
            indptr[self.count] = start + size
        self._spare_columns()

    def _spare_columns(self) -> None:
        """Hold columns no longer where all rows are wide now and have no zeros."""
        if self.spare_columns and not self._width and self.count:
            width = full_width(self.rows)
            if width >= WIDE:
                self._width, self._entries = width, self._entries[1:]

    @property
    def ends(self) -> NDArray[np.int64]:
        """Where each row ends, after a 0 (T+1,)."""
        return self._indptr[: self.count + 1]

    @property
    def n_entries(self) -> int:
        """How many entries that are not zero all rows have together."""
        return int(self._indptr[self.count])

    def nbytes(self, sizes: Sizes) -> float:
        """A column, if it is held, and a value for each entry, and where rows end; spare ones too."""
        each = 8.0 if self.will_be_full(sizes) else 12.0
        return each * with_few_spare(sizes.entries) + 8.0 * with_spare(sizes.nodes)

    def will_be_full(self, sizes: Sizes) -> bool:
        """Whether columns will not be held; numbers vary from the second context on."""
        return self.is_full if self.count > 1 else self.spare_columns and are_full(sizes)

    def working_nbytes(self, sizes: Sizes) -> float:
        """The values once more, with a mask: they are copied when they grow or rows are evicted."""
        return 4.5 * sizes.entries

    def state_dict(self) -> dict[str, Any]:
        """The rows."""
        return self.rows._asdict()

    def replace(self, rows: CSR) -> None:
        """Take other rows in place of all there are."""
        self.count, self._width = len(rows.indptr) - 1, 0
        self._forget_last()
        self._indptr, *entries = rows
        self._entries = tuple(entries)
        self._spare_columns()

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take rows over from a file."""
        indptr, columns, values = state["indptr"], state["columns"], state["values"]
        require(is_array(indptr, np.int64, n_nodes + 1) and indptr[0] == 0, "the rows' offsets do not fit")
        require((np.diff(indptr) >= 0).all(), "the rows' offsets fall")
        require(is_array(columns, np.int32, int(indptr[-1])) and in_range(columns, 0, n_features), "columns do not fit")
        require(is_array(values, np.float64, int(indptr[-1])), "values do not fit")
        require(self._are_allowed(values).all(), "values are not allowed")
        self.n_features = n_features
        self.replace(CSR(indptr, columns, values))

    def _are_allowed(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(np.abs(values) <= LARGEST)


def with_few_spare(entries: int) -> int:
    """So many entries and spare ones: of those that have pages of their own, spare ones take no memory."""
    return min(with_spare(entries), entries + IN_PAGES // 64)


def is_full(row: SparseRow) -> bool:
    """Whether a row is wide and has all columns up to its last."""
    width = len(row.columns)
    return width >= WIDE and row.columns[-1] == width - 1


def are_full(sizes: Sizes) -> bool:
    """Whether rows are wide and have no zeros, by how many entries there are."""
    return sizes.features >= WIDE and sizes.entries >= sizes.nodes * sizes.features


class RawRows(RowStore):
    """Rows before they are scaled: numbers can be larger, and NaN is one that is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.spare_columns = True

    def _are_allowed(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray((np.abs(values) <= LARGEST_SCALED) | np.isnan(values))
