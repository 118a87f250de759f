import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import knn
from oracles import views as oracle
from taciturn.kernels import views
from taciturn.kernels.csr import CSR

seeds = st.integers(0, 2**32 - 1)


def problem(seed, count=12, dimension=6, arms=3, V=4):
    """Random graph with isolated nodes, contexts of which at least one is all zeros, weights of which some are zero."""
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
    """1/‖(Â^v X)_i‖ (T, V), zero where a view has length zero."""
    lengths = np.stack([np.linalg.norm(np.linalg.matrix_power(A_hat, v) @ X, axis=1) for v in range(V)], axis=1)
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, V=st.integers(1, 4))
def test_unit_scales_are_inverse_lengths_and_zero_for_zero_views(seed, V):
    adjacency, contexts, A_hat, X, *_ = problem(seed)
    nodes = np.random.default_rng(seed).permutation(len(X))[:7]
    scales = views.unit_scales(adjacency, contexts, np.arange(len(X)), nodes, V, X.shape[1])
    np.testing.assert_allclose(scales, scales_of(A_hat, X, V)[nodes], rtol=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, V=st.integers(1, 4), spare=st.sampled_from([0, 10, 1000, 2**30]))
def test_unit_scales_are_the_same_bits_however_many_features_there_are(seed, V, spare):
    """With many features those of the members are numbered anew, in the same order; rows may be without entries."""
    adjacency, contexts, _, X, *_ = problem(seed)
    contexts, rng = contexts._replace(values=contexts.values.astype(float)), np.random.default_rng(seed)
    members = rng.permutation(len(X))
    expected = views.unit_scales(adjacency, contexts, members, np.arange(3), V, X.shape[1])
    far = np.sort(rng.choice(X.shape[1] + spare, X.shape[1], replace=False)).astype(np.int32)
    moved = contexts._replace(columns=far[contexts.columns])
    if spare < 2**30:  # else arrays as long as all features would not fit, and there are none
        few = views.unit_scales(adjacency, moved, members, np.arange(3), V, X.shape[1] + spare)
        np.testing.assert_array_equal(few, expected)
    many = views.unit_scales(adjacency, moved, members, np.arange(3), V, 2**31 - 1)
    np.testing.assert_array_equal(many, expected)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, V=st.integers(1, 4))
def test_scores_equal_those_of_dense_features(seed, V):
    adjacency, contexts, A_hat, X, _, _, theta = problem(seed, V=V)
    scales = scales_of(A_hat, X, V)
    expected = np.concatenate(
        [F @ theta[:, 3 * v : 3 * v + 3] for v, F in enumerate(oracle.features(A_hat, X, V))], axis=1
    )
    operands = views.Operands(adjacency, views.rows_of(contexts), scales.astype(np.float32))
    scores = views.predict(operands, theta)
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-4)
    projected, members = views.by_view(views.spmm(contexts, theta), V), np.arange(len(X))
    for node in range(len(X)):
        walk = views.walk(adjacency, contexts, members, node, V - 1, V, X.shape[1])
        one = views.project(walk.weights, projected, members) * scales[node][:, None]
        np.testing.assert_allclose(one.ravel(), expected[node], rtol=1e-3, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    seed=seeds, V=st.integers(1, 4), spare=st.integers(0, 2), is_dense=st.booleans(), at_once=st.sampled_from([5, 12])
)
def test_stored_features_are_those_of_dense_ones_and_give_the_same_products(seed, V, spare, is_dense, at_once):
    """Of some contexts; without zeros they may be held as a matrix, which lacks columns that came later."""
    adjacency, contexts, A_hat, X, weights, targets, theta = problem(seed, dimension=20, V=V)
    X, dimension, nodes = np.pad(X, ((0, 0), (0, spare))), X.shape[1] + spare, np.flatnonzero(weights.any(axis=1))
    theta, scales = np.pad(theta, ((0, spare), (0, 0))), scales_of(A_hat, X, V).astype(np.float32)
    dense = X[:, : dimension - spare].astype(np.float32) if is_dense else None
    operands = views.Operands(adjacency, views.Rows(contexts, dense), scales)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "AT_ONCE", at_once)
        features = views.stored(operands, nodes, dimension)
    for found, one, expected in zip(
        features.of_views, views.each_view(operands, nodes, dimension), oracle.features(A_hat, X, V), strict=True
    ):
        np.testing.assert_array_equal(found, one)
        np.testing.assert_allclose(found, expected[nodes], rtol=1e-3, atol=1e-4)
    scores = views.predict(operands, theta)
    np.testing.assert_allclose(views.predict(features, theta), scores[nodes], rtol=1e-3, atol=1e-4)
    for product, args in ((views.normal_products, (theta,)), (views.right_sides, (targets, dimension, V))):
        expected = product(operands, weights, *args)
        of_nodes = [part[nodes] if part is targets else part for part in args]
        np.testing.assert_allclose(product(features, weights[nodes], *of_nodes), expected, rtol=1e-3, atol=1e-3)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, hops=st.integers(0, 4), V=st.integers(1, 5))
