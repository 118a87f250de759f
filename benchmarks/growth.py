"""Time per step and peak memory of every agent, up to 30 000 contexts of 1000 features.

The contexts before each measurement are added by `warm_start`, so that all of them are labelled: the most that an agent
can have to store. Each agent runs in its own process, whose peak memory is reported.
"""

import json
import subprocess
import sys

import numpy as np
import scipy.sparse as sp
from common import SEED, Stopwatch, Table, main, shown
from threadpoolctl import threadpool_limits

import taciturn
from taciturn.experiments.peak_memory import peak_mb
from taciturn.registry import METHODS

SIZES = (1000, 3000, 10_000, 30_000)
AGENTS = ("linucb", "rogcn", "bilinucb-gcn", "bilinucb-kmeans", "gcnucb", "viewucb")
ARMS, FEATURES, ENTRIES, STEPS = 5, 1000, 20, 30


def stream_of(count):
    """Return sparse rows of unit norm with four topics per arm, and the right arms."""
    rng = np.random.default_rng(SEED)
    topics = rng.dirichlet(np.full(FEATURES, 0.05), 4 * ARMS) * 0.8 + 0.2 / FEATURES
    labels = rng.integers(0, 4 * ARMS, count)
    # The largest of log-weights plus Gumbel noise are a sample without replacement.
    columns = np.vstack(
        [np.sort(np.argpartition(-(np.log(topics[t]) + rng.gumbel(size=FEATURES)), ENTRIES)[:ENTRIES]) for t in labels]
    )
    values = np.full(columns.size, ENTRIES**-0.5)
    indptr = np.arange(count + 1) * ENTRIES
    return sp.csr_matrix((values, columns.ravel(), indptr), shape=(count, FEATURES)), labels % ARMS


def measure(name):
    """Measure one agent at all sizes; returns (t, milliseconds per step, peak MB) for each."""
    X, y = stream_of(SIZES[-1] + 1)
    method = METHODS[name]
    settings = {"warmup": 0} if method.family in ("gcnucb", "bilinucb", "ilinucb") else {}
    if method.family in ("rogcn", "gcnucb"):
        settings["start_epochs"] = 1
    if method.params.get("imputer") == "gcn":
        settings["imputer_params"] = {"start_epochs": 1}
    agent, count = taciturn.make(name, arms=ARMS, seed=SEED, **settings), 0
    rng, found = np.random.default_rng(SEED), []
    for size in SIZES:
        agent.warm_start(X[count : size - STEPS], y[count : size - STEPS])
        watch = Stopwatch()
        for t in range(size - STEPS, size):
            with watch():
                decision = agent.decide(X[t])
                agent.feedback(decision.id, None if rng.random() < 0.5 else float(decision.arm == y[t]))
        count = size
        found.append((size, 1000 * float(np.median(watch.laps)), peak_mb()))
    return found


def compare():
    rows = []
    for name in AGENTS:
        command = [sys.executable, __file__, "--agent", name]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        sizes, seconds, _ = zip(*found, strict=True)
        exponent = np.polyfit(np.log(sizes[1:]), np.log(seconds[1:]), 1)[0]
        rows.append([name, *(f"{shown(ms)} / {mb:.0f}" for _, ms, mb in found), f"{exponent:.2f}"])
    return Table(
        "Growth",
        f"Milliseconds per step (median of {STEPS}) / peak memory of the process in MB, on sparse contexts with "
        f"{FEATURES} features and {ARMS} arms, all earlier contexts labelled. The exponent of t is fitted from t = "
        f"{SIZES[1]} on: 0 is a constant time per step, 1 a time proportional to the number of contexts, as of a "
        "training step on all of them. The median leaves out the rare steps in which viewucb refits its regressions.",
        ["agent", *(f"t = {size}" for size in SIZES), "exponent"],
        rows,
    )


if __name__ == "__main__":
    if "--agent" in sys.argv:
        with threadpool_limits(1):
            print(json.dumps(measure(sys.argv[-1])))
    else:
        main(compare)
