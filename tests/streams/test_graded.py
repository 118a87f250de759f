"""Streams of data with a reward for every arm."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import taciturn
from rewards_kit import ARMS, graded_data, worth_by_hand
from taciturn.contracts import Dataset
from taciturn.errors import InvalidData, TaciturnError, UnknownArm
from taciturn.experiments.checks import toy_data
from taciturn.streams.missing import MECHANISMS, Silence, by_reward
from taciturn.streams.stream import Stream

shapes = st.tuples(st.integers(1, 12), st.integers(2, 4))


@st.composite
def any_data(draw):
    """Rewards with ties, zeros and ones; costs of any size, often all the same."""
    shape = draw(shapes)
    rewards = draw(hnp.arrays(float, shape, elements=st.sampled_from([0.0, 0.25, 0.3, 0.9, 1.0])))
    costs = draw(hnp.arrays(float, shape, elements=st.sampled_from([1e-6, 0.5, 2.0, 1e6])))
    arms = [f"arm {k}" for k in range(shape[1])]
    return Dataset("d", np.eye(*shape), rewards.argmax(axis=1), arms, rewards=rewards, costs=costs)


@given(data=any_data(), weight=st.sampled_from([0, 0.0, 0.1, 0.5, 1, 1.0]), seed=st.integers(0, 99))
def test_rewards_are_the_utilities_computed_by_hand(data, weight, seed):
    stream = Stream(data, seed=seed, cost_weight=weight)
    worth = worth_by_hand(data, weight)
    assert stream.graded
    assert len(stream) == len(data)
    assert sorted(stream.order) == list(range(len(data)))
    for step, round in enumerate(stream):
        assert round.position == step, "positions begin at 0"
        row = worth[stream.order[step]]
        for k, arm in enumerate(data.arms):
            answer = stream.respond(round, arm)
            assert isinstance(answer, float)
            assert answer == stream.reward_of(round, arm) == pytest.approx(row[k], abs=1e-12)
        right = [stream.is_right(round, arm) for arm in data.arms]
        rewards = [stream.reward_of(round, arm) for arm in data.arms]
        assert right == [reward == max(rewards) for reward in rewards], "all the best arms are right"
        assert right[stream.truth[step]]
        assert stream.best_rewards[step] == max(rewards)
    means = [sum(row[k] for row in worth) / len(worth) for k in range(len(data.arms))]
    arm, mean = stream.best_constant_arm
    assert mean == pytest.approx(max(means), abs=1e-12)
    assert means[data.arms.index(arm)] == pytest.approx(max(means), abs=1e-12)
    rounds = list(stream)
    for arm in data.arms:
        assert stream.share_right(arm) == pytest.approx(np.mean([stream.is_right(round, arm) for round in rounds]))


def test_the_dearest_arm_pays_the_whole_weight_and_the_cheapest_nothing():
    rewards = np.array([[0.5, 0.5, 0.5], [1.0, 1.0, 0.1]])
    costs = np.array([[1.0, 5.0, 100.0], [1.0, 15.0, 100.0]])  # means of 1, 10 and 100
    stream = Stream(Dataset("d", np.eye(2), [0, 0], ARMS, rewards=rewards, costs=costs), cost_weight=0.2)
    expected = np.array([[0.5, 0.4, 0.3], [1.0, 0.9, 0.0]])[stream.order]
    found = [[stream.reward_of(round, arm) for arm in ARMS] for round in stream]
    np.testing.assert_allclose(found, expected, atol=1e-15)
    assert stream.best_constant_arm == ("cheap", 0.75)
    np.testing.assert_array_equal(stream.best_rewards, expected.max(axis=1))


def test_equal_costs_cost_nothing_even_in_another_order():
    costs = np.array([0.1, 0.2, 0.3, 0.4, 0.7, 1.1])
    data = Dataset("d", np.eye(6), [0] * 6, ["a", "b"], rewards=np.full((6, 2), 0.5), costs=np.c_[costs, costs[::-1]])
    stream = Stream(data, cost_weight=1.0)
    assert {stream.reward_of(round, arm) for round in stream for arm in "ab"} == {0.5}


def sparse(X):
    return sp.csr_matrix(X)


def texts(X):
    return [f"row {i}" for i in range(len(X))]


@pytest.mark.parametrize("of", [np.asarray, sparse, texts])
@pytest.mark.parametrize("edges", [None, [[0, 1], [1, 2], [5, 9]]])
def test_there_is_no_labelled_start(of, edges):
    stream = Stream(graded_data(contexts=of(np.eye(60, 3)), edges=edges))
    start = stream.start
    assert start.arms == []
    assert (start.contexts.shape if hasattr(start.contexts, "shape") else len(start.contexts)) in ((0, 3), 0)
    assert (start.edges is None) == (edges is None)
    assert start.edges is None or start.edges.shape == (0, 2)
    pairs = {(a, round.position) for round in stream for a in round.neighbors or ()}
    rows = {frozenset(stream.order[list(pair)].tolist()) for pair in pairs}
    assert rows == {frozenset(edge) for edge in edges or []}


def test_an_arm_that_is_never_the_best_and_a_single_row_are_fine():
    data = Dataset("d", np.eye(1), [0], ["a", "b"], rewards=[[0.9, 0.2]])
    stream = Stream(data)
    assert len(stream) == 1
    assert stream.best_constant_arm == ("a", 0.9)


def test_fewer_steps_are_a_prefix_and_the_baseline_is_that_of_the_prefix():
    long, short = Stream(graded_data(), seed=3), Stream(graded_data(), seed=3, steps=7)
    np.testing.assert_array_equal(short.order, long.order[:7])
    assert short.best_constant_arm[1] == pytest.approx(graded_data().rewards[short.order].mean(axis=0).max())


def test_silence_by_reward_is_interpolated_between_wrong_and_right():
    rewards = np.repeat([[0.0, 0.25, 0.5, 1.0]], 8000, axis=0)
    data = Dataset("d", np.eye(8000, 1), np.full(8000, 3), list("abcd"), rewards=rewards)
    stream = Stream(data, missing="reward:0.6", seed=0)
    rounds = list(stream)
    silent = {arm: np.mean([stream.respond(round, arm) is None for round in rounds]) for arm in "abcd"}
    tilt = (1 / 0.6 - 1) / 2
    for arm, reward in zip("abcd", [0.0, 0.25, 0.5, 1.0], strict=True):
        assert silent[arm] == pytest.approx(0.6 * (1 + (1 - 2 * reward) * tilt), abs=0.02)
    for arm in "bcd":  # a higher reward is never silent where a lower one is heard
        assert silent[arm] <= silent["a"]


@given(seed=st.integers(0, 2**32), rate=st.floats(0, 1), mechanism=st.sampled_from(sorted(MECHANISMS)))
def test_rewards_of_0_and_1_are_silent_exactly_as_wrong_and_right_arms_were(seed, rate, mechanism):
    """The rule of before: a draw is compared with the probability after a wrong, or after a right arm."""
    contexts = sp.csr_matrix(np.random.default_rng(seed).random((40, 3)))
    silence = MECHANISMS[mechanism](contexts, rate, np.random.default_rng(seed))
    found = [[silence.of(step, reward) for step in range(40)] for reward in (0.0, 1.0)]
    if mechanism == "reward":
        tilt = min(1.0, 1.0 / rate - 1.0) / 2 if rate > 0 else 0.0
        draws = np.random.default_rng(seed).random(40)
        assert found == [(draws < rate * (1 + tilt)).tolist(), (draws < rate * (1 - tilt)).tolist()]
    else:
        assert found[0] == found[1]
        assert found[0] == [silence.of(step, 0.3) for step in range(40)]
    assert mechanism != "mcar" or sum(found[0]) == round(rate * 40)


@given(wrong=st.floats(0, 1), right=st.floats(1e-9, 1))
def test_the_probabilities_after_0_and_1_are_exact(wrong, right):
    """To the last bit: a draw that equals the probability is heard, the next smaller one is not."""
    for reward, probability in ((0.0, wrong), (1.0, right)):
        draws = np.array([probability, np.nextafter(probability, -1.0)])
        silence = Silence(draws, wrong, right)
        assert [silence.of(step, reward) for step in (0, 1)] == [False, True]


def test_silence_by_reward_is_decided_once_for_a_step():
    silence = by_reward(sp.csr_matrix((50, 1)), 0.5, np.random.default_rng(0))
    for step in range(50):
        heard = [not silence.of(step, reward) for reward in np.linspace(0, 1, 21)]
        assert heard == sorted(heard), "a step that is heard is heard with any higher reward"


def test_data_with_one_right_arm_has_rewards_of_0_and_1():
    stream = Stream(toy_data(), missing=0.3, seed=1)
    assert not stream.graded
    np.testing.assert_array_equal(stream.best_rewards, np.ones(87))
    for round in stream:
        assert [stream.reward_of(round, arm) for arm in stream.arms] == [
            float(stream.is_right(round, arm)) for arm in stream.arms
        ]
    arm, share = stream.best_constant_arm
    assert stream.share_right(arm) == share


@pytest.mark.parametrize(
    ("changes", "weight", "message"),
    [
        ({}, -0.1, "cost_weight=-0.1 is not allowed; a number from 0 to 1 is"),
        ({}, 1.1, "cost_weight=1.1 is not allowed"),
        ({}, float("nan"), "cost_weight=nan is not allowed"),
        ({}, "0.1", "cost_weight='0.1' is not allowed"),
        ({}, True, "cost_weight=True is not allowed"),
        ({"costs": None}, 0.1, "graded: cost_weight=0.1 needs rewards and costs of every arm; there are no costs"),
        ({"rewards": None}, 0.1, "graded: cost_weight=0.1 needs rewards .*; there are no rewards"),
        ({"costs": np.full((60, 3), -1.0)}, 0.1, "graded: costs of row 0, arm 0 are -1; .* above 0 are needed"),
        ({"costs": np.zeros((60, 3))}, 0.1, "costs of row 0, arm 0 are 0"),
    ],
)
def test_a_wrong_cost_weight_or_cost_is_refused_in_one_line(changes, weight, message):
    data = dataclasses.replace(graded_data(), X=graded_data().contexts, **changes)
    with pytest.raises(TaciturnError, match=message) as error:
        Stream(data, cost_weight=weight)
    assert "\n" not in str(error.value)
    if weight == 0.1 and "rewards" not in changes:
        Stream(data)  # without a weight nobody asks for the costs


def test_rewards_that_are_no_numbers_from_0_to_1_and_unknown_arms_are_refused():
    for wrong in (np.nan, -0.1, 1.5):
        rewards = np.full((3, 2), 0.5)
        rewards[1, 1] = wrong
        with pytest.raises(InvalidData, match="rewards of row 1, arm 1 are .*; from 0 to 1 is allowed"):
            Dataset("d", np.eye(3), [0, 0, 0], ["a", "b"], rewards=rewards)
    with pytest.raises(InvalidData, match="there are no rows"):
        Stream(Dataset("d", np.zeros((0, 2)), np.zeros(0, int), ["a", "b"], rewards=np.zeros((0, 2))))
    stream = Stream(graded_data())
    for method in (stream.respond, stream.reward_of, stream.is_right):
        with pytest.raises(UnknownArm, match="cheap, fair, dear"):
            method(next(iter(stream)), "up")
    with pytest.raises(UnknownArm, match="cheap, fair, dear"):
        stream.share_right("up")


def test_a_stream_and_its_data_show_rewards_in_place_of_percents():
    stream = taciturn.Stream(graded_data(), cost_weight=0.25)
    arm, mean = stream.best_constant_arm
    assert f"{arm!r}, reward {mean:.3f}" in repr(stream)
    assert "cost weight 0.25" in " ".join(repr(stream).split())
    assert "%" not in repr(stream)
    shown = " ".join(repr(graded_data()).split())
    assert "rewards for every arm" in shown
    assert "costs for every arm" in shown
    assert "costs" not in repr(graded_data(costs=False))
    assert "rewards" not in repr(toy_data())
