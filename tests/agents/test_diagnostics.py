"""`explain`, `health` and `fork`."""

import numpy as np
import pytest

import taciturn
from oracles.zoo import AGENTS, ARMS, contexts


def two_groups(agent):
    """Let an agent learn contexts of two groups, each with its own right arm; return one more decision of each."""
    rng = np.random.default_rng(0)
    group = np.array([[1.0, 0.0, 0.0, 0.2], [0.0, 1.0, 0.0, 0.2]])
    for step in range(40):
        g = step % 2
        decision = agent.decide(group[g] + 0.05 * rng.random(4))
        reward = float(decision.arm == ("left", "right")[g])
        agent.feedback(decision.id, None if step % 8 == 7 else reward)
    return agent.decide(group[0]), agent.decide(group[1])


@pytest.mark.parametrize("name", AGENTS)
def test_an_explanation_names_supporting_and_opposing_neighbors(name):
    agent = AGENTS[name](arms=ARMS, seed=1)
    explained_by_neighbors = 0
    for decision in two_groups(agent):
        explained = agent.explain(decision.id)
        assert (explained.id, explained.arm, explained.state) == (decision.id, decision.arm, "pending")
        np.testing.assert_allclose(explained.scores, decision.scores, rtol=1e-6)
        np.testing.assert_allclose(explained.widths, decision.widths, rtol=1e-6)
        bounds = decision.scores + decision.widths
        bounds[ARMS.index(decision.arm)] = -np.inf
        assert explained.second == ARMS[int(bounds.argmax())]
        log = agent.log()
        rewards = dict(zip(log["ids"].tolist(), log["rewards"].tolist(), strict=True))
        chosen = dict(zip(log["ids"].tolist(), log["arms"].tolist(), strict=True))
        named = len(explained.supporting) + len(explained.opposing)
        assert named > 0 or not agent.one_right_arm, "where several can be good, an arm is explored that none near has"
        explained_by_neighbors += named > 0
        for neighbor in explained.supporting:
            assert (neighbor.arm, chosen[neighbor.id]) == (explained.arm, ARMS.index(explained.arm))
            assert neighbor.reward > 0.5
        for neighbor in explained.opposing:
            assert (neighbor.arm != explained.arm and neighbor.reward == 1) or neighbor.reward <= 0.5
        for neighbor in explained.supporting + explained.opposing:
            assert neighbor.closeness > 0
            assert neighbor.imputed == (agent.state(neighbor.id) == "silent")
            assert neighbor.imputed or rewards[neighbor.id] == neighbor.reward
        closeness = [neighbor.closeness for neighbor in explained.supporting]
        assert closeness == sorted(closeness, reverse=True)
        assert str(explained).startswith(f"decision {decision.id} is pending: {decision.arm}, ")
    assert explained_by_neighbors > 0


def test_the_neighbors_that_support_a_right_choice_are_of_its_own_group():
    agent = taciturn.ViewUCB(arms=ARMS, seed=1, scaling="none")
    left, right = two_groups(agent)
    assert (left.arm, right.arm) == ("left", "right")
    for decision, parity in ((left, 0), (right, 1)):
        neighbors = agent.explain(decision.id).supporting
        assert len(neighbors) == 5
        assert {neighbor.id % 2 for neighbor in neighbors} == {parity}


def test_health_counts_states_corrections_and_late_rewards():
    agent = taciturn.LinUCB(arms=2, silence=0.5, expire_after=1000)
    (labelled,) = agent.warm_start([[1.0]], [0])
    assert agent.health().reward_rate is agent.health().drift is agent.health().calibration is None
    for step in range(300):
        id = agent.decide([1.0]).id
        agent.feedback(id, float(step % 4 == 0) if step < 200 else 1)
    for _ in range(2):
        agent.feedback(labelled + 1, 0)  # corrected, once
    agent.feedback(labelled + 2, None)
    agent.feedback(labelled + 2, 1)  # late
    agent.withdraw(labelled + 3)
    agent.feedback(labelled + 4, None)
    agent.decide([1.0])
    health = agent.health()
    assert (health.decisions, health.remembered, health.labelled) == (301, 301, 1)
    assert (health.pending, health.rewarded, health.silent) == (1, 298, 1)
    assert (health.corrected, health.late, health.withdrawn) == (3, 1, 1)
    assert health.imputed_share == pytest.approx(1 / 300)
    assert health.recent_reward_rate == 1.0
    assert health.drift > 10, "the reward rate rose from a quarter to 1"
    assert health.calibration == (1, 0.25, ((0.5, 1.0, 1),))
    assert health.memory > 0


@pytest.mark.parametrize("name", AGENTS)
def test_a_fork_continues_identically_or_with_another_seed(name, tmp_path):
    agent = AGENTS[name](arms=ARMS, seed=1, epsilon=0.5)
    agent.warm_start(contexts(3), ARMS)
    for step, x in enumerate(contexts(12, 1)):
        agent.feedback(agent.decide(x).id, (1, 0, None)[step % 3])
    same, other = agent.fork(), agent.fork(seed=7)
    assert (same.seed, other.seed) == (1, 7)
    other.save(tmp_path / "other")
    loaded = taciturn.load(tmp_path / "other")
    held = agent.log()
    other_arms = []
    for step, x in enumerate(contexts(20, 2)):
        mine, theirs = agent.decide(x), same.decide(x)
        assert (mine.id, mine.arm) == (theirs.id, theirs.arm)
        np.testing.assert_array_equal(mine.scores, theirs.scores)
        found, wanted = loaded.decide(x), other.decide(x)
        np.testing.assert_array_equal(found.scores, wanted.scores)
        other_arms.append(wanted.arm)
        for one in (agent, same):
            one.feedback(mine.id, (1, 0, None)[step % 3])
    assert len(held["ids"]) == 12, "the log is a copy"
    assert other_arms != [ARMS[k] for k in agent.log()["arms"][12:]]
