import numpy as np
import pytest
from scipy.optimize import minimize

from taciturn.agents import trust
from taciturn.agents.viewucb import ABSENT


def answers(exclusive, seed=0, count=400, views=3, arms=4):
    """Views of which the first is good, the second noise and the third good but faint; a chosen arm and its answer."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(arms, size=count)
    right = np.eye(arms)[truth]
    noise = rng.normal(size=(count, views, arms))
    scores = (np.stack([right, 0 * right, 0.3 * right], axis=1) + 0.4 * noise).astype(np.float32)
    chosen = rng.integers(arms, size=count)
    return scores, chosen, (chosen == truth).astype(float), trust.Trust(views, arms, exclusive=exclusive)


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_fit_is_the_most_likely_one(exclusive):
    scores, chosen, rewards, fitted = answers(exclusive)
    first = fitted.views.copy()
    for _ in range(10):
        fitted.refit(scores, chosen, rewards)

    def loss(parameters):
        views, bias = parameters[:3], parameters[3:]
        logits = np.einsum("v,nvk->nk", views, scores.astype(float)) + bias
        if exclusive:
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
        else:
            p = 1 / (1 + np.exp(-logits))
        p = p[np.arange(len(p)), chosen]
        likelihood = np.where(rewards == 1, np.log(p), np.log(1 - p)).sum()
        hold = trust.TRUST_PRIOR / first**2 @ (views - first) ** 2 + trust.BIAS_PRIOR * bias @ bias
        return hold / 2 - likelihood

    bounds = [(0, None)] * 3 + [(None, None)] * 4
    best = minimize(loss, np.concatenate([first, np.zeros(4)]), bounds=bounds)
    assert loss(np.concatenate([fitted.views, fitted.bias])) < best.fun + 0.1
    assert fitted.views[0] > fitted.views[2] > fitted.views[1], "trust follows what was right"


def test_an_arm_that_was_not_there_changes_nothing():
    scores, chosen, rewards, fitted = answers(exclusive=True)
    *_, grown = answers(exclusive=True)
    fitted.refit(scores, chosen, rewards)
    grown.add_arm(None)
    grown.refit(np.pad(scores, ((0, 0), (0, 0), (0, 1)), constant_values=ABSENT), chosen, rewards)
    np.testing.assert_allclose(grown.views, fitted.views, rtol=1e-9)
    np.testing.assert_allclose(grown.bias, [*fitted.bias, 0.0], rtol=1e-9)


def test_nothing_is_fitted_to_nothing():
    *_, trusted = answers(exclusive=True)
    before = trusted.views.copy()
    trusted.refit(np.zeros((0, 3, 4), np.float32), np.zeros(0, np.int32), np.zeros(0))
    np.testing.assert_array_equal(trusted.views, before)
