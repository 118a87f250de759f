import numpy as np
import pytest
from scipy.optimize import minimize

from taciturn.agents.parts import view_weights
from taciturn.agents.parts.view_weights import ABSENT


def answers(exclusive, seed=0, count=400, views=3, arms=4, frequencies=None, adaptive=False):
    """Scores of an informative, a noisy and a weak view (N, V, K), arms chosen, rewards, and unfitted weights."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(arms, size=count) if frequencies is None else rng.choice(arms, count, p=frequencies)
    right = np.eye(arms)[truth]
    noise = rng.normal(size=(count, views, arms))
    scores = (np.stack([right, 0 * right, 0.3 * right], axis=1) + 0.4 * noise).astype(np.float32)
    chosen = rng.integers(arms, size=count)
    fitted = view_weights.ViewWeights(np.full(views, 15.0 / views), exclusive=exclusive, adaptive=adaptive)
    fitted.allocate(arms, n_features=1)
    return scores, chosen, (chosen == truth).astype(float), fitted


def answered(scores, chosen, rewards, known=None):
    """Answers where all arms are known, unless it is said."""
    known = np.ones(scores.shape[2], np.bool_) if known is None else known
    return view_weights.Answered(scores, chosen, rewards, known)


@pytest.mark.parametrize(("exclusive", "adaptive"), [(True, False), (False, False), (True, True), (False, True)])
def test_refit_maximizes_the_posterior(exclusive, adaptive):
    scores, chosen, rewards, fitted = answers(exclusive, frequencies=[0.6, 0.3, 0.05, 0.05], adaptive=adaptive)
    first = fitted.beta.data.copy()
    for _ in range(10):
        fitted.refit(answered(scores, chosen, rewards))
    right = np.bincount(chosen, rewards)
    precision = view_weights.bias_precision_of(right) if adaptive else view_weights.STRONGEST_PRIOR

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
        prior = view_weights.BETA_PRIOR / first**2 @ (beta - first) ** 2 + precision * bias @ bias
        return prior / 2 - likelihood

    bounds = [(0, None)] * 3 + [(None, None)] * 4
    best = minimize(loss, np.concatenate([first, np.zeros(4)]), bounds=bounds)
    assert loss(np.concatenate([fitted.beta.data, fitted.bias.data])) < best.fun + 0.1
    assert fitted.beta.data[0] > fitted.beta.data[2] > fitted.beta.data[1], "informative views have larger weights"


@pytest.mark.parametrize(("n_arms", "count"), [(3, 30), (3, 3000), (10, 100), (77, 150), (77, 5000)])
def test_prior_of_the_biases_is_as_wide_as_arms_differ(n_arms, count):
    rng = np.random.default_rng(0)
    log_rates = rng.normal(size=n_arms)
    for spread, widest in ((0.0, 1 / 20), (0.05, 1 / 15), (0.5, 1 / 7)):
        shares = np.exp(np.sqrt(spread) * log_rates / log_rates.std())
        drawn = rng.multinomial(count, shares / shares.sum(), size=200)
        found = np.mean([1 / view_weights.bias_precision_of(right.astype(float)) for right in drawn])
        assert 1 / view_weights.STRONGEST_PRIOR <= found < widest, spread
        if count >= 50 * n_arms:  # enough to tell
            assert found == pytest.approx(np.clip(spread, 1 / 30, 1 / 8), abs=0.01), spread
    assert view_weights.bias_precision_of(np.array([500.0, 20.0, 0.0])) == view_weights.WEAKEST_PRIOR
    assert view_weights.bias_precision_of(np.array([1.0, 0.0, 0.0])) == view_weights.STRONGEST_PRIOR


def test_arm_of_which_nothing_is_known_has_the_bias_of_a_mean_arm():
    """However often it was wrong; and the biases of the others are those that maximize the posterior without it."""
    scores, chosen, rewards, fitted = answers(exclusive=True, frequencies=[0.8, 0.15, 0.05, 0.0], adaptive=True)
    known = np.array([True, True, True, False])
    rewards[chosen == 3] = 0.0
    *_, unaware = answers(exclusive=True, adaptive=True)
    for _ in range(10):
        fitted.refit(answered(scores, chosen, rewards, known))
        unaware.refit(answered(scores, chosen, rewards))
    assert fitted.bias.data[3] == 0.0
    assert fitted.bias.data[:3].sum() == pytest.approx(0.0, abs=1e-9)
    assert fitted.bias.data[:3].argmax() == 0
    assert unaware.bias.data[3] < -0.2
    fitted.refit(answered(scores, chosen, rewards, np.ones(4, np.bool_)))
    assert fitted.bias.data[3] < 0.0


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_arm_that_was_absent_from_all_answers_changes_no_weight(adaptive):
    scores, chosen, rewards, fitted = answers(exclusive=True, adaptive=adaptive)
    *_, grown = answers(exclusive=True, adaptive=adaptive)
    fitted.refit(answered(scores, chosen, rewards))
    grown.add_arm(None)
    grown.refit(answered(np.pad(scores, ((0, 0), (0, 0), (0, 1)), constant_values=ABSENT), chosen, rewards))
    np.testing.assert_allclose(grown.beta.data, fitted.beta.data, rtol=1e-9)
    np.testing.assert_allclose(grown.bias.data, [*fitted.bias.data, 0.0], rtol=1e-9)


def test_refit_without_answers_changes_nothing():
    *_, fitted = answers(exclusive=True)
    before = fitted.beta.data.copy()
    fitted.refit(answered(np.zeros((0, 3, 4), np.float32), np.zeros(0, np.int32), np.zeros(0)))
    np.testing.assert_array_equal(fitted.beta.data, before)


def graded_answers(seed=0, count=300, views=2, arms=3):
    """Scores (N, V, K), arms chosen, and graded rewards that depend on the first view and on the arm."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(count, views, arms)).astype(np.float32) * 0.5
    chosen = rng.integers(arms, size=count)
    logits = 1.0 + 0.5 * chosen + 1.5 * scores[np.arange(count), 0, chosen]
    rewards = np.clip(1 / (1 + np.exp(-logits)) + 0.1 * rng.normal(size=count), 0, 1)
    fitted = view_weights.IndependentWeights(views)
    fitted.allocate(arms, n_features=1)
    return scores, chosen, rewards, fitted


