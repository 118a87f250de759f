"""What tables mark as the best: only what paired tests over seeds support, corrected for their number."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from taciturn.reports.best import Best, best_of, holm

STEPS = 1000


def oracle(results):
    """The rule, step by step: all paired t-tests of the highest mean against the others, by scipy, one after another.

    Returned are the first by test, or None, and what is level.
    """
    means = {name: np.mean(list(seeds.values())) for name, seeds in results.items()}
    top = max(means, key=means.get)
    ps = {}
    for name in results.keys() - {top}:
        common = sorted(results[top].keys() & results[name].keys())
        gaps = np.array([results[top][seed] - results[name][seed] for seed in common])
        ps[name] = float(stats.ttest_1samp(gaps, 0).pvalue) if gaps.mean() > 0 else 1.0
    left = sorted(ps, key=ps.get)
    for place, name in enumerate(left):  # Holm: the lowest p first, and no more after the first that is too high
        if ps[name] * (len(left) - place) >= 0.05:
            return None, {top, *left[place:]}
    return top, set()


NOISE = st.lists(st.floats(-0.03, 0.03), min_size=10, max_size=10)


DRAWN = st.dictionaries(st.sampled_from("abcdefg"), st.tuples(st.floats(0.3, 0.7), NOISE), min_size=2)


@given(DRAWN, st.integers(3, 10))
def test_what_is_marked_is_what_the_rule_says(drawn, seeds):
    rng = np.random.default_rng(0)  # no two differences are equal, so that the t-test needs no least deviation
    results = {
        name: {seed: mean + noise[seed] + 0.02 * rng.random() for seed in range(seeds)}
        for name, (mean, noise) in drawn.items()
    }
    gaps = [
        np.std([one[seed] - two[seed] for seed in range(seeds)], ddof=1)
        for one in results.values()
        for two in results.values()
        if one is not two
    ]
    if min(gaps) < 1 / STEPS:
        return
    best = best_of(results, STEPS)
    assert (best.first, set(best.level)) == oracle(results)
    assert (best.first is None) == bool(best.level)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_its_steps_reject(ps):
    corrected = holm(ps)
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    rejecting = True
    for place, i in enumerate(order):
        rejecting = rejecting and ps[i] * (len(ps) - place) < 0.05
        assert (corrected[i] < 0.05) == rejecting
        assert ps[i] <= corrected[i] <= 1


def test_one_seed_marks_nothing_however_large_the_difference():
    assert best_of({"a": {0: 0.99}, "b": {0: 0.01}}, STEPS) == Best()
    assert best_of({"a": {0: 0.99, 1: 0.98}, "b": {2: 0.01, 3: 0.02}}, STEPS) == Best(), "no common seeds"
    assert best_of({"a": {0: 0.99, 1: 0.98}}, STEPS) == Best()
    assert best_of({"a": {0: 0.99, 1: 0.98}, "b": {}}, STEPS) == Best()


def test_two_equal_differences_are_no_proof():
    assert best_of({"a": {0: 0.502, 1: 0.502}, "b": {0: 0.5, 1: 0.5}}, 100).first is None
    assert best_of({"a": {0: 0.9, 1: 0.9}, "b": {0: 0.5, 1: 0.5}}, STEPS).first == "a"


def test_equal_results_are_level():
    same = dict.fromkeys(range(5), 0.5)
    assert best_of({"a": same, "b": same}, STEPS) == Best(None, ("a", "b"))


def test_more_comparisons_need_more_evidence():
    """One that is just significant alone is not among many as good."""
    gaps = np.array([0.02, 0.03, 0.01, 0.035, 0.002])
    assert 0.01 < stats.ttest_1samp(gaps, 0).pvalue < 0.05
    top = {seed: 0.5 + gap for seed, gap in enumerate(gaps)}
    other = dict.fromkeys(range(5), 0.5)
    assert best_of({"top": top, "a": other}, STEPS).first == "top"
    assert best_of({"top": top, **{f"m{i}": other for i in range(8)}}, STEPS).first is None


def test_a_higher_mean_over_other_seeds_is_not_better_where_both_ran():
    """The highest mean can come from easier seeds: what counts are those that both have."""
    easy = dict.fromkeys(range(10, 30), 0.99)
    one = {0: 0.50, 1: 0.51, 2: 0.50} | easy
    two = {0: 0.60, 1: 0.61, 2: 0.60}
    assert np.mean(list(one.values())) > np.mean(list(two.values()))
    assert best_of({"one": one, "two": two}, STEPS) == Best(None, ("one", "two"))


@pytest.mark.parametrize("methods", [2, 6])
def test_equal_methods_are_rarely_told_apart(methods):
    rng = np.random.default_rng(1)
    samples = 0.6 + 0.05 * rng.standard_normal((1500, methods, 5))
    firsts = [best_of({m: dict(enumerate(row)) for m, row in enumerate(one)}, 10**6).first for one in samples]
    share = np.mean([first is not None for first in firsts])
    assert share <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1500)
