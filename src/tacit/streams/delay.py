"""How long an answer takes, in decisions made meanwhile."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.registry import unknown_name

DISTRIBUTIONS: dict[str, Callable[[float, int, np.random.Generator], NDArray[np.int64]]] = {
    "fixed": lambda mean, steps, rng: np.full(steps, round(mean)),  # noqa: ARG005 - one signature for all
    "geometric": lambda mean, steps, rng: rng.geometric(1.0 / (1.0 + mean), steps) - 1,
    "uniform": lambda mean, steps, rng: rng.integers(0, 2 * round(mean) + 1, steps),
}


def parse_delay(delay: Any) -> tuple[str, float]:
    """Read ``0``, ``"20"`` or ``"geometric:20"`` as a distribution and its mean."""
    distribution, _, number = delay.rpartition(":") if isinstance(delay, str) else ("", "", delay)
    distribution = distribution or "fixed"
    if distribution not in DISTRIBUTIONS:
        raise unknown_name("delay", distribution, DISTRIBUTIONS)
    try:
        mean = float(number)
    except (TypeError, ValueError):
        mean = float("nan")
    if not 0.0 <= mean <= 1e9:
        raise TacitError(f"delay={delay!r} is not allowed; a mean from 0 is, as in 0 or 'geometric:20'")
    return distribution, mean


def draw_delays(delay: Any, steps: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The delay of each step's answer (T,)."""
    distribution, mean = parse_delay(delay)
    return np.asarray(DISTRIBUTIONS[distribution](mean, steps, rng), dtype=np.int64)
