import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB

import taciturn
from taciturn.agents.contexts import RowStore
from taciturn.agents.imputers import ClassifierImputer, KMeansImputer, RandomImputer
from taciturn.contracts import SparseRow
from taciturn.errors import TaciturnError


def started(imputer, X, arms=3, seed=0):
    """An imputer that has seen the rows of X arrive."""
    rows = RowStore()
    rows.dimension = X.shape[1]
    imputer.begin(rows, arms, np.random.default_rng(seed))
    for node, x in enumerate(X):
        columns = np.flatnonzero(x).astype(np.int32)
        rows.append(SparseRow(columns, x[columns]))
        imputer.arrive(node, None)
    return imputer


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(0, 40))
def test_kmeans_answers_the_mean_observed_reward_of_the_cluster(seed, count):
    rng = np.random.default_rng(seed)
    imputer = started(KMeansImputer(clusters=4), rng.random((count, 3)), seed=seed)
    told = {node: float(rng.random()) for node in range(count) if rng.random() < 0.5}
    for node, reward in told.items():
        imputer.learn(node, int(rng.integers(3)), reward)
    for node in range(count):
        mates = [told[other] for other in told if imputer._cluster[other] == imputer._cluster[node]]
        wanted = np.mean(mates) if mates and count >= 4 else 0.5
        assert imputer.impute(node, 0) == pytest.approx(wanted)


def test_kmeans_separates_what_is_apart():
    X = np.vstack([np.eye(2)[i % 2] * 10 + np.random.default_rng(i).random(2) * 0.1 for i in range(40)])
    imputer = started(KMeansImputer(clusters=2), X)
    for node in range(30):
        imputer.learn(node, 0, float(node % 2))
    assert imputer.impute(38, 0) == 0.0
    assert imputer.impute(39, 0) == 1.0


def test_chance_is_uniform_and_seeded():
    draws = [started(RandomImputer(), np.eye(2), seed=seed).impute(0, 0) for seed in range(400)]
    assert abs(np.mean(draws) - 0.5) < 0.05
    assert min(draws) < 0.05
    assert max(draws) > 0.95
    assert draws[0] == started(RandomImputer(), np.eye(2), seed=0).impute(0, 0)


@pytest.mark.parametrize("estimator", [MultinomialNB(), GaussianNB(), SGDClassifier(loss="log_loss")])
def test_a_classifier_learns_what_turned_out_right(estimator):
    rng = np.random.default_rng(0)
    X = np.vstack([np.eye(3)[i % 3] + 0.1 * rng.random(3) for i in range(30)])
    imputer = started(ClassifierImputer(estimator), X)
    assert imputer.impute(0, 1) == pytest.approx(1 / 3), "even odds before it was told anything"
    for node in range(27):
        imputer.learn(node, node % 3, 1.0)
        imputer.learn(node, (node + 1) % 3, 0.0)
        assert 0 <= imputer.impute(node, 2) <= 1
    assert imputer.impute(27, 0) > imputer.impute(27, 1)
    assert not hasattr(estimator, "classes_"), "the user's own estimator stays untrained"


def test_a_classifier_that_refuses_changes_nothing():
    agent = taciturn.BILinUCB(arms=2, imputer=MultinomialNB(), warmup=0)  # wants no negative features
    decision = agent.decide([1.0, -1.0])
    for _ in range(3):
        with pytest.raises(TaciturnError, match="imputer MultinomialNB.* refuses: .*[Nn]egative"):
            agent.feedback(decision.id, 1)
    agent.feedback(decision.id, 0)
    np.testing.assert_array_equal(agent.decide([1.0, -1.0]).scores, [0.0, 0.0])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_bounded_imputation_stays_within_the_belief(seed):
    rng = np.random.default_rng(seed)
    agent = taciturn.BILinUCB(arms=3, imputer="random", seed=seed, warmup=0)
    for step in range(30):
        decision = agent.decide(rng.random(4))
        arm, low = decision.arm, decision.scores - decision.widths
        imputed = agent._impute(decision.id, arm)
        assert low[arm] - 1e-9 <= imputed <= decision.scores[arm] + decision.widths[arm] + 1e-9
        agent.feedback(decision.id, (1, 0, None)[step % 3])
