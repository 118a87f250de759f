"""Contexts on a common scale, held beside the raw ones or made from them."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.arrays import in_pages
from taciturn.agents.parts.part import Array, Sizes, with_spare
from taciturn.agents.rows import PIECE, WIDE, RawRows, RowStore, columns_of_full, is_full
from taciturn.contracts import SparseRow
from taciturn.features.scale import Scaler
from taciturn.kernels.csr import CSR
from taciturn.kernels.views import full_width

MOST_MADE = 4096
"""Up to so many wide rows are made where they are needed; of more, all are needed often."""

MAKING = 48.0
"""Bytes for each entry of a piece that is made: raw ones, scaled ones, and what is between."""


class ScaledRows(RowStore):
    """The rows that a scale makes of raw ones, which the raw store has already.

    If `spare_values` is set, rows that are wide and have no zeros, raw or scaled, are not held while they are few: they
    are made when they are read, bit for bit those that would be held. The last row is held, since it is read next.

    Arguments:
        raw: the raw rows.
        scaler: the scale of now.
        ids: the ids of the rows, which say whether they have bins.
    """

    def __init__(self, raw: RawRows, scaler: Scaler, ids: Array) -> None:
        super().__init__()
        self._raw, self._scaler, self._ids = raw, scaler, ids
        self._is_made = False

    def _may_be_made(self, width: int) -> bool:
        """Whether rows of such a width, 0 if one has zeros, need not be held."""
        return self.spare_values and width > 0 and self._raw.is_full

    def _fit_values(self, width: int, count: int) -> None:
        """Hold values, or no longer, as is right with rows of such a width that come, and so many then."""
        may_be_made = count <= MOST_MADE and self._may_be_made(width)
        if self.count == 0:
            self._is_made = may_be_made
            if may_be_made:
                self._width, self._entries = width, (np.zeros(0),)
        elif self._is_made and not (may_be_made and width == self._width):
            self.hold_values()

    def hold_values(self) -> None:
        """Hold values from now on; before columns are opened, since rows so far are as they were without."""
        if self._is_made:
            values = in_pages(with_spare(self.n_entries), np.float64)
            self._write(values[: self.n_entries], np.arange(self.count))
            self._is_made, self._entries = False, (values,)

    def _write(self, values: NDArray[np.float64], nodes: NDArray[np.int64]) -> None:
        """Write the values of the rows at some nodes, some at a time."""
        at_once, rows = max(PIECE // self._width, 1), values.reshape(len(nodes), self._width)
        for first in range(0, len(nodes), at_once):
            some = nodes[first : first + at_once]
            rows[first : first + at_once] = self._made(some, self._raw.some(some))

    def _made(self, nodes: NDArray[np.int64], raw: CSR) -> NDArray[np.float64]:
        """The values (n, W) of the rows at some nodes, of the raw ones."""
        n = len(nodes)
        made = None
        if self._raw.is_full:
            made = self._scaler.scaled_without_zeros(raw.values.reshape(n, -1), self._width)
        return self._scaler.scaled_rows(raw, self._ids.data[nodes]).values.reshape(n, -1) if made is None else made

    def append(self, row: SparseRow) -> int:
        """Add a row at the end and return its number."""
        self._fit_values(len(row.columns) if is_full(row) else 0, self.count + 1)
        if not self._is_made:
            return super().append(row)
        self._next_entries(self._width)
        self._last_row = SparseRow(columns_of_full(self._width), row.values.copy())
        self._last = node = self.count - 1
        return node

    def extend(self, rows: CSR) -> None:
        """Add rows at the end."""
        if self.spare_values:
            width = full_width(rows)
            n_rows = max(self._raw.count, self.count + len(rows.indptr) - 1)
            self._fit_values(width if width >= WIDE else 0, n_rows)
        if self._is_made:
            self._next_entries_of(rows.indptr)
        else:
            super().extend(rows)

    def _make_room(self, stop: int) -> None:
        if not self._is_made:
            super()._make_room(stop)

    @property
    def _values(self) -> NDArray[np.float64]:
        self.hold_values()
        return self._entries[-1]

    def __getitem__(self, node: int) -> SparseRow:
        """One row, as a view or made."""
        if node == self._last or not self._is_made:
            return super().__getitem__(node)
        return SparseRow(columns_of_full(self._width), self._full_rows(np.array([node])).values)

    def _full_rows(self, of: Any) -> CSR:
        if not self._is_made:
            return super()._full_rows(of)
        nodes = np.arange(self.count)[of]
        values = np.empty(len(nodes) * self._width)
        self._write(values, nodes)
        return CSR(np.arange(len(nodes) + 1) * self._width, columns_of_full(self._width, len(nodes)), values)

    def matrix(self, start: int, stop: int) -> sp.csr_matrix:
        """Some of the rows as a CSR matrix of its own."""
        if not self._is_made:
            return super().matrix(start, stop)
        indptr, columns, values = self._full_rows(slice(start, stop))
        return sp.csr_matrix((values, columns.copy(), indptr.astype(np.int32)), shape=(stop - start, self.n_features))

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all rows but these, which are renumbered in their order."""
        if not self._is_made:
            super().keep(nodes)
            return
        self.count = len(nodes)  # rows are of one length, so that they end where others did
        self._forget_last()

    def nbytes(self, sizes: Sizes) -> float:
        """As much as ends of rows take, where rows are made."""
        return 8.0 * with_spare(sizes.nodes) if self._will_be_made(sizes) else super().nbytes(sizes)

    def working_nbytes(self, sizes: Sizes) -> float:
        """A piece of the rows, where they are made."""
        if not self._will_be_made(sizes):
            return super().working_nbytes(sizes)
        return MAKING * min(max(PIECE, sizes.features), sizes.entries)

    def _will_be_made(self, sizes: Sizes) -> bool:
        are_made = self._is_made if self.count > 1 else self.spare_values and self.will_be_full(sizes)
        return are_made and sizes.nodes <= MOST_MADE
