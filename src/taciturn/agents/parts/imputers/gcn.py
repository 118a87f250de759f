"""Imputation by a graph network: ROGCN as an imputer."""

from dataclasses import dataclass

import numpy as np

from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.encoder import GraphEncoder, NetworkSettings
from taciturn.agents.parts.imputers.base import BaseImputer
from taciturn.agents.parts.part import Part
from taciturn.agents.table import NodeTable


@dataclass(kw_only=True, eq=False)
class GCNImputer(NetworkSettings, BaseImputer):
    """The softmax of a graph network that is trained on rewarded arms."""

    tag = "imputer/gcn"

    def __post_init__(self) -> None:
        """Check the parameters."""
        self.network_settings()

    def build(self, table: NodeTable, rng: np.random.Generator) -> Part:
        """One network with a class an arm holds all state."""
        self._encoder = GraphEncoder(table, self.network_settings(), rng, per_arm=False)
        return self._encoder

    def add_context(self, node: int, neighbors: list[int] | None) -> None:
        """Let the context join the graph, and train."""
        self._encoder.add_context(node, neighbors)
        self._encoder.schedule_training()

    def learn(self, example: Example) -> None:
        """A rewarded arm is a label."""
        if example.reward > 0.5:
            self._encoder.label(example.node, 0, example.arm)

    def unlearn(self, example: Example) -> None:
        """Remove the label; the weights train on without it."""
        self._encoder.label(example.node, 0, -1)

    def impute(self, node: int, arm: int) -> float:
        """The network's probability of the arm."""
        return float(self._encoder.probabilities(self._encoder.embedding(node))[0, arm])
