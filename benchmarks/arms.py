"""2000 arms and 500 features: time, memory and right decisions.

python benchmarks/arms.py [--short] [--only linucb,vw]

Each arm has a topic, 20 of the features; a context has half of those of its right arm and 10 of any. One labelled
context of each arm comes before the first decision.
"""

import numpy as np
from common import SEED, versions
from race import SILENT, race

ARMS, FEATURES, TOPIC, OWN, ENTRIES, STEPS = 2000, 500, 20, 10, 20, 1000
METHODS = {
    "linucb": None,
    "viewucb": None,
    "contextualbandits": 60,
    "mabwiser": 60,
    "river linucb": 60,
    "vw epsilon": 120,
}


def stream_of(labelled, count):
    """Yield contexts (D,) with a few nonzeros, and their right arms, which are those of the labelled ones."""
    rng = np.random.default_rng(SEED)
    topics = np.array([rng.choice(FEATURES, TOPIC, replace=False) for _ in range(ARMS)])
    for i in range(labelled + count):
        arm = i if i < labelled else int(rng.integers(labelled))
        x = np.zeros(FEATURES)
        x[rng.choice(topics[arm], OWN, replace=False)] = 1.0
        x[rng.choice(FEATURES, ENTRIES - OWN, replace=False)] = 1.0
        yield x / np.sqrt(x.sum()), arm


if __name__ == "__main__":
    race(
        "Many arms",
        f"{ARMS} arms and {STEPS} contexts with {ENTRIES} of {FEATURES} features, after a labelled one of each arm; "
        f"{SILENT:.0%} of the rewards silent, which only taciturn is told of. Milliseconds for a decision and its "
        "feedback, on one thread; each method in its own process, whose peak memory is shown. Methods that would take "
        "minutes decide only on the first contexts. taciturn takes it that one arm is right, so a reward of 1 says "
        "something of all arms; the others learn of the chosen arm. "
        + versions("contextualbandits", "mabwiser", "river", "vowpalwabbit"),
        stream_of,
        METHODS,
        arms=ARMS,
        features=FEATURES,
        steps=(STEPS, 50),
        warm=(ARMS, ARMS // 20),
        script=__file__,
    )
