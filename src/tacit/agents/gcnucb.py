"""GCNUCB: a graph network an arm, and a bandit on what each of them sees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.agents.base import Scores
from tacit.agents.contexts import room_for
from tacit.agents.encoder import GraphEncoder, NetworkSettings
from tacit.agents.linear import unit
from tacit.agents.warmup import WarmedUpAgent
from tacit.contracts import ContextSpace
from tacit.kernels.gcn import to_unit_length
from tacit.kernels.ridge import evidence


@dataclass(kw_only=True, eq=False)
class GCNUCB(NetworkSettings, WarmedUpAgent):
    """The multi-GCN embedded bandit.

    Paper: Upadhyay et al. (2020), algorithm 3 and equations 2 to 4. Arm k has a binary network of its own, whose
    embedding g_t = Â ReLU(ÂX W1_k), at unit length, is the context that the arm sees. As the graph grows and the
    networks train, the contexts of old decisions move; so the regressions start afresh at every step:

        A_k = λI + Σ_{t ∈ C_k} g_t g_tᵀ                      θ_k = A_k⁻¹ Σ_{t ∈ C_k} r_tk g_t
        μ_k = θ_kᵀg_t      σ_k = α √(g_tᵀA_k⁻¹g_t)      ŷ = argmax_k (μ_k + σ_k)

    reward 1    all networks get a label (1 for ŷ's, 0 for the others'), t joins every C_k with that reward
    reward 0    ŷ's network gets the label 0, t joins C_ŷ with reward 0
    silence     t joins C_ŷ with the probability that ŷ's own network gives it

    Shapes: T contexts, K arms, L hidden units; g is (T, K, L), `_rewards` is (T, K) with NaN where t is not in C_k.
    """

    normalize_theta: bool = True

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        super().__post_init__()
        self.check_network()

    def _begin(self) -> None:
        super()._begin()
        arms = len(self._arm_names)
        self._encoder = GraphEncoder(self, self._rows, heads=arms, classes=2, rng=self._rng)
        self._rewards = np.zeros((0, arms))

    def _widen(self, dimension: int) -> None:
        super()._widen(dimension)
        self._encoder.widen(dimension)

    def _arrive(self, node: int, neighbors: list[int] | None) -> None:
        self._encoder.arrive(node, neighbors)
        self._rewards = room_for(self._rewards, node + 1, np.nan)

    def _started(self) -> None:
        self._encoder.train(self.start_epochs)

    def _score(self, node: int) -> Scores:
        self._encoder.train(self.steps_per_arrival)
        return super()._score(node)

    def context_space(self) -> ContextSpace:
        """The contexts as each arm sees them now (T, K, L), and θ (K, L)."""
        contexts, covariances, targets = self._evidence()
        theta = np.asarray(np.linalg.solve(covariances, targets[..., None])[..., 0], dtype=float)
        return ContextSpace(contexts.astype(float), unit(theta) if self.normalize_theta else theta)

    def _score_own(self, node: int) -> Scores:
        contexts, covariances, targets = self._evidence()
        here = contexts[node].astype(float)
        solved = np.linalg.solve(covariances, np.stack([targets, here], axis=-1))
        theta, spread = solved[..., 0], (here * solved[..., 1]).sum(axis=1)
        means = ((unit(theta) if self.normalize_theta else theta) * here).sum(axis=1)
        return means, self.alpha * np.sqrt(np.maximum(spread, 0.0))

    def _evidence(self) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """The contexts as the arms see them now, at unit length (T, K, L), with A (K, L, L) and b (K, L)."""
        contexts = self._encoder.embeddings()
        to_unit_length(contexts)
        return contexts, *evidence(contexts, self._rewards[: len(contexts)], self.ridge)

    def _learn_own(self, node: int, arm: int, reward: float | None) -> None:
        if reward is None:
            self._rewards[node, arm] = self._encoder.probabilities(node)[arm, 1]
        elif reward == 1 and self.one_right_arm:
            right = np.arange(len(self._arm_names)) == arm
            self._encoder.labels[node] = right
            self._rewards[node] = right
        else:
            self._encoder.labels[node, arm] = reward > 0.5
            self._rewards[node, arm] = reward
