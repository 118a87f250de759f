"""Regressions of many arms that share most weights, against each solved on its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import views as oracle
from taciturn.kernels import shared_ridge

K = 40
KINDS = ("alike", "few differ", "one arm differs", "own contexts only", "none alike", "zero")


def weights_of(kind, rng, n):
    """Return weights (N, K) as answers of one kind leave them."""
    alike = np.repeat(rng.choice([0.0, 0.0012, 1.0], (n, 1)), K, axis=1)
    if kind == "few differ":  # a wrong answer is known of one arm
        alike[np.arange(n), rng.integers(K, size=n)] = rng.choice([0.0, 1.0], n)
    elif kind == "one arm differs":  # it came later
        alike[:, rng.integers(K)] = rng.random(n)
    elif kind == "own contexts only":  # several arms can be good
        alike[:] = 0.0
        alike[np.arange(n), rng.integers(K, size=n)] = 1.0
    elif kind == "none alike":
        alike = rng.random((n, K))
    return (alike * (kind != "zero")).astype(np.float32)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 60),
    dimension=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    ridge=st.sampled_from([1e-3, 0.5, 1e3]),
    size=st.sampled_from([1.0, 1e-40, 1e6]),
)
def test_all_arms_are_solved_as_each_on_its_own(seed, n, dimension, kind, ridge, size):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, dimension)).astype(np.float32)
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-9)
    features[rng.random(n) < 0.2] = features[:1]  # the same context again
    features[rng.random(n) < 0.1] = 0.0
    weights = weights_of(kind, rng, n)
    targets = (rng.random((n, K)) * (rng.random((n, K)) < rng.choice([0.05, 1.0], (n, 1))) * size).astype(np.float32)
    expected = oracle.solutions([features.astype(float)], weights, targets.astype(float), ridge).T
    found = shared_ridge.solution(
        features, shared_ridge.shared(weights), shared_ridge.weighted(targets, weights), ridge
    )
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * max(np.abs(expected).max(), 1e-30))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_the_common_ones_and_exceptions(kind):
    weights = weights_of(kind, np.random.default_rng(3), 50)
    common, starts, rows, more = shared_ridge.shared(weights)
    made = np.repeat(common[:, None], K, axis=1)
    for arm in range(K):
        exceptions = slice(starts[arm], starts[arm + 1])
        made[rows[exceptions], arm] += more[exceptions]
    np.testing.assert_allclose(made, weights, atol=1e-7)
    if kind != "none alike":
        assert len(rows) <= 50, "no more than an exception a context"


def test_products_count_ranks_up_to_the_dimension():
    weights = np.zeros((100, K), np.float32)
    assert shared_ridge.products(shared_ridge.shared(weights), 10) == 0.0
    weights[:5, 3] = 1.0
    assert shared_ridge.products(shared_ridge.shared(weights), 10) == 10 * 5 * (10 + 5)
    weights[:, 3] = 1.0
    assert shared_ridge.products(shared_ridge.shared(weights), 10) == 10 * 10 * (100 + 10)


@pytest.mark.parametrize("share", [0.02, 1.0])  # of targets that are not 0: sparse rows and dense ones
def test_repeated_contexts_leave_nothing_where_no_feature_is(share):
    """Sums in single precision were divided by λ in directions that no context has, and θ was mostly noise there."""
    rng, n, dimension = np.random.default_rng(0), 20_000, 24
    centers = rng.normal(size=(5, dimension)).astype(np.float32)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    targets = (rng.random((n, K)) * (rng.random((n, K)) < share)).astype(np.float32)
    weights = np.ones((n, K), np.float32)
    parts = shared_ridge.shared(weights), shared_ridge.weighted(targets, weights)
    theta = shared_ridge.solution(centers[rng.integers(5, size=n)], *parts, 1e-6)
    spanned, _ = np.linalg.qr(centers.T.astype(float))
    outside = theta - theta @ spanned @ spanned.T
    assert np.linalg.norm(outside) < 1e-3 * np.linalg.norm(theta)
