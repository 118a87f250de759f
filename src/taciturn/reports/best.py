"""Which result of a group is the best, as far as a test over seeds supports it."""

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from taciturn.reports.duels import LEVEL, seeds_p

Key = TypeVar("Key")

TOLD = "oracle-full"
"""The reference that is told the right arm after every decision: shown, and never ranked or compared."""

LEVEL_SIGN = "‡"

RULE = (
    "Bold: better than every other row of its data set and setting (but oracle-full, which is told the answers), by "
    f"paired t-tests over common seeds with Holm's correction (5 %). {LEVEL_SIGN}: no row is; the highest mean and "
    "those that the tests cannot tell from it."
)
"""What is marked in tables, for their captions."""


class Best(NamedTuple, Generic[Key]):
    """The one that is `first` by test, or None; then `level` are the highest mean and what the tests leave beside it.

    Neither is known where no two have two common seeds.
    """

    first: Key | None = None
    level: tuple[Key, ...] = ()

    def sign(self, key: Key) -> str:
        """Return the sign behind a result: that of those that are level, or nothing."""
        return f" {LEVEL_SIGN}" if key in self.level else ""


def best_of(results: Mapping[Key, Mapping[int, float]], steps: int) -> Best[Key]:
    """Compare the highest mean with every other one; results by seed are from 0 to 1, means over `steps` steps each."""
    known = {key: by_seed for key, by_seed in results.items() if by_seed}
    if len(known) < 2:
        return Best()
    top = max(known, key=lambda key: float(np.mean(list(known[key].values()))))
    others = {key: _ahead_p(known[top], known[key], steps) for key in known if key != top}
    if all(p is None for p in others.values()):
        return Best()
    corrected = holm([1.0 if p is None else p for p in others.values()])
    beside = [key for key, p in zip(others, corrected, strict=True) if p >= LEVEL]
    return Best(level=(top, *beside)) if beside else Best(first=top)


def _ahead_p(one: Mapping[int, float], two: Mapping[int, float], steps: int) -> float | None:
    """Return p of one being ahead of the other over common seeds, 1 where it is not; None with fewer than two."""
    seeds = sorted(one.keys() & two.keys())
    if len(seeds) < 2:
        return None
    gaps = np.array([one[seed] - two[seed] for seed in seeds])
    return seeds_p(gaps, steps) if gaps.mean() > 0 else 1.0


def holm(ps: Sequence[float]) -> list[float]:
    """Correct m p-values for multiple testing: of the i-th lowest, max over j ≤ i of (m − j + 1)·p_j, at most 1."""
    corrected, largest = [0.0] * len(ps), 0.0
    for i, place in enumerate(np.argsort(ps, kind="stable").tolist()):
        largest = max(largest, min(1.0, ps[place] * (len(ps) - i)))
        corrected[place] = largest
    return corrected
