"""GCNUCB: a graph network an arm, and a bandit on what each of them sees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.base import Scores
from taciturn.agents.contexts import keep_rows, room_for
from taciturn.agents.encoder import GraphEncoder, NetworkSettings
from taciturn.agents.linear import unit
from taciturn.agents.storage import fits
from taciturn.agents.warmup import WarmedUpAgent
from taciturn.contracts import ContextSpace
from taciturn.kernels.gcn import to_unit_length
from taciturn.kernels.ridge import normal_equations


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
        self._encoder.train_now_or_later(later=self.deferred)
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
        return contexts, *normal_equations(contexts, self._rewards[: len(contexts)], self.ridge)

    def _learn_own(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        speaks_of = self._speaks_of(node, reward, imputed=imputed)
        if speaks_of:
            right = np.arange(speaks_of) == arm
            self._encoder.labels[node, :speaks_of] = right
            self._rewards[node, :speaks_of] = right
            return
        self._rewards[node, arm] = reward
        if not imputed:
            self._encoder.labels[node, arm] = reward > 0.5

    def _unlearn_own(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        speaks_of = self._speaks_of(node, reward, imputed=imputed)
        learned = slice(speaks_of) if speaks_of else slice(arm, arm + 1)
        self._rewards[node, learned] = np.nan
        self._encoder.labels[node, learned] = -1

    def _impute(self, node: int, arm: int) -> float:
        return float(self._encoder.probabilities(node)[arm, 1])

    def _train_step(self) -> bool:
        return self._encoder.train_step()

    def _keep(self, kept: NDArray[np.int64]) -> None:
        self._encoder.keep(kept)
        keep_rows(self._rewards, kept, np.nan)

    def _add_arm(self, like: int | None) -> None:
        super()._add_arm(like)
        self._encoder.add_head(like)
        column = np.full(len(self._rewards), np.nan) if like is None else self._rewards[:, like]
        self._rewards = np.column_stack([self._rewards, column])

    def _near(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._encoder.graph.near(node)

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        return (
            super()._parts_fit(arms, dimension, count)
            and (self._encoder.heads, self._encoder.classes) == (arms, 2)
            and fits(self._rewards, np.float64, count, arms)
        )

    def _estimate(self, arms: int, dimension: int, nodes: int) -> float:
        own = self.estimate_network(arms, 2, dimension, nodes) + 8.0 * nodes * arms
        return super()._estimate(arms, dimension, nodes) + own
