"""The sparse matrix that kernels take: compressed sparse rows (CSR)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class CSR(NamedTuple):
    """A sparse matrix: row i has ``values[indptr[i]:indptr[i+1]]`` in ``columns[indptr[i]:indptr[i+1]]``."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[Any]
