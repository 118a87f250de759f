"""Products of a sparse matrix, or of its transpose, with a dense one.

Sums keep the order of the nonzeros and are fused where the processor can (see `vectors`): equal inputs give equal bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.fetching import fetch_line
from taciturn.kernels.jit import inner_kernel, kernel
from taciturn.kernels.vectors import add_rows, spread_row

Real = NDArray[Any]

GROUP = 64
"""So many columns of all rows are made before the next: as much of the dense matrix as stays in the caches."""

LARGE, AHEAD = 2**23, 3
"""Of a dense matrix of more bytes, which is not in the caches, rows are fetched that are needed so many rows later."""


@kernel
def multiply(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: Real,
    dense: Real,
    rows: NDArray[np.bool_],
    out: Real,
) -> None:
    """Write a sparse matrix times ``dense`` (·, U) to ``out`` (·, U) in the masked rows; the others are left alone."""
    count = rows.shape[0]
    fetched = count - AHEAD if dense.size * dense.itemsize > LARGE else 0
    for first in range(0, out.shape[1], GROUP):
        last = min(first + GROUP, out.shape[1])
        for i in range(count):
            if i < fetched:
                _fetch_columns(dense, columns[indptr[i + AHEAD] : indptr[i + AHEAD + 1]], first, last)
            if rows[i]:
                add_rows(values, columns, dense, out, indptr[i], indptr[i + 1], i, first, last)


@inner_kernel
def _fetch_columns(dense: Real, rows: NDArray[np.int32], first: int, last: int) -> None:
    """Let some columns of some rows be fetched: where they begin, and where they end, which is often the next line."""
    for row in rows:
        fetch_line(dense, np.int64(row), first * dense.itemsize)
        fetch_line(dense, np.int64(row), last * dense.itemsize - 1)


@kernel
def multiply_transposed(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: Real,
    dense: Real,
    rows: NDArray[np.bool_],
    out: Real,
) -> None:
    """Add the transpose of a sparse matrix (T, ·) times ``dense`` (T, U), in the masked rows, to ``out`` (·, U)."""
    for first in range(0, out.shape[1], GROUP):
        last = min(first + GROUP, out.shape[1])
        for i in range(rows.shape[0]):
            if rows[i]:
                spread_row(values, columns, dense, out, indptr[i], indptr[i + 1], i, first, last)
