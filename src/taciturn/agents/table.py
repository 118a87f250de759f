"""One table of contexts: every array with an entry for each context is a column of it.

Growth, eviction, new arms, validation, size and saving of these arrays are written here, once. A context is known by
its `node`, its row in the table; nodes are in the order of arrival and are renumbered when earlier ones are evicted.
"""

import math
import mmap
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.parts.part import Array, Part, Sizes, in_range, is_array, require, with_spare
from taciturn.contracts import STATES, SparseRow
from taciturn.errors import TaciturnError
from taciturn.kernels.csr import CSR
from taciturn.kernels.views import full_width
from taciturn.validate import LARGEST, LARGEST_SCALED

LARGE = 2**24
"""Entries of more bytes have room for as many again: spare ones take no memory before they are written, and when all
are copied for the last time they are half of what they become."""

IN_PAGES = 2**20
"""Entries of more bytes have pages of their own, which the system has back as soon as they are not used. Freed memory
of the process is kept for what comes, up to as much as a large array, and what contexts outgrow is not needed again."""

WIDE = 512
"""Of rows with as many columns at least, and no zeros, the columns are not held: they are all that there are."""

PIECE = 2**17
"""So many entries are made from others at a time, so that they do not count beside those that are held."""

PENDING, REWARDED, SILENT, LABELLED = range(4)  # codes of `STATES`

NO_ENTRIES = SparseRow(np.zeros(0, np.int32), np.zeros(0))


def grown(array: NDArray[Any], length: int, fill: float) -> NDArray[Any]:
    """The array itself if it has `length` rows, else a copy with spare ones, with `fill` in the new rows."""
    if len(array) >= length:
        return array
    shape = with_spare(length), *array.shape[1:]
    # Pages of zeros come from the system when they are first written, not all at once.
    longer = in_pages(math.prod(shape), array.dtype).reshape(shape) if fill == 0 else np.empty(shape, array.dtype)
    longer[: len(array)] = array
    if fill != 0:
        longer[len(array) :] = fill
    return longer


def in_pages(length: int, dtype: Any) -> NDArray[Any]:
    """Zeros (length,) in pages of their own, where they are many; only what is written takes memory.

    Pages are large where the system has such: rows that are read here and there are found with fewer look-ups.
    """
    nbytes = length * np.dtype(dtype).itemsize
    if nbytes < IN_PAGES:
        return np.zeros(length, dtype)
    private: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        pages = mmap.mmap(-1, nbytes, **private)
    except OSError as error:
        raise MemoryError(f"there is no room for {nbytes} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system that has none
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype)


