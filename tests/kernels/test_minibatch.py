import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import gcn as dense
from oracles import knn
from oracles import minibatch as oracle
from taciturn.kernels import minibatch
from taciturn.kernels.csr import CSR

seeds = st.integers(0, 2**32 - 1)
ALL = (100, 100)
"""Fans that take all neighbors."""


def rows(matrix, precision):
    """A sparse matrix with the diagonal first in each row, as those of Â are."""
    columns, values = [], []
    for i, row in enumerate(matrix):
        order = [i, *(j for j in np.flatnonzero(row) if j != i)] if len(matrix) == len(row) else np.flatnonzero(row)
        columns.append(order)
        values.append(row[order])
    indptr = np.cumsum([0, *map(len, columns)])
    return CSR(indptr, np.concatenate(columns).astype(np.int32), np.concatenate(values).astype(precision))


def problem(seed):
    """Random networks over a random graph, with unlabelled rows, a head without labels and nodes without neighbors."""
    rng = np.random.default_rng(seed)
    nodes, dimension, heads, size, classes = 9, 6, 3, 4, int(rng.integers(2, 5))
    A = np.triu(rng.random((nodes, nodes)) * (rng.random((nodes, nodes)) < 0.4), 1)
    A_hat = knn.normalized(A + A.T)
    X = rng.random((nodes, dimension + 4)) * (rng.random((nodes, dimension + 4)) < 0.6)
    labels = np.where(rng.random((nodes, heads)) < 0.5, rng.integers(0, classes, (nodes, heads)), -1).astype(np.int32)
    labels[:, 0] = -1
    W1 = rng.normal(size=(dimension + 4, heads * size)).astype(np.float32)
    W2 = rng.normal(size=(heads, size, classes)).astype(np.float32)
    return rng, A_hat, X, labels, W1, W2


def gradients(A_hat, X, labels, batch, scales, W1, W2, decay, dropout, fans, key):
    """∂loss/∂W1 (D, H·L) and ∂loss/∂W2 (H, L, C) by the kernel."""
    w2_t = np.ascontiguousarray(W2.transpose(0, 2, 1))
    grad1, grad2_t = np.full_like(W1, 77.0), np.full_like(w2_t, 77.0)
    given_rows = rows(A_hat, np.float32), rows(X, float), labels, batch, scales.astype(np.float32), W1, w2_t
    minibatch.gradients(*given_rows, decay, dropout, fans, np.uint64(key), grad1, grad2_t)
    return grad1, grad2_t.transpose(0, 2, 1)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_a_batch_of_all_labels_with_all_neighbors_has_the_full_gradients(seed):
    _, A_hat, X, labels, W1, W2 = problem(seed)
    counts = np.maximum((labels >= 0).sum(axis=0), 1)
    batch = np.flatnonzero((labels >= 0).any(axis=1))
    grad1, grad2 = gradients(A_hat, X, labels, batch, 1.0 / counts, W1, W2, 0.01, 0.0, ALL, seed)
    ones, size = np.ones(X.shape), W2.shape[1]
    for h in range(labels.shape[1]):
        span = slice(h * size, (h + 1) * size)
        weights = W1[:, span].astype(float), W2[h].astype(float)
        _, g1, g2 = dense.loss_and_gradients(A_hat, X, labels[:, h], *weights, 0.01, ones, 1.0)
        np.testing.assert_allclose(grad1[:, span], g1, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(grad2[h], g2, rtol=2e-4, atol=2e-4)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, fans=st.sampled_from([(0, 0), (1, 2), (2, 1), ALL]))
