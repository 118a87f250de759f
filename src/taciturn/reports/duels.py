"""Whether one method is better than another on the same data set and setting, beyond what chance explains."""

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from taciturn.experiments.recorder import RunRecord, read_earned

LEVEL = 0.05


class Duel(NamedTuple):
    """One method against another over `seeds` common seeds: how much higher its mean is, from −1 to 1, and p."""

    difference: float
    p: float
    seeds: int

    @property
    def beyond_chance(self) -> bool:
        """Whether the difference is significant at 5 %."""
        return self.difference != 0 and self.p < LEVEL

    @property
    def outcome(self) -> int:
        """1 where the method won, −1 where it lost, 0 for a tie: a difference that chance explains."""
        return int(math.copysign(1, self.difference)) if self.beyond_chance else 0


class Duels:
    """Compares the runs of two methods on one data set and setting; traces are read from a results folder.

    With two seeds or more by a paired t-test over seeds, whose standard deviation is at least one step: results are
    counted in steps, so that two equal differences do not show that there is no chance. With one seed by a sign test
    over the steps at which one earned more than the other, which is McNemar's where one arm is right; and where traces
    are absent by the two means, as if their steps were independent, which is more cautious.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._earned = lru_cache(maxsize=8)(self._read)

    def compare(self, one: Sequence[RunRecord], two: Sequence[RunRecord]) -> Duel | None:
        """Compare finished runs by their common seeds; None where there are none."""
        first, second = ({record.seed: record for record in runs if record.error is None} for runs in (one, two))
        seeds = sorted(first.keys() & second.keys())
        if not seeds:
            return None
        pairs = [(first[seed], second[seed]) for seed in seeds]
        gaps = np.array([_result(a) - _result(b) for a, b in pairs])
        p = self._steps_p(*pairs[0]) if len(pairs) == 1 else seeds_p(gaps, min(a.steps for a, _ in pairs))
        return Duel(float(gaps.mean()), p, len(seeds))

    def _steps_p(self, one: RunRecord, two: RunRecord) -> float:
        """Return p of one run against another: over their steps, or by their means where traces are absent."""
        first, second = self._earned(one.id), self._earned(two.id)
        if first is None or second is None or len(first) != len(second):
            return means_p(_result(one), _result(two), one.steps, two.steps)
        return sign_p(first - second, _result(one) - _result(two))

    def _read(self, id: str) -> NDArray[np.float64] | None:
        try:
            return read_earned(self._folder, id)
        except FileNotFoundError:
            return None


def _result(record: RunRecord) -> float:
    return 0.0 if record.result is None else record.result


def seeds_p(gaps: NDArray[np.float64], steps: int) -> float:
    """Return the two-sided p of the paired t-test of differences by seed (n,), n ≥ 2, of means over `steps` steps."""
    deviation = max(float(gaps.std(ddof=1)), 1 / steps)
    t = abs(float(gaps.mean())) / (deviation / math.sqrt(len(gaps)))
    return float(2 * special.stdtr(len(gaps) - 1, -t))


def sign_p(gaps: NDArray[np.float64], difference: float) -> float:
    """Return the two-sided p of the sign test of differences by step (T,); 1 where it contradicts the means."""
    ahead, behind = int(np.sum(gaps > 0)), int(np.sum(gaps < 0))
    if ahead + behind == 0 or (ahead - behind) * difference <= 0:
        return 1.0
    return float(stats.binomtest(ahead, ahead + behind).pvalue)


def means_p(one: float, two: float, steps_one: int, steps_two: int) -> float:
    """Return the two-sided p of two means of steps between 0 and 1, by the pooled normal approximation.

    The variance of a step is m·(1 − m) for 0 and 1, and never more for rewards between.
    """
    share = (one * steps_one + two * steps_two) / (steps_one + steps_two)
    deviation = math.sqrt(max(share * (1 - share), 0.0) * (1 / steps_one + 1 / steps_two))
    return 1.0 if deviation == 0 else float(2 * special.ndtr(-abs(one - two) / deviation))
