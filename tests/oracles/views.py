"""The views of contexts over a graph, written down as dense features, and regressions on them one arm at a time."""

import numpy as np


def features(A_hat, X, V):
    """View v: Â^v X, each row at unit length."""
    found = []
    for v in range(V):
        F = np.linalg.matrix_power(A_hat, v) @ X
        lengths = np.linalg.norm(F, axis=1, keepdims=True)
        found.append(np.divide(F, lengths, out=np.zeros_like(F), where=lengths > 0))
    return found


def systems(features, weights, targets, ridge):
    """The normal equations of every view and arm, in the order of the columns of θ."""
    for F in features:
        for k in range(weights.shape[1]):
            M = np.diag(weights[:, k].astype(float))
            yield F.T @ M @ F + ridge * np.eye(F.shape[1]), F.T @ M @ targets[:, k]


def solutions(features, weights, targets, ridge):
    return np.stack([np.linalg.solve(A, b) for A, b in systems(features, weights, targets, ridge)], axis=1)


def conjugate_gradients(features, weights, targets, ridge, theta, steps):
    """Hestenes and Stiefel (1952), column by column."""
    theta = theta.copy()
    for u, (A, b) in enumerate(systems(features, weights, targets, ridge)):
        x = theta[:, u]
        r = b - A @ x
        p = r.copy()
        for _ in range(steps):
            if not r @ r > 0:
                break
            pace = (r @ r) / (p @ A @ p)
            x += pace * p
            new = r - pace * A @ p
            p = new + (new @ new) / (r @ r) * p
            r = new
    return theta
