"""Ridge regressions of all arms through the contexts that they learned: exact whatever the number of features."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.lifecycle import Example, Lifecycle
from taciturn.agents.parts.part import Part, Scores, Sizes, in_range, is_array, require
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import dual

FIRST_SLOTS = 16

LARGEST_SQUARE = 2.0**20
"""Rows up to this ``‖x‖²/λ``: widths are differences of such numbers, and changes that come and go cost more digits."""


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
        self._nodes = np.zeros(0, np.int64)  # the node of each slot
        self._inverse, self._targets = np.zeros((0, 0, 0)), np.zeros((0, 0))  # (K, N, N) and (K, N)

    def has_room_for(self, row: SparseRow) -> bool:
        """Whether one example more can be learned exactly."""
        return self._count < self.rank and self._size(row) <= LARGEST_SQUARE * self._ridge_weight

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return len(self._inverse)

    @property
    def is_over_full(self) -> bool:
        """Whether there are more examples than its rank allows, which may have become lower."""
        return self._count > self.rank

    @staticmethod
    def _size(row: SparseRow) -> float:
        return float(row.values @ row.values)

    def _products(self, row: SparseRow) -> NDArray[np.float64]:
        rows, full = self._contexts.rows_or_full
        return dual.row_products(rows, self._nodes[: self._count], *row, full)

    def scores(self, row: SparseRow, alpha: float, *, normalize_theta: bool = False) -> Scores:
        """``μ_k = θ_kᵀx`` and ``σ_k = α √(xᵀA_k⁻¹x)`` for all arms (K,)."""
        of = self._inverse, self._targets, self._products(row), self._size(row), self._ridge_weight
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
        if slot == len(self._nodes):
            self._resize(len(self._inverse), max(2 * slot, FIRST_SLOTS))
        of = self._products(row), self._size(row), self._ridge_weight
        dual.add_to_history(self._inverse, example.mask, *of, slot)
        self._targets[: len(example.mask), slot] = np.where(example.mask, example.targets, 0.0)
        self._nodes[slot] = example.node
        self._count += 1

    def unlearn(self, example: Example) -> None:
        """Take the context out of its slot, into which the last one moves."""
        if example.imputed and not self._imputed:
            return
        [slot] = np.flatnonzero(self._nodes[: self._count] == example.node)
        dual.remove_from_history(self._inverse, example.mask, int(slot), self._count)
        self._count -= 1
        last, inverse, targets = self._count, self._inverse, self._targets
        if slot != last:
            inverse[:, slot], targets[:, slot] = inverse[:, last], targets[:, last]
            inverse[:, :, slot] = inverse[:, :, last]
            inverse[:, slot, slot] = inverse[:, last, last]
            self._nodes[slot] = self._nodes[last]
        inverse[:, last], inverse[:, :, last], targets[:, last], self._nodes[last] = 0.0, 0.0, 0.0, 0

    def relearn(self) -> None:
        """Learn all examples that are held afresh."""
        self.allocate(self.n_arms, self._contexts.n_features)
        for example in self._lifecycle.examples():
            self.learn(example)

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (K, D)."""
        n = self._count
        duals = np.einsum("kij,kj->ki", self._inverse[:, :n, :n], self._targets[:, :n])
        theta = np.zeros((self._contexts.n_features, self.n_arms))
        for slot, node in enumerate(self._nodes[:n].tolist()):
            columns, values = self._contexts[node]
            theta[columns] += values[:, None] * duals[:, slot]
        return theta.T

    # Growth and files.

    def allocate(self, n_arms: int, n_features: int) -> None:
        """Nothing is learned."""
        self._count = 0
        self._nodes = np.zeros(0, np.int64)
        self._inverse, self._targets = np.zeros((n_arms, 0, 0)), np.zeros((n_arms, 0))

    def _resize(self, n_arms: int, slots: int) -> None:
        """Room for so many; what is there stays."""
        (arms, before), n = self._targets.shape, slots
        nodes, inverse, targets = np.zeros(n, np.int64), np.zeros((n_arms, n, n)), np.zeros((n_arms, n))
        nodes[:before], targets[:arms, :before] = self._nodes, self._targets
        inverse[:arms, :before, :before] = self._inverse
        self._nodes, self._inverse, self._targets = nodes, inverse, targets

    def add_arm(self, like: int | None) -> None:
        """An arm that has learned nothing."""
        self._resize(self.n_arms + 1, len(self._nodes))

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Contexts that were not learned are gone; the others have new numbers."""
        self._nodes[: self._count] = np.searchsorted(nodes, self._nodes[: self._count])

    def rescale(self, change: Change) -> None:
        """Products of moved rows are others."""
        self.relearn()

    def nbytes(self, sizes: Sizes) -> float:
        """M and the targets of as many examples as there may be; slots are twice as many as there were."""
        return 8.0 * sizes.arms * self.rank * (self.rank + 1)

    def state_dict(self) -> dict[str, Any]:
        """What slots are in use."""
        n = self._count
        inverse, targets = self._inverse[:, :n, :n], self._targets[:, :n]
        return {"nodes": self._nodes[:n], "inverse": inverse.copy(), "targets": targets.copy()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take over what `state_dict` returned."""
        nodes, inverse, targets = state["nodes"], state["inverse"], state["targets"]
        n = len(nodes)
        require(n <= self.rank and is_array(nodes, np.int64, n), "the history does not fit")
        require(in_range(nodes, 0, n_nodes) and len(set(nodes.tolist())) == n, "the history names other contexts")
        require(is_array(inverse, np.float64, n_arms, n, n), "the history does not fit")
        require(is_array(targets, np.float64, n_arms, n), "the history does not fit")
        require(np.isfinite(inverse).all() and np.isfinite(targets).all(), "the history is not finite")
        self._count, self._nodes, self._inverse, self._targets = n, nodes, inverse, targets
