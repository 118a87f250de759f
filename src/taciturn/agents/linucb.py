"""LINUCB: one ridge regression an arm, and the confidence to explore."""

from dataclasses import dataclass
from typing import Any, Self

from taciturn.agents.base import BaseAgent
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.linear_arms import LinearArms, check_covariance
from taciturn.agents.parts.part import Part, Scores
from taciturn.agents.parts.ridge import check_linear
from taciturn.contracts import ContextSpace, SparseRow
from taciturn.registry import METHODS


@dataclass(kw_only=True, eq=False)
class LinUCB(BaseAgent):
    """The linear contextual bandit, which ignores silence.

    Paper: Li, Chu, Langford and Schapire (2010), in the setting of Upadhyay et al. (2020).

        θ_k = A_k⁻¹ b_k      μ_k = θ_kᵀx      σ_k = α √(xᵀA_k⁻¹x)      ŷ = argmax_k (μ_k + σ_k)

    reward 1    A_k += xxᵀ for every k, b_ŷ += x
    reward 0    A_ŷ += xxᵀ
    silence     nothing

    Arguments, beside those of `BaseAgent`:
        alpha: α, the width of the confidence in standard deviations; 0 is greedy.
        ridge: λ, the weight of the prior that all coefficients are zero: A_k begins as λI.
        normalize_theta: divide each θ_k by its length before scoring.
        covariance: "exact" keeps all of A_k, which takes K·D² numbers. "sketch" keeps θ_k over all features, but A_k
            over `rank` of them, for the widths alone. "auto" is exact while the matrices are small, exact through the
            history while there are few examples, and then a sketch.
        rank: of the sketch; None is as many as K·rank² ≤ 2²⁰ allows.

    Shapes: K arms, D features; A is (K, D, D), kept as inverses; θ and b are (K, D).
    """

    tag = "linucb"

    alpha: float = 0.25
    ridge: float = 1.0
    normalize_theta: bool = False
    covariance: str = "auto"
    rank: int | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_linear(alpha=self.alpha, ridge=self.ridge, normalize_theta=self.normalize_theta)
        check_covariance(self.covariance, self.rank)

    def _build(self) -> dict[str, Part]:
        form: dict[str, Any] = {"covariance": self.covariance, "rank": self.rank, "memory_limit": self.memory_limit}
        self._contexts.spare_columns = True
        self._ridge = LinearArms(self._contexts, self._lifecycle, self.ridge, **form)
        return {"ridge": self._ridge}

    def _score(self, node: int) -> Scores:
        return self._ridge.scores(self._contexts[node], self.alpha, normalize_theta=self.normalize_theta)

    def _score_batch(self, rows: list[SparseRow]) -> list[Scores] | None:
        if self.expire_after is not None and not isinstance(self.silence, str):
            return None  # decisions that expire in between are learned
        return self._ridge.scores_batch(rows, self.alpha, normalize_theta=self.normalize_theta)

    def _learn(self, example: Example) -> None:
        self._ridge.learn(example)

    def _unlearn(self, example: Example) -> None:
        self._ridge.unlearn(example)

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """The agent of a `state`; one from before there were some of the parameters goes on as it was."""
        return super().from_state_dict(state | {"params": {**METHODS["linucb"].before, **state["params"]}})

    def context_space(self) -> ContextSpace:
        """The contexts themselves (T, 1, D), and θ (K, D)."""
        self._require_contexts()
        contexts = self._contexts.matrix(0, self._contexts.count).toarray()
        return ContextSpace(contexts[:, None, :], self._ridge.theta[:, : contexts.shape[1]])
