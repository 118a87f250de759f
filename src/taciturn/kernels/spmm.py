"""Products of a sparse matrix, or of its transpose, with a dense one.

Sums keep the order of the nonzeros and are fused where the processor can (see `vectors`): equal inputs give equal bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import kernel
from taciturn.kernels.vectors import lanes

Real = NDArray[Any]

GROUP = 64
"""So many columns of all rows are made before the next: as much of the dense matrix as stays in the caches."""

MANY, SOME, FEW = 32, 16, 4
"""How many columns of a row are made at once."""

_add_many, _spread_many = lanes(MANY)
_add_some, _spread_some = lanes(SOME)
_add_few, _spread_few = lanes(FEW)
_add_one, _spread_one = lanes(1)


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
            if not rows[i]:
                continue
            u, start, stop = first, indptr[i], indptr[i + 1]
            while u + MANY <= last:
                _add_many(values, columns, dense, out, start, stop, i, u)
                u += MANY
            while u + SOME <= last:
                _add_some(values, columns, dense, out, start, stop, i, u)
                u += SOME
            while u + FEW <= last:
                _add_few(values, columns, dense, out, start, stop, i, u)
                u += FEW
            while u < last:
                _add_one(values, columns, dense, out, start, stop, i, u)
                u += 1


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
            if not rows[i]:
                continue
            u, start, stop = first, indptr[i], indptr[i + 1]
            while u + MANY <= last:
                _spread_many(values, columns, dense, out, start, stop, i, u)
                u += MANY
            while u + SOME <= last:
                _spread_some(values, columns, dense, out, start, stop, i, u)
                u += SOME
            while u + FEW <= last:
                _spread_few(values, columns, dense, out, start, stop, i, u)
                u += FEW
            while u < last:
                _spread_one(values, columns, dense, out, start, stop, i, u)
                u += 1
