"""Neighbors and weights where squares are denormal or underflow: exact, finite, and never an edge without an end."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taciturn
from kernels.test_knn import adjacency_of, assert_exact, dense, empty_lists, graph_of, grow, insert_all, recomputed
from oracles import knn as oracle
from taciturn.kernels import knn
from taciturn.kernels.csr import CSR

MAGNITUDES = [0.0, 5e-324, 1e-310, 3e-162, 1e-161, 7e-160, 1e-155, 1e-150, 1.0, 1e15]


def adjacency(neighbors, distances):
    nodes = np.arange(len(neighbors), dtype=np.int32)
    return adjacency_of(graph_of(neighbors, distances, distances.shape[1], nodes))


@st.composite
def rows_of_tiny_and_huge_entries(draw):
    """Rows whose entries are multiples of few magnitudes, so that rows are equal, or differ by denormal squares."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    magnitudes = draw(st.lists(st.sampled_from(MAGNITUDES), min_size=1, max_size=3))
    shape = int(rng.integers(2, 16)), int(rng.integers(1, 6))
    return rng.choice(magnitudes, shape) * rng.choice([-2.0, -1.0, 0.0, 1.0, 1.7], shape)


def check_adjacency(csr, X, k):
    """Every edge of the oracle, once in either row, and no other; values to single precision."""
    indptr, columns, values = csr
    weights = oracle.similarity(X, k)
    assert np.isfinite(values).all()
    assert indptr[0] == 0
    assert indptr[-1] == len(columns) == len(values)
    for row, (first, last) in enumerate(itertools.pairwise(indptr)):
        listed = columns[first:last].tolist()
        assert len(set(listed)) == len(listed)
        assert {row, *np.flatnonzero(weights[row])} <= set(listed) <= set(range(len(X)))
    np.testing.assert_allclose(dense(csr, len(X)), oracle.normalized(weights), atol=2e-6)


@settings(max_examples=300, deadline=None)
@given(X=rows_of_tiny_and_huge_entries(), k=st.integers(1, 4))
def test_neighbors_and_adjacency_equal_the_oracle_where_squares_are_denormal(X, k):
    for count, lists in insert_all(X, k, reindex_every=4):
        assert_exact(lists, X[:count], k)
    check_adjacency(adjacency(lists.neighbors, lists.distances), X, k)
    for indexed in (0, len(X)):
        assert_exact(recomputed(X, k, indexed), X, k)


@pytest.mark.parametrize("tiny", [5e-324, 1e-320, 1e-310, 1e-308])
def test_a_bandwidth_whose_square_is_denormal_gives_weights_that_are_numbers(tiny):
    """1/σ² was infinite and its product with a distance of 0 not a number: an edge was counted and not written."""
    neighbors = np.array([[1], [0], [0]], np.int32)
    indptr, columns, values = adjacency(neighbors, np.array([[0.0], [0.0], [tiny]]))
    assert indptr.tolist() == [0, 3, 5, 7]
    assert columns.tolist() == [0, 1, 2, 1, 0, 2, 0]
    far = np.exp(-9.0)  # σ is a third of the one distance
    A = np.array([[0, 1, far], [1, 0, 0], [far, 0, 0]])
    np.testing.assert_allclose(dense((indptr, columns, values), 3), oracle.normalized(A), atol=1e-6)


def test_weights_follow_the_distances_where_the_inverse_of_their_square_overflows():
    """They all became 0."""
    X = 1e-158 * np.array([[0.0], [1.0], [2.0], [4.0]])
    *_, graph = grow(X, 2)
    check_adjacency(graph.adjacency, X, 2)
    assert (graph.adjacency.values > 0.01).all()


@pytest.mark.parametrize("method", ["viewucb", "gcnucb", "bilinucb-gcn", "rogcn"])
def test_agents_decide_on_contexts_that_differ_by_denormal_squares(method):
    """The process crashed."""
    agent = taciturn.make(method, arms=3)
    for x in ([1.0, 1e-160], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1e-160], [0.0, 1e-160], [0.0, 0.0]) * 3:
        decision = agent.decide(x)
        assert np.isfinite(decision.scores).all()
        agent.feedback(decision.id, float(decision.arm == 0))


def distance(rows):
    """The squared distance of two rows."""
    lists = empty_lists(2, 1)
    knn.offer(lists, rows, np.arange(2, dtype=np.int32), 1, np.zeros(1, np.int64))
    assert lists.distances[0, 0] == lists.distances[1, 0]
    return lists.distances[0, 0]


@given(
    st.integers(1, 40),
    st.lists(st.sampled_from([1e-310, 1e-160, 0.1, 1.0, -3.0, 1e15, -1e150]), min_size=1, max_size=5),
)
def test_distances_of_rows_without_zeros_are_those_of_sparse_ones_to_the_bit(width, sizes):
    rng = np.random.default_rng(width)
    X = rng.normal(size=(2, width)) * rng.choice(sizes, (2, width))
    X[X == 0] = 1.0
    indptr, columns = np.array([0, width, 2 * width]), np.tile(np.arange(width, dtype=np.int32), 2)
    found = distance(CSR(indptr, columns, X.ravel()))
    assert found == distance(CSR(indptr, columns + np.int32(1), X.ravel()))
    assert found == pytest.approx(((X[0] - X[1]) ** 2).sum())
