"""The exponential of numbers that are not positive, compared with decimals of 40 digits."""

import math
from decimal import Context

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from process_kit import printed_with_and_without_numba
from taciturn.kernels.exponential import LOWEST, exp_of_negative
from taciturn.kernels.jit import kernel

numbers = st.floats(-800.0, 0.0) | st.floats(-1.0, 0.0) | st.floats(max_value=0.0, allow_nan=False)

PRINTED = """
import numba
from taciturn.kernels.exponential import exp_of_negative
exponential = numba.njit(lambda x: exp_of_negative(x))
print([float(exponential(-x * 7.1)) for x in range(110)])
"""


@kernel
def exponentials(numbers):
    """Those of an array: a loop that is compiled to vector code."""
    out = np.empty(len(numbers))
    for i in range(len(numbers)):
        out[i] = exp_of_negative(numbers[i])
    return out


@settings(max_examples=300)
@given(st.lists(numbers, min_size=1, max_size=40))
@example([0.0, -0.0, -5e-324, -1e-160, LOWEST, -1e15, -1e308, -math.inf])
def test_it_is_the_exponential_to_the_last_bit_or_the_one_before(given_numbers):
    for x, made in zip(given_numbers, exponentials(np.array(given_numbers)), strict=True):
        exact = Context(prec=40).exp(Context().create_decimal_from_float(x)) if x >= LOWEST else 0
        assert abs(float(exact) - made) <= np.spacing(float(exact)) * (x >= LOWEST), x


@settings(max_examples=100)
@given(st.lists(numbers, min_size=1, max_size=40))
def test_a_number_has_the_same_bits_alone_and_among_others(given_numbers):
    alone = [exponentials(np.array([x]))[0] for x in given_numbers]
    np.testing.assert_array_equal(exponentials(np.array(given_numbers)), alone)


def test_it_falls_with_its_argument():
    rising = np.sort(-np.abs(np.random.default_rng(0).normal(size=100_000) * 100))
    assert (np.diff(exponentials(rising)) >= 0).all()


def test_it_is_the_same_without_numba():
    with_numba, without = printed_with_and_without_numba(PRINTED)
    assert with_numba == without
