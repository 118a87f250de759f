"""What does a step cost? CPU microseconds for decide plus feedback, per method; with --against, in two checkouts.

    python benchmarks/step.py                       # this checkout
    python benchmarks/step.py --against ../before   # this checkout and another one, in alternation

A row is one method on one shape of data. A run is a new agent, warm-started on labelled contexts (not timed), followed
by a fixed number of steps, 25 % of them without a reward. Seeds are fixed, so every run sees the same data.

Each checkout runs in a child process with one thread. The two children take turns run by run, so that other load on
the machine affects both. Every round starts new children, because memory layout alone can shift a process by a few per
cent. A child first makes a short run of each row, which loads or compiles the kernels and is discarded; a row reports
the median of its other runs and, with two checkouts, the median ratio of runs made one after the other. All rows of two
checkouts take about five minutes on an idle machine.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import zlib
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from common import SEED, Table, machine, markdown
from sklearn.datasets import load_digits

import taciturn

SCRIPT = Path(__file__).resolve()
MISSING = 0.25
LABELLED = 20
WARMUP = 100  # less than the default, so that most steps are past the warm-up
WARMED_UP = ("bilinucb", "ilinucb", "gcnucb")
# Baselines of the experiments, not methods to deploy.
REFERENCES = {"majority", "oracle-full", "labelspreading", "extratrees", "static"}
FEWEST_RUNS, MOST_RUNS = 3, 12  # per row, round and checkout
SLOWER = 1.05
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Shape(NamedTuple):
    """Contexts, the right arm of each, the number of arms and, for a given graph, each context's earlier neighbors."""

    contexts: list
    labels: list
    arms: int
    edges: list | None = None


def digits(count):
    """Handwritten digits: 64 dense features, 10 arms."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(y))[np.arange(count) % len(y)]
    X = X[order] / X[order].sum(axis=1, keepdims=True)
    return Shape(list(X), y[order].tolist(), 10)


def sparse(count):
    """Like CNAE-9: 856 features, 9 arms, about 7 non-zeros per context."""
    return bags_of_words(count, arms=9, features=856, words=7)


def graph(count):
    """A given graph: 1 to 7 edges per context to earlier ones, mostly of the same arm; 200 features, 7 arms."""
    shape = bags_of_words(count, arms=7, features=200, words=10)
    rng = np.random.default_rng([SEED, 1])
    y = np.array(shape.labels)
    edges = [[]]
    for t in range(1, count):
        weights = np.where(y[:t] == y[t], 10.0, 1.0)
        neighbors = rng.choice(t, min(t, rng.integers(1, 8)), replace=False, p=weights / weights.sum())
        edges.append(sorted(neighbors.tolist()))
    return shape._replace(edges=edges)


def bags_of_words(count, *, arms, features, words):
    """Sparse rows of unit sum; 40 % of the words come from the right arm's own share of the features."""
    rng = np.random.default_rng(SEED)
    y = rng.integers(arms, size=count)
    share = features // arms
    own = share * y[:, None] + rng.integers(share, size=(count, words))
    columns = np.where(rng.random((count, words)) < 0.4, own, rng.integers(features, size=(count, words)))
    rows = np.repeat(np.arange(count), words)
    X = sp.csr_matrix((np.full(columns.size, 1 / words), (rows, columns.ravel())), shape=(count, features))
    return Shape([X[t] for t in range(count)], y.tolist(), arms)


SHAPES = {"digits": digits, "sparse": sparse, "graph": graph}


