"""Steps of ridge regressions over many features, against their formula."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.kernels import wide


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    arms=st.integers(1, 4),
    dimension=st.integers(1, 9),
    size=st.sampled_from([1e-160, 1.0, 1e15]),
    sign=st.sampled_from([1.0, -1.0]),
)
def test_an_example_moves_theta_as_if_covariances_were_diagonal(seed, arms, dimension, size, sign):
    rng = np.random.default_rng(seed)
    theta, squares = rng.normal(size=(dimension, arms)), size**2 * rng.random((dimension, arms))
    x = size * np.where(rng.random(dimension) < 0.7, rng.normal(size=dimension), 0.0)
    if sign < 0:
        squares += (x * x)[:, None]
    targets, first = rng.random(arms), int(rng.integers(arms))
    stop = int(rng.integers(first + 1, arms + 1))
    expected, of = theta.copy(), squares - (sign < 0) * (x * x)[:, None]
    for k in range(first, stop):
        v = x / (0.5 + np.maximum(of[:, k], 0.0))
        expected[:, k] += sign * (targets[k] - theta[:, k] @ x) / (1 + x @ v) * v
    after = squares.copy()
    after[:, first:stop] += sign * (x * x)[:, None]
    columns = np.flatnonzero(x).astype(np.int32)
    np.testing.assert_allclose(wide.means(theta, columns, x[columns]), x @ theta, rtol=1e-9, atol=1e-9 * size)
    wide.move(theta, squares, columns, x[columns], targets, first, stop, 0.5, sign)
    np.testing.assert_allclose(theta, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(squares, np.maximum(after, 0.0), rtol=1e-9, atol=1e-9 * size**2)
