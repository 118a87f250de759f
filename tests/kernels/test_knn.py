import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from oracles import knn as oracle
from taciturn.agents.contexts import RowStore
from taciturn.agents.graph import ContextGraph
from taciturn.contracts import SparseRow


def grow(X, k):
    """Yield the graph after each row of X."""
    rows = RowStore()
    rows.dimension = X.shape[1]
    graph = ContextGraph(rows, k)
    for node, x in enumerate(X):
        columns = np.flatnonzero(x).astype(np.int32)
        rows.append(SparseRow(columns, x[columns]))
        graph.add(node, None)
        yield graph


def dense(rows, shape):
    return sp.csr_matrix((rows.values, rows.columns, rows.indptr), shape=shape).toarray()


# Small whole numbers: many ties and equal rows, and distances that are exact in floating point.
points = st.integers(0, 2**32 - 1).map(
    lambda seed: (
        np.random.default_rng(seed).integers(0, 3, (np.random.default_rng(seed).integers(2, 25), 4)).astype(float)
    )
)


@settings(max_examples=40, deadline=None)
@given(X=points, k=st.integers(1, 6))
def test_neighbors_are_exact_at_every_step_ties_and_duplicates_included(X, k):
    for count, graph in enumerate(grow(X, k), start=1):
        near = min(k, count - 1)
        order, distances = oracle.nearest(X[:count], near)
        np.testing.assert_array_equal(graph._neighbors[:count, :near], order)
        np.testing.assert_array_equal(graph._distances[:count, :near], distances)
        if near:
            brute = NearestNeighbors(n_neighbors=near, algorithm="brute").fit(X[:count]).kneighbors()[0]
            np.testing.assert_allclose(np.sqrt(graph._distances[:count, :near]), brute, atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 6), sparse=st.booleans())
def test_distances_and_adjacency_on_real_numbers(seed, k, sparse):
    rng = np.random.default_rng(seed)
    X = rng.random((20, 6)) * (rng.random((20, 6)) < (0.4 if sparse else 1.0))
    X[7] = X[3]
    for count, graph in enumerate(grow(X, k), start=1):
        A_hat = dense(graph.adjacency, (count, count))
        np.testing.assert_allclose(A_hat, oracle.normalized(oracle.similarity(X[:count], k)), atol=2e-6)
    assert graph._distances[7, 0] == 0.0, "equal rows are at distance exactly 0"


hard_places = {
    "far from the origin": lambda X: X + 1e8,
    "far in one direction": lambda X: np.hstack([np.full((len(X), 1), 1e8), X]),
    "scales that differ by much": lambda X: X * np.logspace(-9, 9, X.shape[1]),
    "many equal rows": np.round,
    "mostly empty": lambda X: X * (X > 0.9),
    "all but equal": lambda X: 1.0 + 1e-15 * X,
}


@pytest.mark.parametrize("place", hard_places)
def test_neighbors_are_exact_in_hard_places(place):
    """Distances by lengths and products cancel there: they must not decide. Enough rows for the index to be remade."""
    X = hard_places[place](np.random.default_rng(0).random((180, 7)))
    for count, graph in enumerate(grow(X, 4), start=1):
        if count > 4:
            order, distances = exact(X[:count], 4)
            np.testing.assert_array_equal(graph._neighbors[:count], order)
            np.testing.assert_array_equal(graph._distances[:count], distances)


def exact(X, k):
    """As the oracle, but summed column by column as the kernels do, where the order of a sum decides."""
    distances = np.zeros((len(X), len(X)))
    for column in X.T:
        distances += (column[:, None] - column[None, :]) ** 2
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, axis=1)


def test_features_that_appear_later_are_compared():
    rows, k = RowStore(), 3
    graph, X = ContextGraph(rows, k), np.zeros((90, 30))
    rng = np.random.default_rng(0)
    for node in range(90):
        rows.dimension = 3 + node // 4
        X[node, : rows.dimension] = rng.random(rows.dimension) * (rng.random(rows.dimension) < 0.5)
        columns = np.flatnonzero(X[node]).astype(np.int32)
        rows.append(SparseRow(columns, X[node, columns]))
        graph.add(node, None)
    np.testing.assert_array_equal(graph._neighbors[:90], exact(X, k)[0])


def test_all_rows_equal_gives_weights_of_one():
    X = np.ones((7, 3))
    *_, graph = grow(X, 2)
    np.testing.assert_allclose(dense(graph.adjacency, (7, 7)), oracle.normalized(oracle.similarity(X, 2)), atol=1e-6)


def test_given_edges_make_the_adjacency():
    rng = np.random.default_rng(0)
    rows, X = RowStore(), rng.random((12, 3))
    rows.dimension = 3
    graph, edges = ContextGraph(rows, 5), []
    for node, x in enumerate(X):
        near = [other for other in range(node) if rng.random() < 0.3]
        edges += [(node, other) for other in near]
        rows.append(SparseRow(np.arange(3, dtype=np.int32), x))
        graph.add(node, near)
        A_hat = oracle.normalized(oracle.given(edges, node + 1))
        np.testing.assert_allclose(dense(graph.adjacency, (node + 1, node + 1)), A_hat, atol=1e-6)


def test_given_edges_and_nearest_neighbours_make_one_graph():
    rng = np.random.default_rng(1)
    rows, X = RowStore(), rng.random((14, 3))
    rows.dimension = 3
    graph, edges, alone = ContextGraph(rows, 2), [], []
    for node, x in enumerate(X):
        near = [other for other in range(node) if rng.random() < 0.3] if node % 3 == 2 else None
        edges += [(node, other) for other in near or []]
        alone += [node] if near is None else []
        rows.append(SparseRow(np.arange(3, dtype=np.int32), x))
        graph.add(node, near)
    A = oracle.given(edges, 14)
    A[np.ix_(alone, alone)] = oracle.similarity(X[alone], 2)
    np.testing.assert_allclose(dense(graph.adjacency, (14, 14)), oracle.normalized(A), atol=1e-6)
