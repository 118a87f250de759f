"""Contexts at unit length, beside the contexts themselves."""

from typing import Any

import numpy as np

from taciturn.agents.table import RowStore
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import views
from taciturn.kernels.csr import CSR


def unit_row(row: SparseRow) -> SparseRow:
    """A context at unit length; one without entries stays as it is."""
    return SparseRow(row.columns, views.unit_values(np.array([0, len(row.values)]), row.values))


class UnitRows(RowStore):
    """The contexts at unit length."""

    def __init__(self, contexts: RowStore) -> None:
        super().__init__()
        self._of = contexts

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Make the rows anew from the contexts, whatever a file says of them."""
        self._remake(n_features)

    def rescale(self, change: Change) -> None:
        """Make the rows anew."""
        self._remake(self._of.n_features)

    def _remake(self, n_features: int) -> None:
        self.n_features, rows = n_features, self._of.rows
        self.replace(CSR(rows.indptr.copy(), rows.columns.copy(), views.unit_values(rows.indptr, rows.values)))
