"""ROGCN: one graph network over all contexts, trained on the arms that were rewarded."""

from dataclasses import dataclass

import numpy as np

from taciturn.agents.base import BaseAgent
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.encoder import GraphEncoder, NetworkSettings
from taciturn.agents.parts.part import Part, Scores


@dataclass(kw_only=True, eq=False)
class ROGCN(NetworkSettings, BaseAgent):
    """The rewarded online graph convolutional network.

    Paper: Upadhyay et al. (2020), algorithm 1.

        p = softmax(Â ReLU(ÂX W1) W2)      ŷ = argmax_k p_tk

    reward 1    the label ŷ joins the training set
    reward 0    nothing
    silence     nothing; but the context is a node of the graph, as every context is

    Arguments: those of `NetworkSettings` and `BaseAgent`.

    Shapes: T contexts, K arms; p is (T, K). The scores are probabilities and have no widths: it does not explore.
    """

    tag = "rogcn"

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        self._network = self.network_settings()

    def _build(self) -> dict[str, Part]:
        self._encoder = GraphEncoder(self._table, self._network, self._rng, per_arm=False)
        return {"encoder": self._encoder}

    def _add_context(self, node: int, neighbors: list[int] | None) -> None:
        self._encoder.add_context(node, neighbors)

    def _score(self, node: int) -> Scores:
        self._encoder.schedule_training()
        return self._encoder.probabilities(self._encoder.embedding(node))[0], np.zeros(len(self._arm_names))

    def _learn(self, example: Example) -> None:
        if example.reward > 0.5:
            self._encoder.label(example.node, 0, example.arm)

    def _unlearn(self, example: Example) -> None:
        self._encoder.label(example.node, 0, -1)