def dense_posterior(fitted, scores, chosen, rewards):
    """The gradient and the curvature by (β, b) at the weights fitted, written out."""
    count, views, arms = scores.shape
    state = fitted.state_dict()
    design = np.concatenate([scores[np.arange(count), :, chosen], np.eye(arms)[chosen]], axis=1).astype(float)
    weights = np.concatenate([state["beta"], state["bias"]])
    p = 1 / (1 + np.exp(-(state["common"] + design @ weights)))
    prior = np.array([view_weights.VIEW_PRECISION] * views + [view_weights.ARM_PRECISION] * arms)
    gradient = prior * weights - design.T @ (rewards - p) / state["dispersion"]
    curvature = (design * (p * (1 - p))[:, None]).T @ design / state["dispersion"] + np.diag(prior)
    return gradient, curvature


def test_weights_of_independent_arms_maximize_the_quasi_likelihood():
    scores, chosen, rewards, fitted = graded_answers()
    for _ in range(20):
        fitted.refit(answered(scores, chosen, rewards))
    gradient, curvature = dense_posterior(fitted, scores, chosen, rewards)
    positive = np.concatenate([fitted.beta.data > 0, np.ones(3, bool)])
    assert np.abs(np.linalg.solve(curvature, gradient))[positive].max() < 1e-6
    assert (gradient[~positive] >= 0).all(), "a view that counts nothing would count negatively"
    assert fitted.beta.data[0] == pytest.approx(1.5, abs=0.3)
    assert fitted.beta.data[1] < 0.3


def test_errors_of_independent_arms_are_those_of_the_whole_covariance():
    scores, chosen, rewards, fitted = graded_answers()
    for _ in range(20):
        fitted.refit(answered(scores, chosen, rewards))
    _, curvature = dense_posterior(fitted, scores, chosen, rewards)
    covariance = np.linalg.inv(curvature)
    for row in scores[:20]:
        p = fitted.probabilities(row)
        by_weights = np.concatenate([row.T, np.eye(3)], axis=1)
        expected = p * (1 - p) * np.sqrt(np.einsum("ki,ij,kj->k", by_weights, covariance, by_weights))
        np.testing.assert_allclose(fitted.errors(row), expected, rtol=1e-4)


def test_errors_are_in_the_units_of_the_rewards():
    """Rewards that vary ten times less have errors ten times smaller: no constant is right for both."""
    errors = []
    for spread in (0.3, 0.03):
        rng = np.random.default_rng(1)
        scores, chosen = np.zeros((4000, 1, 2), np.float32), rng.integers(2, size=4000)
        fitted = view_weights.IndependentWeights(1)
        fitted.allocate(2, n_features=1)
        for _ in range(5):
            fitted.refit(answered(scores, chosen, 0.5 + spread * rng.choice([-1.0, 1.0], size=4000)))
        errors.append(fitted.errors(scores[0]))
    np.testing.assert_allclose(errors[0] / errors[1], 10.0, rtol=0.1)


@pytest.mark.parametrize("rewards", [np.zeros(50), np.ones(50), np.repeat([0.0, 1.0], 25)])
def test_extreme_rewards_leave_all_finite(rewards):
    rng = np.random.default_rng(0)
    scores, chosen = rng.normal(size=(50, 2, 2)).astype(np.float32), np.repeat([0, 1], 25)
    scores[0], scores[1] = ABSENT, 1e-40
    fitted = view_weights.IndependentWeights(2)
    fitted.allocate(2, n_features=1)
    for _ in range(30):
        fitted.refit(answered(scores, chosen, rewards))
        assert all(np.isfinite(part).all() for part in fitted.state_dict().values())
    p = fitted.probabilities(scores[2])
    assert ((p > 0) & (p < 1)).all()
    expected = np.array([rewards[:25].mean(), rewards[25:].mean()])
    np.testing.assert_allclose(fitted.probabilities(np.zeros((2, 2), np.float32)), expected, atol=0.2)
