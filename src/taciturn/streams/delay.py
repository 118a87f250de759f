"""Delays of rewards, counted in decisions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.streams.settings import parse_setting

DISTRIBUTIONS: dict[str, Callable[[float, int, np.random.Generator], NDArray[np.int64]]] = {
    "fixed": lambda mean, steps, rng: np.full(steps, round(mean)),  # noqa: ARG005 - one signature for all
    "geometric": lambda mean, steps, rng: rng.geometric(1.0 / (1.0 + mean), steps) - 1,
    "half": lambda mean, steps, rng: (rng.random(steps) < 0.5) * rng.geometric(1.0 / max(mean, 1.0), steps),
    "uniform": lambda mean, steps, rng: rng.integers(0, 2 * round(mean) + 1, steps),
}


def parse_delay(delay: Any) -> tuple[str, float]:
    """Parse ``0``, ``"20"`` or ``"geometric:20"`` as a distribution and its mean (of "half": over the late half)."""
    allowed = "a mean from 0 is, as in 0 or 'geometric:20'"
    return parse_setting("delay", delay, DISTRIBUTIONS, default="fixed", most=1e9, allowed=allowed)


def draw_delays(delay: Any, steps: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the delay of each step's reward (T,)."""
    distribution, mean = parse_delay(delay)
    return np.asarray(DISTRIBUTIONS[distribution](mean, steps, rng), dtype=np.int64)
