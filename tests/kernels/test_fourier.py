"""Random Fourier features against formulas written out, on ordinary and extreme rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import fourier as oracle
from taciturn.kernels import fourier
from taciturn.kernels.csr import CSR

ordinary = st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.25, 1e-3])
extreme = st.sampled_from([0.0, 5e-324, 1e-160, 1e15, -1e15, 1.0])


def csr(X):
    matrix = sp.csr_matrix(X)
    matrix.sort_indices()
    return CSR(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(float))


def rows(elements):
    return st.integers(1, 6).flatmap(
        lambda D: st.lists(st.lists(elements, min_size=D, max_size=D), min_size=1, max_size=8).map(np.array)
    )


def kernel_features(X, frequencies, phases, bandwidth):
    out = np.full((len(X), len(phases)), np.nan, np.float32)
    singles = frequencies.astype(np.float32), phases.astype(np.float32)
    fourier.fourier_rows(csr(X), *singles, bandwidth, out)
    return out


@settings(max_examples=60, deadline=None)
@given(X=rows(ordinary), seed=st.integers(0, 99), bandwidth=st.sampled_from([0.3, 1.0, 7.0]), known=st.integers(0, 6))
def test_features_equal_the_formula_and_one_row_equals_all(X, seed, bandwidth, known):
    """Columns beyond those that have frequencies do not count."""
    frequencies, phases = oracle.draws(seed, 6)
    frequencies = frequencies[:known]
    found = kernel_features(X, frequencies, phases, bandwidth)
    np.testing.assert_allclose(
        found, oracle.features(X[:, :known], frequencies[: X.shape[1]], phases, bandwidth), atol=1e-6
    )
    for row, x in zip(found, X, strict=True):
        np.testing.assert_array_equal(kernel_features(x[None], frequencies, phases, bandwidth)[0], row)


@settings(max_examples=60, deadline=None)
@given(X=rows(extreme), bandwidth=st.sampled_from([1e-9, 1.0, 1e15]))
def test_features_of_extreme_rows_have_unit_length(X, bandwidth):
    found = kernel_features(X, *oracle.draws(0, 6), bandwidth)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(X=rows(ordinary | extreme), dimension=st.integers(1, 6))
def test_distances_equal_dense_ones(X, dimension):
    chosen = np.arange(0, len(X), 2)
    found = fourier.squared_distances(csr(X), chosen, dimension)
    dense = X[chosen][:, :dimension]
    expected = [((a - b) ** 2).sum() for i, a in enumerate(dense) for b in dense[i + 1 :]]
    largest = max((X**2).sum(axis=1).max(), 1e-300)
    np.testing.assert_allclose(found, expected, atol=1e-12 * largest)


def test_dot_products_approximate_a_gaussian_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    found = kernel_features(X, *oracle.draws(3, 5), 2.0)
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    errors = found @ found.T - np.exp(-(distances**2) / (2 * 2.0**2))
    assert np.sqrt((errors**2).mean()) == pytest.approx(0.0, abs=2 / np.sqrt(256))
