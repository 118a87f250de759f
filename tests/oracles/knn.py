"""The k-nearest-neighbor graph and its normalized adjacency, from scratch and dense."""

import numpy as np


def nearest(X, k):
    """Return the k nearest other rows of each row (T, k), the lower index first among equals, and squared distances.

    Summed column by column, as the kernels do, because the order of summation decides between nearly equal distances.
    """
    distances = np.zeros((len(X), len(X)))
    for column in X.T:
        distances += (column[:, None] - column[None, :]) ** 2
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, axis=1)


def similarity(X, k):
    """Return the symmetric weights A of the paper, with σ the mean distance to the k-th neighbor.

    The quotient is taken in extended precision, where σ² does not underflow.
    """
    count = len(X)
    k = min(k, count - 1)
    A = np.zeros((count, count))
    if k < 1:
        return A
    order, distances = nearest(X, k)
    sigma = np.sqrt(distances[:, -1]).mean()
    for i in range(count):
        for j, squared in zip(order[i], distances[i], strict=True):
            A[i, j] = np.exp(-np.longdouble(squared) / np.longdouble(sigma) ** 2) if sigma > 0 else 1.0
    return np.maximum(A, A.T)


def given(edges, count):
    """Return the symmetric adjacency (count, count) of the given edges, each of weight 1."""
    A = np.zeros((count, count))
    for a, b in edges:
        A[a, b] = A[b, a] = 1.0
    return A


def normalized(A):
    """Return (D+I)^(-1/2) (A+I) (D+I)^(-1/2), where D is the diagonal of row sums of A."""
    scale = np.diag(1.0 / np.sqrt(A.sum(axis=1) + 1.0))
    return scale @ (A + np.eye(len(A))) @ scale