def run(method, shape, steps):
    """CPU seconds of `steps` steps of a new agent, and a checksum of the arms it chose."""
    contexts, labels, arms, edges = shape
    rewarded = np.random.default_rng([SEED, 2]).random(steps) >= MISSING
    params = {"warmup": min(WARMUP, steps // 2)} if method.startswith(WARMED_UP) else {}
    agent = taciturn.make(method, arms=arms, seed=SEED, **params)
    start = range(LABELLED)
    pairs = None if edges is None else [(j, t) for t in start for j in edges[t]]
    ids = agent.warm_start([contexts[t] for t in start], [labels[t] for t in start], edges=pairs)
    chosen = []
    gc.collect()
    before = time.process_time()
    for t, answered in enumerate(rewarded.tolist(), LABELLED):
        decision = agent.decide(contexts[t], neighbors=None if edges is None else [ids[j] for j in edges[t]])
        ids.append(decision.id)
        chosen.append(decision.arm)
        agent.feedback(decision.id, float(decision.arm == labels[t]) if answered else None)
    return time.process_time() - before, zlib.crc32(bytes(chosen))


def serve_runs():
    """Run what standard input asks for, one JSON line per run, and answer each with a line."""
    print(json.dumps(taciturn.__file__), flush=True)
    shapes = {}
    for line in sys.stdin:
        method, shape, steps = json.loads(line)
        if (shape, steps) not in shapes:
            shapes[shape, steps] = SHAPES[shape](LABELLED + steps)
        try:
            answer = run(method, shapes[shape, steps], steps)
        except taciturn.TaciturnError as error:  # a method that this checkout does not have
            answer = str(error)
        print(json.dumps(answer), flush=True)


class Child:
    """A process that runs the code of one checkout."""

    def __init__(self, checkout):
        source = checkout.resolve() / "src"
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
        command = [sys.executable, str(SCRIPT), "--serve-runs"]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        package = Path(self._answer())
        if source not in package.parents:
            raise SystemExit(f"{checkout} has no package taciturn in src; {package} was imported instead")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()

    def run(self, method, shape, steps):
        """CPU microseconds per step and the checksum of the arms, or why this checkout cannot run the row."""
        print(json.dumps([method, shape, steps]), file=self._process.stdin, flush=True)
        answer = self._answer()
        return answer if isinstance(answer, str) else (1e6 * answer[0] / steps, answer[1])

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self._process.args} ended; its error is above")
        return json.loads(line)


class Row(NamedTuple):
    """One method on one shape: the times of each checkout, and whether all runs chose the same arms."""

    method: str
    shape: str
    times: list
    checksums: set


def measure_row(row, children, steps, budget):
    """Add to the row's times: as many runs as fit into `budget` CPU seconds per child, after a short one to warm up."""
    if any(isinstance(child.run(row.method, row.shape, steps // 4), str) for child in children):
        return
    spent = 0.0
    for i in range(MOST_RUNS):
        if i >= FEWEST_RUNS and spent > budget:
            break
        order = (1, -1)[i % 2]  # neither checkout always goes first
        answers = [child.run(row.method, row.shape, steps) for child in children[::order]][::order]
        for times, (microseconds, checksum) in zip(row.times, answers, strict=True):
            times.append(microseconds)
            row.checksums.add(checksum)
        spent += max(microseconds for microseconds, _ in answers) * steps / 1e6


def measure(checkouts, rows, options):
    """Fill the rows, round by round, with progress on standard error."""
    began, done, total = time.monotonic(), 0, options.rounds * len(rows)
    for _ in range(options.rounds):
        with ExitStack() as stack:
            children = [stack.enter_context(Child(checkout)) for checkout in checkouts]
            for row in rows:
                measure_row(row, children, options.steps, options.budget)
                done += 1
                elapsed = time.monotonic() - began
                progress = f"{done}/{total} rows, {elapsed:.0f} s, about {elapsed * (total / done - 1):.0f} s left"
                print(f"\r{progress} ({row.method} on {row.shape})\033[K", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def cells(row):
    """A line of the table."""
    medians = [median(times) if times else None for times in row.times]
    line = [row.shape, row.method, *("–" if m is None else f"{m:.1f}" for m in medians)]
    if len(medians) == 1:
        return line
    if None in medians:
        return [*line, "–", "not in both checkouts"]
    ratio = median(this / other for this, other in zip(*row.times, strict=True))  # of runs side by side in time
    notes = ["SLOWER"] if ratio > SLOWER else []
    notes += ["other decisions"] if len(row.checksums) > 1 else []
    return [*line, f"{ratio:.3f}", ", ".join(notes)]


def main(options):
    """Measure the rows asked for and print them; return 1 if a row is slower than in the other checkout, else 0."""
    from taciturn.registry import METHODS

    checkouts = [SCRIPT.parents[1], *([options.against] if options.against else [])]
    methods = [name for name in METHODS if name not in REFERENCES and name in (options.method or METHODS)]
    rows = [Row(m, s, [[] for _ in checkouts], set()) for s in options.shape or SHAPES for m in methods]
    measure(checkouts, rows, options)
    lines = [cells(row) for row in rows]
    text = f"CPU microseconds per step (decide and feedback), median, {options.steps} steps, one thread. {machine()}."
    head = ["shape", "method", "this"] + (["against", "ratio", ""] if options.against else [])
    print(markdown(Table("A step", text, head, lines)))
    slower = sum("SLOWER" in line[-1] for line in lines)
    if options.against:
        print(f"{slower} of {len(lines)} rows more than {SLOWER - 1:.0%} slower than {options.against}")
    return 1 if slower else 0


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout, measured in alternation")
    parser.add_argument("--method", action="append", help="only this method; may be repeated")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="only this shape; may be repeated")
    parser.add_argument("--steps", type=int, default=480, help="steps per run")
    parser.add_argument("--rounds", type=int, default=3, help="how often new processes are started")
    parser.add_argument("--budget", type=float, default=0.6, help="CPU seconds per row, round and checkout")
    parser.add_argument("--serve-runs", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    options = read_options()
    sys.exit(serve_runs() if options.serve_runs else main(options))
