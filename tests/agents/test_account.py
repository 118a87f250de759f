"""Giving an account: why this arm, and how the agent is doing."""

import numpy as np
import pytest

import taciturn
from oracles.zoo import AGENTS, ARMS, contexts


def two_groups(agent):
    """Contexts of two kinds, each with its own right arm; the last of each is asked about."""
    rng = np.random.default_rng(0)
    group = np.array([[1.0, 0.0, 0.0, 0.2], [0.0, 1.0, 0.0, 0.2]])
    for step in range(40):
        kind = step % 2
        decision = agent.decide(group[kind] + 0.05 * rng.random(4))
        reward = float(decision.arm == ("left", "right")[kind])
        agent.feedback(decision.id, None if step % 8 == 7 else reward)
    return agent.decide(group[0]), agent.decide(group[1])


@pytest.mark.parametrize("name", AGENTS)
def test_an_explanation_names_those_that_spoke(name):
    agent = AGENTS[name](arms=ARMS, seed=1)
    for decision in two_groups(agent):
        explained = agent.explain(decision.id)
        assert (explained.id, explained.arm, explained.state) == (decision.id, decision.arm, "pending")
        np.testing.assert_allclose(explained.scores, decision.scores, rtol=1e-6)
        np.testing.assert_allclose(explained.widths, decision.widths, rtol=1e-6)
        bounds = decision.scores + decision.widths
        bounds[ARMS.index(decision.arm)] = -np.inf
        assert explained.second == ARMS[int(bounds.argmax())]
        log = agent.log()
        told = dict(zip(log["ids"].tolist(), log["rewards"].tolist(), strict=True))
        chosen = dict(zip(log["ids"].tolist(), log["arms"].tolist(), strict=True))
        assert len(explained.supporting) + len(explained.opposing) > 0
        for voice in explained.supporting:
            assert (voice.arm, chosen[voice.id]) == (explained.arm, ARMS.index(explained.arm))
            assert voice.reward > 0.5
        for voice in explained.opposing:
            assert (voice.arm != explained.arm and voice.reward == 1) or voice.reward <= 0.5
        for voice in explained.supporting + explained.opposing:
            assert voice.closeness > 0
            assert voice.imputed == (agent.state(voice.id) == "silent")
            assert voice.imputed or told[voice.id] == voice.reward
        closeness = [voice.closeness for voice in explained.supporting]
        assert closeness == sorted(closeness, reverse=True)
        assert str(explained).startswith(f"decision {decision.id} is pending: {decision.arm}, ")


def test_those_that_spoke_for_a_good_choice_are_of_its_own_kind():
    agent = taciturn.ViewUCB(arms=ARMS, seed=1)
    left, right = two_groups(agent)
    assert (left.arm, right.arm) == ("left", "right")
    for decision, parity in ((left, 0), (right, 1)):
        voices = agent.explain(decision.id).supporting
        assert len(voices) == 5
        assert {voice.id % 2 for voice in voices} == {parity}


def test_health_counts_what_happened():
    agent = taciturn.LinUCB(arms=2, silence=0.5, expire_after=1000)
    (given,) = agent.warm_start([[1.0]], [0])
    assert agent.health().reward_rate is agent.health().drift is agent.health().calibration is None
    for step in range(300):
        id = agent.decide([1.0]).id
        agent.feedback(id, float(step % 4 == 0) if step < 200 else 1)
    for _ in range(2):
        agent.feedback(given + 1, 0)  # corrected, once
    agent.feedback(given + 2, None)
    agent.feedback(given + 2, 1)  # late
    agent.withdraw(given + 3)
    agent.feedback(given + 4, None)
    agent.decide([1.0])
    health = agent.health()
    assert (health.decisions, health.remembered, health.labelled) == (301, 301, 1)
    assert (health.pending, health.rewarded, health.silent) == (1, 298, 1)
    assert (health.corrected, health.late, health.withdrawn) == (3, 1, 1)
    assert health.imputed_share == pytest.approx(1 / 300)
    assert health.recent_reward_rate == 1.0
    assert health.drift > 10, "from a quarter right to always right is no accident"
    assert health.calibration == (1, 0.25, ((0.5, 1.0, 1),))
    assert health.memory > 0


@pytest.mark.parametrize("name", AGENTS)
def test_a_fork_goes_on_alike_and_apart(name):
    agent = AGENTS[name](arms=ARMS, seed=1, epsilon=0.5)
    agent.warm_start(contexts(3), ARMS)
    for step, x in enumerate(contexts(12, 1)):
        agent.feedback(agent.decide(x).id, (1, 0, None)[step % 3])
    same, other = agent.fork(), agent.fork(seed=7)
    assert (same.seed, other.seed) == (1, 7)
    held = agent.log()
    other_arms = []
    for step, x in enumerate(contexts(20, 2)):
        mine, theirs = agent.decide(x), same.decide(x)
        assert (mine.id, mine.arm) == (theirs.id, theirs.arm)
        np.testing.assert_array_equal(mine.scores, theirs.scores)
        other_arms.append(other.decide(x).arm)
        for one in (agent, same):
            one.feedback(mine.id, (1, 0, None)[step % 3])
    assert len(held["ids"]) == 12, "the log is a copy"
    assert other_arms != [ARMS[k] for k in agent.log()["arms"][12:]]
