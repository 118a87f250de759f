import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from oracles import knn as oracle
from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.kernels import knn
from taciturn.kernels.adjacency import BLOCK, Graph, ListEdges, bandwidth, normalized_adjacency, note_edges
from taciturn.kernels.csr import CSR
from taciturn.kernels.reverse import Reverse, reverse_all


def stored(X):
    """Return X as CSR arrays in reverse order, and the row of each node, so that no node's index is its row."""
    csr = sp.csr_matrix(X[::-1])
    arrays = csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data.astype(float)
    return CSR(*arrays), reversed_rows(len(X))


def reversed_rows(count):
    return np.arange(count, dtype=np.int32)[::-1].copy()


def empty_lists(count, width):
    neighbors, distances = np.full((count, width), -1, np.int32), np.full((count, width), np.inf)
    return knn.Lists(neighbors, distances, np.zeros(count, np.int32), np.full(count, np.inf), np.zeros(count))


def insert_all(X, width, reindex_every=32):
    """Insert the rows of X one by one; yield the number of nodes and the lists after each."""
    count, dimension = X.shape
    rows, nodes = stored(X)
    lists = empty_lists(count, width)
    for i in range(count):
        if i % reindex_every == 0:
            inverted = knn.postings(rows, nodes[:i], dimension)
        knn.insert(lists, inverted, rows, nodes[: i + 1], 1)
        yield i + 1, lists


def recomputed(X, width, indexed):
    """Return the lists of all nodes by `refill`, with an inverted index of the first `indexed` nodes."""
    *_, (_, lists) = insert_all(X, width)
    rows, nodes = stored(X)
    for array in (lists.neighbors, lists.distances, lists.known, lists.reach):
        array[:] = 77
    inverted = knn.postings(rows, nodes[:indexed], X.shape[1])
    knn.refill(lists, inverted, rows, nodes, knn.equal_rows_together(rows, nodes, np.arange(len(X))))
    return lists


def assert_exact(lists, X, k):
    """Check the lists of the first len(X) nodes against the oracle, bit for bit: at least k entries are known."""
    count, width = len(X), lists.neighbors.shape[1]
    order, distances = oracle.nearest(X, count - 1)
    known = lists.known[:count]
    assert (known >= min(k, count - 1)).all()
    listed = np.arange(width) < known[:, None]
    missing = max(width - count + 1, 0)
    order = np.pad(order, ((0, 0), (0, missing)), constant_values=-1)[:, :width]
    np.testing.assert_array_equal(lists.neighbors[:count], np.where(listed, order, -1))
    padded = np.pad(distances, ((0, 0), (0, missing + 1)), constant_values=np.inf)
    np.testing.assert_array_equal(lists.distances[:count], np.where(listed, padded[:, :width], np.inf))
    nearest_unlisted = np.take_along_axis(padded, known[:, None].astype(int), axis=1)[:, 0]
    assert (nearest_unlisted >= lists.reach[:count]).all(), "all others within reach are listed"


def adjacency(lists, rows, k=None):
    """Return Â (T, T) of the first len(rows) nodes, in their order, as a dense array; node i is row ``rows[i]``."""
    k = k or lists.neighbors.shape[1]
    return dense(adjacency_of(graph_of(lists.neighbors, lists.distances, k, rows)), len(rows))[np.ix_(rows, rows)]


def adjacency_of(graph):
    """Return Â of a graph, by the edges of all its lists."""
    shape, size = (len(graph.nodes), graph.k), len(graph.slots)
    edges = ListEdges(np.empty(shape, np.int32), np.empty(shape), np.empty(shape, np.bool_))
    note_edges(graph.neighbors, graph.distances, np.arange(len(graph.nodes)), *edges)
    return normalized_adjacency(edges, graph.sigma, graph.nodes, graph.sources, graph.targets, size)


