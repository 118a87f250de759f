import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.kernels import ridge


def sparse(x):
    columns = np.flatnonzero(x).astype(np.int32)
    return columns, x[columns]


def test_precision_is_kept_with_unscaled_features():
    """A version that only ever subtracted from the prior lost all digits on a feature of size 1e6."""
    rng = np.random.default_rng(0)
    state, A, b = ridge.new_state(1, 3, 1.0), np.eye(3), np.zeros(3)
    for _ in range(4 * ridge.BLOCK):
        x = np.array([1e6 * (1 + 0.01 * rng.random()), rng.random(), 1.0])
        ridge.update(state, *sparse(x), np.ones(1), np.array([True]), 1.0)
        A += np.outer(x, x)
        b += x
    means, widths = ridge.scores(state, *sparse(x))
    np.testing.assert_allclose(means[0], x @ np.linalg.solve(A, b), rtol=1e-4)
    np.testing.assert_allclose(widths[0] ** 2, x @ np.linalg.solve(A, x), rtol=1e-2)


def random_row(rng, dimension, density):
    return np.where(rng.random(dimension) < density, rng.normal(0, 1, dimension), 0.0)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    dimension=st.integers(1, 80),
    reached=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    size=st.sampled_from([1e-160, 1e-3, 1.0, 1e15]),
)
def test_a_fold_changes_the_rows_and_columns_that_updates_reach_and_no_others(seed, dimension, reached, size):
    rng = np.random.default_rng(seed)
    within = rng.random(dimension) < reached
    pending = np.where(within & (rng.random((ridge.BLOCK, dimension)) < 0.7), rng.normal(size=(ridge.BLOCK, 1)), 0.0)
    pending, gains = size * pending, rng.normal(size=ridge.BLOCK)
    touched = np.outer(pending.any(axis=0), pending.any(axis=0))
    asymmetric = rng.normal(size=(dimension, dimension))
    before = np.where(touched, asymmetric + asymmetric.T, asymmetric)
    folded = before.copy()
    ridge._fold(folded, pending, gains)
    expected = before - (pending.T * gains) @ pending
    np.testing.assert_allclose(folded[touched], expected[touched], rtol=1e-9, atol=1e-9 * (1 + size * size))
    assert np.array_equal(folded[~touched], before[~touched])
    assert np.array_equal(folded[touched], folded.T[touched])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    arms=st.integers(1, 5),
    dimension=st.integers(1, 12),
    changes=st.integers(0, 3 * ridge.BLOCK),
    density=st.sampled_from([0.2, 0.6, 1.0]),
    weight=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_state_equals_the_inverse_after_random_updates_and_downdates(seed, arms, dimension, changes, density, weight):
    rng = np.random.default_rng(seed)
    state = ridge.new_state(arms, dimension, weight)
    A = np.repeat(np.eye(dimension)[None] * weight, arms, axis=0)
    b = np.zeros((arms, dimension))
    learned = []
    for _ in range(changes):
        if learned and rng.random() < 0.3:
            x, mask, targets = learned.pop(rng.integers(len(learned)))
            sign = -1.0
        else:
            x = random_row(rng, dimension, density)
            mask = rng.permutation(arms) < rng.integers(1, arms + 1)
            targets = rng.random(arms)
            learned.append((x, mask, targets))
            sign = 1.0
        ridge.update(state, *sparse(x), sign * targets, mask, sign)
        for k in np.flatnonzero(mask):
            A[k] += sign * np.outer(x, x)
            b[k] += sign * targets[k] * x
    x = random_row(rng, dimension, density)
    means, widths = ridge.scores(state, *sparse(x))
    inverses = np.linalg.inv(A)
    np.testing.assert_allclose(state.theta, np.einsum("kij,kj->ki", inverses, b), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(means, np.einsum("i,kij,kj->k", x, inverses, b), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(widths**2, np.einsum("i,kij,j->k", x, inverses, x), rtol=1e-7, atol=1e-8)
    many = np.stack([x, random_row(rng, dimension, 1.0)])
    for i, found in enumerate(zip(*ridge.dense_scores(state, many), strict=True)):
        np.testing.assert_allclose(found[0], np.einsum("i,kij,kj->k", many[i], inverses, b), rtol=1e-7, atol=1e-7)
        spreads = np.einsum("i,kij,j->k", many[i], inverses, many[i])
        np.testing.assert_allclose(found[1] ** 2, spreads, rtol=1e-7, atol=1e-8)
        for one, two in zip(found, ridge.dense_scores(state, many[i : i + 1]), strict=True):
            np.testing.assert_array_equal(one, two[0])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), before=st.integers(0, 100), after=st.integers(1, 100))
