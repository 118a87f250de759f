import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import knn
from oracles import views as oracle
from taciturn.kernels import views
from taciturn.kernels.csr import CSR

seeds = st.integers(0, 2**32 - 1)


def problem(seed, count=12, dimension=6, arms=3, V=4):
    """A random graph with lone nodes, contexts some of which are empty, and evidence on some of them."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((count, count)) * (rng.random((count, count)) < 0.2), 1)
    A_hat = knn.normalized(A + A.T)
    X = rng.random((count, dimension)) * (rng.random((count, dimension)) < 0.5)
    X[rng.integers(count)] = 0.0
    weights = (rng.random((count, arms)) * (rng.random((count, arms)) < 0.6)).astype(np.float32)
    targets = rng.random((count, arms)).astype(np.float32)
    theta = rng.normal(size=(dimension, V * arms)).astype(np.float32)
    return rows(A_hat), rows(X), A_hat, X, weights, targets, theta


def rows(matrix):
    csr = sp.csr_matrix(matrix)
    return CSR(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data.astype(np.float32))


def scales_of(A_hat, X, V):
    lengths = np.stack([np.linalg.norm(np.linalg.matrix_power(A_hat, v) @ X, axis=1) for v in range(V)], axis=1)
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, V=st.integers(1, 4))
def test_views_come_to_unit_length(seed, V):
    adjacency, contexts, A_hat, X, *_ = problem(seed)
    asked = np.random.default_rng(seed).permutation(len(X))[:7]
    found = views.unit_scales(adjacency, contexts, asked, V, X.shape[1])
    np.testing.assert_allclose(found, scales_of(A_hat, X, V)[asked], rtol=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, V=st.integers(1, 4))
def test_scores_equal_those_of_features_written_down(seed, V):
    adjacency, contexts, A_hat, X, _, _, theta = problem(seed, V=V)
    scales = scales_of(A_hat, X, V)
    wanted = np.concatenate(
        [F @ theta[:, 3 * v : 3 * v + 3] for v, F in enumerate(oracle.features(A_hat, X, V))], axis=1
    )
    found = views.predict(adjacency, contexts, scales.astype(np.float32), theta)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    projected = views.spmm(contexts, theta)
    for node in range(len(X)):
        one = views.project(adjacency, projected, node, V) * scales[node][:, None]
        np.testing.assert_allclose(one.ravel(), wanted[node], rtol=1e-3, atol=1e-4)


def solve(adjacency, contexts, scales, weights, targets, ridge, theta, steps):
    course = views.cg_init(adjacency, contexts, scales, weights, targets, ridge, theta)
    for _ in range(steps):
        views.cg_step(adjacency, contexts, scales, weights, ridge, theta, course)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, V=st.integers(1, 4), ridge=st.sampled_from([0.1, 1.0, 10.0]))
def test_enough_steps_solve_every_regression(seed, V, ridge):
    adjacency, contexts, A_hat, X, weights, targets, theta = problem(seed, V=V)
    scales = scales_of(A_hat, X, V).astype(np.float32)
    for _ in range(8):  # from where it is, again and again: single precision stalls a long run
        solve(adjacency, contexts, scales, weights, targets, ridge, theta, 8)
    wanted = oracle.solutions(oracle.features(A_hat, X, V), weights.astype(float), targets.astype(float), ridge)
    np.testing.assert_allclose(theta, wanted, rtol=2e-3, atol=2e-3)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, steps=st.integers(1, 5))
def test_some_steps_are_those_of_conjugate_gradients(seed, steps):
    adjacency, contexts, A_hat, X, weights, targets, theta = problem(seed, V=2)
    wanted = oracle.conjugate_gradients(oracle.features(A_hat, X, 2), weights, targets, 1.0, theta.astype(float), steps)
    solve(adjacency, contexts, scales_of(A_hat, X, 2).astype(np.float32), weights, targets, 1.0, theta, steps)
    np.testing.assert_allclose(theta, wanted, rtol=2e-3, atol=2e-3)
