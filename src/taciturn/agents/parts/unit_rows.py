"""Contexts at unit length, beside the contexts themselves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.table import RowStore
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import views
from taciturn.kernels.csr import CSR


class UnitRows(RowStore):
    """The contexts at unit length, in double and in single precision; one without entries stays as it is.

    Columns are those of the contexts, and not held again.

    Arguments:
        contexts: the contexts.
        first: a factor of column 0, before lengths are taken.
    """

    def __init__(self, contexts: RowStore, first: float = 1.0) -> None:
        super().__init__()
        self._of, self._first = contexts, first
        self._entries = (np.zeros(256), np.zeros(256, np.float32))  # values in double and in single precision

    @property
    def columns(self) -> NDArray[np.int32]:
        """Those of the contexts."""
        return self._of.columns

    @property
    def _values(self) -> NDArray[np.float64]:
        return self._entries[0]

    @property
    def singles(self) -> CSR:
        """All rows in single precision."""
        indptr, columns, values = self.rows
        return CSR(indptr, columns, self._entries[1][: len(values)])

    def add(self, node: int) -> SparseRow:
        """Append the row of a context that has come, and return it."""
        columns, values = self._of[node]
        units = values.copy()
        self._to_unit_length(np.array([0, len(values)]), columns, units)
        self._append(units, units)
        return SparseRow(columns, units)

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
        self.n_features, rows = n_features, self._of.rows
        self.count, self._indptr = len(rows.indptr) - 1, rows.indptr.copy()
        self._make_room(len(rows.values))
        values, singles = (array[: len(rows.values)] for array in self._entries)  # what they held is not needed
        values[...] = rows.values
        self._to_unit_length(rows.indptr, rows.columns, values)
        singles[...] = values
