"""The river adapter, driven by river's own evaluation."""

import math
import sys

import numpy as np
import pytest
from river import bandit, stats

import taciturn
from taciturn.adapters.obp import replay
from taciturn.adapters.river import TaciturnPolicy
from taciturn.errors import TaciturnError, UnknownArm
from taciturn.experiments.checks import toy_data


class ObservedSum(stats.Sum):
    """A sum that skips NaN; river's own becomes NaN with the first missing reward."""

    def update(self, x):
        if not math.isnan(x):
            super().update(x)


def logged(silent=0.0, seed=0):
    """Return rounds with uniformly random arms, as river's history and as obp's dictionary; NaN is silence."""
    data, rng = toy_data(300), np.random.default_rng(seed)
    X = data.X.toarray()
    actions = rng.integers(len(data.arms), size=len(X))
    rewards = np.where(rng.random(len(X)) < silent, np.nan, actions == data.y)
    history = [
        (data.arms, dict(enumerate(x.tolist())), data.arms[action], reward)
        for x, action, reward in zip(X, actions, rewards.tolist(), strict=True)
    ]
    return data.arms, history, {"context": X, "action": actions, "reward": rewards, "n_actions": len(data.arms)}


@pytest.mark.parametrize("method", ["linucb", "viewucb"])
@pytest.mark.parametrize("silent", [0.0, 0.4])
def test_rivers_replay_of_a_log_equals_ours(method, silent):
    arms, history, feedback = logged(silent)
    agent, other = (taciturn.make(method, arms=arms, scaling="none") for _ in range(2))
    policy = TaciturnPolicy(other)
    total, used = bandit.evaluate_offline(policy, history, ObservedSum())
    rounds = replay(agent, feedback)
    assert used == len(rounds)
    assert total.get() == np.nansum(feedback["reward"][rounds])
    received, expected = policy.agent.log()["rewards"], feedback["reward"][rounds]
    np.testing.assert_array_equal(received[: len(rounds)], expected)


def test_an_agent_learns_in_rivers_evaluation():
    arms, history, _ = logged()
    random_total, tried = bandit.evaluate_offline(bandit.RandomPolicy(seed=0), history)
    total, used = bandit.evaluate_offline(TaciturnPolicy(taciturn.LinUCB(arms=arms)), history)
    assert used > 60
    assert total.get() / used > 0.8
    assert random_total.get() / tried < 0.5


def test_silence_is_passed_to_the_agent_and_only_counts_the_pull():
    policy = TaciturnPolicy(taciturn.LinUCB(arms=["a", "b"]))
    for reward in (1.0, None, math.nan):
        arm = policy.pull(["a", "b"], {"x": 1.0})
        policy.update(arm, {"x": 1.0}, reward)
    assert policy.agent.log()["states"].tolist() == ["rewarded", "silent", "silent"]
    # river has no public access to its counts.
    assert policy._n == 3
    assert sum(policy._rewards[arm].n for arm in policy.ranking) == 1


def test_only_offered_arms_are_pulled():
    policy = TaciturnPolicy(taciturn.LinUCB(arms=["a", "b", "c"]))
    for offered in (["b"], ["c"], ["b", "c"], ["c", "b", "a"]):
        arm = policy.pull(offered, {"x": 1.0})
        assert arm in offered
        policy.update(arm, {"x": 1.0}, 0)
    with pytest.raises(UnknownArm, match="'d'"):
        policy.pull(["a", "d"], {"x": 1.0})


def test_a_pull_without_an_update_is_withdrawn_by_the_next():
    policy = TaciturnPolicy(taciturn.LinUCB(arms=["a", "b"]))
    policy.pull(["a", "b"], {"x": 1.0})
    arm = policy.pull(["a", "b"], {"x": 2.0})
    policy.update(arm, {"x": 2.0}, 1)
    assert policy.agent.log()["ids"].tolist() == [1]
    assert policy.agent.health().withdrawn == 1


def test_an_update_for_another_arm_and_a_late_update_are_learned_from():
    arms = ["a", "b"]
    policy, other = TaciturnPolicy(taciturn.LinUCB(arms=arms)), taciturn.LinUCB(arms=arms)
    assert policy.pull(arms, {"x": 1.0, "y": 0.0}) == "a"
    policy.pull(arms, {"x": 0.0, "y": 1.0})
    for arm, reward in (("b", 1), ("a", 0)):  # both late, one for another arm than was pulled
        policy.update(arm, {"x": 1.0, "y": 0.0}, reward)
        other.feedback(other.decide({"x": 1.0, "y": 0.0}, allowed=[arm]).id, reward)
    log = policy.agent.log()
    assert log["arms"][log["states"] == "rewarded"].tolist() == [1, 0]
    probe = {"x": 0.7, "y": 0.2}
    np.testing.assert_allclose(policy.agent.fork().decide(probe).scores, other.decide(probe).scores)
    assert policy.ranking == ["b", "a"]


def test_a_clone_has_equal_parameters_and_is_untrained():
    policy = TaciturnPolicy(taciturn.LinUCB(arms=["a", "b"], alpha=0.3))
    policy.update(policy.pull(["a", "b"], {"x": 1.0}), {"x": 1.0}, 1)
    clone = policy.clone()
    assert clone.agent.params == policy.agent.params
    assert clone._n == 0  # see above
    assert len(clone.agent.log()["ids"]) == 0
    assert len(policy.agent.log()["ids"]) == 1


def test_bad_input_is_refused_and_the_pull_stays_pending():
    policy = TaciturnPolicy(taciturn.LinUCB(arms=["a", "b"]))
    with pytest.raises(TypeError, match="a context and a reward"):
        policy.update("a", {"x": 1.0})
    with pytest.raises(TaciturnError, match="a context cannot be of type NoneType"):
        policy.pull(["a", "b"])
    policy.pull(["a", "b"], {"x": 1.0})
    with pytest.raises(TaciturnError, match="reward 3 is not allowed"):
        policy.update("a", {"x": 1.0}, 3)
    policy.update("a", {"x": 1.0}, 1)
    assert policy.agent.log()["rewards"].tolist() == [1.0]


def test_contexts_have_words_and_missing_values():
    context = {"country": "DE", "age": math.nan, "note": "where is it", "tags": ["a", "b"], "v": np.array([0.5, 1.0])}
    policy, agent = TaciturnPolicy(taciturn.LinUCB(arms=["a", "b"])), taciturn.LinUCB(arms=["a", "b"])
    for given in (context, context | {"country": "FR", "age": 3.0}, context):
        arm, made = policy.pull(["a", "b"], context=given), agent.decide(given)
        assert arm == made.arm
        policy.update(arm, dict(given), 1.0)  # an equal one, with the same NaN
        agent.feedback(made.id, 1.0)
    assert policy.agent.log()["rewards"].tolist() == [1.0] * 3
    assert policy.agent.feature_names == agent.feature_names


def test_without_river_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "river", None)
    monkeypatch.delitem(sys.modules, "taciturn.adapters.river")
    with pytest.raises(ImportError, match=r"pip install '.\[river\]' in a checkout"):
        import taciturn.adapters.river  # noqa: F401
