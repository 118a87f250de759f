"""The exponential of numbers that are not positive, without a call or a branch: loops over it become vector code.

``exp(x) = 2ᵏ · exp(r)`` with k the integer nearest to x / ln 2, so that |r| ≤ ln 2 / 2, where the Taylor series of
exp to the power 13 is as good as double precision. Every result has the same bits, in a vector or alone.
"""

import numpy as np

from taciturn.kernels.jit import inner_kernel

LOWEST = -708.0
"""The exponential of less, which is hardly a normal number, counts as 0."""

PER_LN2 = 1.4426950408889634
LN2, LN2_REST = 0.6931471803691238, 1.9082149292705877e-10
"""ln 2 as a sum; the first has 20 zeros at its end, so that its product with any k here is exact."""

ROUNDER = 6755399441055744.0  # 1.5 · 2^52
"""A number added to this one is rounded to an integer, which then is in the last bits of the sum."""

BIAS, MANTISSA = 1023, 52


@inner_kernel
def exp_of_negative(x: float) -> float:
    """Return exp(x) of a number that is at most 0 and not NaN, to the last bit or the one before."""
    shifted = max(x, LOWEST) * PER_LN2 + ROUNDER
    k = shifted - ROUNDER
    r = (max(x, LOWEST) - k * LN2) - k * LN2_REST
    series = 1.0 / 6227020800.0
    series = series * r + 1.0 / 479001600.0
    series = series * r + 1.0 / 39916800.0
    series = series * r + 1.0 / 3628800.0
    series = series * r + 1.0 / 362880.0
    series = series * r + 1.0 / 40320.0
    series = series * r + 1.0 / 5040.0
    series = series * r + 1.0 / 720.0
    series = series * r + 1.0 / 120.0
    series = series * r + 1.0 / 24.0
    series = series * r + 1.0 / 6.0
    series = series * r + 0.5
    power = np.int64(np.float64(shifted).view(np.int64) + BIAS << MANTISSA).view(np.float64)
    return power * (series * r * r + r + 1.0) * (x >= LOWEST)
