"""Products of a sparse matrix, or of its transpose, with a dense one.

Sums keep the order of the nonzeros and are fused where the processor can (see `vectors`): equal inputs give equal bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import kernel
from taciturn.kernels.vectors import add_rows, spread_row

Real = NDArray[Any]

GROUP = 64
"""So many columns of all rows are made before the next: as much of the dense matrix as stays in the caches."""


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
    for first in range(0, out.shape[1], GROUP):
        last = min(first + GROUP, out.shape[1])
        for i in range(rows.shape[0]):
            if rows[i]:
                add_rows(values, columns, dense, out, indptr[i], indptr[i + 1], i, first, last)


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
