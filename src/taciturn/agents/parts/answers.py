"""What the answers so far say of answers to come: how often they come, and what each arm earns on average."""

from typing import Any, ClassVar

import numpy as np

from taciturn.agents.parts.part import Array, Part, require
from taciturn.agents.table import REWARDED, SILENT, NodeTable


class Answers(Part):
    """The share of decisions that were answered, and the mean target of each arm, over the contexts that are held.

    Arguments:
        table: the contexts with their states, arms and rewards.
        targets, weights: columns (T, K): the targets and their weights.
    """

    SAVED: ClassVar[dict[str, str]] = {"share": "share"}

    def __init__(self, table: NodeTable, targets: Array, weights: Array) -> None:
        super().__init__()
        self._table, self._targets, self._weights = table, targets, weights
        self.share = 1.0
        self.means = self.array("means", np.float64, "arm")

    @property
    def exploration(self) -> float:
        """How much exploration is worth where a share a of decisions is answered: ``min(√a, 2a)``.

        To hear of an arm once it must be tried 1/a times. Below a quarter there are too few answers in all for what is
        explored to be used.
        """
        return float(min(self.share**0.5, 2.0 * self.share))

    def update(self) -> None:
        """Count anew; decisions that wait for their answer count for neither."""
        table, count = self._table, self._table.count
        states = table.state.data[:count]
        answered, silent = int((states == REWARDED).sum()), int((states == SILENT).sum())
        self.share = (answered + 1.0) / (answered + silent + 1.0)
        weights = self._weights.data[:count]
        earned = (weights * self._targets.data[:count]).sum(axis=0, dtype=float)
        self.means.data = earned / np.maximum(weights.sum(axis=0, dtype=float), 1.0)

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """A share is from 0 to 1; means are those of rewards, or of constants learned in silence."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        require(0 < self.share <= 1, "the share of answers is not one")
        require(np.isfinite(self.means.data).all(), "the means of rewards are not finite")
