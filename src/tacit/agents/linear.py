"""The ridge regressions behind every linear score, and the parameters that govern them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.base import BaseAgent, Scores
from tacit.agents.storage import storable
from tacit.contracts import SparseRow
from tacit.kernels import ridge
from tacit.validate import check_choice, check_number

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


@storable
class ArmRidge:
    """One ridge regression an arm over the contexts themselves: LINUCB's state and its rule of learning."""

    def __init__(self, arms: int, dimension: int, ridge_weight: float) -> None:
        self._state = ridge.new_state(arms, dimension, ridge_weight)
        self._all_arms = np.arange(arms)

    def scores(self, row: SparseRow, alpha: float, *, normalize_theta: bool = False) -> Scores:
        """``μ_k = θ_kᵀx`` and ``σ_k = α √(xᵀA_k⁻¹x)``."""
        means, spreads = ridge.scores(self._state, row.columns, row.values)
        if normalize_theta:
            lengths = np.linalg.norm(self._state.theta, axis=1)
            means /= np.where(lengths > 0, lengths, 1.0)
        return means, alpha * np.sqrt(spreads)

    def learn(self, row: SparseRow, arm: int, reward: float, *, one_right_arm: bool) -> None:
        """``A += xxᵀ, b += r·x`` for the arm; where it was the one right arm, the others learn a reward of 0."""
        if reward == 1 and one_right_arm:
            arms, targets = self._all_arms, (self._all_arms == arm).astype(float)
        else:
            arms, targets = self._all_arms[arm : arm + 1], np.array([reward], dtype=float)
        ridge.update(self._state, row.columns, row.values, arms, targets, 1.0)

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (K, D), as a copy."""
        return self._state.theta.copy()

    def widen(self, dimension: int) -> None:
        """Take in features that were not there before, with room for as many again."""
        if dimension > self._state.theta.shape[1]:
            self._state = ridge.widened(self._state, 2 * dimension)
