"""Contexts whose scale moves, and histories of all that can happen to a decision."""

import numpy as np

REWARDS = (1.0, 0.0, 0.5, None)


def named(rng, step):
    """Numbers of different units, a word, a text, values that are missing, and a column that comes late."""
    context = {
        "age": float(rng.normal(40, 10)),
        "income": float(rng.lognormal(10)),
        "country": str(rng.choice(["DE", "FR", "US"])),
        "note": " ".join(rng.choice(["good", "bad", "cold", "new"], 3)),
        "rating": None if rng.random() < 0.3 else float(rng.random()),
    }
    if rng.random() < 0.2:
        del context["age"]
    return context | ({"late": float(rng.random())} if step > 25 else {})


def by_position(rng, step):
    """Numbers of different units, one of them mostly 0, one sometimes missing, and one that only varies later."""
    later = 7.0 + (step > 15) * rng.random()
    mostly_zero = rng.choice([0.0, 0.0, 0.0, 3.0])
    numbers = rng.normal(size=2) * [1.0, 1e-3] + [0.0, 5.0]
    return np.array([*np.where(rng.random(2) < 0.1, np.nan, numbers), mostly_zero, later])


KINDS = {"named": named, "by position": by_position}


def feedback_at_random(rng, agents, ids):
    """The same feedback, corrections and withdrawals for each of some agents that hold the same decisions."""
    for _ in range(rng.integers(3)):
        id = int(rng.choice(ids))
        if id not in agents[0].decisions:
            continue
        if rng.random() < 0.1:
            for agent in agents:
                agent.withdraw(id)
        else:
            reward = REWARDS[rng.integers(len(REWARDS))]
            for agent in agents:
                agent.feedback(id, reward)
