"""BILINUCB: LINUCB that fills silence with an imputed reward, bounded by its own confidence."""

import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from taciturn.agents.base import BaseAgent
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.imputers import imputer_from
from taciturn.agents.parts.linear_arms import LinearArms, check_covariance
from taciturn.agents.parts.part import Part, Scores
from taciturn.agents.parts.ridge import check_linear
from taciturn.agents.parts.warm_up import WarmUp
from taciturn.registry import METHODS
from taciturn.validate import MANY, check_choice, check_number


@dataclass(kw_only=True, eq=False)
class BILinUCB(BaseAgent):
    """The linear bandit with (bounded) imputation.

    Paper: Upadhyay et al. (2020), algorithm 2 and equation 1. As `LinUCB`, and on

    silence     r̃ = max(μ_ŷ − σ_ŷ, min(I(x)_ŷ, μ_ŷ + σ_ŷ)),  A_ŷ += xxᵀ,  b_ŷ += r̃·x

    Arguments, beside those of `BaseAgent`:
        alpha, ridge, normalize_theta, covariance, rank: as in `LinUCB`.
        warmup: how many decisions at first are those of a LinUCB on observed rewards.
        imputer: "gcn", "kmeans" or "random"; any scikit-learn classifier with `partial_fit` and `predict_proba`; or an
            imputer of your own (`taciturn.agents.parts.imputers.base.BaseImputer`).
        imputer_params: settings of a named imputer, as ``{"clusters": 20}``.
        bounded: False takes I(x)_ŷ as it is (ILINUCB).
    """

    tag = "bilinucb"

    alpha: float = 0.25
    ridge: float = 1.0
    normalize_theta: bool = False
    covariance: str = "auto"
    rank: int | None = None
    warmup: int = 300
    imputer: Any = "gcn"
    imputer_params: dict[str, Any] = field(default_factory=dict)
    bounded: bool = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_linear(alpha=self.alpha, ridge=self.ridge, normalize_theta=self.normalize_theta)
        check_covariance(self.covariance, self.rank)
        check_number("warmup", self.warmup, 0, MANY, whole=True)
        check_choice("bounded", self.bounded, (True, False))
        imputer_from(self.imputer, self.imputer_params)

    def _build(self) -> dict[str, Part]:
        form: dict[str, Any] = {"covariance": self.covariance, "rank": self.rank, "memory_limit": self.memory_limit}
        self._warmup = WarmUp(self._contexts, self._lifecycle, self.ridge, self.warmup, **form)
        self._ridge = LinearArms(self._contexts, self._lifecycle, self.ridge, **form)
        self._imputer = copy.deepcopy(imputer_from(self.imputer, self.imputer_params))
        imputer_state = self._imputer.build(self._table, self._rng)
        return {"warmup": self._warmup, "ridge": self._ridge, "imputer": imputer_state}

    def _add_context(self, node: int, neighbors: list[int] | None) -> None:
        self._imputer.add_context(node, neighbors)

    def _score(self, node: int) -> Scores:
        return self._warmup.scores(self._contexts[node], self.alpha) or self._linear_scores(node)

    def _linear_scores(self, node: int) -> Scores:
        return self._ridge.scores(self._contexts[node], self.alpha, normalize_theta=self.normalize_theta)

    def _learn(self, example: Example) -> None:
        if not example.imputed:
            self._imputer.learn(example)  # first: if a user's classifier refuses, nothing has changed
        self._ridge.learn(example)
        self._warmup.learn(example)

    def _unlearn(self, example: Example) -> None:
        if not example.imputed:
            self._imputer.unlearn(example)
        self._ridge.unlearn(example)
        self._warmup.unlearn(example)

    def _impute(self, node: int, arm: int) -> float:
        reward = self._imputer.impute(node, arm)
        if not self.bounded:
            return reward
        means, widths = self._linear_scores(node)
        return float(np.clip(reward, means[arm] - widths[arm], means[arm] + widths[arm]))

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """The agent of a `state`; one from before there were some of the parameters goes on as it was."""
        return super().from_state_dict(state | {"params": {**METHODS["bilinucb-gcn"].before, **state["params"]}})
