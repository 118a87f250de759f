"""The nearest of several centers."""

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import kernel


@kernel
def nearest(
    columns: NDArray[np.int32], values: NDArray[np.float64], centers: NDArray[np.float64], norms: NDArray[np.float64]
) -> int:
    """Return the index of the center (D,) of ``centers`` (C, D) that is nearest to a sparse row x; of equals the first.

    It minimizes ``‖c‖² − 2 c·x``, with ``‖c‖²`` (C,) in ``norms`` and the products added in the order of x's entries.
    """
    label, least = 0, np.finfo(np.float64).max
    for j in range(centers.shape[0]):
        product = 0.0
        for p in range(columns.shape[0]):
            product += centers[j, columns[p]] * values[p]
        distance = norms[j] - 2.0 * product
        if distance < least:
            least, label = distance, j
    return label
