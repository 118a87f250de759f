import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import gcn as oracle
from oracles import knn
from taciturn.kernels import gcn
from taciturn.kernels.csr import CSR


def problem(seed, precision):
    """Random stack over a random graph, with unlabelled rows, a head without labels and nodes without neighbors."""
    rng = np.random.default_rng(seed)
    nodes, dimension, heads, size, classes = 9, 6, 3, 4, int(rng.integers(2, 5))
    A = np.triu(rng.random((nodes, nodes)) * (rng.random((nodes, nodes)) < 0.25), 1)
    A_hat = knn.normalized(A + A.T)
    X = rng.random((nodes, dimension)) * (rng.random((nodes, dimension)) < 0.6)
    labels = np.where(rng.random((nodes, heads)) < 0.5, rng.integers(0, classes, (nodes, heads)), -1).astype(np.int32)
    labels[:, 0] = -1
    W1 = rng.normal(size=(dimension, heads * size)).astype(precision)
    W2 = rng.normal(size=(heads, size, classes)).astype(precision)
    keys = rng.integers(0, 2**64, 2, dtype=np.uint64)
    adjacency, contexts = rows(A_hat, precision), rows(X, float)
    work = gcn.new_workspace(nodes + 2, len(contexts.columns) + 3, W1, W2)  # larger than needed, as in a growing agent
    for array in work:
        array[...] = 77  # stale content of an earlier pass
    return adjacency, contexts, labels, W1, W2, keys, work, A_hat, X


def rows(matrix, precision):
    csr = sp.csr_matrix(matrix)
    return gcn.CSR(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data.astype(precision))


seeds = st.integers(0, 2**32 - 1)
rates = st.sampled_from([0.0, 0.3, 0.5])


@settings(max_examples=25, deadline=None)
@given(seed=seeds, dropout=rates)
def test_oracle_gradients_equal_finite_differences_of_its_loss(seed, dropout):
    _, _, labels, W1, W2, keys, _, A_hat, X = problem(seed, np.float64)
    masks = oracle.input_mask(keys[0], X, dropout), oracle.mask(keys[1], (len(X), 4), dropout, 4)
    weights = W1[:, 4:8].copy(), W2[1].copy()

    def evaluate():
        return oracle.loss_and_gradients(A_hat, X, labels[:, 1], *weights, 0.01, *masks)

    _, *grads = evaluate()
    rng, step = np.random.default_rng(seed), 1e-6
    for array, grad in zip(weights, grads, strict=True):
        for _ in range(12):
            index = tuple(rng.integers(0, size) for size in array.shape)
            losses, old = [], array[index]
            for sign in (1, -1):
                array[index] = old + sign * step
                losses.append(evaluate()[0])
            array[index] = old
            # A ReLU that flips within the step makes the difference quotient slightly wrong, not the gradient.
            np.testing.assert_allclose(grad[index], (losses[0] - losses[1]) / (2 * step), rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, dropout=rates, precision=st.sampled_from([np.float32, np.float64]))
def test_gradients_equal_the_dense_oracle_head_by_head(seed, dropout, precision):
    adjacency, contexts, labels, W1, W2, keys, work, A_hat, X = problem(seed, precision)
    grad1, grad2 = gcn.gradients(adjacency, contexts, labels, W1, W2, 0.01, dropout, keys, work)
    heads, size, _ = W2.shape
    input_mask = oracle.input_mask(keys[0], X, dropout)
    tolerance = 1e-10 if precision is np.float64 else 2e-4
    for h in range(heads):
        span = slice(h * size, (h + 1) * size)
        hidden_mask = oracle.mask(keys[1], (len(X), size), dropout, h * size)
        _, g1, g2 = oracle.loss_and_gradients(
            A_hat, X, labels[:, h], W1[:, span].astype(float), W2[h].astype(float), 0.01, input_mask, hidden_mask
        )
        np.testing.assert_allclose(grad1[:, span], g1, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(grad2[h], g2, rtol=tolerance, atol=tolerance)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, requested=st.sets(st.integers(0, 8)))
def test_embeddings_equal_the_dense_oracle_in_the_requested_rows(seed, requested):
    adjacency, contexts, _, W1, _, _, work, A_hat, X = problem(seed, np.float64)
    mask = np.isin(np.arange(len(X)), list(requested))
    embedded = gcn.embed(adjacency, contexts, W1, mask, work)
    assert len(embedded) == len(X)
    np.testing.assert_allclose(embedded[mask], oracle.embedding(A_hat, X, W1)[mask], atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, share=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
def test_rows_are_expanded_by_their_neighbors_whether_they_are_few_or_most(seed, share):
    adjacency, *_, A_hat, X = problem(seed, np.float64)
    rows = np.random.default_rng(seed).random(len(X)) < share
    np.testing.assert_array_equal(gcn._expanded(adjacency, rows), (A_hat != 0) @ rows)


def test_no_contexts_have_no_entries_to_drop():
    _, contexts, _, W1, W2, keys, *_ = problem(0, np.float64)
    nothing = CSR(contexts.indptr[:1], contexts.columns[:0], contexts.values[:0])
    kept = gcn._kept_inputs(nothing, np.zeros(0, np.bool_), 0.5, keys[0], gcn.new_workspace(0, 0, W1, W2))
    assert kept.indptr.tolist() == [0]


def test_vectors_are_scaled_to_unit_length_and_zero_vectors_stay_zero():
    vectors = np.random.default_rng(0).normal(size=(5, 3, 4))
    vectors[2, 1] = 0.0
    expected = vectors.copy()
    expected /= np.maximum(np.linalg.norm(expected, axis=2, keepdims=True), 1e-300)
    gcn.to_unit_length(vectors)
    np.testing.assert_allclose(vectors, expected, rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_adam_equals_its_formula(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=20)
    expected, reference = weights.copy(), oracle.Adam(0.01)
    first, second = np.zeros(20), np.zeros(20)
    for step in range(1, 30):
        gradient = rng.normal(size=20)
        gcn.adam(weights, gradient, first, second, step, 0.01)
        expected = reference.step(expected, gradient)
    np.testing.assert_allclose(weights, expected, rtol=1e-10)


def test_dropout_keeps_the_given_share_with_independent_masks():
    rate, side = 0.3, 100
    one, other = (
        np.array([[gcn.is_kept(np.uint64(key), i, j, rate) for j in range(side)] for i in range(side)])
        for key in (1, 2)
    )
    expected_agreement = (1 - rate) ** 2 + rate**2
    pairs = {
        "next key": (one, other),
        "next row": (one[:-1], one[1:]),
        "next column": (one[:, :-1], one[:, 1:]),
        "transposed": (one, one.T),
    }
    assert abs(one.mean() - (1 - rate)) < 0.02
    for name, (left, right) in pairs.items():
        assert abs(np.mean(left == right) - expected_agreement) < 0.03, name
