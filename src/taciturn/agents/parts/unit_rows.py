"""Contexts at unit length, beside the contexts themselves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import Sizes, with_spare
from taciturn.agents.rows import RowStore, columns_of_full, with_few_spare
from taciturn.agents.scaled_rows import MOST_MADE
from taciturn.agents.table import Table
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import views
from taciturn.kernels.csr import CSR


def lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """``‖x‖`` of rows (N, W), bit for bit as `views.to_unit_length` has it, by sums in order; 1 of a row of zeros."""
    norms2 = np.cumsum(rows * rows, axis=1)[:, -1]
    return np.sqrt(np.where(norms2 > 0.0, norms2, 1.0))


class UnitRows(RowStore):
    """The contexts at unit length, in double and in single precision; one without entries stays as it is.

    Columns are those of the contexts, and not held again. Where the contexts are wide and have no zeros, so that theirs
    are not held either, only single precision is, and some rows at a time are made in double precision: bit for bit
    those that would be held.

    Arguments:
        contexts: the contexts.
        first: a factor of column 0, before lengths are taken.
    """

    at_unit_length = True

    def __init__(self, contexts: RowStore, first: float = 1.0) -> None:
        super().__init__()
        self._of, self._first = contexts, first
        self._entries = (np.zeros(256), np.zeros(256, np.float32))  # values in double and in single precision
        self._by_row = Table()
        self._lengths = self._by_row.column("lengths", np.float64)  # of the contexts, where rows are made

    @property
    def columns(self) -> NDArray[np.int32]:
        """Those of the contexts."""
        self.hold()
        return self._of.columns

    @property
    def _values(self) -> NDArray[np.float64]:
        self.hold()
        return self._entries[0]

    @property
    def _is_held(self) -> bool:
        return len(self._entries) == 2

    def _may_be_made(self) -> bool:
        return self._of.is_full and self._of.count <= MOST_MADE

    def hold(self) -> None:
        """Hold double precision from now on, and the columns of the contexts."""
        if not self._is_held:
            self._of.hold_columns()
            self._remake(self.n_features)

    @property
    def singles(self) -> CSR:
        """All rows in single precision."""
        indptr, columns, values = self.rows
        return CSR(indptr, columns, self._entries[1][: len(values)])

    @property
    def dense_singles(self) -> NDArray[np.float32] | None:
        """The rows (T, W) in single precision, where those in double precision are not held."""
        if self._is_held:
            return None
        return self._entries[0][: self.n_entries].reshape(self.count, self.n_entries // max(self.count, 1))

    def without_zeros(self) -> NDArray[np.float32] | None:
        """The rows (T, W) in single precision, where they have no zeros; else None."""
        if not self._is_held:
            return self.dense_singles
        rows = self.singles
        width = views.full_width(rows)
        return rows.values.reshape(self.count, width) if width else None

    def for_products(self) -> views.Rows:
        """All rows in single precision, for products; where they have no zeros, as one matrix."""
        dense = self.dense_singles
        if dense is None:
            return views.rows_of(self.singles)
        return views.Rows(
            CSR(self._indptr[: self.count + 1], columns_of_full(dense.shape[1]), dense.reshape(-1)), dense
        )

    def __getitem__(self, node: int) -> SparseRow:
        """One row, as a view or made; not to be written to."""
        if self._is_held or node == self._last:
            return super().__getitem__(node)
        rows, _ = self.at(np.array([node]))
        return SparseRow(rows.columns, rows.values)

    def at(self, nodes: NDArray[np.int64]) -> tuple[CSR, NDArray[np.int64]]:
        """Rows for kernels, and which of them are those at some nodes: all as views, or these alone, made."""
        if self._is_held:
            return self.rows, nodes
        rows = self._of.some(nodes)
        units = rows.values.reshape(len(nodes), -1)
        units[:, 0] *= self._first
        units /= self._lengths.data[nodes, None]
        return rows, np.arange(len(nodes))

    @property
    def approximate(self) -> CSR:
        """All rows in single precision, which is half to read."""
        return self.singles

    def add(self, node: int) -> SparseRow:
        """Append the row of a context that has come, and return it."""
        if self._is_held == self._may_be_made():
            self._remake(self._of.n_features)
            return self[node]
        columns, values = self._of[node]
        units = values.copy()
        if self._is_held:
            self._to_unit_length(np.array([0, len(values)]), columns, units)
        else:
            units[0] *= self._first
            self._by_row.extend()
            self._lengths.data[node] = length = lengths(units[None])[0]
            units /= length
        self._append(*[units] * len(self._entries))
        self._last, self._last_row = node, SparseRow(columns, units)  # it is looked for among all others now
        return self._last_row

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all rows but these, which are renumbered in their order."""
        super().keep(nodes)
        if not self._is_held:
            self._by_row.keep(nodes)

    def _to_unit_length(
        self, indptr: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float64]
    ) -> None:
        """Bring rows to unit length, in place."""
        if self._first != 1.0:
            values[columns == 0] *= self._first
        views.to_unit_length(indptr, values)

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Make the rows anew from the contexts, whatever a file says of them."""
        self._remake(n_features)

    def rescale(self, change: Change) -> None:
        """Make the rows anew."""
        self._remake(self._of.n_features)

    def _remake(self, n_features: int) -> None:
        are_made = self._may_be_made()
        if not are_made:
            self._of.hold_columns()
        self.clear()
        self.n_features, n_entries, singles = n_features, self._of.n_entries, self._entries[-1]
        self._entries = (*(() if are_made else self._entries[:-1] or (np.zeros(0),)), singles)
        self._make_room(n_entries)
        self.count, self._indptr = self._of.count, self._of.ends.copy()
        self._by_row.keep(np.arange(0))
        self._by_row.extend(self.count if are_made else 0)
        for first, (indptr, columns, values) in self._of.pieces():
            stop = first + len(indptr) - 1
            entries = slice(self._indptr[first], self._indptr[stop])
            if are_made:
                units = values.reshape(stop - first, -1).copy()
                units[:, 0] *= self._first
                self._lengths.data[first:stop] = lengths(units)
                self._entries[0][entries] = (units / self._lengths.data[first:stop, None]).reshape(-1)
            else:
                units = self._entries[0][entries]  # what it held is not needed
                units[...] = values
                self._to_unit_length(indptr, columns, units)
                self._entries[-1][entries] = units

    def nbytes(self, sizes: Sizes) -> float:
        """Single precision, and double precision where it is held, with columns that the contexts then hold too."""
        if not self._of.will_be_full(sizes):
            return super().nbytes(sizes)
        each = 4.0 if sizes.nodes <= MOST_MADE else 16.0
        return each * with_few_spare(sizes.entries) + 16.0 * with_spare(sizes.nodes)

    def working_nbytes(self, sizes: Sizes) -> float:
        """Where rows are made, at worst all of them, with their columns: a neighborhood can be large."""
        is_made = self._of.will_be_full(sizes) and sizes.nodes <= MOST_MADE
        return 12.0 * sizes.entries if is_made else super().working_nbytes(sizes)

    def state_dict(self) -> dict[str, Any]:
        """The rows, if they are held; they are made anew from the contexts."""
        return super().state_dict() if self._is_held else {}
