"""Measure what agents take in memory: a scenario runs in a process of its own, which reads its resident memory.

Kernels allocate outside of Python's view, so only the system can say how much there is. `VmHWM` in /proc/self/status is
the most memory since it was last reset, which writing 5 to /proc/self/clear_refs does.
"""

import contextlib
import ctypes
import gc
import json
import os
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import taciturn
from process_kit import answering

SUPPORTED = Path("/proc/self/clear_refs").exists()


@contextlib.contextmanager
def measurer():
    """A function that returns what a function of this module did, called by name with `options` in a new process.

    All are forks of one process, which has imported everything and done nothing.
    """
    with answering(sys.executable, __file__) as ask:
        yield lambda scenario, **options: ask(json.dumps([scenario, options]))


def serve():
    """For each line on stdin, a scenario and its options, one on stdout: what the scenario returned, or an error."""
    for line in sys.stdin:
        scenario, options = json.loads(line)
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            if status:
                answer({"failed": scenario, "status": status})
            continue
        answer(globals()[scenario](**options))
        os._exit(0)


def answer(value):
    """Write a line of JSON on stdout at once."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def status(field):
    """A number of bytes in /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


class PeakGrowth:
    """Between its creation and `bytes()`, the most resident memory beyond what there was at first."""

    def __init__(self):
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        self.before = status("VmRSS")

    def bytes(self):
        return status("VmHWM") - self.before


AS_GIVEN = {"scaling": "none"}
"""Estimates are close for contexts as they are; with a scale they are bounds: numbers take part once they vary."""


def contexts(rng, count, features, entries):
    """Contexts with so many entries that are not zero: arrays where these are all, else sparse rows."""
    if entries == features:
        return list(rng.random((count, features)))
    columns = np.concatenate([np.sort(rng.choice(features, entries, replace=False)) for _ in range(count)])
    ends = np.arange(0, count * entries + 1, entries)
    return list(sp.csr_matrix((rng.random(count * entries), columns, ends), shape=(count, features)))


def run(agent, rng, features, entries, *, answered=0, pending=0, labelled=0, decided=0):
    """Decisions in batches, some with a reward of 0 for each; labelled rows; decisions with all kinds of feedback."""
    arms = len(agent.arm_names)
    for first in range(0, answered + pending, 64):
        for decision in agent.decide_batch(contexts(rng, 64, features, entries)):
            if first < answered:
                agent.feedback(decision.id, 0)
    for first in range(0, labelled, 64):
        count = min(64, labelled - first)
        agent.warm_start(contexts(rng, count, features, entries), rng.integers(arms, size=count))
    for step in range(decided):
        [x] = contexts(rng, 1, features, entries)
        agent.feedback(agent.decide(x).id, (1, 0, None)[step % 3])


def steady(name, arms, features, entries, plan, params):
    """Run an agent to its cap and beyond; the estimate before it begins, and the most memory that it took."""
    rng = np.random.default_rng(0)
    small = {"max_nodes": 128, "hidden": 16, "warmup": 100, "imputer_params": {}}
    params = AS_GIVEN | params
    tiny = {key: small.get(key, value) for key, value in params.items()}
    for width, few in ((8, 8), (40, 3)):  # dense and sparse: all kernels are loaded before the measurement
        run(taciturn.make(name, arms=3, **tiny), rng, width, few, answered=64, labelled=16, decided=40)
    growth = PeakGrowth()
    agent = taciturn.make(name, arms=arms, **params)
    [x] = contexts(rng, 1, features, entries)
    agent.warm_start([x], [0])
    estimate = agent.memory_estimate(features)
    run(agent, rng, features, entries, **plan)
    return {"estimate": estimate, "measured": growth.bytes(), "in_use": agent.memory_in_use()}


def growing(name, arms, limit, features, step, params):
    """Name more and more features until the agent refuses; how far it came, and the most memory that it took."""
    params = AS_GIVEN | params
    run(taciturn.make(name, arms=3, **params), np.random.default_rng(0), 8, 8, answered=64, labelled=16, decided=6)
    growth = PeakGrowth()
    agent = taciturn.make(name, arms=arms, memory_limit=limit, **params)
    first = {f"feature {i}": 1.0 for i in range(features)}
    agent.warm_start([first] * 70, np.arange(70) % arms)
    while True:
        before = agent.n_features, agent.next_id, agent.memory_in_use()
        try:
            agent.decide({f"feature {i}": 1.0 for i in range(agent.n_features, agent.n_features + step)})
        except taciturn.TaciturnError as refusal:
            unchanged = before == (agent.n_features, agent.next_id, agent.memory_in_use())
            agent.decide({"feature 0": 1.0})
            return {
                "measured": growth.bytes(),
                "features": agent.n_features,
                "refusal": str(refusal),
                "unchanged": unchanged,
            }


if __name__ == "__main__":
    serve()