def test_gradients_of_a_sample_equal_the_dense_oracle_head_by_head(seed, fans):
    rng, A_hat, X, labels, W1, W2 = problem(seed)
    batch, scales = rng.permutation(len(X))[:5], rng.random(labels.shape[1]).astype(np.float32)
    grad1, grad2 = gradients(A_hat, X, labels, batch, scales, W1, W2, 0.01, 0.0, fans, seed)
    state = np.full(1, seed, np.uint64)
    drawn = minibatch.sample(rows(A_hat, np.float32), rows(X, float), batch, fans, 0.0, state)
    indptr, columns, values = drawn.inputs
    inputs = sp.csr_matrix((values, columns, indptr), shape=(len(drawn.nodes), X.shape[1])).toarray().astype(float)
    size = W2.shape[1]
    for h in range(labels.shape[1]):
        span = slice(h * size, (h + 1) * size)
        tree = drawn.starts, drawn.weights, inputs, labels[batch, h], scales[h]
        _, g1, g2 = oracle.sampled_loss_and_gradients(*tree, W1[:, span].astype(float), W2[h].astype(float), 0.01)
        np.testing.assert_allclose(grad1[:, span], g1, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(grad2[h], g2, rtol=2e-4, atol=2e-4)


def test_the_gradients_of_the_oracle_equal_finite_differences_of_its_loss():
    rng = np.random.default_rng(5)
    starts, weights, inputs = np.array([0, 2, 5]), rng.random(5), rng.random((5, 3))
    W1, W2, y = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), np.array([1, 0])
    _, *grads = oracle.sampled_loss_and_gradients(starts, weights, inputs, y, 0.7, W1, W2, 0.1)
    for array, grad in zip((W1, W2), grads, strict=True):
        for index in np.ndindex(array.shape):
            losses, old = [], array[index]
            for step in (1e-6, -1e-6):
                array[index] = old + step
                losses.append(oracle.sampled_loss_and_gradients(starts, weights, inputs, y, 0.7, W1, W2, 0.1)[0])
            array[index] = old
            np.testing.assert_allclose(grad[index], (losses[0] - losses[1]) / 2e-6, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_sums_over_sampled_neighbors_are_right_on_average(dropout):
    _, A_hat, X, *_ = problem(3)
    adjacency, contexts, batch = rows(A_hat, np.float32), rows(X, float), np.arange(len(X))
    state, draws = np.full(1, 9, np.uint64), 4000
    inputs, weights = np.zeros(X.shape), np.zeros(A_hat.shape)
    for _ in range(draws):
        drawn = minibatch.sample(adjacency, contexts, batch, (1, 2), dropout, state)
        matrix = sp.csr_matrix((drawn.inputs.values, drawn.inputs.columns, drawn.inputs.indptr), (len(drawn.nodes), 10))
        inputs += matrix[drawn.starts[:-1]].toarray()
        np.add.at(weights, (np.repeat(batch, np.diff(drawn.starts)), drawn.nodes), drawn.weights)
    assert (np.diff(drawn.starts) <= 2).all()
    np.testing.assert_allclose(weights / draws, A_hat, atol=0.03)
    np.testing.assert_allclose(inputs / draws, A_hat @ X, atol=0.03)


def test_dropout_of_hidden_units_is_right_on_average():
    _, A_hat, X, _, W1, _ = problem(4)
    adjacency, contexts, batch = rows(A_hat, np.float32), rows(X, float), np.arange(len(X))
    state, total = np.full(1, 1, np.uint64), 0.0
    drawn = minibatch.sample(adjacency, contexts, batch, ALL, 0.0, state)
    exact = minibatch.hidden_layers(adjacency, batch, drawn.nodes, contexts, W1)
    for _ in range(2000):
        hidden = exact.copy()
        minibatch._activate(hidden, 0.5, state)
        assert np.isin(hidden[exact > 0] / exact[exact > 0], (0.0, 2.0)).all()
        total = total + hidden
    np.testing.assert_allclose(total / 2000, exact, atol=0.15 * exact.max())


@settings(max_examples=30, deadline=None)
@given(seed=seeds, requested=st.lists(st.integers(0, 8), min_size=1, max_size=12))
def test_embeddings_equal_the_dense_oracle_in_the_requested_rows(seed, requested):
    rng, A_hat, X, _, W1, _ = problem(seed)
    members = rng.permutation(40)[: len(X)]
    contexts = np.zeros((40, X.shape[1]))
    contexts[members] = X
    given_rows = rows(A_hat, np.float32), members, np.array(requested)
    hidden = minibatch.hidden_layers(*given_rows, rows(contexts, float), W1)
    np.testing.assert_allclose(hidden, np.maximum(A_hat @ X @ W1, 0.0)[requested], rtol=1e-4, atol=1e-4)
    everywhere = rng.normal(size=(40, W1.shape[1])).astype(np.float32)
    wanted = A_hat[requested] @ everywhere[members]
    np.testing.assert_allclose(minibatch.embed(*given_rows, everywhere), wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, scale=st.sampled_from([1.0, 1e-30, 1e-44, 1e30]))
def test_sums_of_examples_are_exact_and_what_is_taken_back_leaves_no_trace(seed, scale):
    rng = np.random.default_rng(seed)
    embeddings = (rng.normal(size=(12, 2, 3)) * scale).astype(np.float32)
    embeddings[3] = 0.0
    embeddings[5, 0, 1] = np.inf
    rewards = np.where(rng.random((12, 2)) < 0.3, np.nan, rng.random((12, 2)))
    squares, products = np.zeros((2, 3, 3), np.int64), np.zeros((2, 3), np.int64)
    minibatch.add_examples(embeddings, rewards, np.arange(12), 1, squares, products)
    wanted = oracle.sums(embeddings, rewards)
    assert (squares.tolist(), products.tolist()) == wanted
    others = rng.permutation(12)[:7]
    minibatch.add_examples(embeddings, rewards, others, -1, squares, products)
    left = np.delete(np.arange(12), others)
    assert (squares.tolist(), products.tolist()) == oracle.sums(embeddings[left], rewards[left])