@lru_cache(maxsize=4)
def _shared_columns(width: int) -> NDArray[np.int32]:
    return np.tile(np.arange(width, dtype=np.int32), max(4 * PIECE // width, 1))


def columns_of_full(width: int, rows: int = 1) -> NDArray[np.int32]:
    """``0 … width−1``, as often as there are rows; of few rows, shared by all who ask for them."""
    shared = _shared_columns(width)
    return shared[: rows * width] if rows * width <= len(shared) else np.tile(shared[:width], rows)


class Cut(NamedTuple):
    """Which of `total` rows are kept (rising), so that what moves is the shorter part of them.

    Where the rows before ``last`` are fewer than those from ``first`` on, they move up and a view begins behind what is
    free: eviction of the oldest costs what is evicted, and the space is used again when the array next grows.
    """

    kept: NDArray[np.int64]
    total: int
    first: int  # of the rows that are dropped
    last: int  # the row after the last that is dropped

    @property
    def dropped(self) -> int:
        """How many rows are not kept."""
        return self.total - len(self.kept)

    @property
    def moves_up(self) -> bool:
        """Whether the rows before `last` move up; otherwise those from `first` on move down."""
        return self.last < self.total - self.first

    @property
    def moved(self) -> NDArray[np.int64]:
        """The rows that move."""
        return self.kept[: self.last - self.dropped] if self.moves_up else self.kept[self.first :]

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The kept rows of an array, and the spare ones behind `total`; what is between has any content."""
        if self.moves_up:
            array[self.dropped : self.last] = array[self.moved]
            return array[self.dropped :]
        array[self.first : len(self.kept)] = array[self.moved]
        return array


def cut_of(kept: NDArray[np.int64], total: int) -> Cut:
    """The cut of `total` rows that keeps these, which rise."""

    def first_moved_by(rows: int) -> int:  # each row moves by as many as are dropped before it
        return bisect_left(range(len(kept)), rows, key=lambda at: kept[at] - at)

    dropped = total - len(kept)
    if not dropped:
        return Cut(kept, total, total, total)
    return Cut(kept, total, first_moved_by(1), first_moved_by(dropped) + dropped)


class Table:
    """Columns of one length that grow at the end: arrays whose first axis is "node"."""

    def __init__(self, n_arms: int = 0) -> None:
        self.count = 0
        self.n_arms = n_arms
        self._capacity = 0
        self._columns: dict[str, Array] = {}

    def column(
        self,
        name: str,
        dtype: Any,
        *axes: str | int,
        fill: float = 0,
        new_arm: float | None = None,
        below: int | str | None = None,
    ) -> Array:
        """A new column under a name that stays the same in files; `axes` are those of a row. See `Array`."""
        if "feature" in axes:
            raise TaciturnError(f"column {name!r} cannot have the axis 'feature'; sparse contexts are self._contexts")
        if name in self._columns:
            raise TaciturnError(f"the table has a column {name!r} already; names in a file are used once")
        self._columns[name] = column = Array(dtype, ("node", *axes), fill=fill, new_arm=new_arm, below=below)
        column.allocate({"node": self._capacity, "arm": self.n_arms})
        return column

    def extend(self, rows: int = 1) -> int:
        """New rows at the end, which hold the fill; returns the first."""
        first = self.count
        self.count = first + rows
        if self.count > self._capacity:
            self._capacity = with_spare(self.count)
            for column in self._columns.values():  # one after the other, so that one at a time is held twice
                column.data = grown(column.data, self.count, column.fill)
        return first

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Drop all rows but these, which are renumbered in their order."""
        cut = cut_of(rows, self.count)
        for column in self._columns.values():
            column.data = cut.apply(column.data)
            column.data[len(rows) : self.count] = column.fill
            self._capacity = len(column.data)
        self.count = len(rows)

    def add_arm(self, like: int | None) -> None:
        """Entries for one arm more in all columns that have one for each arm."""
        self.n_arms += 1
        for column in self._columns.values():
            column.add_arm(like)
            column.data[self.count :] = column.fill

    def nbytes(self, sizes: Sizes) -> float:
        """Bytes for so many arms and rows, and the spare ones."""
        axes = sizes.axes | {"node": with_spare(sizes.nodes)}
        return sum(column.nbytes(axes) for column in self._columns.values())

    def working_nbytes(self, sizes: Sizes) -> float:
        """The largest column once more: each is copied when it grows or rows are dropped."""
        return max((column.nbytes(sizes.axes) for column in self._columns.values()), default=0.0)

    def state_dict(self) -> dict[str, Any]:
        """All rows that are in use."""
        return {name: column.data[: self.count] for name, column in self._columns.items()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, count: int) -> None:
        """Take all columns over from a file, each of the type and shape that it has here."""
        require(state.keys() == self._columns.keys(), "the table has other columns")
        self.count = self._capacity = count
        self.n_arms = n_arms
        for name, column in self._columns.items():
            column.load(name, state[name], {"node": count, "arm": n_arms})


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
        self._width = 0  # of rows whose columns are not held
        self._indptr = np.zeros(16, np.int64)
        self._entries: tuple[NDArray[Any], ...] = (np.zeros(256, np.int32), np.zeros(256))  # columns and values
        self._last, self._last_row = -1, NO_ENTRIES  # the row that came last: it is read next, as a rule

    def append(self, row: SparseRow) -> int:
        """Add a row at the end and return its number."""
        if self._width or (self.count == 0 and self.spare_columns):
            self._fit_columns(len(row.columns), is_full=_is_full(row))
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
        first, count = int(self._indptr[self.count]), self.count + len(rows.indptr) - 1
        ends = first + rows.indptr
        self._make_room(int(ends[-1]))
        self._indptr = grown(self._indptr, count + 1, 0)
        self._indptr[self.count : count + 1] = ends
        for array, part in zip(self._entries, rows[1:] if not self._width else rows[2:], strict=True):
            array[first : ends[-1]] = part
        self.count = count

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
        are_held = not self._width if self.count else not (self.spare_columns and are_full(sizes))
        return (12.0 if are_held else 8.0) * with_few_spare(sizes.entries) + 8.0 * with_spare(sizes.nodes)

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


def _is_full(row: SparseRow) -> bool:
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


class NodeTable(Table):
    """The contexts of an agent (``contexts``, sparse rows) and a column for everything that is held for each of them.

    Columns of its own, one entry for each decision or labelled row:

    ``id``            rising; ids stay when earlier nodes are evicted
    ``state``         code of `STATES`
    ``arm``           index of the arm chosen
    ``value``         what was learned: the reward, or the imputed reward where silent; NaN for nothing
    ``n_arms_known``  how many arms there were when it was learned
    ``time``          when it was decided; −∞ for labelled rows
    ``evict_order``   the lowest is evicted first
    ``propensity``    probability of the arm chosen
    ``scores``, ``widths`` (K,)    of the decision; NaN for arms that were added later
    """

    def __init__(self, n_arms: int) -> None:
        super().__init__(n_arms)
        self.next_id = 0
        self.contexts = RowStore()
        self.raw = self.contexts  # before they are scaled, where they are
        self.id = self.column("id", np.int64)
        self.state = self.column("state", np.int8, below=len(STATES))
        self.arm = self.column("arm", np.int32, below="arm")
        self.value = self.column("value", np.float64, fill=np.nan)
        self.n_arms_known = self.column("n_arms_known", np.int32)
        self.time = self.column("time", np.float64, fill=-np.inf)
        self.evict_order = self.column("evict_order", np.float64)
        self.propensity = self.column("propensity", np.float64, fill=np.nan)
        self.scores = self.column("scores", np.float64, "arm", fill=np.nan, new_arm=np.nan)
        self.widths = self.column("widths", np.float64, "arm", fill=np.nan, new_arm=np.nan)

    def append(self, row: SparseRow, state: int, time: float, evict_order: float) -> int:
        """A row for the next id, whose other columns hold their fill; returns its node."""
        node = self.contexts.append(row)
        if node == self._capacity:
            self.extend()
        self.count = node + 1
        self.id.data[node] = self.next_id
        self.state.data[node] = state
        self.time.data[node] = time
        self.evict_order.data[node] = evict_order
        self.next_id += 1
        return node

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Evict all nodes but these, which are renumbered in their order."""
        super().keep(rows)
        self.contexts.keep(rows)
        if self.raw is not self.contexts:
            self.raw.keep(rows)

    def find(self, id: int) -> int:
        """The node of an id that was given out, or −1 if it was evicted."""
        ids = self.id.data
        node = id - ids.item(0) if self.count else id
        if 0 <= node < self.count and ids.item(node) == id:  # as it is while the oldest are evicted
            return int(node)
        node = int(np.searchsorted(ids[: self.count], id))
        return node if node < self.count and ids[node] == id else -1

    def nodes(self, state: int) -> NDArray[np.int64]:
        """All nodes in a state, oldest first."""
        return np.flatnonzero(self.state.data[: self.count] == state)

    def check(self) -> None:
        """Raise `ValueError` unless what was loaded is sound."""
        ids, known = self.id.data, self.n_arms_known.data
        require((np.diff(ids) > 0).all() and in_range(ids, 0, self.next_id), "ids are not sound")
        require(in_range(known, 0, self.n_arms + 1), "numbers of arms are not sound")
        values, learned = self.value.data, ~np.isnan(self.value.data)
        require((known[learned] > self.arm.data[learned]).all(), "the arm that was learned was not there")
        require((np.abs(values[learned]) <= LARGEST).all(), "rewards are not allowed")
        observed = learned & np.isin(self.state.data, (REWARDED, LABELLED))
        require(((values[observed] >= 0) & (values[observed] <= 1)).all(), "rewards are not allowed")
        require(learned[np.isin(self.state.data, (REWARDED, LABELLED))].all(), "rewards are missing")
        require(not learned[self.state.data == PENDING].any(), "pending decisions have rewards")
        probable = np.isnan(self.propensity.data) | ((self.propensity.data >= 0) & (self.propensity.data <= 1))
        require(probable.all(), "propensities are not sound")
