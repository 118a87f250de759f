"""One graph convolutional network at a time, dense, in double precision."""

import numpy as np

from taciturn.kernels.gcn import is_kept


def mask(key, shape, rate, first_column=0):
    """Return the dropout mask of the kernels divided by 1 − rate; only the hash is shared with them."""
    kept = [[is_kept(key, i, first_column + j, rate) for j in range(shape[1])] for i in range(shape[0])]
    return np.array(kept, dtype=float) / (1.0 - rate)


def input_mask(key, X, rate):
    """Return the dropout mask on X, where the column hashed for an entry is its index among the nonzeros of its row."""
    indices = np.cumsum(X != 0, axis=1) - 1
    return np.take_along_axis(mask(key, X.shape, rate), np.maximum(indices, 0), axis=1)


def softmax(logits):
    """Return the softmax of each row."""
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def embedding(A_hat, X, W1):
    """Return Â ReLU(Â X W1)."""
    return A_hat @ np.maximum(A_hat @ X @ W1, 0.0)


def loss_and_gradients(A_hat, X, y, W1, W2, decay, input_mask, hidden_mask):
    """Return the loss of one network, ∂loss/∂W1 and ∂loss/∂W2, by the chain rule.

    The loss is the mean cross-entropy over the rows with y ≥ 0 plus decay/2 · ‖W1‖².
    """
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
    """Adam (Kingma and Ba 2015) on one array, as printed in the paper."""

    def __init__(self, rate):
        self.rate, self.m, self.v, self.t = rate, 0.0, 0.0, 0

    def step(self, weights, gradient):
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        return weights - self.rate * (self.m / (1 - 0.9**self.t)) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)
