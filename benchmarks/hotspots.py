"""Profile of a GCNUCB step at the end of Cora, and its kernels compared with the machine's peak."""

from pathlib import Path

import numpy as np
from common import SEED, Table, main, median_milliseconds, shown
from line_profiler import LineProfiler

import taciturn
from taciturn.agents.gcnucb import GCNUCB
from taciturn.agents.parts.encoder import GraphEncoder
from taciturn.kernels import gcn
from taciturn.kernels.ridge import normal_equations

LAST = 100


def profile():
    """Profile the last steps of Cora by line."""
    data = taciturn.load_dataset("cora", scaling="l1")
    stream = taciturn.Stream(data, missing=0.25, seed=SEED)
    agent = taciturn.make("gcnucb", arms=data.arms, preset="paper", seed=SEED)
    start = stream.start
    agent.warm_start(start.contexts, start.arms, start.edges)
    scoring = GCNUCB._embedded_scores, GCNUCB._embeddings, GCNUCB._solve_regressions, GCNUCB._add_context
    profiler = LineProfiler(*scoring, GraphEncoder.train, GCNUCB.feedback)
    total = 0.0
    for i, round in enumerate(stream):
        if i == len(stream) - LAST:
            profiler.enable_by_count()
        decision = agent.decide(round.context, round.neighbors)
        agent.feedback(decision.id, stream.respond(round, decision.arm))
    profiler.disable_by_count()
    stats, rows = profiler.get_stats(), []
    for (file, _, function), lines in stats.timings.items():
        source = Path(file).read_text(encoding="utf-8").splitlines()
        for number, _, ticks in lines:
            rows.append((ticks * stats.unit * 1000 / LAST, function.split(".")[-1], source[number - 1].strip()))
    inner = {"_embedded_scores": "self._"}  # the callee's lines are counted instead
    rows = [row for row in rows if inner.get(row[1], "\0") not in row[2]]
    total = sum(row[0] for row in rows)
    rows.sort(reverse=True)
    rest = sum(row[0] for row in rows[8:])
    profile.agent = agent
    return Table(
        "Profile of a GCNUCB step",
        f"The mean over the last {LAST} steps of Cora (t = {len(data.y)}), by line, with line_profiler; the last row "
        "is the sum of all other lines.",
        ["ms per step", "share", "function", "line"],
        [[shown(ms), f"{ms / total:.0%}", where, f"`{line}`"] for ms, where, line in rows[:8]]
        + [[shown(rest), f"{rest / total:.0%}", "", "all others"]],
    )


def peak():
    """Compare the kernels of a step, by counted operations and bytes, with a measured sgemm and a measured copy."""
    agent = profile.agent
    encoder = agent._encoder
    state = agent.state_dict()
    columns, w2 = state["table"]["columns"], state["parts"]["encoder"]["w2"]
    w1 = state["parts"]["encoder"]["w1"].reshape(agent.n_features, -1)
    adjacency, contexts, labels = encoder.graph.adjacency, agent._contexts.rows, columns["labels"]
    heads, size, classes = w2.shape
    nodes, entries, edges, width = len(labels), len(contexts.columns), len(adjacency.columns), w1.shape[1]
    keys, room = np.ones(2, np.uint64), gcn.new_workspace(nodes, entries, w1, w2)
    every = np.ones(nodes, np.bool_)
    rewards = columns["arm_rewards"]
    observed = int((~np.isnan(rewards)).sum())
    views = encoder.embeddings().copy()
    moments = [np.zeros(w1.size, np.float32) for _ in range(4)]
    kept = entries / 2
    # One multiplication and one addition per sparse entry and column; the second layer has C columns per edge.
    small = 2 * edges * heads * classes + 2 * nodes * width * classes
    kernels = {
        "training step": (
            lambda: gcn.gradients(adjacency, contexts, labels, w1, w2, 5e-4, 0.5, keys, room),
            2 * width * (2 * kept + 2 * edges) + 3 * small,
            4 * width * (3 * kept + 2 * edges + 6 * nodes) + 8 * w1.nbytes / 4,
        ),
        "Adam": (lambda: gcn.adam(*moments, 5, 0.01), 12 * w1.size, 7 * w1.nbytes),
        "embedding of all contexts": (
            lambda: gcn.embed(adjacency, contexts, w1, every, room),
            2 * width * (entries + 2 * edges),
            4 * width * (entries + 2 * edges + 3 * nodes),
        ),
        "regressions from scratch": (
            lambda: normal_equations(views, rewards, 1.0),
            2 * observed * size * size,
            observed * size * 4,
        ),
    }
    n = 1024
    a, b = (np.random.default_rng(i).random((n, n), np.float32) for i in (0, 1))
    gemm = 2 * n**3 / median_milliseconds(lambda: a @ b, 5) / 1e6
    block = np.zeros(64 * 2**20, np.uint8)
    other = np.empty_like(block)
    copy = 2 * block.nbytes / median_milliseconds(lambda: np.copyto(other, block)) / 1e6
    rows, times, operations, moved = [], 0.0, 0.0, 0.0
    for name, (call, flops, traffic) in kernels.items():
        ms = median_milliseconds(call)
        rows.append(_peak_row(name, ms, flops, traffic, gemm, copy))
        times, operations, moved = times + ms, operations + flops, moved + traffic
    rows.append(_peak_row("all four", times, operations, moved, gemm, copy))
    return Table(
        "Comparison with the machine's peak",
        f"Floating-point operations and bytes touched are counted from the sparse structure ({nodes} contexts with "
        f"{entries} entries, {edges} entries of Â, {width} hidden units in all). The same thread multiplies dense "
        f"single-precision matrices at {gemm:.0f} GFLOP/s and copies main memory at {copy:.1f} GB/s (read and "
        "written). The operands fit the caches, so a sparse product can exceed the copy; none comes near a dense one.",
        ["kernel", "ms", "MFLOP", "GFLOP/s", "of sgemm", "MB touched", "GB/s", "of a copy"],
        rows,
    )


def _peak_row(name, ms, flops, traffic, gemm, copy):
    speed, flow = flops / ms / 1e6, traffic / ms / 1e6
    return [
        name,
        shown(ms),
        f"{flops / 1e6:.1f}",
        f"{speed:.1f}",
        f"{speed / gemm:.0%}",
        f"{traffic / 1e6:.1f}",
        f"{flow:.1f}",
        f"{flow / copy:.0%}",
    ]


if __name__ == "__main__":
    main(profile, peak)
