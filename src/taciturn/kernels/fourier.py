"""Random Fourier features of sparse rows (Rahimi and Recht 2007): dot products approximate a Gaussian kernel.

For frequencies W (D, F) of independent normals and phases b (F,), uniform from 0 to 2π, row x has the features
``cos(xᵀW/h + b)`` at unit length; the expected dot product of two rows is about ``exp(−‖x − x'‖² / 2h²)``.
"""

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import kernel

Singles = NDArray[np.float32]


@kernel
def _write_features(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    frequencies: Singles,
    phases: Singles,
    bandwidth: float,
    out: Singles,
    angles: NDArray[np.float64],
) -> None:
    """See `fourier_rows`; ``angles`` (F,) are those of a row."""
    for row in range(indptr.shape[0] - 1):
        for f in range(angles.shape[0]):
            angles[f] = phases[f]
        for p in range(indptr[row], indptr[row + 1]):
            c, value = columns[p], values[p] / bandwidth
            if c < frequencies.shape[0]:
                for f in range(angles.shape[0]):
                    angles[f] += value * frequencies[c, f]
        norm2 = 0.0
        for f in range(angles.shape[0]):
            angles[f] = np.cos(angles[f])
            norm2 += angles[f] * angles[f]
        scale = 1.0 / np.sqrt(norm2) if norm2 > 0.0 else 0.0
        for f in range(angles.shape[0]):
            out[row, f] = angles[f] * scale


def fourier_rows(rows: CSR, frequencies: Singles, phases: Singles, bandwidth: float, out: Singles) -> None:
    """Write the features (N, F) of N rows; columns beyond the D that have frequencies do not count."""
    _write_features(*rows, frequencies, phases, bandwidth, out, np.empty(len(phases)))


def squared_distances(rows: CSR, chosen: NDArray[np.int64], dimension: int) -> NDArray[np.float64]:
    """``‖x_i − x_j‖²`` of all pairs i < j of some rows, over the first `dimension` columns."""
    dense = np.zeros((len(chosen), dimension))
    for x, row in zip(dense, chosen, strict=True):
        entries = slice(rows.indptr[row], rows.indptr[row + 1])
        columns, values = rows.columns[entries], rows.values[entries]
        x[columns[columns < dimension]] = values[columns < dimension]
    found = [np.square(dense[i + 1 :] - x).sum(axis=1) for i, x in enumerate(dense)]
    return np.concatenate([np.zeros(0), *found])
