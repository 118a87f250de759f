"""GCNUCB: a graph network an arm, and a bandit on the embeddings of each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.base import BaseAgent
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.embedded_ridge import EmbeddedRidge
from taciturn.agents.parts.encoder import GraphEncoder, NetworkSettings
from taciturn.agents.parts.part import Part, Scores, Sizes
from taciturn.agents.parts.ridge import check_linear, unit
from taciturn.agents.parts.warm_up import WarmUp
from taciturn.contracts import ContextSpace
from taciturn.kernels.gcn import to_unit_length
from taciturn.kernels.ridge import normal_equations
from taciturn.validate import MANY, check_number

MATRIX_BYTES = 2**25
"""How much memory the matrices A of the arms that are solved at once may take; at least one arm's are."""


@dataclass(kw_only=True, eq=False)
class GCNUCB(NetworkSettings, BaseAgent):
    """The multi-GCN embedded bandit.

    Paper: Upadhyay et al. (2020), algorithm 3 and equations 2 to 4. Arm k has a binary network of its own, whose
    embedding g_t = Â ReLU(ÂX W1_k), at unit length, is the context that the arm sees. As the graph grows and the
    networks train, the contexts of old decisions move; so the regressions start afresh at every step:

        A_k = λI + Σ_{t ∈ C_k} g_t g_tᵀ                      θ_k = A_k⁻¹ Σ_{t ∈ C_k} r_tk g_t
        μ_k = θ_kᵀg_t      σ_k = α √(g_tᵀA_k⁻¹g_t)      ŷ = argmax_k (μ_k + σ_k)

    reward 1    all networks get a label (1 for ŷ's, 0 for the others'), t joins every C_k with that reward
    reward 0    ŷ's network gets the label 0, t joins C_ŷ with reward 0
    silence     t joins C_ŷ with the probability that ŷ's own network gives it

    Arguments, beside those of `NetworkSettings` and `BaseAgent`:
        alpha, ridge, normalize_theta: α, λ, and whether each θ_k is divided by its length, as in `LinUCB`.
        warmup: how many decisions at first are LinUCB's, while the networks already learn.

    Shapes: T contexts, K arms, L hidden units; g is (T, K, L), `_rewards` is (T, K) with NaN where t is not in C_k.
    """

    tag = "gcnucb"

    alpha: float = 0.25
    ridge: float = 1.0
    normalize_theta: bool = True
    warmup: int = 300

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_linear(alpha=self.alpha, ridge=self.ridge, normalize_theta=self.normalize_theta)
        check_number("warmup", self.warmup, 0, MANY, whole=True)
        self._network = self.network_settings()

    def _build(self) -> dict[str, Part]:
        self._warmup = WarmUp(self._contexts, self._lifecycle, self.ridge, self.warmup)
        self._encoder = GraphEncoder(self._table, self._network, self._rng, per_arm=True)
        self._rewards = self._table.column("arm_rewards", np.float64, "arm", fill=np.nan)
        parts: dict[str, Part] = {"warmup": self._warmup, "encoder": self._encoder}
        self._running: EmbeddedRidge | None = None
        if self.batch_size is not None:
            self._running = EmbeddedRidge(self._table, self._encoder, self._rewards, self.hidden, self.batch_size)
            parts["regressions"] = self._running
        return parts

    def _add_context(self, node: int, neighbors: list[int] | None) -> None:
        self._encoder.add_context(node, neighbors)

    def _score(self, node: int) -> Scores:
        self._encoder.schedule_training()
        if self._running is not None:
            self._running.refresh(node)
        return self._warmup.scores(self._contexts[node], self.alpha) or self._embedded_scores(node)

    def _embedded_scores(self, node: int) -> Scores:
        if self._running is None:
            contexts = self._embeddings()
            g = contexts[node].astype(float)
            theta, solved = self._solve_regressions(contexts, g)
        else:
            g = unit(self._running.embedding(node).astype(float))
            theta, solved = self._running.solve(g, self.ridge, _arms_at_once(self.hidden))
        spread = (g * solved).sum(axis=1)
        means = ((unit(theta) if self.normalize_theta else theta) * g).sum(axis=1)
        return means, self.alpha * np.sqrt(np.maximum(spread, 0.0))

    def _embeddings(self) -> NDArray[np.float32]:
        """The embeddings g of all contexts now, at unit length (T, K, L)."""
        contexts = self._encoder.embeddings()
        to_unit_length(contexts)
        return contexts

    def _solve_regressions(self, contexts: NDArray[np.float32], g: NDArray[np.float64]) -> Scores:
        """``θ_k = A_k⁻¹b_k`` and ``A_k⁻¹g_k`` of all arms, (K, L) each; A (L, L) is made for a few arms at a time."""
        solved = np.empty((*g.shape, 2))
        rewards, piece = self._rewards.data[: len(contexts)], _arms_at_once(self.hidden)
        for first in range(0, len(g), piece):
            arms = slice(first, first + piece)
            seen, earned = np.ascontiguousarray(contexts[:, arms]), np.ascontiguousarray(rewards[:, arms])
            A, b = normal_equations(seen, earned, self.ridge)
            solved[arms] = np.linalg.solve(A, np.stack([b, g[arms]], axis=-1))
        return solved[..., 0], solved[..., 1]

    def _working_nbytes(self, sizes: Sizes) -> float:
        """A of a few arms, a copy of one, and these arms' embeddings and rewards unless they are all."""
        arms, unit = min(sizes.arms, _arms_at_once(self.hidden)), self.hidden
        copies = arms < sizes.arms and self.batch_size is None
        copied = (4.0 * unit + 8.0) * sizes.nodes * arms if copies else 0.0
        return 8.0 * unit * unit * (arms + 1) + copied + 64.0 * unit * sizes.arms

    def _learn(self, example: Example) -> None:
        node, known = example.node, np.flatnonzero(example.mask)
        self._set_rewards(node, known, example.targets[known])
        if not example.imputed:
            self._encoder.label(node, known, example.targets[known] > 0.5)
        self._warmup.learn(example)

    def _unlearn(self, example: Example) -> None:
        node, known = example.node, np.flatnonzero(example.mask)
        self._set_rewards(node, known, np.nan)
        self._encoder.label(node, known, -1)
        self._warmup.unlearn(example)

    def _set_rewards(self, node: int, arms: NDArray[np.int64], rewards: NDArray[np.float64] | float) -> None:
        if self._running is not None:
            self._running.set_rewards(node, arms, rewards)
        else:
            self._rewards.data[node, arms] = rewards

    def _impute(self, node: int, arm: int) -> float:
        running = self._running
        embedding = self._encoder.embedding(node) if running is None else running.embedding(node)
        return float(self._encoder.probabilities(embedding)[arm, 1])

    def context_space(self) -> ContextSpace:
        """The contexts as each arm sees them now (T, K, L), and θ (K, L)."""
        self._require_contexts()
        if self._running is None:
            contexts = self._embeddings()
            theta, _ = self._solve_regressions(contexts, np.zeros(contexts.shape[1:]))
        else:
            contexts = unit(self._running.embeddings)
            theta, _ = self._running.solve(np.zeros(contexts.shape[1:]), self.ridge, _arms_at_once(self.hidden))
        return ContextSpace(contexts.astype(float), unit(theta) if self.normalize_theta else theta)


def _arms_at_once(hidden: int) -> int:
    """How many arms' regressions are solved together."""
    return max(1, MATRIX_BYTES // (8 * hidden * hidden))
