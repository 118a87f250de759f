"""The view of residuals: its formula, what it is for, and files that must not be believed."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

import taciturn
from oracles import knn
from taciturn.agents.parts.residual_view import PRIOR
from taciturn.contracts import Dataset

K = 3


def agent_after(steps, seed=0, **params):
    """An agent that has decided about random contexts, a third of them without an answer, and one context more."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(steps + 1, 4))
    agent = taciturn.ViewUCB(arms=K, scaling="none", seed=seed, **params)
    for x in contexts[:-1]:
        decision = agent.decide(x)
        agent.feedback(decision.id, rng.choice([0, 1, None]))
    return agent, contexts


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("steps", [0, 1, 7, 60])
def test_scores_are_the_mean_residuals_of_the_neighborhood(steps, hops):
    agent, X = agent_after(steps, hops=hops)
    decision = agent.decide(X[-1])
    columns = agent.state_dict()["table"]["columns"]
    A_hat = knn.normalized(knn.similarity(X / np.linalg.norm(X, axis=1, keepdims=True), 5))
    reach = sum(np.linalg.matrix_power(A_hat, h)[decision.id] for h in range(1, hops + 1))
    evidence = reach[:, None] * columns["target_weights"]
    wanted = (evidence * columns["residuals"]).sum(axis=0) / (evidence.sum(axis=0) + PRIOR)
    np.testing.assert_allclose(columns["view_scores"][decision.id, -2], wanted, atol=1e-5)


def test_residuals_are_what_was_not_expected_at_the_decision():
    agent, X = agent_after(30, refit_growth=1.0)
    decision = agent.decide(X[-1])
    agent.feedback(decision.id, 1)
    state = agent.state_dict()
    columns, weights = state["table"]["columns"], state["parts"]["view_weights"]
    logits = np.einsum("v,vk->k", weights["beta"][:-2], columns["view_scores"][decision.id, :-2]) + weights["bias"]
    expected = np.exp(logits) / np.exp(logits).sum()
    right = np.arange(K) == int(decision.arm)
    np.testing.assert_allclose(columns["residuals"][decision.id], right - expected, atol=1e-5)


@pytest.mark.slow
def test_it_follows_clusters_that_no_linear_view_can():
    def right(seed, *, residuals):
        X, y = make_classification(
            1000, n_features=20, n_informative=10, n_redundant=5, n_classes=5, class_sep=1.5, random_state=seed
        )
        data = Dataset(name="clusters", X=X, y=y, arms=list("abcde"))
        agent = taciturn.ViewUCB(arms=data.arms, seed=seed, residuals=residuals)
        return taciturn.evaluate(agent, taciturn.Stream(data, missing=0.25, seed=seed), progress=False).accuracy

    gains = [right(seed, residuals=True) - right(seed, residuals=False) for seed in (1, 3)]
    assert np.mean(gains) > 0.02


def test_without_hops_there_is_no_such_view():
    agent, _ = agent_after(5, hops=0)
    assert "residuals" not in agent.state_dict()["parts"]
    assert agent.state_dict()["table"]["columns"]["view_scores"].shape[1] == 3


@pytest.mark.parametrize("forged", [np.nan, np.inf, 1.5, -2.0])
def test_residuals_of_a_file_are_checked(forged):
    state = agent_after(5)[0].state_dict()
    columns = state["table"]["columns"]
    columns["residuals"] = columns["residuals"].copy()
    columns["residuals"][0, 0] = forged
    with pytest.raises(ValueError, match="residuals"):
        taciturn.ViewUCB.from_state_dict(state)
