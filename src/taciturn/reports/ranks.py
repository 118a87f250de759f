"""Whether "better" is more than luck: ranks over settings, with tests."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from taciturn.experiments.recorder import RunRecord


class Ranking(NamedTuple):
    """Mean ranks of methods over blocks, where 1 is the best.

    `friedman` is the p-value that all methods are alike; ranks that differ by less than `critical_difference`
    (Nemenyi, 5 %) are not told apart.
    """

    blocks: int
    mean_ranks: dict[str, float]
    friedman: float
    critical_difference: float


class Duel(NamedTuple):
    """Two methods over paired runs: the mean difference in points, and Wilcoxon's p-value after Holm's correction."""

    better: str
    worse: str
    difference: float
    p: float


def _blocks(records: Sequence[RunRecord]) -> tuple[list[str], np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Accuracies (blocks, methods) over the data sets and missing rates on which all methods ran: means over seeds."""
    cells: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for record in records:
        if record.accuracy is not None:
            block = cells.setdefault((record.fingerprint, record.missing, record.delay), {})
            block.setdefault(record.method, []).append(100 * record.accuracy)
    methods = sorted({method for block in cells.values() for method in block})
    whole = [block for block in cells.values() if len(block) == len(methods)]
    return methods, np.array([[np.mean(block[method]) for method in methods] for block in whole])


def ranking(records: Sequence[RunRecord]) -> Ranking | None:
    """Friedman's test over data sets and missing rates (Demšar 2006), or None with fewer than 3 methods or 2 blocks."""
    methods, table = _blocks(records)
    if len(methods) < 3 or len(table) < 2:
        return None
    ranks = stats.rankdata(-table, axis=1).mean(axis=0)
    count, blocks = len(methods), len(table)
    p = float(stats.friedmanchisquare(*table.T).pvalue)
    quantile = stats.studentized_range.ppf(0.95, count, np.inf) / np.sqrt(2)
    difference = float(quantile * np.sqrt(count * (count + 1) / (6 * blocks)))
    order = np.argsort(ranks)
    return Ranking(blocks, {methods[i]: float(ranks[i]) for i in order}, p, difference)


def duels(records: Sequence[RunRecord]) -> list[Duel]:
    """Every pair of methods, over runs that share data set, missing rate, delay and seed."""
    runs: dict[tuple[str, str, str, int], dict[str, float]] = {}
    for record in records:
        if record.accuracy is not None:
            key = (record.fingerprint, record.missing, record.delay, record.seed)
            runs.setdefault(key, {})[record.method] = 100 * record.accuracy
    methods = sorted({method for block in runs.values() for method in block})
    found = []
    for one, two in combinations(methods, 2):
        gaps = np.array([block[one] - block[two] for block in runs.values() if one in block and two in block])
        if len(gaps) >= 5 and np.any(gaps != 0):
            p = float(stats.wilcoxon(gaps).pvalue)
            pair = (one, two) if gaps.mean() >= 0 else (two, one)
            found.append(Duel(*pair, abs(float(gaps.mean())), p))
    return _holm(sorted(found, key=lambda duel: duel.p))


def _holm(duels: list[Duel]) -> list[Duel]:
    corrected, largest = [], 0.0
    for i, duel in enumerate(duels):
        largest = max(largest, min(1.0, duel.p * (len(duels) - i)))
        corrected.append(duel._replace(p=largest))
    return corrected
