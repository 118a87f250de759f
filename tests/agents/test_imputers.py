import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB

import taciturn
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.imputers import ClassifierImputer, KMeansImputer, RandomImputer
from taciturn.agents.table import PENDING, NodeTable
from taciturn.contracts import SparseRow
from taciturn.errors import TaciturnError


def built(imputer, X, arms=3, seed=0):
    """An imputer over a table with the rows of X as contexts; both are returned."""
    table = NodeTable(arms)
    table.contexts.n_features = X.shape[1]
    imputer.build(table, np.random.default_rng(seed)).allocate(arms, X.shape[1])
    for x in X:
        columns = np.flatnonzero(x).astype(np.int32)
        node = table.append(SparseRow(columns, x[columns]), PENDING, 0.0, 0.0)
        imputer.add_context(node, None)
    return imputer, table


def observed(node, arm, reward, arms=3):
    """The example of a reward that labels the chosen arm alone."""
    chosen = np.arange(arms) == arm
    return Example(node, arm, reward, False, chosen * reward, chosen)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(0, 40))
def test_kmeans_imputes_the_mean_observed_reward_of_the_cluster(seed, count):
    rng = np.random.default_rng(seed)
    imputer, table = built(KMeansImputer(clusters=4), rng.random((count, 3)), seed=seed)
    rewards = {node: float(rng.random()) for node in range(count) if rng.random() < 0.5}
    for node, reward in rewards.items():
        imputer.learn(observed(node, int(rng.integers(3)), reward))
    cluster = table.state_dict()["cluster"]
    for node in range(count):
        same = [rewards[other] for other in rewards if cluster[other] == cluster[node]]
        wanted = np.mean(same) if same and count >= 4 else 0.5
        assert imputer.impute(node, 0) == pytest.approx(wanted)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(2, 60),
    clusters=st.integers(2, 8),
    filled=st.sampled_from((0.3, 1.0)),
)
def test_kmeans_gives_the_same_bits_as_scikit_learn_a_row_at_a_time(seed, count, clusters, filled):
    """Also with rows that are alike, so that clusters have no row and distances are equal, and with empty ones."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 0.5, 1.0, rng.normal(), rng.normal()], (count, 5)) * (rng.random((count, 5)) < filled)
    imputer, table = built(KMeansImputer(clusters=clusters), X, seed=seed)
    slow = MiniBatchKMeans(clusters, n_init=1, random_state=int(np.random.default_rng(seed).integers(2**31)))
    if count < clusters:
        assert not hasattr(imputer._kmeans, "cluster_centers_")
        return
    labels = list(slow.partial_fit(sp.csr_matrix(X[:clusters])).labels_)
    for x in X[clusters:]:
        labels += list(slow.partial_fit(sp.csr_matrix(x[None])).labels_)
    np.testing.assert_array_equal(table.state_dict()["cluster"], labels)
    np.testing.assert_array_equal(imputer._kmeans.cluster_centers_, slow.cluster_centers_)
    np.testing.assert_array_equal(imputer._kmeans._counts, slow._counts)


def test_kmeans_separates_distant_groups():
    X = np.vstack([np.eye(2)[i % 2] * 10 + np.random.default_rng(i).random(2) * 0.1 for i in range(40)])
    imputer, _ = built(KMeansImputer(clusters=2), X)
    for node in range(30):
        imputer.learn(observed(node, 0, float(node % 2)))
    assert imputer.impute(38, 0) == 0.0
    assert imputer.impute(39, 0) == 1.0


def test_random_imputation_is_uniform_and_seeded():
    draws = [built(RandomImputer(), np.eye(2), seed=seed)[0].impute(0, 0) for seed in range(400)]
    assert abs(np.mean(draws) - 0.5) < 0.05
    assert min(draws) < 0.05
    assert max(draws) > 0.95
    assert draws[0] == built(RandomImputer(), np.eye(2), seed=0)[0].impute(0, 0)


@pytest.mark.parametrize("estimator", [MultinomialNB(), GaussianNB(), SGDClassifier(loss="log_loss")])
def test_a_classifier_learns_rewarded_arms(estimator):
    rng = np.random.default_rng(0)
    X = np.vstack([np.eye(3)[i % 3] + 0.1 * rng.random(3) for i in range(30)])
    imputer, _ = built(ClassifierImputer(estimator), X)
    assert imputer.impute(0, 1) == pytest.approx(1 / 3), "uniform before the first label"
    for node in range(27):
        imputer.learn(observed(node, node % 3, 1.0))
        imputer.learn(observed(node, (node + 1) % 3, 0.0))
        assert 0 <= imputer.impute(node, 2) <= 1
    assert imputer.impute(27, 0) > imputer.impute(27, 1)
    assert not hasattr(estimator, "classes_"), "the given estimator stays untrained"


def test_an_error_of_the_classifier_is_reported_and_changes_nothing():
    agent = taciturn.BILinUCB(arms=2, imputer=MultinomialNB(), warmup=0, scaling="none")  # it refuses negative features
    decision = agent.decide([1.0, -1.0])
    for _ in range(3):
        with pytest.raises(TaciturnError, match="imputer MultinomialNB.* refuses: .*[Nn]egative"):
            agent.feedback(decision.id, 1)
    agent.feedback(decision.id, 0)
    np.testing.assert_array_equal(agent.decide([1.0, -1.0]).scores, [0.0, 0.0])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_bounded_imputed_reward_stays_within_the_confidence_interval(seed):
    rng = np.random.default_rng(seed)
    agent = taciturn.BILinUCB(arms=3, imputer="random", seed=seed, warmup=0)
    for step in range(30):
        decision = agent.decide(rng.random(4))
        arm, low = decision.arm, decision.scores - decision.widths
        silent = agent.fork()
        silent.feedback(decision.id, None)
        imputed = silent.explain(decision.id).imputed_reward
        assert low[arm] - 1e-9 <= imputed <= decision.scores[arm] + decision.widths[arm] + 1e-9
        agent.feedback(decision.id, (1, 0, None)[step % 3])
