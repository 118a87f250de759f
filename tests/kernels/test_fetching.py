"""Rows that are fetched ahead: a hint that changes nothing, whatever row is named."""

import numba
import numpy as np
import pytest

from process_kit import printed_with_and_without_numba
from taciturn.kernels.fetching import fetch


@numba.njit
def fetched(matrix, rows):
    for row in rows:
        fetch(matrix, row)
    return matrix.sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4, 30), (2, 1000)])
def test_any_row_may_be_fetched(dtype, shape):
    matrix = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    before = matrix.copy()
    total = fetched(matrix, np.array([0, 1, -1, shape[0], 2**31, -(2**40), 2**62]))
    assert total == before.sum()
    np.testing.assert_array_equal(matrix, before)


def test_the_processor_is_asked_for_rows():
    fetched(np.zeros((1, 1)), np.zeros(1, np.int64))
    assert all("prefetch" in assembly or "prfm" in assembly for assembly in fetched.inspect_asm().values())


def test_searches_work_where_numba_may_not_compile():
    code = """
import numpy as np
from taciturn.kernels.csr import CSR
from taciturn.kernels.search import Layer, marks_of, points_of, search
X = np.random.default_rng(0).random((9, 4)).astype(np.float32)
rows = CSR(np.arange(10) * 4, np.tile(np.arange(4, dtype=np.int32), 9), X.reshape(-1))
order = np.argsort(((X[:, None] - X[None]) ** 2).sum(axis=2), axis=1)[:, 1:4].astype(np.int32)
lists, nobody = np.where(order < 8, order, -1)[:8], np.full((8, 48), -1, np.int32)
layer = Layer(np.arange(8, dtype=np.int32), lists, nobody, np.ones(8), marks_of(np.ones(8)))
found = search(layer, points_of(rows, 4), 8, np.array([0]), 8, 3, np.zeros(4))
print(sorted(found.nodes.tolist()))
"""
    printed = printed_with_and_without_numba(code)
    assert printed[0] == printed[1] != ""
