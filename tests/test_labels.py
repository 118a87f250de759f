"""Labels beside lines: apart, in the order of their lines, inside, and as near to them as that allows."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taciturn.labels import place_labels

HEIGHTS = st.lists(st.floats(-20, 120), min_size=1, max_size=12)


def nearest(heights, gap, low, high):
    """The oracle: the least sum of squared moves over all ways to say which labels stand side by side.

    Those that do move as one, and each such group is best where its mean move is 0, or at an end.
    """
    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(len(heights))
    wanted = np.asarray(heights)[order] - steps
    found, least = None, np.inf
    for are_apart in product([False, True], repeat=len(wanted) - 1):
        groups = np.split(wanted, np.flatnonzero(are_apart) + 1)
        at = np.concatenate([np.full(len(group), np.clip(group.mean(), low, high - steps[-1])) for group in groups])
        moved = np.sum((at - wanted) ** 2)
        if moved < least and (np.diff(at) >= 0).all():
            found, least = at, moved
    placed = np.empty(len(heights))
    placed[order] = found + steps
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
    np.testing.assert_allclose(placed, best, atol=1e-9)


@given(HEIGHTS, st.floats(0.5, 30))
def test_labels_that_fit_are_at_their_lines(heights, gap):
    apart = np.diff(np.sort(heights))
    if apart.min(initial=np.inf) >= gap and min(heights) >= 0 and max(heights) <= 100:
        np.testing.assert_allclose(place_labels(heights, gap, 0, 100), heights, atol=1e-9)


def test_no_labels_have_no_heights():
    assert place_labels([], 1, 0, 1).shape == (0,)
