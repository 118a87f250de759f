"""How likely an answer is: calibrated where silence depends on context or arm, and the mean rate where it does not."""

import numpy as np
import pytest

import taciturn

ARMS = ["a", "b", "c"]


def agent_with(answers, steps=1200, seed=0):
    """An agent after decisions that are answered with the probability ``answers(context, arm)``."""
    rng = np.random.default_rng(seed)
    agent = taciturn.make("linucb", arms=ARMS, seed=seed)
    for x in rng.normal(size=(steps, 4)):
        decision = agent.decide(x, allowed=[ARMS[rng.integers(3)]])
        agent.feedback(decision.id, float(rng.random() < 0.5) if rng.random() < answers(x, decision.arm) else None)
    return agent


def by_context(x, _):
    return 0.1 if x[0] > 0 else 0.7


def by_arm(_, arm):
    return {"a": 0.1, "b": 0.3, "c": 0.8}[arm]


def calibration_error(bins):
    """How far estimates are from what was observed, on average."""
    return np.average([abs(estimated - observed) for estimated, observed, _ in bins], weights=[n for *_, n in bins])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.95])
def test_silence_at_random_is_told_from_silence_that_says_something(rate, seed):
    found = agent_with(lambda *_: rate, seed=seed).health().answers
    assert found.explained < 0.02
    assert found.rate == pytest.approx(rate, abs=0.05)
    assert found.highest - found.lowest < 0.2


@pytest.mark.parametrize("answers", [by_context, by_arm])
def test_estimates_are_calibrated(answers):
    found = [agent_with(answers, seed=seed).health().answers for seed in range(4)]
    assert min(rates.explained for rates in found) > 0.1
    assert max(rates.lowest for rates in found) < 0.2
    assert min(rates.highest for rates in found) > 0.6
    assert np.mean([calibration_error(rates.bins) for rates in found]) < 0.06


def in_turns(answers, steps=600):
    """An agent whose arms, and the first of the context, come in turns."""
    rng = np.random.default_rng(2)
    agent = taciturn.make("linucb", arms=2, seed=2)
    for step in range(steps):
        decision = agent.decide([step % 2, *rng.normal(size=2)], allowed=[step // 2 % 2])
        agent.feedback(decision.id, 1 if rng.random() < answers(step) else None)
    return agent


@pytest.mark.parametrize("period", [1, 2])
def test_what_comes_in_turns_is_seen(period):
    found = in_turns(lambda step: (0.05, 0.9)[step // period % 2], steps=2000).health().answers
    assert found.explained > 0.4
    assert calibration_error(found.bins) < 0.06


def test_corrections_count_at_once():
    agent = in_turns(lambda _: 1.0, steps=200)
    assert agent.health().answers.rate == 1.0
    for id in range(200):
        agent.feedback(id, None)
    assert agent.health().answers.rate == 0.0


def test_there_is_none_before_a_hundred_decisions_are_settled():
    agent = agent_with(lambda *_: 0.5, steps=99)
    decision = agent.decide([0.0] * 4)
    assert agent.health().answers is None
    assert "answers" not in str(agent.health())
    agent.feedback(decision.id, 1)
    assert agent.health().answers is not None


@pytest.mark.parametrize("reward", [1, None])
def test_all_or_none_answered(reward):
    agent = taciturn.make("linucb", arms=2)
    for step in range(150):
        agent.feedback(agent.decide([1e90 * (step % 2), 5e-324, 0.0]).id, reward)
    found = agent.health().answers
    assert found.rate == found.lowest == found.highest == (0.0 if reward is None else 1.0)
    assert found.explained == 0


def test_contexts_without_features_that_vary_and_many_arms():
    agent = taciturn.make("linucb", arms=100, seed=1, scaling="none")
    rng = np.random.default_rng(0)
    for step in range(300):
        agent.feedback(agent.decide({"a": 1.0}, allowed=[step % 100]).id, 1 if rng.random() < 0.3 else None)
    assert agent.health().answers.explained == 0
    assert "no clear difference by context and arm" in repr(agent.health())


def test_the_estimate_does_not_depend_on_when_it_was_asked_for():
    asked, other = (agent_with(by_context, steps=200) for _ in range(2))
    rng = np.random.default_rng(9)
    for x in rng.normal(size=(150, 4)):
        for agent in (asked, other):
            agent.feedback(agent.decide(x).id, 1 if x[0] < 0 else None)
        asked.health()
    assert asked.health().answers == other.health().answers
