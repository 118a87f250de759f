"""LINUCB: one ridge regression an arm, and the confidence to explore."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.base import Scores
from taciturn.agents.linear import ArmRidge, LinearAgent
from taciturn.contracts import ContextSpace, SparseRow


@dataclass(kw_only=True, eq=False)
class LinUCB(LinearAgent):
    """The linear contextual bandit that ignores silence.

    Paper: Li, Chu, Langford and Schapire (2010), in the setting of Upadhyay et al. (2020).

        θ_k = A_k⁻¹ b_k      μ_k = θ_kᵀx      σ_k = α √(xᵀA_k⁻¹x)      ŷ = argmax_k (μ_k + σ_k)

    reward 1    A_k += xxᵀ for every k, b_ŷ += x
    reward 0    A_ŷ += xxᵀ
    silence     nothing

    Shapes: K arms, D features; A is (K, D, D), kept as inverses; θ and b are (K, D).
    """

    def context_space(self) -> ContextSpace:
        """The contexts themselves (T, 1, D), and θ (K, D)."""
        contexts = self._rows.matrix(0, self._rows.count).toarray()
        return ContextSpace(contexts[:, None, :], self._linear.theta[:, : contexts.shape[1]])

    def _begin(self) -> None:
        self._linear = ArmRidge(len(self._arm_names), self._rows.dimension, self.ridge)

    def _widen(self, dimension: int) -> None:
        self._linear.widen(dimension)

    def _score(self, node: int) -> Scores:
        return self._linear.scores(self._rows[node], self.alpha, normalize_theta=self.normalize_theta)

    def _score_ahead(self, rows: list[SparseRow]) -> list[Scores] | None:
        """What was decided changes nothing here; only decisions that expire meanwhile could."""
        if self.expire_after is not None:
            return None
        return self._linear.scores_of_all(rows, self.alpha, normalize_theta=self.normalize_theta)

    def _learn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        self._linear.learn(self._rows[node], arm, reward, self._speaks_of(node, reward, imputed=imputed))

    def _unlearn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        speaks_of = self._speaks_of(node, reward, imputed=imputed)
        self._linear.unlearn(self._rows[node], arm, reward, speaks_of, self._facts(self._rows), complete=self._complete)

    def _keep(self, kept: NDArray[np.int64]) -> None:
        """The regressions hold what they have learned; only what could be corrected is forgotten."""

    def _add_arm(self, like: int | None) -> None:
        self._linear.add_arm(like)

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        return self._linear.fits(arms, dimension)

    def _estimate(self, arms: int, dimension: int, nodes: int) -> float:
        return super()._estimate(arms, dimension, nodes) + ArmRidge.estimate(arms, dimension)
