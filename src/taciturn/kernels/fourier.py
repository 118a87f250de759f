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
def fourier_row(
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    frequencies: Singles,
    phases: Singles,
    bandwidth: float,
    out: Singles,
) -> None:
    """Write the features (F,) of a row; columns beyond the D that have frequencies do not count."""
    angles = np.empty(phases.shape[0])
    for f in range(angles.shape[0]):
        angles[f] = phases[f]
    for entry in range(columns.shape[0]):
        if columns[entry] < frequencies.shape[0]:
            value, of_column = values[entry] / bandwidth, frequencies[columns[entry]]
            for f in range(angles.shape[0]):
                angles[f] += value * of_column[f]
    norm2 = 0.0
    for f in range(angles.shape[0]):
        angles[f] = np.cos(angles[f])
        norm2 += angles[f] * angles[f]
    scale = 1.0 / np.sqrt(norm2) if norm2 > 0.0 else 0.0
    for f in range(angles.shape[0]):
        out[f] = angles[f] * scale


@kernel
def fourier_rows(rows: CSR, frequencies: Singles, phases: Singles, bandwidth: float, out: Singles) -> None:
    """Write the features (N, F) of N rows, each as `fourier_row` does."""
    for row in range(rows.indptr.shape[0] - 1):
        start, stop = rows.indptr[row], rows.indptr[row + 1]
        fourier_row(rows.columns[start:stop], rows.values[start:stop], frequencies, phases, bandwidth, out[row])


@kernel
def taken(rows: Singles, chosen: NDArray[np.int64]) -> Singles:
    """Some rows (N, F), copied while other threads go on: they are megabytes."""
    copied = np.empty((chosen.shape[0], rows.shape[1]), np.float32)
    for i in range(chosen.shape[0]):
        for f in range(rows.shape[1]):
            copied[i, f] = rows[chosen[i], f]
    return copied


@kernel
def squared_distances(rows: CSR, chosen: NDArray[np.int64], dimension: int) -> NDArray[np.float64]:
    """``‖x_i − x_j‖²`` of all pairs i < j of some rows, over the first `dimension` columns."""
    count = chosen.shape[0]
    found, at = np.zeros(count * (count - 1) // 2), 0
    dense = np.zeros(dimension)
    for i in range(count):
        own = 0.0
        for p in range(rows.indptr[chosen[i]], rows.indptr[chosen[i] + 1]):
            if rows.columns[p] < dimension:
                dense[rows.columns[p]] = rows.values[p]
                own += rows.values[p] * rows.values[p]
        for j in range(i + 1, count):
            squared = own
            for p in range(rows.indptr[chosen[j]], rows.indptr[chosen[j] + 1]):
                if rows.columns[p] < dimension:
                    x = dense[rows.columns[p]]
                    squared += (rows.values[p] - x) ** 2 - x * x
            found[at] = max(squared, 0.0)
            at += 1
        for p in range(rows.indptr[chosen[i]], rows.indptr[chosen[i] + 1]):
            if rows.columns[p] < dimension:
                dense[rows.columns[p]] = 0.0
    return found
