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
    """The contexts at unit length; one without entries stays as it is.

    Arguments:
        contexts: the contexts.
        first: a factor of column 0, before lengths are taken.
    """

    def __init__(self, contexts: RowStore, first: float = 1.0) -> None:
        super().__init__()
        self._of, self._first = contexts, first

    def add(self, node: int) -> SparseRow:
        """Append the row of a context that has come, and return it."""
        columns, values = self._of[node]
        row = SparseRow(columns, self._unit_values(CSR(np.array([0, len(values)]), columns, values)))
        self.append(row)
        return row

    def _unit_values(self, rows: CSR) -> NDArray[np.float64]:
        values = rows.values if self._first == 1.0 else np.where(rows.columns == 0, self._first, 1.0) * rows.values
        return views.unit_values(rows.indptr, values)

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Make the rows anew from the contexts, whatever a file says of them."""
        self._remake(n_features)

    def rescale(self, change: Change) -> None:
        """Make the rows anew."""
        self._remake(self._of.n_features)

    def _remake(self, n_features: int) -> None:
        self.n_features, rows = n_features, self._of.rows
        self.replace(CSR(rows.indptr.copy(), rows.columns.copy(), self._unit_values(rows)))
