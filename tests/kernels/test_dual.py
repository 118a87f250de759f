"""Ridge regressions through their examples, against dense ones."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.kernels import dual
from taciturn.kernels.csr import CSR


def rows_of(X):
    matrix = sp.csr_matrix(X)
    return CSR(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def row_of(x):
    columns = np.flatnonzero(x).astype(np.int32)
    return columns, x[columns]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    arms=st.integers(1, 4),
    dimension=st.integers(1, 12),
    changes=st.integers(1, 40),
    weight=st.sampled_from([0.1, 1.0, 10.0]),
    size=st.sampled_from([1e-160, 1e-3, 1.0, 30.0]),
    repeated=st.booleans(),
)
def test_a_history_scores_as_the_ridge_regressions_of_its_examples(
    seed, arms, dimension, changes, weight, size, repeated
):
    rng = np.random.default_rng(seed)
    X = size * np.where(rng.random((changes, dimension)) < 0.6, rng.normal(size=(changes, dimension)), 0.0)
    if repeated:
        X[:] = X[rng.integers(min(changes, 2), size=changes)]
    rows = rows_of(X)
    inverse, targets = np.zeros((arms, changes, changes)), np.zeros((arms, changes))
    masks = np.zeros((changes, arms), np.bool_)
    for slot in range(changes):
        nodes = np.where(masks[:slot].any(axis=1), np.arange(slot), -1)
        if slot and rng.random() < 0.3 and masks.any():
            out = int(rng.choice(np.flatnonzero(masks.any(axis=1))))
            dual.remove_from_history(inverse, masks[out], out, slot)
            masks[out], targets[:, out] = False, 0.0
            nodes[out] = -1
        masks[slot] = rng.permutation(arms) < rng.integers(1, arms + 1)
        targets[:, slot] = np.where(masks[slot], rng.random(arms), 0.0)
        products = dual.row_products(rows, nodes, *row_of(X[slot]), False)
        np.testing.assert_allclose(products, np.where(nodes >= 0, X[:slot] @ X[slot], 0.0), rtol=1e-12, atol=1e-300)
        dual.add_to_history(inverse, masks[slot], products, float(X[slot] @ X[slot]), weight, slot)
    x = size * rng.normal(size=dimension)
    nodes = np.where(masks.any(axis=1), np.arange(changes), -1)
    of = dual.row_products(rows, nodes, *row_of(x), False), float(x @ x), weight
    means, spreads = dual.history_scores(inverse, targets, *of)
    for k in range(arms):
        learned = X[masks[:, k]]
        A = weight * np.eye(dimension) + learned.T @ learned
        theta = np.linalg.solve(A, learned.T @ targets[k, masks[:, k]])
        np.testing.assert_allclose(means[k], theta @ x, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(
            spreads[k], x @ np.linalg.solve(A, x), rtol=1e-4, atol=1e-9 * (x @ x) / weight + 1e-300
        )
