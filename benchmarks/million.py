"""A long stream without forgetting: time per step, peak memory and the recall of the index, up to a million decisions.

The recommended agent decides on contexts of 30 dense features under a rule that is not linear, and half of its
decisions are never answered. Features are independent normal numbers, among which neighbors are hardest to find, or
clusters on a surface of ten dimensions, as what people have is. The time of a step is the mean over the last tenth of
the decisions before each size, so that it has its share of solves, beside the median. ``--upto 100000`` is shorter;
``--cpu`` counts processor time, for an hour in which the machine does other things too.
"""

import argparse
import sys
import time

import numpy as np
from common import SEED, Stopwatch, Table, main, shown, times

import taciturn
from taciturn.agents.warm import prepare
from taciturn.experiments.peak_memory import peak_mb

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
ARMS, FEATURES, HIDDEN, BLOCK = 5, 30, 16, 10_000
SURFACE, CLUSTERS = 10, 200


def rule(rng):
    """Return a function from contexts (N, D) to their right arms."""
    W, V = rng.normal(size=(FEATURES, HIDDEN)) / 3.0, rng.normal(size=(HIDDEN, ARMS))
    return lambda X: np.argmax(np.cos(X @ W) @ V, axis=1)


def independent(rng):
    """Return a function from N to contexts (N, D) of independent numbers."""
    return lambda count: rng.normal(size=(count, FEATURES))


def clusters(rng):
    """Return a function from N to contexts (N, D) of clusters on a surface of few dimensions."""
    surface, centers = rng.normal(size=(SURFACE, FEATURES)), 2.0 * rng.normal(size=(CLUSTERS, SURFACE))

    def contexts(count):
        on_surface = centers[rng.integers(CLUSTERS, size=count)] + rng.normal(size=(count, SURFACE))
        return np.tanh(on_surface @ surface / 4.0) + 0.05 * rng.normal(size=(count, FEATURES))

    return contexts


def sizes_up_to(upto):
    return [size for size in SIZES if size <= upto] or [upto]


def measure(kind, upto, clock):
    """Return a row of the table for each size, for contexts of a kind."""
    rng = np.random.default_rng(SEED)
    right_arms, contexts, agent = rule(rng), kind(rng), taciturn.make("viewucb", arms=ARMS, seed=SEED)
    prepare(agent)
    watch, right, rows, sizes = Stopwatch(clock), [], [], sizes_up_to(upto)
    while len(watch.laps) < sizes[-1]:
        X = contexts(BLOCK)
        for x, arm in zip(X, right_arms(X), strict=True):
            is_silent = rng.random() < 0.5
            with watch():
                decision = agent.decide(x)
                agent.feedback(decision.id, None if is_silent else float(decision.arm == arm))
            right.append(decision.arm == arm)
            if len(watch.laps) in sizes:
                rows.append(row_of(agent, watch.laps, right, rows))
                print(kind.__name__, *rows[-1], file=sys.stderr, flush=True)
    return [[kind.__name__, *row] for row in rows]


def row_of(agent, laps, right, before):
    last = 1000 * np.array(laps[-len(laps) // 10 :])
    mean = float(last.mean())
    first = float(before[0][1]) if before else mean
    return [
        f"{len(laps)}",
        f"{mean:.2f}",
        shown(float(np.median(last))),
        shown(float(last.max())),
        times(mean, first),
        f"{agent._graph.recall:.3f}",
        f"{peak_mb():.0f}",
        f"{100 * np.mean(right[-len(last) :]):.1f} %",
    ]


def compare(upto, kinds, clock):
    seconds = "processor time" if clock is time.process_time else "time"
    return Table(
        "A million decisions",
        f"Milliseconds of {seconds} per step of viewucb on {FEATURES} dense features and {ARMS} arms, half of the "
        "decisions silent, nothing forgotten, where features are independent or in clusters: mean, median and longest "
        "over the last tenth before each size; the mean beside the first; the share of nearest neighbors that were "
        "found; the peak memory of the process in MB; and how many of these decisions were right.",
        ["contexts", "decisions", "mean", "median", "longest", "beside the first", "recall", "MB", "right"],
        [row for kind in kinds for row in measure(kind, upto, clock)],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--upto", type=int, default=SIZES[-1])
    parser.add_argument("--only", choices=["independent", "clusters"])
    parser.add_argument("--cpu", action="store_true")
    own, sys.argv[1:] = parser.parse_known_args()
    kinds = [kind for kind in (independent, clusters) if own.only in (None, kind.__name__)]
    main(lambda: compare(own.upto, kinds, time.process_time if own.cpu else time.perf_counter))
