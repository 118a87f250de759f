"""A vocabulary that grows to 100 000 words: time, memory and right decisions of methods that take words.

python benchmarks/words.py [--short] [--only linucb,vw]

Each context has 30 different words, of which five are new: no context had them before. The others are drawn from the
words that there are, older ones more often (Zipf's law): most from words that all topics share, some from those of the
context's own topic and a few from another's. Three topics each have the same right arm.
"""

import numpy as np
from common import SEED, versions
from race import SILENT, race

ARMS, TOPICS, STEPS = 10, 30, 20_000
WORDS, NEW, TOPICAL, STRAY = 30, 5, 8, 2
METHODS = {
    "linucb": 600,
    "viewucb": 600,
    "vw": None,
    "vw epsilon": None,
    "vw adf": None,
    "river logistic": 120,
    "river linucb": 30,
}


def stream_of(_, count):
    """Yield contexts, as lists of words, and their right arms."""
    rng, born = np.random.default_rng(SEED), 0
    shared, own = [], [[] for _ in range(TOPICS)]
    for _ in range(count):
        topic, stray = rng.integers(TOPICS, size=2)
        words = {}
        for _ in range(NEW):
            home = own[topic] if rng.random() < 0.5 else shared
            home.append(f"w{born}")
            words[home[-1]] = None
            born += 1
        words |= dict.fromkeys(drawn(rng, own[topic], TOPICAL) + drawn(rng, own[stray], STRAY))
        while len(words) < WORDS and len(shared) > 2 * WORDS:
            words |= dict.fromkeys(drawn(rng, shared, WORDS - len(words)))
        yield list(words), int(topic) % ARMS


def drawn(rng, words, count):
    """Draw some of the words, that of rank r with a probability near 1/r; one can come twice."""
    return [words[int(rank) - 1] for rank in np.exp(rng.random(count) * np.log(len(words)))] if words else []


if __name__ == "__main__":
    race(
        "Many words",
        f"{STEPS} contexts of {WORDS} words, {NEW} of them new each time, so that there are {NEW * STEPS} in the end; "
        f"{ARMS} arms, {SILENT:.0%} of the rewards silent, which only taciturn is told of. Milliseconds for a decision "
        "and its feedback, on one thread; each method in its own process, whose peak memory is shown. The words are "
        f"given as strings. Vowpal Wabbit hashes them onto 2^18 weights: `--cb_explore {ARMS} --squarecb` (vw), with "
        "`--epsilon 0.05` in its place, and `--cb_explore_adf --squarecb`. river has a logistic regression an arm "
        "(and 5 % random arms), and a LinUCB with D × D numbers an arm, which ends early. The LinUCBs of "
        "contextualbandits and MABWiser take dense rows of a number of features that is known beforehand, and D × D "
        "numbers an arm: 400 GB and more. " + versions("vowpalwabbit", "river"),
        stream_of,
        METHODS,
        arms=ARMS,
        features=None,
        steps=(STEPS, 2000),
        script=__file__,
    )
