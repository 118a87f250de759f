"""Small fits of scikit-learn run on one thread, whatever the environment says."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.semi_supervised import LabelSpreading
from threadpoolctl import threadpool_info, threadpool_limits

from taciturn import BILinUCB, make, ope


@pytest.fixture
def threads(monkeypatch):
    """How many threads libraries were allowed in each call of a fit, in a process that allows two."""
    seen = []

    def watch(estimator, method):
        original = getattr(estimator, method)

        def watched(self, *values, **options):
            seen.append(max(library["num_threads"] for library in threadpool_info()))
            return original(self, *values, **options)

        monkeypatch.setattr(estimator, method, watched)
        return seen

    with threadpool_limits(2):
        assert max(library["num_threads"] for library in threadpool_info()) == 2, "nothing would be seen"
        yield watch


def go(agent, steps=40):
    rng = np.random.default_rng(0)
    agent.warm_start(np.eye(3)[:2], [0, 1])
    for step in range(steps):
        right = step % 2
        decision = agent.decide(rng.normal(size=3) + right)
        agent.feedback(decision.id, None if step % 3 == 0 else float(decision.arm == right))


@pytest.mark.usefixtures("threads")
def test_k_means_keeps_to_one_thread():
    agent = make("bilinucb-kmeans", arms=2, warmup=0)
    go(agent)
    assert agent.state_dict()["parts"]["imputer"]["kmeans"]._n_threads == 1


def test_classifiers_of_users_keep_to_one_thread(threads):
    seen = threads(SGDClassifier, "partial_fit")
    go(BILinUCB(arms=2, warmup=0, imputer=SGDClassifier(loss="log_loss")))
    assert seen
    assert set(seen) == {1}


@pytest.mark.parametrize(("name", "estimator"), [("logreg", LogisticRegression), ("labelspreading", LabelSpreading)])
@pytest.mark.parametrize("method", ["fit", "predict_proba"])
def test_references_keep_to_one_thread(threads, name, estimator, method):
    seen = threads(estimator, method)
    go(make(name, arms=2, every=10))
    assert seen
    assert set(seen) == {1}


def test_models_of_rewards_keep_to_one_thread(threads):
    seen = threads(Ridge, "fit")
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 2, 40)
    ope.ridge_model(rng.normal(size=(40, 2)), ope.Log(arms, arms.astype(float), np.full(40, 0.5)), 2)
    assert seen
    assert set(seen) == {1}
