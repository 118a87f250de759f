"""Views of contexts over a graph as dense features, and ridge regressions on them, one view and arm at a time."""

import numpy as np


def features(A_hat, X, V):
    """Return V arrays (T, D): Â^v X with each row scaled to unit length; rows of length zero stay zero."""
    views = []
    for v in range(V):
        F = np.linalg.matrix_power(A_hat, v) @ X
        lengths = np.linalg.norm(F, axis=1, keepdims=True)
        views.append(np.divide(F, lengths, out=np.zeros_like(F), where=lengths > 0))
    return views


def systems(features, weights, targets, ridge):
    """Yield the normal equations (A, b) of every view and arm, in the order of the columns of θ."""
    for F in features:
        for k in range(weights.shape[1]):
            M = np.diag(weights[:, k].astype(float))
            yield F.T @ M @ F + ridge * np.eye(F.shape[1]), F.T @ M @ targets[:, k]


def solutions(features, weights, targets, ridge):
    """Return θ (D, V·K), solved directly."""
    return np.stack([np.linalg.solve(A, b) for A, b in systems(features, weights, targets, ridge)], axis=1)


def conjugate_gradients(features, weights, targets, ridge, theta, steps):
    """Return θ after `steps` steps of Hestenes and Stiefel (1952), column by column."""
    theta = theta.copy()
    for u, (A, b) in enumerate(systems(features, weights, targets, ridge)):
        x = theta[:, u]
        r = b - A @ x
        p = r.copy()
        for _ in range(steps):
            if not r @ r > 0:
                break
            alpha = (r @ r) / (p @ A @ p)
            x += alpha * p
            new_r = r - alpha * A @ p
            beta = (new_r @ new_r) / (r @ r)
            p = new_r + beta * p
            r = new_r
    return theta
