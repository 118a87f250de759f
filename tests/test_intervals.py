"""Intervals of what is from 0 to 1: they stay there, hold the estimate, and cover as often as they say."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import taciturn
from taciturn import ope
from taciturn.intervals import mean_interval, score_text, within_range

SHARES = st.floats(0, 1)


@given(st.lists(SHARES, min_size=2, max_size=12))
def test_the_interval_of_a_mean_is_within_0_and_1_and_holds_the_mean(results):
    low, high = mean_interval(results)
    assert 0 <= low <= np.mean(results) + 1e-15
    assert np.mean(results) - 1e-15 <= high <= 1
    if len(set(results)) == 1:
        assert low == high == pytest.approx(results[0])


@given(st.lists(st.tuples(SHARES, SHARES, SHARES), min_size=2, max_size=6))
def test_columns_are_independent(rows):
    together = np.array(mean_interval(rows))
    alone = np.array([mean_interval(column) for column in zip(*rows, strict=True)])
    np.testing.assert_allclose(together, alone.T, atol=1e-12)


def test_it_is_students_interval_of_the_logit_of_the_mean():
    results = np.array([0.71, 0.74, 0.69, 0.78])
    mean, error = results.mean(), stats.sem(results)
    half = stats.t(3).ppf(0.975) * error / (mean * (1 - mean))
    odds = mean / (1 - mean) * np.exp([-half, half])
    np.testing.assert_allclose(mean_interval(results), odds / (1 + odds))
    near = mean_interval(0.5 + (results - mean) / 100)
    np.testing.assert_allclose(near, stats.t(3, 0.5, error / 100).interval(0.95), atol=1e-6)
    assert mean_interval(results[:1]) is None
    assert mean_interval([]) is None


@pytest.mark.parametrize("shape", [(40.0, 10.0), (30.0, 2.0), (5.0, 5.0)])
def test_it_covers_the_mean_in_95_of_100_samples(shape):
    rng, truth = np.random.default_rng(0), shape[0] / sum(shape)
    for seeds in (2, 3, 5, 10):
        low, high = mean_interval(rng.beta(*shape, size=(seeds, 4000)))
        assert 0.935 <= np.mean((low <= truth) & (truth <= high)) <= 0.985


@given(st.floats(-1, 2), st.floats(0, 100) | st.just(float("inf")))
def test_the_range_of_a_score_holds_it_and_is_within_0_and_1_where_the_score_is(score, width):
    low, high = within_range(score, width)
    assert low <= score <= high
    assert 0 <= low <= high <= 1 or not 0 <= score <= 1
    assert (low >= 0 or low == score) and (high <= 1 or high == score)
    assert low >= score - width
    assert high <= score + width
    if 0 <= score <= 1:
        assert all(0 <= float(number) <= 1 for number in re.findall(r"-?\d\.\d+", score_text(score, width)))


def test_an_agent_that_has_learned_nothing_does_not_say_0_333_plus_or_minus_5_66():
    agent = taciturn.ViewUCB(arms=["left", "middle", "right"])
    agent.decide([1.0, 0.0, 0.37])
    explained = agent.explain(0)
    assert explained.widths[0] > 1
    for text in (str(explained), explained._repr_html_()):
        assert "±" not in text
        assert "0.333 (0.000 to 1.000)" in text


@given(SHARES | st.floats(-3, 3), st.floats(0, 5))
def test_the_interval_of_an_estimate_is_where_mean_rewards_are(value, error):
    estimate = ope.Estimate(value, error, 1, 1.0, 1.0, 1.0)
    low, high = estimate.interval
    assert 0 <= low <= min(max(value, 0), 1) <= high <= 1
    if 0 <= value - 1.96 * error <= value + 1.96 * error <= 1:
        assert (low, high) == pytest.approx((value - 1.96 * error, value + 1.96 * error))
