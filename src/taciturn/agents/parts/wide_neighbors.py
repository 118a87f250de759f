"""Nearest neighbors of wide rows that are held in single precision, by exact distances all the same.

Products in single precision rule out most rows; those that they cannot, rounding errors included, are made in double
precision and compared (`kernels.knn`). So the lists are bit for bit those of rows that are held in double precision.
"""

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.rows import RowStore
from taciturn.kernels import knn
from taciturn.kernels.csr import CSR

Ints = NDArray[np.int64]

ROUNDING, UNDERFLOW = 2.0**-23, 2.0**-100
"""Rounding error of a squared distance, relative to the sum of both squared norms, per entry of the rows: twice that of
products and of rows which are rounded to single precision. And more than what is lost of numbers that are too small."""

TOO_MANY = 512
"""Where as many rows cannot be ruled out, and a quarter of all, all are held in double precision."""

AT_ONCE = 8
"""So many lists are measured at a time, of rows that are made for it."""


def insert(lists: knn.Lists, contexts: RowStore, nodes: NDArray[np.int32], near: int) -> knn.Changes | None:
    """As `knn.insert`, of the last of `nodes`; None if too many rows are too close to it."""
    slot = len(nodes) - 1
    candidates = _candidates(lists, contexts, nodes, slot, within_reach=True)
    if candidates is None:
        return None
    rows, places = _made(contexts, nodes, np.append(candidates, slot))
    return knn.offer(lists, rows, places, near, candidates)


def refill(lists: knn.Lists, contexts: RowStore, nodes: NDArray[np.int32], short: Ints) -> bool:
    """As `knn.refill`, if rows are held in single precision; returns whether it is done."""
    for slot in short.tolist():
        candidates = _candidates(lists, contexts, nodes, slot, within_reach=False)
        if candidates is None:
            return False
        rows, places = _made(contexts, nodes, np.union1d(candidates, [slot]))
        knn.fill(lists, rows, places, slot, candidates)
    return True


def measure(lists: knn.Lists, contexts: RowStore, nodes: NDArray[np.int32]) -> None:
    """As `knn.measure`."""
    for first in range(0, len(nodes), AT_ONCE):
        slots = slice(first, min(first + AT_ONCE, len(nodes)))
        listed = lists.neighbors[slots]
        used = np.union1d(np.arange(slots.start, slots.stop), listed[listed >= 0])
        rows, places = contexts.at(nodes[used].astype(np.int64))
        own, n_used = np.searchsorted(used, np.arange(slots.start, slots.stop)), len(used)
        neighbors, distances = np.zeros((n_used, listed.shape[1]), np.int32), np.zeros((n_used, listed.shape[1]))
        known, norms2 = np.zeros(n_used, np.int32), np.zeros(n_used)
        neighbors[own], known[own] = np.searchsorted(used, listed), lists.known[slots]
        distances[own] = lists.distances[slots]
        knn.measure(knn.Lists(neighbors, distances, known, norms2, norms2), rows, places.astype(np.int32))
        lists.distances[slots], lists.norms2[slots] = distances[own], norms2[own]


def _candidates(
    lists: knn.Lists, contexts: RowStore, nodes: NDArray[np.int32], slot: int, *, within_reach: bool
) -> Ints | None:
    """The slots, rising, that can be among the nearest of one, or it among theirs (`within_reach`); None: too many."""
    singles = contexts.dense_singles
    if singles is None:
        return None
    row = contexts[int(nodes[slot])].values
    norms = lists.norms2[: len(nodes)] + float(row @ row)
    about = norms - 2.0 * (singles @ singles[nodes[slot]])[nodes]
    slack = ROUNDING * (singles.shape[1] + 8) * norms + UNDERFLOW
    possible, width = about - slack <= np.inf, lists.neighbors.shape[1]
    if len(nodes) > width + 1:
        others = np.delete(about + slack, slot)
        possible = about - slack <= np.partition(others, width - 1)[width - 1]
    if within_reach:
        possible |= about - slack < lists.reach[: len(nodes)]
    possible[slot] = False
    found = np.flatnonzero(possible)
    return None if len(found) > max(TOO_MANY, len(nodes) // 4) else found


def _made(contexts: RowStore, nodes: NDArray[np.int32], slots: Ints) -> tuple[CSR, NDArray[np.int32]]:
    """Rows of some slots, and for each of all slots its place among them; it is 0 for the others."""
    rows, at = contexts.at(nodes[slots].astype(np.int64))
    places = np.zeros(len(nodes), np.int32)
    places[slots] = at
    return rows, places
