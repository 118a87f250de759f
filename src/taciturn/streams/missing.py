"""Mechanisms of missing rewards: which steps are silent, and what that depends on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.streams.settings import parse_setting


class Silence(NamedTuple):
    """Which rewards are missing: that of a step whose draw, one of (T,), is below the probability of its reward.

    The probability is `if_wrong` after a reward of 0 and `if_right` after a reward of 1, and linear in between.
    """

    draws: NDArray[np.float64]
    if_wrong: float
    if_right: float

    def of(self, step: int, reward: float) -> bool:
        """Whether the reward of a step is missing."""
        return bool(self.draws[step] < (1.0 - reward) * self.if_wrong + reward * self.if_right)


def _whatever_the_reward(silent: NDArray[np.bool_]) -> Silence:
    """Silence at the given steps (T,)."""
    return Silence(np.where(silent, 0.0, 1.0), 0.5, 0.5)


def at_random(contexts: sp.csr_matrix, rate: float, rng: np.random.Generator) -> Silence:
    """Exactly the given share of steps is silent, independent of context and reward (missing completely at random)."""
    steps = contexts.shape[0]
    silent = np.zeros(steps, bool)
    silent[rng.permutation(steps)[: round(rate * steps)]] = True
    return _whatever_the_reward(silent)


def by_context(contexts: sp.csr_matrix, rate: float, rng: np.random.Generator) -> Silence:
    """Silence depends on the context (missing at random).

    A step is silent with probability ``sigmoid(2·z + c)``, where z is the standardized projection of the context on a
    random direction, and c is set so that the mean probability over the stream is the rate.
    """
    if rate in (0.0, 1.0):
        return at_random(contexts, rate, rng)
    projection = contexts @ rng.standard_normal(contexts.shape[1])
    spread = projection.std()
    z = (projection - projection.mean()) / spread if spread > 0 else np.zeros_like(projection)
    low, high = -50.0, 50.0
    for _ in range(60):  # bisection: the mean increases with the shift
        shift = (low + high) / 2
        low, high = (shift, high) if _sigmoid(2 * z + shift).mean() < rate else (low, shift)
    silent = rng.random(len(z)) < _sigmoid(2 * z + shift)
    return _whatever_the_reward(silent)


def by_reward(contexts: sp.csr_matrix, rate: float, rng: np.random.Generator) -> Silence:
    """Silence depends on the reward (missing not at random): it is more likely after a wrong than after a right arm.

    The probabilities are ``rate·(1 + d)`` after a wrong and ``rate·(1 − d)`` after a right arm, with
    ``d = min(1, 1/rate − 1)/2``; they average to the rate for an agent that is right half of the time. After a reward r
    between 0 and 1 the probability is ``rate·(1 + (1 − 2·r)·d)``.
    """
    tilt = min(1.0, 1.0 / rate - 1.0) / 2 if rate > 0 else 0.0
    draws = rng.random(contexts.shape[0])
    return Silence(draws, rate * (1 + tilt), rate * (1 - tilt))


def _sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1.0 / (1.0 + np.exp(-z)))


MECHANISMS: dict[str, Callable[[sp.csr_matrix, float, np.random.Generator], Silence]] = {
    "mcar": at_random,
    "context": by_context,
    "reward": by_reward,
}


def parse_missing(missing: Any) -> tuple[str, float]:
    """Parse ``0.5``, ``"0.5"`` or ``"context:0.5"`` as a mechanism and a rate."""
    allowed = "a rate from 0 to 1 is, as in 0.5 or 'context:0.5'"
    return parse_setting("missing", missing, MECHANISMS, default="mcar", most=1.0, allowed=allowed)
