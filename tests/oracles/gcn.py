"""One graph network at a time, dense, in double precision."""

import numpy as np

from taciturn.kernels.gcn import keep


def mask(key, shape, rate, first_column=0):
    """The dropout mask that the kernels draw, scaled; the hash is theirs, everything around it is not."""
    kept = [[keep(key, i, first_column + j, rate) for j in range(shape[1])] for i in range(shape[0])]
    return np.array(kept, dtype=float) / (1.0 - rate)


def input_mask(key, X, rate):
    """The mask on X: an entry's column is its place among the entries of its row."""
    places = np.cumsum(X != 0, axis=1) - 1
    return np.take_along_axis(mask(key, X.shape, rate), np.maximum(places, 0), axis=1)


def softmax(logits):
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def embedding(A_hat, X, W1):
    return A_hat @ np.maximum(A_hat @ X @ W1, 0.0)


def loss_and_gradients(A_hat, X, y, W1, W2, decay, input_mask, hidden_mask):
    """Cross-entropy over the labelled rows of one network, and its gradients, by the chain rule line by line."""
    S = A_hat @ (X * input_mask)
    Z = S @ W1
    H = np.maximum(Z, 0.0) * hidden_mask
    P = softmax(A_hat @ H @ W2)
    rows = np.flatnonzero(y >= 0)
    loss = 0.5 * decay * (W1**2).sum()
    dlogits = np.zeros_like(P)
    if len(rows):
        loss -= np.log(P[rows, y[rows]]).mean()
        dlogits[rows] = P[rows] / len(rows)
        dlogits[rows, y[rows]] -= 1.0 / len(rows)
    dG = A_hat.T @ dlogits
    dH = dG @ W2.T * hidden_mask * (Z > 0)
    return loss, S.T @ dH + decay * W1, H.T @ dG


class Adam:
    """Adam on one array, as printed."""

    def __init__(self, rate):
        self.rate, self.m, self.v, self.t = rate, 0.0, 0.0, 0

    def step(self, weights, gradient):
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        return weights - self.rate * (self.m / (1 - 0.9**self.t)) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)
