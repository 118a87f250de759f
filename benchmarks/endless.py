"""Unbounded streams: time per step and memory once `max_nodes` is reached, and the effect on accuracy.

python benchmarks/endless.py [--steps 300000]      needs TACITURN_DATA for the accuracy; about half an hour
"""

import argparse
import json
import resource
import subprocess
import sys
from collections import deque
from pathlib import Path
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

import taciturn

NODES, FEATURES, ARMS = 500, 30, 5
MARKS = (10_000, 100_000, 300_000)
WINDOW = 2000  # steps before each mark that are timed
METHODS = ("linucb", "gcnucb", "viewucb")


def resident():
    """Return the resident memory of the process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def endless(method, steps):
    """Run on contexts from five Gaussian clusters, one per arm; 25 % of rewards missing, the rest 50 decisions late."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(ARMS, FEATURES))
    agent = taciturn.make(method, arms=ARMS, max_nodes=NODES, seed=0)
    queue, right, laps = [], 0, deque(maxlen=WINDOW)
    for step in range(1, steps + 1):
        truth = int(rng.integers(ARMS))
        before = perf_counter()
        decision = agent.decide(centers[truth] + 1.5 * rng.normal(size=FEATURES))
        queue.append((decision.id, float(decision.arm == truth) if rng.random() < 0.75 else None))
        if len(queue) > 50:
            agent.feedback(*queue.pop(0))
        seconds = perf_counter() - before
        right += decision.arm == truth
        laps.append(seconds)
        if step in (NODES + WINDOW, *MARKS):
            row = {"step": step, "us": 1e6 * np.mean(laps), "mb": resident(), "accuracy": right / step}
            print(json.dumps(row), flush=True)


def accuracy(data, share, forget, method, seeds=3):
    found = []
    for seed in range(seeds):
        stream = taciturn.Stream(data, missing=0.25, seed=seed)
        bound = {} if share is None else {"max_nodes": int(share * len(stream)), "forget": forget}
        agent = taciturn.make(method, arms=data.arms, seed=seed, **bound)
        found.append(100 * taciturn.evaluate(agent, stream).accuracy)
    return float(np.mean(found))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=MARKS[-1])
    options.add_argument("--method", choices=METHODS)
    options.add_argument("--only", choices=("time", "accuracy"))
    given = options.parse_args()
    with threadpool_limits(1):
        if given.method:
            endless(given.method, given.steps)
            return
        if given.only != "accuracy":
            print("| method | step | µs per step | resident MB | right so far |\n|---|---|---|---|---|")
            for method in METHODS:  # in separate processes, so that freed memory of one does not count for another
                command = [sys.executable, __file__, "--method", method, "--steps", str(given.steps)]
                lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
                for row in map(json.loads, lines):
                    values = f"{row['step']} | {row['us']:.0f} | {row['mb']:.0f} | {row['accuracy']:.1%}"
                    print(f"| {method} | {values} |", flush=True)
        if given.only != "time":
            print("\n| data | method | unbounded | 100 % | 50 % oldest | reservoir | 25 % oldest | reservoir |")
            print("|---|---|---|---|---|---|---|---|")
            for name in ("cora", "cnae9"):
                data = taciturn.load_dataset(name, scaling="l1")
                for method in METHODS:
                    kinds = [(None, ""), (1.0, "oldest")]
                    kinds += [(share, forget) for share in (0.5, 0.25) for forget in ("oldest", "reservoir")]
                    cells = [accuracy(data, *kind, method) for kind in kinds]
                    print(f"| {name} | {method} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
