"""BILINUCB: LINUCB that fills silence with an imputed reward, bounded by what it believes."""

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.base import Scores
from taciturn.agents.imputers import imputer_from
from taciturn.agents.linear import ArmRidge
from taciturn.agents.warmup import WarmedUpAgent
from taciturn.validate import check_choice


@dataclass(kw_only=True, eq=False)
class BILinUCB(WarmedUpAgent):
    """The linear bandit with (bounded) imputation.

    Paper: Upadhyay et al. (2020), algorithm 2 and equation 1. As `LinUCB`, and on

    silence     r̃ = max(μ_ŷ − σ_ŷ, min(I(x)_ŷ, μ_ŷ + σ_ŷ)),  A_ŷ += xxᵀ,  b_ŷ += r̃·x

    Arguments:
        imputer: "gcn", "kmeans" or "random"; any scikit-learn classifier with `partial_fit` and `predict_proba`; or an
            imputer of your own (`taciturn.contracts.Imputer`).
        imputer_params: settings of a named imputer, as ``{"clusters": 20}``.
        bounded: False takes I(x)_ŷ as it is (ILINUCB).
    """

    imputer: Any = "gcn"
    imputer_params: dict[str, Any] = field(default_factory=dict)
    bounded: bool = True

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        super().__post_init__()
        check_choice("bounded", self.bounded, (True, False))
        imputer_from(self.imputer, self.imputer_params)

    def _begin(self) -> None:
        super()._begin()
        self._linear = ArmRidge(len(self._arm_names), self._rows.dimension, self.ridge)
        self._imputer = copy.deepcopy(imputer_from(self.imputer, self.imputer_params))
        self._imputer.begin(self._rows, len(self._arm_names), self._rng)
        self._imputer.deferred = self.deferred

    def _widen(self, dimension: int) -> None:
        super()._widen(dimension)
        self._linear.widen(dimension)
        self._imputer.widen(dimension)

    def _arrive(self, node: int, neighbors: list[int] | None) -> None:
        self._imputer.arrive(node, neighbors)

    def _started(self) -> None:
        self._imputer.started()

    def _score_own(self, node: int) -> Scores:
        return self._linear.scores(self._rows[node], self.alpha, normalize_theta=self.normalize_theta)

    def _learn_own(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        if not imputed:
            self._imputer.learn(node, arm, reward)  # first: if somebody's classifier refuses, nothing has changed
        self._linear.learn(self._rows[node], arm, reward, self._speaks_of(node, reward, imputed=imputed))

    def _unlearn_own(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        if not imputed:
            self._imputer.unlearn(node, arm, reward)
        speaks_of = self._speaks_of(node, reward, imputed=imputed)
        self._linear.unlearn(self._rows[node], arm, reward, speaks_of, self._facts(self._rows), complete=self._complete)

    def _impute(self, node: int, arm: int) -> float:
        value = self._imputer.impute(node, arm)
        if not self.bounded:
            return value
        means, widths = self._score_own(node)
        return float(np.clip(value, means[arm] - widths[arm], means[arm] + widths[arm]))

    def defer_training(self, *, on: bool = True) -> None:
        """Let the imputer's training wait too."""
        super().defer_training(on=on)
        if self._rows.dimension:
            self._imputer.deferred = on

    def _train_step(self) -> bool:
        return self._imputer.train_step()

    def _keep(self, kept: NDArray[np.int64]) -> None:
        self._imputer.keep(kept)

    def _add_arm(self, like: int | None) -> None:
        super()._add_arm(like)
        self._linear.add_arm(like)
        self._imputer.add_arm(like)

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        return super()._parts_fit(arms, dimension, count) and self._linear.fits(arms, dimension)

    def _estimate(self, arms: int, dimension: int, nodes: int) -> float:
        return super()._estimate(arms, dimension, nodes) + ArmRidge.estimate(arms, dimension)
