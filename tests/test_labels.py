"""Labels beside lines: apart, in the order of their lines, inside, and as near to them as that allows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from taciturn.labels import place_labels

HEIGHTS = st.lists(st.floats(-20, 120), min_size=1, max_size=12)


def nearest(heights, gap, low, high):
    """The oracle: the least sum of squared moves, solved in the distances between labels, which are `gap` at least."""
    order = np.argsort(heights, kind="stable")
    count = len(heights)
    sums = np.tril(np.ones((count, count)))  # a label is the lowest one and the distances up to it
    target = np.asarray(heights)[order] - low
    most = high - low - gap * (count - 1)
    # With slack as a last distance that fills the range: the sum of all distances is `most`.
    weight = 1e5
    rows = np.vstack([np.hstack([sums, np.zeros((count, 1))]), weight * np.ones((1, count + 1))])
    wanted = np.concatenate([target - gap * np.arange(count), [weight * most]])
    found = lsq_linear(rows, wanted, bounds=(0, np.inf), tol=1e-14).x[:count]
    placed = np.empty(count)
    placed[order] = low + sums @ found + gap * np.arange(count)
    return placed


@given(HEIGHTS, st.floats(0.5, 30))
def test_labels_keep_their_order_do_not_overlap_and_stay_inside(heights, gap):
    placed = place_labels(heights, gap, 0, 100)
    order = np.argsort(heights, kind="stable")
    room = min(gap, 100 / max(len(heights) - 1, 1))
    assert np.all(np.diff(placed[order]) >= room - 1e-9)
    assert placed.min() >= -1e-9
    assert placed.max() <= 100 + 1e-9


@given(st.lists(st.floats(0, 100).map(lambda height: round(height, 3)), min_size=1, max_size=6), st.floats(0.5, 15))
def test_no_other_placement_is_nearer(heights, gap):
    placed, best = (place(heights, gap, 0, 100) for place in (place_labels, nearest))
    moved, least = (np.sum((np.asarray(at) - heights) ** 2) for at in (placed, best))
    assert moved <= least + 1e-3
    np.testing.assert_allclose(placed, best, atol=0.05)


@given(HEIGHTS, st.floats(0.5, 30))
def test_labels_that_fit_are_at_their_lines(heights, gap):
    apart = np.diff(np.sort(heights))
    if apart.min(initial=np.inf) >= gap and min(heights) >= 0 and max(heights) <= 100:
        np.testing.assert_allclose(place_labels(heights, gap, 0, 100), heights, atol=1e-9)


def test_no_labels_have_no_heights():
    assert place_labels([], 1, 0, 1).shape == (0,)
