"""One stream, several methods, each in a process of its own, so that its peak memory is its own."""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
from common import SEED, Stopwatch, Table, markdown, shown
from peers import PEERS
from threadpoolctl import threadpool_limits

SILENT = 0.5
"""The share of rewards that never come."""

MOST_MEMORY = 8 * 2**30
"""A method that asks for more than this, in bytes of address space, has failed."""


def race(title, text, stream, methods, *, arms, features, steps, script, warm=(0, 0)):
    """Measure the methods and print a table; with --json, write it.

    Arguments:
        stream: a function of how many contexts come with their right arm, before the first decision, and of how many
            decisions there are; it yields contexts and right arms.
        methods: names of `PEERS`, and how many seconds each may take (None: as many as it needs).
        features: how many there are, None where they are words that nobody knows beforehand.
        steps, warm: how many decisions, and labelled contexts before them; both also with --short.
        script: the file that called, which is started again for each method.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--short", action="store_true", help=f"{steps[1]} decisions")
    parser.add_argument("--method", choices=methods, help="this one only, in this process; prints JSON")
    parser.add_argument("--only", help="some of the methods, comma-separated")
    given = parser.parse_args()
    labelled, count = warm[given.short], steps[given.short]
    if given.method:
        with threadpool_limits(1):
            found = measure(given.method, stream(labelled, count), arms, features, labelled, methods[given.method])
            print(json.dumps(found))
        return
    table = Table(title, text, HEAD, [])
    print(markdown(table), end="", flush=True)
    for name in given.only.split(",") if given.only else methods:
        command = [sys.executable, script, "--method", name, *["--short"] * given.short]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        table.rows.append(row_of(name, done, count))
        print("| " + " | ".join(table.rows[-1]) + " |", flush=True)
    if given.json:
        given.json.write_text(json.dumps([table._asdict()]), encoding="utf-8")


HEAD = ["method", "decisions", "ms, mean", "ms, median", "ms, last tenth", "peak MB", "right", "right, last quarter"]


def row_of(name, done, count):
    """Return the row of a process that is done, or its last words."""
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"killed ({done.returncode})"])[-1]
        return [name, "–", *["–"] * 5, last[:90]]
    found = json.loads(done.stdout)
    decisions = f"{found['decisions']}" if found["decisions"] == count else f"the first {found['decisions']}"
    times = [shown(found[key]) for key in ("mean", "median", "last")]
    right = [f"{found[key]:.1%}" if found[key] is not None else "–" for key in ("right", "late")]
    return [name, decisions, *times, f"{found['mb']:.0f}", *right]


def measure(name, stream, arms, features, warm, most_seconds):
    """Run one method over a stream; returns times in ms, the peak in MB and shares of right decisions."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    peer, rng = PEERS[name](arms, features), np.random.default_rng(SEED)
    if warm:
        peer.warm_start(*zip(*[next(stream) for _ in range(warm)], strict=True))
    watch, right, spent = Stopwatch(), [], 0.0
    for context, arm in stream:
        x = peer.form(context)
        silent = rng.random() < SILENT
        with watch():
            chosen = peer.decide(x)
        reward = None if silent else float(chosen == arm)
        with watch():
            peer.learn(x, chosen, reward)
        right.append(chosen == arm)
        spent += watch.laps[-1] + watch.laps[-2]
        if most_seconds is not None and spent > most_seconds:
            break
    laps = 1000 * np.add(watch.laps[::2], watch.laps[1::2])
    return {
        "decisions": len(right),
        "mean": float(laps.mean()),
        "median": float(np.median(laps)),
        "last": float(laps[-max(1, len(laps) // 10) :].mean()),
        "mb": peak_mb(),
        "right": float(np.mean(right)),
        "late": float(np.mean(right[-len(right) // 4 :])),
    }


def peak_mb():
    """Return the most memory that this process has taken, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
