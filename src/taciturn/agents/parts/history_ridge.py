"""Ridge regressions of all arms through the contexts that they learned: exact whatever the number of features."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.lifecycle import Example, Lifecycle
from taciturn.agents.parts.part import Part, Scores, in_range, is_array, require
from taciturn.agents.table import RowStore
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import dual

LARGEST_SQUARE = 2.0**20
"""Rows up to this ``‖x‖²/λ``: widths are differences of such numbers, which leaves them ten digits."""


class HistoryRidge(Part):
    """The dual form of `ArmRidge`, for few examples: see `kernels.dual`.

    Each context that was learned has a slot. It must be held: this is not for agents that evict contexts.

    Arguments:
        contexts: the rows that examples name by their node.
        lifecycle: what was learned so far.
        ridge_weight: λ.
        imputed: whether imputed rewards are learned too.
        rank: how many examples there may be.
    """

    def __init__(
        self, contexts: RowStore, lifecycle: Lifecycle, ridge_weight: float, *, imputed: bool, rank: int
    ) -> None:
        super().__init__()
        self._contexts, self._lifecycle, self._ridge_weight = contexts, lifecycle, ridge_weight
        self._imputed, self.rank = imputed, rank
        self._count = 0
        self._nodes = self.array("nodes", np.int64, rank)  # the node of each slot in use
        self._inverse = self.array("inverse", np.float64, "arm", rank, rank)
        self._targets = self.array("targets", np.float64, "arm", rank)

    def has_room_for(self, row: SparseRow) -> bool:
        """Whether one example more can be learned exactly."""
        return self._count < self.rank and self._size(row) <= LARGEST_SQUARE * self._ridge_weight

    @staticmethod
    def _size(row: SparseRow) -> float:
        return float(row.values @ row.values)

    def _products(self, row: SparseRow) -> NDArray[np.float64]:
        return dual.row_products(self._contexts.rows, self._nodes.data[: self._count], *row)

    def scores(self, row: SparseRow, alpha: float, *, normalize_theta: bool = False) -> Scores:
        """``μ_k = θ_kᵀx`` and ``σ_k = α √(xᵀA_k⁻¹x)`` for all arms (K,)."""
        of = self._inverse.data, self._targets.data, self._products(row), self._size(row), self._ridge_weight
        means, spreads = dual.history_scores(*of)
        if normalize_theta:
            lengths = np.linalg.norm(self.theta, axis=1)
            means = means / np.where(lengths > 0, lengths, 1.0)
        return means, alpha * np.sqrt(spreads)

    def learn(self, example: Example) -> None:
        """Give the context a slot, in which the arms that the example labels have it."""
        if example.imputed and not self._imputed:
            return
        row, slot = self._contexts[example.node], self._count
        of = self._products(row), self._size(row), self._ridge_weight
        dual.add_to_history(self._inverse.data, example.mask, *of, slot)
        self._targets.data[: len(example.mask), slot] = np.where(example.mask, example.targets, 0.0)
        self._nodes.data[slot] = example.node
        self._count += 1

    def unlearn(self, example: Example) -> None:
        """Take the context out of its slot, into which the last one moves."""
        if example.imputed and not self._imputed:
            return
        [slot] = np.flatnonzero(self._nodes.data[: self._count] == example.node)
        dual.remove_from_history(self._inverse.data, example.mask, int(slot), self._count)
        self._count -= 1
        last, inverse, targets = self._count, self._inverse.data, self._targets.data
        if slot != last:
            inverse[:, slot], targets[:, slot] = inverse[:, last], targets[:, last]
            inverse[:, :, slot] = inverse[:, :, last]
            inverse[:, slot, slot] = inverse[:, last, last]
            self._nodes.data[slot] = self._nodes.data[last]
        inverse[:, last], inverse[:, :, last], targets[:, last], self._nodes.data[last] = 0.0, 0.0, 0.0, 0

    def relearn(self) -> None:
        """Learn all examples that are held afresh."""
        for array in (self._inverse, self._targets, self._nodes):
            array.data[...] = 0
        self._count = 0
        for example in self._lifecycle.examples():
            self.learn(example)

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (K, D)."""
        duals = np.einsum("kij,kj->ki", self._inverse.data, self._targets.data)[:, : self._count]
        theta = np.zeros((len(duals), self._contexts.n_features))
        for slot, node in enumerate(self._nodes.data[: self._count]):
            columns, values = self._contexts[int(node)]
            theta[:, columns] += duals[:, slot, None] * values
        return theta

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Contexts that were not learned are gone; the others have new numbers."""
        self._nodes.data[: self._count] = np.searchsorted(nodes, self._nodes.data[: self._count])

    def rescale(self, change: Change) -> None:
        """Products of moved rows are others."""
        self.relearn()

    def state_dict(self) -> dict[str, Any]:
        """What slots are in use."""
        n = self._count
        inverse, targets = self._inverse.data[:, :n, :n], self._targets.data[:, :n]
        return {"nodes": self._nodes.data[:n], "inverse": np.ascontiguousarray(inverse), "targets": targets.copy()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take over what `state_dict` returned."""
        nodes, inverse, targets = state["nodes"], state["inverse"], state["targets"]
        n = len(nodes)
        require(n <= self.rank and is_array(nodes, np.int64, n), "the history does not fit")
        require(in_range(nodes, 0, n_nodes) and len(set(nodes.tolist())) == n, "the history names other contexts")
        require(is_array(inverse, np.float64, n_arms, n, n), "the history does not fit")
        require(is_array(targets, np.float64, n_arms, n), "the history does not fit")
        require(np.isfinite(inverse).all() and np.isfinite(targets).all(), "the history is not finite")
        super().allocate(n_arms, n_features)
        self._count, self._nodes.data[:n], self._targets.data[:, :n] = n, nodes, targets
        self._inverse.data[:, :n, :n] = inverse
