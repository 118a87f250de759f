"""The ridge regressions behind every linear score, and the parameters that govern them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.base import BaseAgent, Scores
from taciturn.agents.life import Fact
from taciturn.agents.storage import fits, storable, within
from taciturn.contracts import SparseRow
from taciturn.kernels import ridge
from taciturn.validate import check_choice, check_number

storable(ridge.RidgeState)


@dataclass(kw_only=True, eq=False)
class LinearAgent(BaseAgent):
    """An agent that scores arms by ridge regression and explores by its confidence widths.

    Arguments:
        alpha: how wide the confidence is, in standard deviations; 0 is greedy.
        ridge: λ, the weight of the prior that all coefficients are zero.
        normalize_theta: divide each θ_k by its length before scoring.
    """

    alpha: float = 0.25
    ridge: float = 1.0
    normalize_theta: bool = False

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        super().__post_init__()
        check_number("alpha", self.alpha, 0)
        check_number("ridge", self.ridge, 1e-9)
        check_choice("normalize_theta", self.normalize_theta, (True, False))


def unit(vectors: NDArray[Any]) -> NDArray[Any]:
    """Vectors (…, L) at unit length; those of length zero stay as they are."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


SAFE = 2.0**-32
"""Subtracting a context leaves ``1 − xᵀA⁻¹x`` of what is known in its direction, and rounding is ``2⁻⁵²‖x‖²/λ`` there.
Where the one is not at least a million times the other, too many digits would cancel: the arm is learned afresh."""


BARELY = 2.0**-50


@storable
class ArmRidge:
    """One ridge regression an arm over the contexts themselves: LINUCB's state and its rule of learning."""

    def __init__(self, arms: int, dimension: int, ridge_weight: float) -> None:
        self._state = ridge.new_state(arms, dimension, ridge_weight)
        self._copied = np.zeros(arms, np.bool_)  # arms that began with the evidence of another

    def _sound(self) -> bool:
        return self.fits(len(self._copied), 0)

    def fits(self, arms: int, dimension: int) -> bool:
        """Whether it has so many arms, and at least so many features."""
        held, (rows, width) = self._state, self._state.theta.shape
        block = ridge.BLOCK
        return (
            (rows, len(held.inverse), len(held.folds), len(held.pending_updates)) == (arms,) * 4
            and width >= dimension
            and fits(held.theta, np.float64, arms, width)
            and fits(held.scale, np.float64, 1)
            and fits(held.inverse, np.float64, arms, width, width)
            and fits(held.pending_updates, np.float64, arms, block, width)
            and fits(held.gains, np.float64, arms, block)
            and fits(held.folds, np.int64, arms, least=0)
            and fits(held.counts, np.int64, arms)
            and within(held.counts, 0, block)
            and self._copied.shape == (arms,)
        )

    def scores(self, row: SparseRow, alpha: float, *, normalize_theta: bool = False) -> Scores:
        """``μ_k = θ_kᵀx`` and ``σ_k = α √(xᵀA_k⁻¹x)``."""
        if self._is_dense(row):
            return self._dense_scores([row], alpha, normalize_theta=normalize_theta)[0]
        means, spreads = ridge.scores(self._state, row.columns, row.values)
        if normalize_theta:
            means /= self._lengths()
        return means, alpha * np.sqrt(spreads)

    def scores_of_all(self, rows: list[SparseRow], alpha: float, *, normalize_theta: bool = False) -> list[Scores]:
        """The same for many contexts, to the last bit."""
        if all(map(self._is_dense, rows)):
            return self._dense_scores(rows, alpha, normalize_theta=normalize_theta)
        return [self.scores(row, alpha, normalize_theta=normalize_theta) for row in rows]

    def _is_dense(self, row: SparseRow) -> bool:
        return bool(ridge.DENSE * len(row.columns) > self._state.theta.shape[1])

    def _dense_scores(self, rows: list[SparseRow], alpha: float, *, normalize_theta: bool) -> list[Scores]:
        """One context or many take the same compiled way: another would round otherwise."""
        contexts = np.zeros((len(rows), self._state.theta.shape[1]))
        for context, row in zip(contexts, rows, strict=True):
            context[row.columns] = row.values
        means, spreads = ridge.dense_scores(self._state, contexts)
        if normalize_theta:
            means /= self._lengths()
        return list(zip(means, alpha * np.sqrt(spreads), strict=True))

    def _lengths(self) -> NDArray[np.float64]:
        """``‖θ_k‖`` (K,), 1 where it is 0."""
        lengths = np.linalg.norm(self._state.theta, axis=1)
        return np.where(lengths > 0, lengths, 1.0)

    def learn(self, row: SparseRow, arm: int, reward: float, speaks_of: int) -> None:
        """``A += xxᵀ, b += r·x`` for the arm; where it was the one right arm, the others learn a reward of 0."""
        ridge.learn(self._state, row.columns, row.values, arm, reward, speaks_of)

    def unlearn(
        self, row: SparseRow, arm: int, reward: float, speaks_of: int, rest: Iterable[Fact], *, complete: bool
    ) -> None:
        """``A −= xxᵀ, b −= r·x`` for the arms that learned it; where that is not safe, learn the `rest` afresh.

        Where the rest is not `complete`, because contexts were forgotten, some digits are given up to keep what they
        taught.
        """
        arms, targets = ridge.update_targets(arm, reward, speaks_of)
        _, shares = ridge.scores(self._state, row.columns, row.values)
        size = (row.values**2).sum() * self._state.scale[0]
        safe = (1.0 - shares[arms] >= (SAFE if complete else BARELY) * size) | self._copied[arms]
        ridge.update(self._state, row.columns, row.values, arms[safe], -targets[safe], -1.0)
        again = arms[~safe]
        if len(again):
            ridge.clear(self._state, again)
            for other, arm_there, earned, of_arms in rest:
                arms, targets = ridge.update_targets(arm_there, earned, of_arms)
                of = np.isin(arms, again)
                ridge.update(self._state, other.columns, other.values, arms[of], targets[of], 1.0)

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (K, D), as a copy."""
        return self._state.theta.copy()

    def widen(self, dimension: int) -> None:
        """Take in features that were not there before, with room for as many again."""
        if dimension > self._state.theta.shape[1]:
            self._state = ridge.widened(self._state, 2 * dimension)

    def add_arm(self, like: int | None) -> None:
        """One arm more, with the evidence of another or with none."""
        self._state = ridge.with_arm(self._state, like)
        self._copied = np.append(self._copied, like is not None)

    @staticmethod
    def estimate(arms: int, dimension: int) -> float:
        """Bytes for so many arms and features, once all have learned."""
        return 8.0 * arms * dimension * (dimension + ridge.BLOCK + 1)
