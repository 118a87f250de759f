"""Golden traces: what every method decided and scored before its code was reshaped.

A scenario exercises all that can happen to an agent: a labelled start, named features that come later, given edges,
late, corrected, silent, expired and withdrawn rewards, an arm added and one retired, bounded memory, random choices,
deferred training, and a file half-way. `python tests/golden/traces.py FILE` writes the traces of the code as it is.

Single-precision sums depend on the instructions they are compiled to. So that a trace means the same on every machine
with the same libraries, it is taken in a process of its own with `ENVIRONMENT`, which compiles for a generic processor.
"""

import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import taciturn

FILE = Path(__file__).with_name("traces.npz")
ENVIRONMENT = {
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "OPENBLAS_CORETYPE": "Nehalem",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
STEPS, EVERY = 110, 5
SEEDS = (0, 1, 2)
WARMED_UP = {"warmup": 25}
METHODS = {
    "viewucb": {},
    "linucb": {},
    "rogcn": {},
    "bilinucb-gcn": WARMED_UP,
    "bilinucb-kmeans": WARMED_UP,
    "bilinucb-random": WARMED_UP,
    "ilinucb-gcn": WARMED_UP,
    "ilinucb-kmeans": WARMED_UP,
    "ilinucb-random": WARMED_UP,
    "gcnucb": WARMED_UP,
    "majority": {},
    "oracle-full": {},
    "labelspreading": {"every": 20},
}


def libraries():
    """All that decides how numbers are rounded, beside the code itself."""
    packages = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite")
    return ", ".join([f"{name} {version(name)}" for name in packages] + [platform.machine()])


def digits(seed):
    """Arrays of 64 features, ten arms, no graph."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng([seed, 100]).permutation(len(y))[: STEPS + 10]
    X = X[order] / X[order].sum(axis=1, keepdims=True)
    return list(X), [f"digit {k}" for k in y[order]], [f"digit {k}" for k in range(10)], None


def graph(seed):
    """Four groups of named features, of which some come up late; edges mostly within a group."""
    rng = np.random.default_rng([seed, 101])
    count = STEPS + 10
    y = rng.integers(4, size=count)
    contexts = []
    for t, k in enumerate(y):
        words = {f"word {k}.{rng.integers(4 + t // 30)}": 1.0 for _ in range(4)}
        words |= {f"noise {rng.integers(10)}": float(rng.random()) for _ in range(3)}
        contexts.append(words)
    edges = [
        [j for j in range(max(0, t - 40), t) if rng.random() < (0.15 if y[j] == y[t] else 0.01)] for t in range(count)
    ]
    return contexts, [f"arm {k}" for k in y], [f"arm {k}" for k in range(4)], edges


SCENARIOS = {"digits": digits, "graph": graph}


def trace(method, scenario, seed):  # noqa: PLR0915 - a scenario is a list of what happens
    """The arms chosen (T,), their scores and widths (T, 2), and all scores and widths of every fifth decision."""
    contexts, labels, arms, edges = SCENARIOS[scenario](seed)
    rng = np.random.default_rng([seed, 102])
    settings = {"epsilon": 0.1, "max_nodes": 70, "expire_after": 40, "scaling": "none", **METHODS[method]}
    agent = taciturn.make(method, arms=arms, seed=seed, **settings)
    start = range(6)
    near = None if edges is None else [(j, t) for t in start for j in edges[t]]
    ids = agent.warm_start([contexts[t] for t in start], [labels[t] for t in start], edges=near)
    chosen, own, full = [], [], []
    later = []  # (when, id, reward)
    for step, t in enumerate(range(6, STEPS + 6)):
        if step == 30:
            agent.add_arm("new")
        if step == 45:
            agent.retire_arm(arms[1])
        if step == 60:
            agent.add_arm("copy", like=arms[0])
        if step == 35:
            agent.defer_training()
        if step == 50:
            agent.defer_training(on=False)
        if step in (20, 55):
            with tempfile.TemporaryDirectory() as folder:
                agent.save(Path(folder) / "agent")
                agent = taciturn.load(Path(folder) / "agent")
        neighbors = None if edges is None or step % 7 == 6 else [ids[j] for j in edges[t]]
        decision = agent.decide(contexts[t], neighbors=neighbors)
        ids.append(decision.id)
        k = agent.arm_names.index(decision.arm)
        chosen.append(k)
        own.append((decision.scores[k], decision.widths[k]))
        if step % EVERY == 0:
            full.append(np.full((2, len(arms) + 2), np.nan))
            full[-1][:, : len(decision.scores)] = decision.scores, decision.widths
        right = float(decision.arm == labels[t])
        if hasattr(agent, "reveal"):
            agent.reveal(decision.id, labels[t])
        else:
            match rng.integers(8):
                case 0:
                    agent.feedback(decision.id, None)
                case 1:
                    later.append((step + 9, decision.id, right))
                case 2:
                    agent.feedback(decision.id, 1.0 - right)
                    later.append((step + 5, decision.id, right))
                case 3:
                    agent.feedback(decision.id, None)
                    later.append((step + 12, decision.id, right))
                case 4:
                    agent.feedback(decision.id, right)
                    if step % 3 == 0:
                        agent.withdraw(decision.id)
                case 5:
                    pass  # it expires
                case 6:
                    agent.feedback(decision.id, 0.25 + right / 2)
                case _:
                    agent.feedback(decision.id, right)
        for _, id, reward in (due for due in later if due[0] == step):
            agent.feedback(id, reward)
        if 35 <= step < 50:
            agent.train_pending(2)
    return np.array(chosen, np.int8), np.array(own), np.array(full)


def all_traces():
    """Every method on every scenario with every seed, by name."""
    traces = {"libraries": np.array(libraries())}
    for method in METHODS:
        for scenario in SCENARIOS:
            for seed in SEEDS:
                parts = zip(("chosen", "own", "full"), trace(method, scenario, seed), strict=True)
                traces |= {f"{method}/{scenario}/{seed}/{name}": part for name, part in parts}
    return traces


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **all_traces())
