"""Sparse matrices as kernels take them: compressed sparse rows (CSR)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class CSR(NamedTuple):
    """A sparse matrix: row i is ``columns[indptr[i]:indptr[i+1]]`` with ``values`` alongside."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[Any]
