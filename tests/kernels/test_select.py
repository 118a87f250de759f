import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.kernels import select

numbers = st.one_of(st.floats(-2, 2), st.sampled_from([1.0, 1.0 - 1e-12, 1.0 + 1e-12, 0.0]))


@settings(deadline=None)
@given(
    bounds=st.lists(numbers, min_size=2, max_size=9), counts=st.randoms(use_true_random=False), balance=st.booleans()
)
def test_argmax_returns_the_first_or_least_chosen_of_the_tied_arms(bounds, counts, balance):
    chosen = np.array([counts.randrange(3) for _ in bounds])
    highest = max(bounds)
    ties = [k for k, bound in enumerate(bounds) if bound >= highest - 1e-9 * abs(highest)]
    expected = min(ties, key=lambda k: chosen[k]) if balance else ties[0]
    assert select.argmax_tied(np.array(bounds), 1e-9, chosen, balance) == expected


@pytest.mark.parametrize("bounds", [[np.nan, np.nan], [np.nan, 1.0], [1.0, np.nan]])
def test_argmax_returns_minus_one_if_a_bound_is_nan(bounds):
    assert select.argmax_tied(np.array(bounds), 1e-9, np.zeros(2, np.int64), True) == -1


@settings(deadline=None)
@given(values=st.lists(st.floats(), max_size=6), nan=st.booleans())
def test_first_invalid_finds_nan_infinity_and_values_above_the_limit(values, nan):
    invalid = [i for i, value in enumerate(values) if not abs(value) <= 1e15 and not (nan and np.isnan(value))]
    assert select.first_invalid(np.array(values, float), 1e15, nan) == (invalid[0] if invalid else -1)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, -0.0, 1.5, -2.0, 5e-324, float("nan"), float("inf")]), max_size=12))
def test_nonzeros_equal_numpy_nan_and_infinity_included(values):
    dense = np.array(values, dtype=float)
    columns, found = select.nonzeros(dense)
    np.testing.assert_array_equal(columns, np.flatnonzero(dense))
    np.testing.assert_array_equal(found, dense[np.flatnonzero(dense)])
    assert (columns.dtype, found.dtype) == (np.int32, float)
