import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

import taciturn
from taciturn.experiments.checks import toy_data
from taciturn.streams.stream import Stream


def test_majority_chooses_the_arm_rewarded_most_for_every_context():
    agent = taciturn.make("majority", arms=["a", "b", "c"])
    agent.warm_start(np.eye(3), ["a", "b", "c"])
    rewards = {"a": 0.0, "b": 1.0, "c": 0.0}
    arms = []
    for step in range(12):
        decision = agent.decide(np.eye(3)[step % 3])
        arms.append(decision.arm)
        agent.feedback(decision.id, rewards[decision.arm])
    assert arms[arms.index("b") :] == ["b"] * (12 - arms.index("b")), "the first to earn a second reward stays ahead"
    np.testing.assert_allclose(decision.scores.sum(), 1.0)


def spreading(X, labels):
    return LabelSpreading(kernel="knn", n_neighbors=min(7, len(X))).fit(X, labels)


def regression(X, labels):
    known = np.array(labels) >= 0
    return LogisticRegression(max_iter=200).fit(X[known], np.array(labels)[known])


def trees(X, labels):
    known = np.array(labels) >= 0
    return ExtraTreesClassifier(100, random_state=0).fit(X[known], np.array(labels)[known])


@pytest.mark.parametrize(
    ("name", "fit"), [("labelspreading", spreading), ("logreg", regression), ("extratrees", trees)]
)
def test_a_model_equals_scikit_learn_at_each_refit(name, fit):
    stream = Stream(toy_data(rows=90, seed=0), missing=0.3, seed=0)
    agent = taciturn.make(name, arms=stream.arms, every=20, scaling="none")
    agent.warm_start(stream.start.contexts, stream.start.arms)
    X, known = stream.start.contexts.toarray(), [stream.arms.index(arm) for arm in stream.start.arms]
    model, refits = fit(X, known), 0
    fitted = len(X)
    for round in stream:
        due = len(X) - fitted >= 20
        X = np.vstack([X, round.context.toarray()])
        if due:
            model = fit(X, [*known, -1])
            fitted, refits = len(X), refits + 1
        decision = agent.decide(round.context)
        if refits:
            np.testing.assert_allclose(decision.scores[model.classes_], model.predict_proba(X[-1:])[0], atol=1e-6)
        reward = stream.respond(round, decision.arm)
        agent.feedback(decision.id, reward)
        known.append(stream.arms.index(decision.arm) if reward == 1 else -1)
    assert refits == 4


def test_trees_are_refitted_once_their_contexts_have_grown_enough(monkeypatch):
    fitted, fit = [], ExtraTreesClassifier.fit
    monkeypatch.setattr(ExtraTreesClassifier, "fit", lambda self, X, y: fitted.append(len(y)) or fit(self, X, y))
    agent = taciturn.make("extratrees", arms=2, every=5, growth=0.5, trees=2, scaling="none")
    for step in range(60):
        agent.feedback(agent.decide([1.0, float(step)]).id, 1)
    assert fitted == [5, 11, 18, 29, 45]


def test_a_static_classifier_learns_its_start_and_nothing_else():
    stream = Stream(toy_data(rows=120, seed=0), missing=0, seed=0)
    choices = [
        taciturn.evaluate(taciturn.make("static", arms=stream.arms), Stream(stream.dataset, missing=missing, seed=0))
        for missing in (0, 1)
    ]
    np.testing.assert_array_equal(*(trace.choices for trace in choices))
    assert choices[0].accuracy > 0.5


def test_a_regression_of_one_known_arm_chooses_it():
    agent = taciturn.make("logreg", arms=3, every=1)
    decision = agent.decide([1.0, 0.0])
    agent.feedback(decision.id, 1)
    assert [agent.decide([0.5, float(step)]).arm for step in range(3)] == [decision.arm] * 3


@pytest.mark.parametrize("one_right_arm", [True, False])
def test_votes_are_those_of_the_nearest_answered_contexts(one_right_arm):
    stream = Stream(toy_data(rows=90, seed=0), missing=0.5, seed=0)
    K = len(stream.arms)
    agent = taciturn.make("knn", arms=stream.arms, neighbors=4, scaling="none", one_right_arm=one_right_arm)
    answered = []  # unit context, {arm: target}
    for round in stream:
        decision = agent.decide(round.context)
        x = round.context.toarray()[0] / np.linalg.norm(round.context.toarray())
        nearest = sorted(answered, key=lambda other: -(other[0] @ x))[:4]
        expected = [
            (sum(of.get(arm, 0.0) for _, of in nearest) + 1 / K) / (sum(arm in of for _, of in nearest) + 1)
            for arm in stream.arms
        ]
        np.testing.assert_allclose(decision.scores, expected)
        reward = stream.respond(round, decision.arm)
        agent.feedback(decision.id, reward)
        if reward is not None:
            others = dict.fromkeys(stream.arms, 0.0) if one_right_arm and reward == 1 else {}
            answered.append((x, others | {decision.arm: reward}))
    assert len(answered) > 20


def test_the_full_feedback_oracle_ignores_missing_rewards():
    data = toy_data(rows=120, seed=1)
    choices = [
        taciturn.evaluate(taciturn.make("oracle-full", arms=data.arms), Stream(data, missing=missing, seed=0)).choices
        for missing in (0.0, 0.9)
    ]
    np.testing.assert_array_equal(*choices)
    agent = taciturn.make("oracle-full", arms=data.arms)
    decision = agent.decide([1.0, 0.0])
    agent.reveal(decision.id, data.arms[1])
    agent.reveal(decision.id, data.arms[2])
    np.testing.assert_array_equal(agent.state_dict()["table"]["columns"]["targets"][decision.id], [0, 0, 1])
