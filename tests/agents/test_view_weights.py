import numpy as np
import pytest
from scipy.optimize import minimize

from taciturn.agents.parts import view_weights
from taciturn.agents.viewucb import ABSENT


def answers(exclusive, seed=0, count=400, views=3, arms=4):
    """Scores of an informative, a noisy and a weak view (N, V, K), arms chosen, rewards, and unfitted weights."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(arms, size=count)
    right = np.eye(arms)[truth]
    noise = rng.normal(size=(count, views, arms))
    scores = (np.stack([right, 0 * right, 0.3 * right], axis=1) + 0.4 * noise).astype(np.float32)
    chosen = rng.integers(arms, size=count)
    fitted = view_weights.ViewWeights(np.full(views, 15.0 / views), exclusive=exclusive)
    fitted.allocate(arms, n_features=1)
    return scores, chosen, (chosen == truth).astype(float), fitted


@pytest.mark.parametrize("exclusive", [True, False])
def test_refit_maximizes_the_posterior(exclusive):
    scores, chosen, rewards, fitted = answers(exclusive)
    first = fitted.beta.data.copy()
    for _ in range(10):
        fitted.refit(scores, chosen, rewards)

    def loss(parameters):
        beta, bias = parameters[:3], parameters[3:]
        logits = np.einsum("v,nvk->nk", beta, scores.astype(float)) + bias
        if exclusive:
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
        else:
            p = 1 / (1 + np.exp(-logits))
        p = p[np.arange(len(p)), chosen]
        likelihood = np.where(rewards == 1, np.log(p), np.log(1 - p)).sum()
        prior = view_weights.BETA_PRIOR / first**2 @ (beta - first) ** 2 + view_weights.BIAS_PRIOR * bias @ bias
        return prior / 2 - likelihood

    bounds = [(0, None)] * 3 + [(None, None)] * 4
    best = minimize(loss, np.concatenate([first, np.zeros(4)]), bounds=bounds)
    assert loss(np.concatenate([fitted.beta.data, fitted.bias.data])) < best.fun + 0.1
    assert fitted.beta.data[0] > fitted.beta.data[2] > fitted.beta.data[1], "informative views have larger weights"


def test_an_arm_that_was_absent_from_all_answers_changes_no_weight():
    scores, chosen, rewards, fitted = answers(exclusive=True)
    *_, grown = answers(exclusive=True)
    fitted.refit(scores, chosen, rewards)
    grown.add_arm(None)
    grown.refit(np.pad(scores, ((0, 0), (0, 0), (0, 1)), constant_values=ABSENT), chosen, rewards)
    np.testing.assert_allclose(grown.beta.data, fitted.beta.data, rtol=1e-9)
    np.testing.assert_allclose(grown.bias.data, [*fitted.bias.data, 0.0], rtol=1e-9)


def test_refit_without_answers_changes_nothing():
    *_, fitted = answers(exclusive=True)
    before = fitted.beta.data.copy()
    fitted.refit(np.zeros((0, 3, 4), np.float32), np.zeros(0, np.int32), np.zeros(0))
    np.testing.assert_array_equal(fitted.beta.data, before)
