"""The scikit-learn adapter."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import taciturn
from taciturn.adapters.sklearn import PartialFitAgent
from taciturn.errors import InvalidContext, TaciturnError, UnknownArm
from taciturn.experiments.checks import toy_data


def decisions(silent=0.3, seed=0):
    """Return contexts, logged arms and their rewards; NaN is silence."""
    data, rng = toy_data(), np.random.default_rng(seed)
    indices = rng.integers(len(data.arms), size=len(data.y))
    rewards = np.where(rng.random(len(data.y)) < silent, np.nan, indices == data.y)
    return data.X.toarray(), np.array(data.arms)[indices], rewards


@pytest.mark.parametrize("method", ["linucb", "viewucb"])
def test_partial_fit_equals_decide_and_feedback(method):
    X, arms, rewards = decisions()
    agent = taciturn.make(method, arms=toy_data().arms)
    by_hand = agent.fork()
    model = PartialFitAgent(agent).partial_fit(X[:50], arms[:50], rewards[:50])
    model.partial_fit(sp.csr_matrix(X[50:]), arms[50:].tolist(), list(rewards[50:]))
    for x, arm, reward in zip(X, arms, rewards, strict=True):
        decision = by_hand.decide(x, allowed=[arm])
        by_hand.feedback(decision.id, None if np.isnan(reward) else reward)
    log, expected = model.agent_.log(), by_hand.log()
    for name in ("arms", "rewards", "states"):
        np.testing.assert_array_equal(log[name], expected[name])
    np.testing.assert_array_equal(np.array(agent.arm_names)[log["arms"]], arms)
    np.testing.assert_array_equal(log["rewards"], rewards)
    np.testing.assert_array_equal(model.decision_function(X[:1])[0], by_hand.fork().decide(X[0]).scores)
    assert len(agent.log()["ids"]) == 0  # the parameter is unchanged


@pytest.mark.parametrize("method", ["linucb", "viewucb"])
def test_predictions_do_not_change_the_agent_or_each_other(method):
    X, arms, rewards = decisions()
    model = PartialFitAgent(taciturn.make(method, arms=toy_data().arms)).partial_fit(X, arms, rewards)
    chosen, scores = model.predict(X), model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X[::-1]), chosen[::-1])
    np.testing.assert_array_equal(model.decision_function(X[30:31])[0], scores[30])
    np.testing.assert_array_equal(model.predict(sp.csr_array(X)), chosen)
    assert len(model.agent_.log()["ids"]) == len(X)
    assert scores.shape == (len(X), 3)
    assert (chosen == np.array(toy_data().arms)[toy_data().y]).mean() > 0.9


def test_a_clone_is_untrained_and_keeps_the_labelled_start():
    X, arms, rewards = decisions()
    data = toy_data()
    agent = taciturn.LinUCB(arms=data.arms, alpha=0.2)
    agent.warm_start(data.X[:30], np.array(data.arms)[data.y[:30]])
    model = PartialFitAgent(agent).partial_fit(X, arms, rewards)
    twin = clone(model)
    assert not hasattr(twin, "agent_")
    assert twin.agent is not agent
    assert twin.agent.params == agent.params
    twin.partial_fit(X, arms, rewards)
    np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))
    assert model.get_params() == {"agent": agent}
    other = taciturn.LinUCB(arms=2)
    assert model.set_params(agent=other).agent is other


def test_predictions_are_the_users_names_of_arms():
    for names, kind in (([10, 20], "i"), (["a", "b"], "U"), ([("a", 1), None], "O")):
        model = PartialFitAgent(taciturn.LinUCB(arms=names)).partial_fit([[1.0], [1.0]], names, [1, 0])
        assert model.classes_.tolist() == names
        chosen = model.predict([[1.0]])
        assert chosen.tolist() == names[:1]
        assert chosen.dtype.kind == kind


def test_bad_input_is_refused_before_anything_is_learned():
    model = PartialFitAgent(taciturn.LinUCB(arms=["a", "b"]))
    with pytest.raises(NotFittedError):
        model.predict([[1.0]])
    with pytest.raises(TaciturnError, match="2 contexts, 1 arms and 2 rewards"):
        model.partial_fit([[1.0], [2.0]], ["a"], [1, 0])
    with pytest.raises(UnknownArm, match="unknown arm 'c'"):
        model.partial_fit([[1.0], [2.0]], ["a", "c"], [1, 0])
    with pytest.raises(TaciturnError, match="NaN for silence"):
        model.partial_fit([[1.0], [2.0]], ["a", "b"], [1, 2])
    for wrong in (np.inf, "word"):
        with pytest.raises(InvalidContext, match="row 1"):
            model.partial_fit([{"x": 1.0}, {"x": wrong}], ["a", "b"], [1, 0])
    with pytest.raises(InvalidContext, match="no contexts"):
        model.partial_fit([], [], [])
    assert not hasattr(model, "agent_")


def test_frames_keep_their_names_words_and_missing_values():
    frame = pd.DataFrame({"age": [41.0, np.nan, 23.0], "country": ["DE", "FR", None]})
    model = PartialFitAgent(taciturn.LinUCB(arms=["a", "b"])).partial_fit(frame, ["a", "b", "a"], [1, 0, np.nan])
    by_hand = taciturn.LinUCB(arms=["a", "b"])
    for row, (arm, reward) in zip(frame.to_dict("records"), [("a", 1), ("b", 0), ("a", None)], strict=True):
        by_hand.feedback(by_hand.decide(row, allowed=[arm]).id, reward)
    assert dict(model.agent_.feature_kinds) == {"age": "number", "country": "category"}
    assert model.agent_.feature_names == by_hand.feature_names
    expected = [by_hand.fork().decide(row).scores for row in frame.to_dict("records")]
    np.testing.assert_array_equal(model.decision_function(frame), expected)
