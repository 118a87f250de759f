import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.kernels import select

numbers = st.one_of(st.floats(-2, 2), st.sampled_from([1.0, 1.0 - 1e-12, 1.0 + 1e-12, 0.0]))


@settings(deadline=None)
@given(
    bounds=st.lists(numbers, min_size=2, max_size=9), counts=st.randoms(use_true_random=False), balance=st.booleans()
)
def test_the_best_arm_is_the_first_or_least_chosen_of_the_highest(bounds, counts, balance):
    chosen = np.array([counts.randrange(3) for _ in bounds])
    top = max(bounds)
    ties = [k for k, bound in enumerate(bounds) if bound >= top - 1e-9 * abs(top)]
    wanted = min(ties, key=lambda k: chosen[k]) if balance else ties[0]
    assert select.argmax_tied(np.array(bounds), 1e-9, chosen, balance) == wanted


def test_no_arm_is_best_where_all_bounds_are_nan():
    assert select.argmax_tied(np.array([np.nan, np.nan]), 1e-9, np.zeros(2, np.int64), True) == -1


@settings(deadline=None)
@given(values=st.lists(st.floats(), max_size=6))
def test_unfit_numbers_are_found(values):
    unfit = [i for i, value in enumerate(values) if not abs(value) <= 1e15]
    assert select.first_invalid(np.array(values, float), 1e15) == (unfit[0] if unfit else -1)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, -0.0, 1.5, -2.0, float("nan"), float("inf")]), max_size=12))
def test_what_is_not_zero_is_kept_in_its_place(values):
    dense = np.array(values, dtype=float)
    columns, kept = select.nonzeros(dense)
    np.testing.assert_array_equal(columns, np.flatnonzero(dense))
    np.testing.assert_array_equal(kept, dense[np.flatnonzero(dense)])
    assert (columns.dtype, kept.dtype) == (np.int32, float)