def test_features_added_later_give_the_state_of_features_known_from_the_start(seed, before, after):
    rng = np.random.default_rng(seed)
    narrow, wide = ridge.new_state(2, 4, 1.0), ridge.new_state(2, 7, 1.0)
    for step in range(before + after):
        if step == before:
            narrow = ridge.widened(narrow, 7)
        x = random_row(rng, 4 if step < before else 7, 0.7)
        for state in (narrow, wide):
            ridge.update(state, *sparse(x), np.full(2, x.sum()), np.arange(2) == step % 2, 1.0)
    x = random_row(rng, 7, 1.0)
    np.testing.assert_allclose(ridge.scores(narrow, *sparse(x)), ridge.scores(wide, *sparse(x)), rtol=1e-10)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(0, 20), arms=st.integers(1, 4), size=st.integers(1, 6))
def test_normal_equations_equal_their_formula(seed, steps, arms, size):
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(steps, arms, size)).astype(np.float32)
    rewards = np.where(rng.random((steps, arms)) < 0.5, np.nan, rng.random((steps, arms)))
    covariances, targets = ridge.normal_equations(contexts, rewards, 0.5)
    for k in range(arms):
        members = ~np.isnan(rewards[:, k])
        G = contexts[members, k].astype(float)
        np.testing.assert_allclose(covariances[k], 0.5 * np.eye(size) + G.T @ G, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(targets[k], G.T @ rewards[members, k], rtol=1e-6, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), arms=st.integers(1, 4), dimension=st.integers(1, 6), count=st.integers(0, 40))
def test_learning_at_once_equals_learning_one_by_one(seed, arms, dimension, count):
    rng = np.random.default_rng(seed)
    rows = np.array([random_row(rng, dimension, 0.7) for _ in range(count)]).reshape(count, dimension)
    targets, masks = rng.random((count, arms)), rng.random((count, arms)) < 0.6
    one_by_one, at_once = (ridge.new_state(arms, dimension, 0.5) for _ in range(2))
    for x, target, mask in zip(rows, targets, masks, strict=True):
        ridge.update(one_by_one, *sparse(x), target, mask, 1.0)
    pieces = [
        (rows[first : first + 7], targets[first : first + 7], masks[first : first + 7]) for first in range(0, count, 7)
    ]
    chosen = np.arange(0, arms, 2)
    ridge.fit(at_once, chosen, pieces)
    x = random_row(rng, dimension, 0.7)
    for expected, found in zip(ridge.scores(one_by_one, *sparse(x)), ridge.scores(at_once, *sparse(x)), strict=True):
        np.testing.assert_allclose(found[chosen], expected[chosen], rtol=1e-9, atol=1e-12)
    ridge.update(at_once, *sparse(x), np.ones(arms), np.ones(arms, np.bool_), 1.0)
    ridge.update(one_by_one, *sparse(x), np.ones(arms), np.ones(arms, np.bool_), 1.0)
    for k in chosen:
        np.testing.assert_allclose(ridge.whole_inverse(at_once, k), ridge.whole_inverse(one_by_one, k), atol=1e-9)
