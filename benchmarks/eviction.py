"""How long a decision takes at the cap of contexts, where each one evicts another, and how long other agents wait.

python benchmarks/eviction.py [--cap 20000] [--contexts text dense repeated] [--steps 2000]      about two minutes

The first table is CPU time of one thread in a decision of the recommended agent, training deferred as in the service
and not counted, and a piece of that training. The second is wall time of a LinUCB agent's decisions: alone, and while
another thread of the process decides and trains at its cap without a pause. It needs two idle cores.
"""

import argparse
import threading
import time

import numpy as np
from common import SEED, Table, markdown
from threadpoolctl import threadpool_limits

import taciturn

ARMS = 3
SILENT = 0.3  # the share of decisions without a reward


def contexts_of(kind, count):
    """Return rows (count, D): bags of words of 20 topics, points of 20 clusters, few distinct rows, or one."""
    rng = np.random.default_rng(SEED)
    topics = rng.integers(20, size=count)
    if kind == "equal":
        return np.ones((count, 8))
    if kind == "repeated":
        return rng.integers(0, 2, (count, 8)).astype(float)
    if kind == "dense":
        return rng.normal(size=(20, 50))[topics] + rng.normal(size=(count, 50))
    words = 0.8 * rng.dirichlet(np.full(64, 0.1), 20) + 0.2 / 64
    # The largest of log-weights plus Gumbel noise are a sample without replacement.
    drawn = np.argpartition(-(np.log(words[topics]) + rng.gumbel(size=(count, 64))), 8, axis=1)[:, :8]
    rows = np.zeros((count, 64))
    np.put_along_axis(rows, drawn, rng.integers(1, 4, drawn.shape).astype(float), axis=1)
    return rows


class Driver:
    """An agent at its cap, which decides on one context after the other."""

    def __init__(self, method, kind, cap, steps):
        self.rng = np.random.default_rng(SEED)
        self.rows = contexts_of(kind, cap + steps)
        self.agent = taciturn.make(method, arms=ARMS, max_nodes=cap)
        self.agent.warm_start(self.rows[:cap], self.rng.integers(0, ARMS, cap).tolist())
        self.agent.defer_training()
        self.cap, self.step = cap, 0

    def decide(self, clock):
        """Decide, give feedback, and return the time of the decision."""
        row = self.rows[self.cap + self.step % (len(self.rows) - self.cap)]
        self.step += 1
        before = clock()
        decision = self.agent.decide(row)
        passed = clock() - before
        reward = None if self.rng.random() < SILENT else float(self.rng.random() < 0.4)
        self.agent.feedback(decision.id, reward)
        return passed


def load_kernels():
    """Evict from a small graph until lists of neighbors have been filled anew, so that all kernels are loaded."""
    driver = Driver("viewucb", "dense", 64, 2000)
    for _ in range(2000):
        driver.decide(time.perf_counter)
        driver.agent.train_pending()


def figures(seconds):
    """Return the median, the 99th percentile and the maximum, in milliseconds."""
    return [f"{1000 * value:.2f}" for value in (*np.percentile(seconds, [50, 99]), max(seconds))]


def at_the_cap(cap, kinds, steps):
    rows = []
    for kind in kinds:
        driver, decisions, pieces = Driver("viewucb", kind, cap, steps), [], []
        for step in range(steps + 100):
            passed = driver.decide(time.thread_time)
            before = time.thread_time()
            trained = driver.agent.train_pending()
            if step >= 100:  # kernels are loaded
                decisions.append(passed)
                if trained:
                    pieces.append(time.thread_time() - before)
        rows.append([kind, str(cap), *figures(decisions), *figures(pieces or [0.0])])
    head = ["contexts", "cap", "decide p50", "p99", "max", "training piece p50", "p99", "max"]
    return Table("Decisions at the cap", "CPU milliseconds.", head, rows)


def beside_another(cap, kinds, steps):
    rows = []
    for kind in kinds:
        linear, other = Driver("linucb", kind, 1000, steps), Driver("viewucb", kind, cap, steps)
        stop, evicted = threading.Event(), []

        def run(other=other, stop=stop, evicted=evicted):
            while not stop.is_set():
                evicted.append(other.decide(time.perf_counter))
                other.agent.train_pending()

        for _ in range(100):  # kernels are loaded
            linear.decide(time.perf_counter)
            other.decide(time.perf_counter)
        for label in ("alone", "beside viewucb"):
            thread = threading.Thread(target=run)
            if label != "alone":
                thread.start()
            laps = []
            for _ in range(steps):
                laps.append(linear.decide(time.perf_counter))
                time.sleep(0.001)  # requests come one by one
            stop.set()
            if label != "alone":
                thread.join()
            stop.clear()
            rows.append([kind, str(cap), label, *figures(laps), str(len(evicted))])
    head = ["contexts", "cap of viewucb", "linucb", "decide p50", "p99", "max", "decisions of viewucb meanwhile"]
    return Table("LinUCB beside an agent that evicts", "Wall milliseconds.", head, rows)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cap", type=int, nargs="+", default=[20_000])
    options.add_argument("--contexts", nargs="+", default=["text", "dense", "repeated"])
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--only", choices=("cap", "beside"))
    given = options.parse_args()
    with threadpool_limits(1):
        load_kernels()
        for cap in given.cap:
            if given.only != "beside":
                print(markdown(at_the_cap(cap, given.contexts, given.steps)), flush=True)
            if given.only != "cap":
                print(markdown(beside_another(cap, given.contexts, given.steps)), flush=True)


if __name__ == "__main__":
    main()
