"""Intervals of rewards and of shares of right arms, which are from 0 to 1: no interval here leaves that range."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]

INTERVAL = "95 % interval of the mean over seeds (Student's t of the logit)"
"""What `mean_interval` is, for captions."""


def mean_interval(results: ArrayLike) -> tuple[Floats, Floats] | None:
    """Return the 95 % interval of the mean over the first axis of results from 0 to 1; None for fewer than two.

    It is Student's interval of the logit of the mean, by the delta method: about mean ± t·s/√n far from 0 and 1, and
    never beyond them. Where all results are equal, both ends are the mean.
    """
    values = np.asarray(results, np.float64)
    if len(values) < 2:
        return None
    from scipy import special  # noqa: PLC0415 - slow to import, and explanations need only `within_range`

    mean = np.clip(values.mean(axis=0), 0.0, 1.0)
    error = np.where(np.ptp(values, axis=0) > 0, values.std(axis=0, ddof=1) / np.sqrt(len(values)), 0.0)
    room = mean * (1 - mean)
    half = special.stdtrit(len(values) - 1, 0.975) * np.divide(error, room, out=np.zeros_like(room), where=room > 0)
    low, high = (special.expit(special.logit(mean) + side * half) for side in (-1, 1))
    return np.where(half > 0, np.minimum(low, mean), mean), np.where(half > 0, np.maximum(high, mean), mean)


def within_range(score: float, width: float) -> tuple[float, float]:
    """Return the ends of score ± width that a reward from 0 to 1 can have, as far out as the score itself at least.

    An agent that has learned nothing has widths far above 1; and some agents' scores are a little beyond 0 or 1.
    """
    return min(score, max(score - width, 0.0)), max(score, min(score + width, 1.0))


def score_text(score: float, width: float) -> str:
    """Return an expected reward with its range, as "0.333 (0.000 to 1.000)"; without one where there is no width."""
    if not width > 0:
        return f"{score:.3f}"
    low, high = within_range(score, width)
    return f"{score:.3f} ({low:.3f} to {high:.3f})"


def interval_text(ends: Sequence[str]) -> str:
    """Return the two ends of an interval as text, "[81.2, 84.6]"."""
    low, high = ends
    return f"[{low}, {high}]"