def test_the_walk_from_a_node_is_its_row_of_each_power_of_the_adjacency(seed, hops, V):
    adjacency, contexts, A_hat, X, *_ = problem(seed)
    members = np.arange(len(X))
    powers, V = np.stack([np.linalg.matrix_power(A_hat, h) for h in range(hops + 1)]), min(V, hops + 1)
    expected = views.unit_scales(adjacency, contexts, members, members, V, X.shape[1])
    for node in members:
        found = views.walk(adjacency, contexts, members, node, hops, V, X.shape[1])
        np.testing.assert_allclose(found.weights, powers[:, node], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(found.scales, expected[node])


@settings(max_examples=40, deadline=None)
@given(seed=seeds, rows=st.integers(0, 9))
def test_smoothed_values_are_weighted_means_with_a_prior(seed, rows):
    rng = np.random.default_rng(seed)
    shares, chosen = rng.random(rows).astype(np.float32), rng.integers(12, size=rows)
    weights, values = (rng.random((2, 12, 5)) * rng.choice([0.0, 1e-40, 1.0, 1e15], (2, 12, 5))).astype(np.float32)
    m, z = shares[:, None].astype(float) * weights[chosen], values[chosen].astype(float)
    expected = (m * z).sum(axis=0) / (m.sum(axis=0) + 0.2)
    np.testing.assert_allclose(views.smoothed(shares, chosen, weights, values, 0.2), expected, rtol=1e-5, atol=1e-25)


def solve(adjacency, contexts, scales, weights, targets, ridge, theta, steps):
    """Take `steps` conjugate-gradient steps from theta, in place."""
    operands = views.Operands(adjacency, views.rows_of(contexts), scales)
    state = views.cg_init(operands, weights, targets, ridge, theta)
    for _ in range(steps):
        views.cg_step(operands, weights, ridge, theta, state)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, V=st.integers(1, 4), ridge=st.sampled_from([0.1, 1.0, 10.0]))
def test_enough_conjugate_gradient_steps_solve_every_regression(seed, V, ridge):
    adjacency, contexts, A_hat, X, weights, targets, theta = problem(seed, V=V)
    scales = scales_of(A_hat, X, V).astype(np.float32)
    for _ in range(8):  # restarts: in single precision one long run stops converging
        solve(adjacency, contexts, scales, weights, targets, ridge, theta, 8)
    expected = oracle.solutions(oracle.features(A_hat, X, V), weights.astype(float), targets.astype(float), ridge)
    np.testing.assert_allclose(theta, expected, rtol=2e-3, atol=2e-3)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, steps=st.integers(1, 5))
def test_each_step_equals_a_textbook_conjugate_gradient_step(seed, steps):
    adjacency, contexts, A_hat, X, weights, targets, theta = problem(seed, V=2)
    features = oracle.features(A_hat, X, 2)
    expected = oracle.conjugate_gradients(features, weights, targets, 1.0, theta.astype(float), steps)
    solve(adjacency, contexts, scales_of(A_hat, X, 2).astype(np.float32), weights, targets, 1.0, theta, steps)
    np.testing.assert_allclose(theta, expected, rtol=2e-3, atol=2e-3)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, width=st.sampled_from([1, 15, 16, 40, 64, 150]), spare=st.integers(0, 3), zeros=st.integers(0, 2))
def test_rows_without_zeros_give_what_sparse_ones_do(seed, width, spare, zeros):
    """They go through BLAS, where there are columns to spare too; one zero and they do not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, width))
    X[rng.integers(9, size=zeros), rng.integers(width, size=zeros)] = 0.0
    contexts, theta = rows(X), rng.normal(size=(width + spare, 5)).astype(np.float32)
    assert views.full_width(contexts) == (width if (X != 0).all() else 0)
    np.testing.assert_allclose(views.times(views.rows_of(contexts), theta), X @ theta[:width], rtol=1e-4, atol=1e-4)
    scores = rng.normal(size=(9, 5)).astype(np.float32)
    expected = np.concatenate([X.T @ scores, np.zeros((spare, 5))])
    found = views.transposed_times(views.rows_of(contexts), scores, width + spare)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    A_hat = knn.normalized(np.ones((9, 9)) - np.eye(9))
    positive = np.abs(X)  # lengths that cancel have no digits left
    scales = views.unit_scales(rows(A_hat), rows(positive), np.arange(9), np.arange(9), 3, width + spare)
    expected = scales_of(A_hat, positive, 3)
    np.testing.assert_allclose(scales[expected < 1e4], expected[expected < 1e4], rtol=1e-3)
    if (X != 0).all():
        np.testing.assert_allclose(
            views.all_unit_scales(rows(A_hat), positive.astype(np.float32), 3), expected, rtol=1e-4
        )


def test_rows_of_equal_length_that_are_not_the_first_columns_are_sparse():
    X = np.zeros((3, 20))
    X[:, :16], X[1, 0], X[1, 17] = 1.0, 0.0, 1.0
    assert views.full_width(rows(X)) == 0
    assert views.full_width(rows(np.zeros((0, 4)))) == 0


@given(st.integers(1, 40), st.integers(0, 2**21))
def test_pieces_are_all_arms_in_order_and_none_has_fewer_than_it_may(arms, entries):
    found = views.pieces(arms, entries)
    assert [arm for piece in found for arm in range(arms)[piece]] == list(range(arms))
    sizes = [piece.stop - piece.start for piece in found]
    assert sizes[0] == max(sizes) <= min(sizes) + 1, "memory is estimated by the first"
    assert min(sizes) >= min(arms, views.FEWEST_ARMS)
    assert max(sizes) <= max(views.PIECE // max(entries, 1), 2 * views.FEWEST_ARMS - 1)
