"""Random Fourier features and their bandwidth, written out in double precision."""

import numpy as np


def draws(seed, D, F=256, block=64):
    """Frequencies (D, F) and phases (F,): blocks of features have generators of their own."""
    blocks = [
        np.random.default_rng([seed, 8, 1 + b]).standard_normal((block, F), np.float32) for b in range(-(-D // block))
    ]
    phases = np.random.default_rng([seed, 8, 0]).uniform(0, 2 * np.pi, F).astype(np.float32)
    return np.concatenate(blocks)[:D].astype(float), phases.astype(float)


def features(X, frequencies, phases, bandwidth):
    """(T, F), each row at unit length."""
    rows = np.cos(X[:, : len(frequencies)] @ frequencies / bandwidth + phases)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def bandwidth(X, sample=64):
    """The median distance between pairs of different contexts in an even sample."""
    chosen = X[np.unique(np.linspace(0, len(X) - 1, min(len(X), sample)).astype(int))]
    distances = [np.linalg.norm(a - b) for i, a in enumerate(chosen) for b in chosen[i + 1 :]]
    distances = [distance for distance in distances if distance > 1e-9]
    return float(np.median(distances)) if distances else 1.0
