"""Products in vector registers, compared with sums of exact products, each rounded once."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

from process_kit import printed_with_and_without_numba
from taciturn.kernels import spmm

widths = st.sampled_from([1, 3, 4, 5, 15, 16, 20, 31, 32, 48, 63, 64, 65, 117])
precisions = st.sampled_from([(np.float32, np.float32), (np.float64, np.float64), (np.float64, np.float32)])


def problem(seed, width, types):
    """A sparse matrix (7, 5) with empty rows, dense ones of extreme sizes, and a mask of rows."""
    rng = np.random.default_rng(seed)
    matrix = sp.random(7, 5, 0.5, format="csr", random_state=rng)
    matrix.data *= 10.0 ** rng.integers(-20, 15, len(matrix.data)) * rng.choice([-1, 1], len(matrix.data))
    value_type, dense_type = types
    csr = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(value_type)
    dense = (rng.normal(size=(7, width)) * 10.0 ** rng.integers(-18, 3, (7, width))).astype(dense_type)
    dense[rng.random(dense.shape) < 0.2] = 0.0
    return csr, dense, rng.random(7) < 0.7


def entries(csr, rows):
    """The nonzeros (row, column, value) of the masked rows, in their order."""
    indptr, columns, values = csr
    return [(i, columns[p], values[p]) for i in np.flatnonzero(rows) for p in range(indptr[i], indptr[i + 1])]


def accumulated(terms, out):
    """``out[target] += value · row`` one after the other: exact products, rounded once with the sum that they join."""
    real = out.dtype.type
    for target, value, row in terms:
        for u in range(out.shape[1]):
            out[target, u] = real(
                Fraction(float(real(value))) * Fraction(float(row[u])) + Fraction(float(out[target, u]))
            )
    return out


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), width=widths, types=precisions)
def test_products_are_sums_in_the_order_of_nonzeros(seed, width, types):
    csr, dense, rows = problem(seed, width, types)
    out = np.full((7, width), 77.0, types[1])
    spmm.multiply(*csr, dense[:5], rows, out)
    assert (out[~rows] == 77.0).all()
    expected = accumulated([(i, value, dense[j]) for i, j, value in entries(csr, rows)], np.zeros_like(out))
    np.testing.assert_allclose(out[rows], expected[rows], rtol=4 * np.finfo(types[1]).eps, atol=scale_of(csr, dense))


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), width=widths, types=precisions)
def test_transposed_products_are_added_in_the_order_of_nonzeros(seed, width, types):
    csr, dense, rows = problem(seed, width, types)
    out = np.random.default_rng(seed).normal(size=(5, width)).astype(types[1])
    expected = accumulated([(j, value, dense[i]) for i, j, value in entries(csr, rows)], out.copy())
    spmm.multiply_transposed(*csr, dense, rows, out)
    np.testing.assert_allclose(out, expected, rtol=4 * np.finfo(types[1]).eps, atol=scale_of(csr, dense))


def scale_of(csr, dense):
    """What rounding can leave where terms cancel: nothing on a processor that fuses, a unit of the largest without."""
    return np.finfo(dense.dtype).eps * float(np.abs(csr[2]).max(initial=0.0)) * float(np.abs(dense).max())


def test_products_with_a_matrix_beyond_the_caches_have_the_same_bits():
    """Its rows are fetched ahead, also where the last rows have none after them."""
    rng, count = np.random.default_rng(0), 150_000
    dense = rng.random((count, 20), np.float32)
    assert dense.nbytes > spmm.LARGE > dense.nbytes / 2
    indptr = np.cumsum([0, *rng.integers(0, 5, count)])
    csr = indptr, rng.integers(0, count, indptr[-1]).astype(np.int32), rng.random(indptr[-1], np.float32)
    rows = rng.random(count) < 0.9
    whole, half = np.full((count, 20), -1.0, np.float32), np.full((count, 10), -1.0, np.float32)
    spmm.multiply(*csr, dense, rows, whole)
    for part in (slice(10), slice(10, 20)):
        spmm.multiply(*csr, np.ascontiguousarray(dense[:, part]), rows, half)
        np.testing.assert_array_equal(whole[:, part], half)


def test_arrays_that_would_be_misread_are_refused():
    (indptr, columns, values), dense, rows = problem(0, 6, (np.float32, np.float32))
    out = np.zeros((7, 6), np.float32)
    strided = np.repeat(values, 2)[::2], np.repeat(columns, 2)[::2]
    for arguments in (
        (columns, strided[0], dense, out),
        (strided[1], values, dense, out),
        (columns, values, np.asfortranarray(dense), out),
        (columns, values, dense, np.asfortranarray(out)),
    ):
        with pytest.raises(TypingError, match="not contiguous"):
            spmm.multiply(indptr, *arguments[:3], rows, arguments[3])
    for one, two, three in ((float, np.float32, float), (np.float32, float, float), (np.float32, np.float32, float)):
        with pytest.raises(TypingError, match="do not go together"):
            spmm.multiply(indptr, columns, values.astype(one), dense.astype(two), rows, out.astype(three))


def test_numpy_does_the_same_where_numba_may_not_compile():
    code = """
import numpy as np
import taciturn
agent = taciturn.make("viewucb", arms=3, seed=0)
for step in range(8):
    decision = agent.decide({"u": float(step % 3), f"w{step}": 1.0})
    agent.feedback(decision.id, float(decision.arm == step % 3))
print(*np.round(decision.scores, 4))
"""
    printed = printed_with_and_without_numba(code)
    assert printed[0] == printed[1] != ""
