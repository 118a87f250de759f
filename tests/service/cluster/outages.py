"""How long requests took, and which fault made them wait."""

from bisect import bisect_left
from collections import Counter

import numpy as np
from rich.table import Table


def longest_waits(begun, timings):
    """Seconds of the longest request of each kind of fault.

    A request belongs to the first fault that began while it was under way, or else to the last one before it.
    """
    starts = [fault.at for fault in begun]
    longest = {}
    for timing in timings:
        after = bisect_left(starts, timing.begun)
        under_way = after < len(starts) and starts[after] <= timing.answered
        place = after if under_way else after - 1
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
        caption=f"{len(taken)} requests, {retries} retries; p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.0f} ms",
    )
    longest = longest_waits(outcome.begun, outcome.timings)
    for kind, times in sorted(Counter(fault.kind for fault in outcome.begun).items()):
        shown.add_row(kind, str(times), f"{longest.get(kind, 0.0):.2f}")
    return shown
