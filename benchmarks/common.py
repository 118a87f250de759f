"""Shared by the benchmarks: timers, tables, and a main function that runs on one thread."""

import argparse
import json
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

SEED = 0

GIGABYTE = 2**30


class Table(NamedTuple):
    """A title, a paragraph, and rows of text under a header."""

    title: str
    text: str
    head: list[str]
    rows: list[list[str]]


class Stopwatch:
    """Records the time of each ``with`` block, in seconds of a clock."""

    def __init__(self, clock=time.perf_counter):
        self.clock, self.laps, self.before = clock, [], 0.0

    def __call__(self):
        return self

    def __enter__(self):  # not by contextlib, whose generator would count as a microsecond of the block
        self.before = self.clock()

    def __exit__(self, *_):
        self.laps.append(self.clock() - self.before)

    @property
    def milliseconds(self):
        """The mean time of a block."""
        return 1000 * float(np.mean(self.laps))

    @property
    def median(self):
        """The median time of a block, in milliseconds."""
        return 1000 * float(np.median(self.laps))


def median_milliseconds(function, repeats=15):
    """Return the median time of a call, after one call to warm up."""
    function()
    watch = Stopwatch()
    for _ in range(repeats):
        with watch():
            function()
    return 1000 * float(np.median(watch.laps))


def shown(milliseconds):
    """Return milliseconds as text with 3, 1 or 0 decimals, by size."""
    digits = 3 if milliseconds < 1 else 1 if milliseconds < 100 else 0
    return f"{milliseconds:.{digits}f}"


def times(slow, fast):
    """Return the ratio of two times as text."""
    ratio = slow / fast
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×"


def versions(*packages):
    """Return the names and versions of packages, for the note under a table."""
    return ", ".join(f"{name} {version(name)}" for name in packages)


def machine():
    """Return processor, system and Python version in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{model}, {platform.system()}, Python {platform.python_version()}"


def markdown(table):
    """Return the table as Markdown."""
    lines = [f"## {table.title}", "", table.text.strip(), ""]
    lines += ["| " + " | ".join(table.head) + " |", "|" + " --- |" * len(table.head)]
    lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def touch_memory(size=GIGABYTE):
    """Let the host of a virtual machine give it memory, which else is part of who first writes to it.

    Measured on one: 101 ms for the first 53 MB, which are LinUCB's on CNAE-9, and 8 ms for as many afterwards. A
    process of its own writes to so many bytes and ends; the machine keeps them.
    """
    subprocess.run([sys.executable, "-c", f"bytearray(b'1') * {size}"], check=True)


def main(*measures):
    """Run the measurements on one thread, print their tables and, with --json, write them to a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    tables = []
    touch_memory()
    with threadpool_limits(1):
        for measure in measures:
            tables.append(measure())
            print(markdown(tables[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([table._asdict() for table in tables]), encoding="utf-8")
