"""How long requests took, and which fault made them wait."""

from bisect import bisect_right
from collections import Counter

import numpy as np
from rich.table import Table

ALREADY_WAITING = 0.5
"""Seconds after which a request that has no answer yet is waiting because of a fault."""


def longest_waits(begun, timings):
    """Seconds of the longest request of each kind of fault.

    A request belongs to the last fault that began before it, or `ALREADY_WAITING` seconds later: one that had waited
    longer by then was waiting because of the fault before. Faults overlap, so this is a hint and not a proof.
    """
    starts = [fault.at for fault in begun]
    longest = {}
    for timing in timings:
        place = bisect_right(starts, min(timing.begun + ALREADY_WAITING, timing.answered)) - 1
        if place >= 0:
            kind = begun[place].kind
            longest[kind] = max(longest.get(kind, 0.0), timing.answered - timing.begun)
    return longest


def table(outcome):
    """What was done and how long it took, for a terminal."""
    taken = np.array([timing.answered - timing.begun for timing in outcome.timings])
    retries = sum(timing.retries for timing in outcome.timings)
    p50, p99 = np.quantile(taken, [0.5, 0.99])
    shown = Table(
        "fault",
        "times",
        "longest request, s",
        title=f"{len(outcome.begun)} faults, {len(outcome.violations)} violations",
        caption=f"{len(taken)} requests, {retries} retries\np50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.0f} ms",
    )
    longest = longest_waits(outcome.begun, outcome.timings)
    for kind, times in sorted(Counter(fault.kind for fault in outcome.begun).items()):
        shown.add_row(kind, str(times), f"{longest.get(kind, 0.0):.2f}")
    return shown
