"""Slow, obvious versions of `taciturn.kernels.minibatch`."""

import numpy as np

from oracles import gcn

UNIT = 2**18


def sums(embeddings, rewards):
    """Σ g gᵀ (K, L, L) and Σ r g (K, L) as lists of Python's whole numbers, which never overflow or round."""
    _, arms, size = embeddings.shape
    squares = [[[0] * size for _ in range(size)] for _ in range(arms)]
    products = [[0] * size for _ in range(arms)]
    for k in range(arms):
        for vector, reward in zip(embeddings[:, k].astype(float), rewards[:, k], strict=True):
            norm = np.sqrt(sum(value * value for value in vector))
            if np.isnan(reward) or not 0 < norm < np.inf:
                continue
            g = [int(np.rint(value * (UNIT / norm))) for value in vector]
            r = int(np.rint(reward * UNIT))
            for a in range(size):
                products[k][a] += r * g[a]
                for b in range(size):
                    squares[k][a][b] += g[a] * g[b]
    return squares, products


def sampled_loss_and_gradients(starts, weights, inputs, y, scale, W1, W2, decay):
    """The loss of one network on sampled trees, ∂loss/∂W1 and ∂loss/∂W2, without dropout of hidden units.

    Row r of ``inputs`` (R, D) is ÂX of a context of the batch or of a neighbor; those from ``starts[s]`` to
    ``starts[s+1]`` belong to the s-th context, whose label is ``y[s]``, with the ``weights`` (R,).
    """
    trees = np.zeros((len(y), len(inputs)))
    for s in range(len(y)):
        trees[s, starts[s] : starts[s + 1]] = weights[starts[s] : starts[s + 1]]
    Z = inputs @ W1
    H = np.maximum(Z, 0.0)
    P = gcn.softmax(trees @ H @ W2)
    rows = np.flatnonzero(y >= 0)
    loss = 0.5 * decay * (W1**2).sum() - scale * np.log(P[rows, y[rows]]).sum()
    errors = np.zeros_like(P)
    errors[rows] = scale * P[rows]
    errors[rows, y[rows]] -= scale
    back = trees.T @ errors
    return loss, inputs.T @ (back @ W2.T * (Z > 0)) + decay * W1, H.T @ back
