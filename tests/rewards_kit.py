"""Data with a reward for every arm, and what its arms are worth, computed by hand."""

import math

import numpy as np

from taciturn.contracts import Dataset

ARMS = ["cheap", "fair", "dear"]


def graded_data(rows=60, seed=0, *, costs=True, edges=None, contexts=None, name="graded", decimals=2):
    """Contexts in three dimensions, of which each says how good one arm is; the dearer arms are better."""
    rng = np.random.default_rng(seed)
    X = rng.random((rows, len(ARMS)))
    rewards = np.round(np.clip(0.7 * X + np.array([0.0, 0.1, 0.2]) + 0.05 * rng.normal(size=X.shape), 0, 1), decimals)
    prices = 10.0 ** np.arange(len(ARMS)) * rng.uniform(0.5, 2.0, X.shape) if costs else None
    right = rewards.argmax(axis=1)
    return Dataset(name, X if contexts is None else contexts, right, ARMS, edges, rewards=rewards, costs=prices)


def worth_by_hand(data, cost_weight=0.0):
    """The utilities of all rows as lists, one number after the other."""
    arms = range(len(data.arms))
    parts = [0.0 for _ in arms]
    if cost_weight:
        logs = [math.log(sum(data.costs[:, k].tolist()) / len(data)) for k in arms]
        least, most = min(logs), max(logs)
        parts = [(log - least) / (most - least) if most - least > 1e-9 else 0.0 for log in logs]
    rows = data.rewards.tolist()
    return [[min(1.0, max(0.0, row[k] - cost_weight * parts[k])) for k in arms] for row in rows]
