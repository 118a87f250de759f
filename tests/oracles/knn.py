"""The k-NN graph and its normalised adjacency, from scratch and dense."""

import numpy as np


def nearest(X, k):
    """Each row's k nearest others, the earlier first among equals, and the squared distances."""
    distances = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, axis=1)


def similarity(X, k):
    """The symmetric weights A of the paper, with σ the mean distance to the k-th neighbour."""
    count = len(X)
    k = min(k, count - 1)
    A = np.zeros((count, count))
    if k < 1:
        return A
    order, distances = nearest(X, k)
    sigma = np.sqrt(distances[:, -1]).mean()
    for i in range(count):
        for j, squared in zip(order[i], distances[i], strict=True):
            A[i, j] = np.exp(-squared / sigma**2) if sigma > 0 else 1.0
    return np.maximum(A, A.T)


def given(edges, count):
    A = np.zeros((count, count))
    for a, b in edges:
        A[a, b] = A[b, a] = 1.0
    return A


def normalized(A):
    """(D+I)^(-1/2) (A+I) (D+I)^(-1/2)."""
    scale = np.diag(1.0 / np.sqrt(A.sum(axis=1) + 1.0))
    return scale @ (A + np.eye(len(A))) @ scale
