"""A vocabulary that grows without end: time and memory of contexts with words that were never seen before.

python benchmarks/vocabulary.py [--contexts 1000000] [--words 200000]      about five minutes

Each context is a text of eight words, drawn so that few are frequent and most are rare. The first table reads them
alone (`ContextReader`), with `max_features` as it is by default; the second is a LinUCB agent that holds 1000 contexts
and gives 512 features columns of their own.
"""

import argparse
import resource
import time

import numpy as np
from common import SEED, Table, machine, markdown

import taciturn
from taciturn.features.encode import ContextReader

WORDS_EACH = 8


def texts(count, words):
    """Yield texts whose words are distributed as 1/rank, so that new ones keep coming."""
    rng = np.random.default_rng(SEED)
    for _ in range(count // 1000):
        ranks = np.exp(rng.random((1000, WORDS_EACH)) * np.log(words)).astype(int)
        for row in ranks:
            yield " ".join(f"w{rank}" for rank in row)


def resident():
    """The most memory that this process has taken, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(step, count, words):
    """Rows of a table: after each tenth of the contexts, the time of a step and the memory."""
    seconds, rows = [], []
    for number, text in enumerate(texts(count, words), start=1):
        before = time.process_time()
        step(text)
        seconds.append(time.process_time() - before)
        if number % (count // 10) == 0:
            p50, p99 = np.percentile(seconds, [50, 99]) * 1e6
            rows.append([f"{number}", f"{p50:.0f}", f"{p99:.0f}", f"{resident():.0f}"])
            seconds.clear()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=200_000)
    options = parser.parse_args()
    reader = ContextReader(scaled=True)

    def read(text):
        reader.accept(reader.read(text))

    agent = taciturn.LinUCB(arms=3, features=taciturn.Features(max_features=512), max_nodes=1000)

    def decide(text):
        decision = agent.decide(text)
        agent.feedback(decision.id, (1, 0, None)[decision.id % 3])

    print(machine(), end="\n\n")
    head = ["contexts", "p50 µs", "p99 µs", "resident MB"]
    for title, step in (("read", read), ("LinUCB, 512 features", decide)):
        rows = measured(step, options.contexts, options.words)
        print(markdown(Table(title, "CPU time of one context.", head, rows)))
    print(f"features of the reader: {reader.n_features}, of the agent: {agent.n_features}")


if __name__ == "__main__":
    main()
