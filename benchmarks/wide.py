"""Embeddings of 3072 dimensions: time, memory and right decisions.

python benchmarks/wide.py [--short] [--only linucb,vw]

Four clusters each have the same right arm. A context is a common mean, the center of its cluster, a spread in the 64
directions in which all clusters vary, and a little noise in all directions, at unit length.
"""

import numpy as np
from common import SEED, versions
from race import SILENT, race

ARMS, CLUSTERS, FEATURES, DIRECTIONS, STEPS = 10, 40, 3072, 64, 3000
METHODS = {
    "linucb": None,
    "viewucb": None,
    "contextualbandits": 120,
    "mabwiser": 60,
    "river linucb": 60,
    "vw": 120,
    "vw epsilon": 120,
}


def stream_of(_, count):
    """Yield embeddings (D,) and their right arms."""
    rng = np.random.default_rng(SEED)
    mean, centers = rng.normal(size=FEATURES), rng.normal(size=(CLUSTERS, FEATURES))
    directions = rng.normal(size=(DIRECTIONS, FEATURES)) / np.sqrt(DIRECTIONS)
    for _ in range(count):
        cluster = int(rng.integers(CLUSTERS))
        x = mean + centers[cluster] + rng.normal(size=DIRECTIONS) @ directions + rng.normal(size=FEATURES)
        yield x / np.linalg.norm(x), cluster % ARMS


if __name__ == "__main__":
    race(
        "Wide contexts",
        f"{STEPS} dense contexts of {FEATURES} features at unit length, in {CLUSTERS} clusters; {ARMS} arms, "
        f"{SILENT:.0%} of the rewards silent, which only taciturn is told of. Milliseconds for a decision and its "
        "feedback, on one thread; each method in its own process, whose peak memory is shown. Methods that would take "
        "minutes decide only on the first contexts. Vowpal Wabbit is given text, its own format. "
        + versions("contextualbandits", "mabwiser", "river", "vowpalwabbit"),
        stream_of,
        METHODS,
        arms=ARMS,
        features=FEATURES,
        steps=(STEPS, 300),
        script=__file__,
    )