def graph_of(neighbors, distances, k, nodes):
    """The graph of lists of neighbors whose nodes are all that there are, without given edges."""
    count, edges, no_ends = len(nodes), np.zeros(0, np.int32), np.zeros(0, np.int64)
    reverse = Reverse(*(np.full(size, -1, np.int32) for size in [count * k] * 3 + [count] * 2))
    reverse_all(reverse, neighbors, k, count)
    farthest = distances[:count, max(min(k, count - 1), 1) - 1]
    sigma = bandwidth(farthest, np.full(count // BLOCK + 1, np.nan))
    slots = np.full(count, -1, np.int32)
    slots[nodes] = np.arange(count)
    return Graph(
        neighbors,
        distances,
        k,
        sigma,
        nodes,
        slots,
        reverse.first,
        reverse.following,
        edges,
        edges,
        np.full(count, -1),
        no_ends,
    )


def dense(csr, count):
    indptr, columns, values = csr
    return sp.csr_matrix((values, columns, indptr), shape=(count, count)).toarray()


def grow(X, k):
    """Yield the graph after each row of X."""
    rows = RowStore()
    rows.n_features = X.shape[1]
    graph = NodeGraph(rows, k)
    for node, x in enumerate(X):
        columns = np.flatnonzero(x).astype(np.int32)
        rows.append(SparseRow(columns, x[columns]))
        graph.add(node, None)
        yield graph


# Small integers: many ties and equal rows, and distances that are exact in floating point.
points = st.integers(0, 2**32 - 1).map(
    lambda seed: (
        np.random.default_rng(seed).integers(0, 3, (np.random.default_rng(seed).integers(2, 25), 4)).astype(float)
    )
)


@settings(max_examples=40, deadline=None)
@given(X=points, k=st.integers(1, 6), reindex_every=st.sampled_from([1, 5, 100]))
def test_neighbors_are_exact_after_every_insertion_ties_and_duplicates_included(X, k, reindex_every):
    for count, lists in insert_all(X, k, reindex_every):
        assert_exact(lists, X[:count], k)
        listed = min(k, count - 1)
        if listed:
            brute = NearestNeighbors(n_neighbors=listed, algorithm="brute").fit(X[:count]).kneighbors()[0]
            np.testing.assert_allclose(np.sqrt(lists.distances[:count, :listed]), brute, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(X=points, k=st.integers(1, 6), data=st.data())
def test_recomputed_neighbors_are_exact_ties_and_duplicates_included(X, k, data):
    assert_exact(recomputed(X, k, data.draw(st.integers(0, len(X)))), X, k)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 6), sparse=st.booleans())
def test_distances_and_adjacency_equal_the_oracle_on_random_rows(seed, k, sparse):
    rng = np.random.default_rng(seed)
    X = rng.random((20, 6)) * (rng.random((20, 6)) < (0.4 if sparse else 1.0))
    X[7] = X[3]
    for count, lists in insert_all(X, k):
        assert_exact(lists, X[:count], k)
        expected = oracle.normalized(oracle.similarity(X[:count], k))
        np.testing.assert_allclose(adjacency(lists, reversed_rows(count)), expected, atol=2e-6)
    assert lists.distances[7, 0] == 0.0, "equal rows have distance exactly 0"


cancelling = {
    "far from the origin": lambda X: X + 1e8,
    "far in one direction": lambda X: np.hstack([np.full((len(X), 1), 1e8), X]),
    "columns of very different scales": lambda X: X * np.logspace(-9, 9, X.shape[1]),
    "many equal rows": np.round,
    "mostly zeros": lambda X: X * (X > 0.9),
    "nearly equal rows": lambda X: 1.0 + 1e-15 * X,
}


@pytest.mark.parametrize("case", cancelling)
def test_neighbors_are_exact_where_norms_and_products_cancel(case):
    """The approximate distances must not decide there. Enough rows that the graph rebuilds its index several times."""
    X, k = cancelling[case](np.random.default_rng(0).random((180, 7))), 4
    for (count, lists), graph in zip(insert_all(X, k), grow(X, k), strict=True):
        assert_exact(lists, X[:count], k)
        expected = adjacency(lists, np.arange(count, dtype=np.int32))
        np.testing.assert_array_equal(dense(graph.adjacency, count), expected)
    assert_exact(recomputed(X, k, 120), X, k)


random, sparse_entries = np.random.default_rng(1).random((40, 5)), np.random.default_rng(2).random((40, 5)) < 0.3
extremes = {
    "duplicates": np.repeat(random[:10], 4, axis=0),
    "duplicates far apart": np.repeat(1e15 * random[:10], 4, axis=0),
    "all zeros": np.zeros((12, 5)),
    "zeros and one unit vector": np.eye(12, 5) * (np.arange(12) == 4)[:, None],
    "zeros and one row at the limit": 1e15 * np.eye(12, 5) * (np.arange(12) == 4)[:, None],
    "at the limit": 1e15 * random,
    "at the limit, sparse": 1e15 * random * sparse_entries,
    "both signs at the limit": np.where(random < 0.5, -1e15, 1e15),
    "squares near the smallest normal number": 1e-150 * random,
    "squares that are denormal, beside ones": np.where(sparse_entries, 1e-160, 1.0 + random),
    "squares that underflow to 0": 1e-200 * random,
    "the smallest denormal number": 5e-324 * np.round(3 * random),
    "all magnitudes": np.random.default_rng(3).choice([0.0, 5e-324, 1e-160, -1e-160, 1.0, -1.0, 1e15, -1e15], (40, 5)),
}


@pytest.mark.parametrize("case", extremes)
def test_neighbors_and_adjacency_equal_the_oracle_on_extreme_rows(case):
    X, k = extremes[case], 3
    for count, lists in insert_all(X, k, reindex_every=8):
        assert_exact(lists, X[:count], k)
        expected = oracle.normalized(oracle.similarity(X[:count], k))
        np.testing.assert_allclose(adjacency(lists, reversed_rows(count)), expected, atol=2e-6)
    for indexed in (0, len(X) // 2, len(X)):
        assert_exact(recomputed(X, k, indexed), X, k)


def test_columns_that_appear_later_are_compared():
    rows, k = RowStore(), 3
    graph, X = NodeGraph(rows, k), np.zeros((90, 30))
    rng = np.random.default_rng(0)
    for node in range(90):
        rows.n_features = 3 + node // 4
        X[node, : rows.n_features] = rng.random(rows.n_features) * (rng.random(rows.n_features) < 0.5)
        columns = np.flatnonzero(X[node]).astype(np.int32)
        rows.append(SparseRow(columns, X[node, columns]))
        graph.add(node, None)
        expected = oracle.normalized(oracle.similarity(X[: node + 1], k))
        np.testing.assert_allclose(dense(graph.adjacency, node + 1), expected, atol=2e-6)


def test_equal_rows_have_edges_of_weight_one():
    X = np.ones((7, 3))
    *_, graph = grow(X, 2)
    np.testing.assert_allclose(dense(graph.adjacency, 7), oracle.normalized(oracle.similarity(X, 2)), atol=1e-6)


def test_given_edges_have_weight_one_in_the_adjacency():
    rng = np.random.default_rng(0)
    rows, X = RowStore(), rng.random((12, 3))
    rows.n_features = 3
    graph, edges = NodeGraph(rows, 5), []
    for node, x in enumerate(X):
        linked = [other for other in range(node) if rng.random() < 0.3]
        edges += [(node, other) for other in linked]
        rows.append(SparseRow(np.arange(3, dtype=np.int32), x))
        graph.add(node, linked)
        A_hat = oracle.normalized(oracle.given(edges, node + 1))
        np.testing.assert_allclose(dense(graph.adjacency, node + 1), A_hat, atol=1e-6)


def test_given_edges_and_nearest_neighbors_are_combined_in_one_adjacency():
    rng = np.random.default_rng(1)
    rows, X = RowStore(), rng.random((14, 3))
    rows.n_features = 3
    graph, edges, unlinked = NodeGraph(rows, 2), [], []
    for node, x in enumerate(X):
        linked = [other for other in range(node) if rng.random() < 0.3] if node % 3 == 2 else None
        edges += [(node, other) for other in linked or []]
        unlinked += [node] if linked is None else []
        rows.append(SparseRow(np.arange(3, dtype=np.int32), x))
        graph.add(node, linked)
    A = oracle.given(edges, 14)
    A[np.ix_(unlinked, unlinked)] = oracle.similarity(X[unlinked], 2)
    np.testing.assert_allclose(dense(graph.adjacency, 14), oracle.normalized(A), atol=1e-6)
