"""One example of ridge regressions over many features: what does not need more than its entries."""

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import fast_kernel

Floats = NDArray[np.float64]
Columns = NDArray[np.int32]


@fast_kernel
def means(theta: Floats, columns: Columns, values: Floats) -> Floats:
    """``θ_kᵀx`` (K,) of a context, from θ (D, K)."""
    found = np.zeros(theta.shape[1])
    for entry in range(columns.shape[0]):
        row, value = theta[columns[entry]], values[entry]
        for k in range(found.shape[0]):
            found[k] += value * row[k]
    return found


@fast_kernel
def move(
    theta: Floats,
    squares: Floats,
    columns: Columns,
    values: Floats,
    targets: Floats,
    first: int,
    stop: int,
    ridge: float,
    sign: float,
) -> None:
    """Move θ (D, K) by an example that comes (`sign` 1) or goes (−1), for the arms ``first … stop−1``, in place.

    With ``A = λI + diag(squares)`` without the example, ``v = A⁻¹x`` and ``q = xᵀv`` it is
    ``θ += sign · (β − θᵀx)/(1 + q) · v``; its squares are added, or subtracted.
    """
    mean, quadratic = np.zeros(stop), np.zeros(stop)
    for entry in range(columns.shape[0]):
        c, value = columns[entry], values[entry]
        square = value * value
        for k in range(first, stop):
            if sign < 0.0:
                squares[c, k] = max(squares[c, k] - square, 0.0)  # rounding must not push it below zero
            mean[k] += theta[c, k] * value
            quadratic[k] += square / (ridge + squares[c, k])
    for entry in range(columns.shape[0]):
        c, value = columns[entry], values[entry]
        for k in range(first, stop):
            step = sign * (targets[k] - mean[k]) / (1.0 + quadratic[k])
            theta[c, k] += step * value / (ridge + squares[c, k])
            if sign > 0.0:
                squares[c, k] += value * value
