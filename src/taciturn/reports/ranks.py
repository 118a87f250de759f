"""Tests of significance: mean ranks over settings, and paired tests between methods."""

from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from taciturn.experiments.recorder import RunRecord
from taciturn.reports.best import holm

Table = NDArray[np.float64]


class Ranking(NamedTuple):
    """Mean ranks of methods over `blocks` settings, the best first; rank 1 is the best.

    `friedman` is the p-value of Friedman's test that all methods are equal; mean ranks that differ by less than
    `critical_difference` (Nemenyi, 5 %) are not significantly different. Both are None with fewer than 3 methods or 2
    settings, and where all methods are equal on each setting.
    """

    blocks: int
    mean_ranks: dict[str, float]
    friedman: float | None
    critical_difference: float | None

    def not_different(self) -> list[list[str]]:
        """Return the largest sets of two methods or more that are not significantly different, the best first."""
        if self.critical_difference is None:
            return []
        names, ranks = list(self.mean_ranks), np.array(list(self.mean_ranks.values()))
        ends = np.searchsorted(ranks, ranks + self.critical_difference)  # the first that is different
        starts = [i for i in range(len(names)) if ends[i] > i + 1 and (i == 0 or ends[i] > ends[i - 1])]
        return [names[start : ends[start]] for start in starts]


class PairedTest(NamedTuple):
    """Two methods over paired runs: the mean difference in percentage points, and Wilcoxon's p after Holm's correction.

    Of mean rewards, which are from 0 to 1, the points are hundredths. `better` is the method with the higher mean.
    """

    better: str
    worse: str
    difference: float
    p: float


def _blocks(records: Sequence[RunRecord]) -> tuple[list[str], Table]:
    """Return the methods, and their mean result over seeds (blocks, methods) on settings that all of them ran on."""
    cells: dict[tuple[Hashable, Hashable], dict[str, list[float]]] = {}
    for record in records:
        if record.result is not None:
            block = cells.setdefault((record.data_key, record.setting_key), {})
            block.setdefault(record.method, []).append(100 * record.result)
    methods = sorted({method for block in cells.values() for method in block})
    complete = [block for block in cells.values() if len(block) == len(methods)]
    return methods, np.array([[np.mean(block[method]) for method in methods] for block in complete])


def ranking(records: Sequence[RunRecord]) -> Ranking | None:
    """Rank methods over data sets and settings (Demšar 2006); None where `rank_table` has no test for them."""
    methods, table = _blocks(records)
    ranked = rank_table(methods, table) if table.size else None
    return None if ranked is None or ranked.friedman is None else ranked


def rank_table(methods: Sequence[str], table: Table) -> Ranking:
    """Rank methods by their results (blocks, methods), of which the highest is the best and equal ones share a rank.

    NaN, where a method has no result, shares the last rank of its block.
    """
    ranks = stats.rankdata(-np.where(np.isnan(table), -np.inf, table), axis=1)
    blocks, count = ranks.shape
    means = ranks.mean(axis=0)
    mean_ranks = {methods[i]: float(means[i]) for i in np.argsort(means, kind="stable")}
    if count < 3 or blocks < 2 or np.all(ranks == ranks[:, :1]):
        return Ranking(blocks, mean_ranks, None, None)
    p = float(stats.friedmanchisquare(*ranks.T).pvalue)
    quantile = stats.studentized_range.ppf(0.95, count, np.inf) / np.sqrt(2)
    return Ranking(blocks, mean_ranks, p, float(quantile * np.sqrt(count * (count + 1) / (6 * blocks))))


def paired_tests(records: Sequence[RunRecord]) -> list[PairedTest]:
    """Test every pair of methods over runs that share data set, setting and seed, lowest p first.

    Pairs with fewer than 5 common runs, or equal on all of them, are left out.
    """
    runs: dict[tuple[Hashable, Hashable, int], dict[str, float]] = {}
    for record in records:
        if record.result is not None:
            key = (record.data_key, record.setting_key, record.seed)
            runs.setdefault(key, {})[record.method] = 100 * record.result
    methods = sorted({method for block in runs.values() for method in block})
    found = []
    for one, two in combinations(methods, 2):
        gaps = np.array([block[one] - block[two] for block in runs.values() if one in block and two in block])
        if len(gaps) >= 5 and np.any(gaps != 0):
            p = float(stats.wilcoxon(gaps).pvalue)
            pair = (one, two) if gaps.mean() >= 0 else (two, one)
            found.append(PairedTest(*pair, abs(float(gaps.mean())), p))
    found.sort(key=lambda test: test.p)
    corrected = holm([test.p for test in found])
    return [test._replace(p=p) for test, p in zip(found, corrected, strict=True)]
