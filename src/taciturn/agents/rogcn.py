"""ROGCN: one graph network over all contexts, told what turned out right."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.base import BaseAgent, Scores
from taciturn.agents.encoder import GraphEncoder, NetworkSettings


@dataclass(kw_only=True, eq=False)
class ROGCN(NetworkSettings, BaseAgent):
    """The rewarded online graph convolutional network.

    Paper: Upadhyay et al. (2020), algorithm 1.

        p = softmax(Â ReLU(ÂX W1) W2)      ŷ = argmax_k p_tk

    reward 1    the label ŷ joins the training set
    reward 0    nothing
    silence     nothing; but the context is a node of the graph, as every context is

    Shapes: T contexts, K arms; p is (T, K). The scores are probabilities and have no widths: it does not explore.
    """

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        super().__post_init__()
        self.check_network()

    def _begin(self) -> None:
        self._encoder = GraphEncoder(self, self._rows, heads=1, classes=len(self._arm_names), rng=self._rng)

    def _widen(self, dimension: int) -> None:
        self._encoder.widen(dimension)

    def _arrive(self, node: int, neighbors: list[int] | None) -> None:
        self._encoder.arrive(node, neighbors)

    def _started(self) -> None:
        self._encoder.train(self.start_epochs)

    def _score(self, node: int) -> Scores:
        self._encoder.train_now_or_later(later=self.deferred)
        return self._encoder.probabilities(node)[0], np.zeros(len(self._arm_names))

    def _learn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        if reward > 0.5:
            self._encoder.labels[node, 0] = arm

    def _unlearn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        self._encoder.labels[node, 0] = -1

    def _train_step(self) -> bool:
        return self._encoder.train_step()

    def _keep(self, kept: NDArray[np.int64]) -> None:
        self._encoder.keep(kept)

    def _add_arm(self, like: int | None) -> None:
        self._encoder.add_class(like)

    def _near(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._encoder.graph.near(node)

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        return (self._encoder.heads, self._encoder.classes) == (1, arms)

    def _estimate(self, arms: int, dimension: int, nodes: int) -> float:
        return super()._estimate(arms, dimension, nodes) + self.estimate_network(1, arms, dimension, nodes)
