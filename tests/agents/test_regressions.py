"""Bugs that were there once; each test says which."""

import numpy as np
import pytest
from sklearn.naive_bayes import MultinomialNB

import taciturn
from oracles.zoo import contexts
from taciturn.errors import TaciturnError


@pytest.mark.parametrize("kind", [taciturn.ViewUCB, taciturn.ROGCN, taciturn.GCNUCB])
def test_there_is_nothing_to_study_where_all_was_withdrawn(kind):
    """ViewUCB studied for ever; networks asked for the largest of no labels."""
    agent = kind(arms=2)
    agent.defer_training()
    agent.withdraw(agent.decide([1.0, 0.0]).id)
    assert agent.train_pending(1000) <= 1


def test_a_copied_arm_keeps_its_evidence_through_solves_and_corrections():
    """ViewUCB overwrote what a copy had of wrong answers, and a correction of the original took it from the copy."""
    agent = taciturn.ViewUCB(arms=3)
    for x in contexts(20):
        agent.feedback(agent.decide(x, allowed=[0]).id, 0)
    agent.add_arm("copy", like=0)
    agent._solve()
    np.testing.assert_array_equal(agent._weights[:20, 3], 1)
    np.testing.assert_array_equal(agent._targets[:20, 3], 0)
    agent.feedback(0, 1)
    assert (agent._weights[0, 3], agent._targets[0, 3]) == (1, 0)


def test_a_correction_does_not_wipe_what_forgotten_contexts_taught():
    """Learning afresh from what is remembered threw away all that was not."""
    agent, rng = taciturn.LinUCB(arms=2, max_nodes=16), np.random.default_rng(0)
    for _ in range(300):
        decision = agent.decide([*rng.random(2), 0.0])
        agent.feedback(decision.id, float(decision.arm == 0))
    before = agent._linear.theta
    decision = agent.decide([0.0, 0.0, 1000.0])
    agent.feedback(decision.id, 1)
    agent.feedback(decision.id, 0)
    np.testing.assert_allclose(agent._linear.theta, before, atol=1e-6)


def test_clusters_go_on_when_contexts_are_withdrawn():
    """K-means began again whenever as many contexts were left as it has clusters, and stopped when there were fewer."""
    agent = taciturn.BILinUCB(arms=2, imputer="kmeans", imputer_params={"clusters": 5}, warmup=0)
    ids = [agent.decide(x).id for x in contexts(8)]
    clusters = agent._imputer._cluster[:8].copy()
    for id in ids[:4]:
        agent.withdraw(id)
    agent.decide(contexts(1, 3)[0])
    np.testing.assert_array_equal(agent._imputer._cluster[:4], clusters[4:])
    assert agent._imputer._cluster[4] >= 0


def test_a_labelled_start_that_fails_leaves_nothing_behind():
    agent = taciturn.BILinUCB(arms=2, imputer=MultinomialNB(), warmup=0)
    with pytest.raises(TaciturnError, match="refuses"):
        agent.warm_start([[1.0, 0.0], [1.0, -1.0], [0.0, 1.0]], [0, 1, 0])
    assert (agent.health().remembered, agent._linear.theta.any()) == (0, False)


def test_a_correction_that_is_refused_leaves_what_was_known():
    agent = taciturn.BILinUCB(arms=2, imputer=MultinomialNB(), warmup=0)
    decision = agent.decide([1.0, -1.0])
    agent.feedback(decision.id, 0.4)
    theta = agent._linear.theta
    with pytest.raises(TaciturnError, match="refuses"):
        agent.feedback(decision.id, 1)
    assert (agent.state(decision.id), agent.log()["rewards"][0]) == ("rewarded", 0.4)
    np.testing.assert_allclose(agent._linear.theta, theta, atol=1e-12)


def test_a_labelled_row_does_not_hold_up_time():
    agent = taciturn.LinUCB(arms=2, expire_after=10)
    agent.warm_start([[1.0, 0.0]], [0])
    decision = agent.decide([1.0, 0.0], at=-100.0)
    assert agent.expire(-50.0) == [decision.id]


def test_a_decision_that_is_refused_sets_no_clock():
    agent = taciturn.LinUCB(arms=2, memory_limit=100_000)
    with pytest.raises(TaciturnError, match="memory_limit"):
        agent.decide(np.ones(2000), at=5.0)
    assert agent.decide([1.0, 2.0]).id == 0


def test_label_spreading_takes_features_that_come_later():
    """scikit-learn's model refused rows with more features than it was fitted to."""
    agent = taciturn.make("labelspreading", arms=2, every=2)
    agent.warm_start([{"a": 1.0}, {"b": 1.0}], [0, 1])
    assert agent.decide({"a": 1.0, "c": 0.1}).arm == 0
