"""Approximate search for the nearest nodes, over their lists of neighbors: best first, with a beam.

From nodes to start with, the nearest node that was met and is not expanded yet is expanded: all in its list, and those
that have it among the first of theirs, are met. It ends when the `beam` nearest that were met are expanded. A list of
near ones alone leads nowhere from a node that nobody lists, or into a group that only lists itself; the reversed lists
lead to the former, and starts that are near enough into the latter (see `agents.parts.neighbor_index`).

Distances here are rounded in any order; lists are filled by exact ones (`knn.offer`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]
Flags = NDArray[np.bool_]

EXPANDED, LISTERS = 24, 48
"""So many of a list, and so many that list a node, are met when it is expanded: some nodes are listed by thousands."""

ROUNDING = 2.0**-50
"""More than the rounding error of a squared distance, as a share of the squared lengths, for each column."""


class Layer(NamedTuple):
    """The lists to search, and how far they reach."""

    nodes: Columns  # (S,): the row of each
    neighbors: Columns  # (S, L)
    reach: Floats  # (S,): see `knn.Lists`
    norms2: Floats  # (S,)
    first: Columns  # (S,): see `reverse.Reverse`
    following: Columns  # (S·R,)


class Beam(NamedTuple):
    """The nearest that were met, nearest first."""

    nodes: Ints
    distances: Floats  # squared
    expanded: Flags


class Found(NamedTuple):
    """What a search returns."""

    nodes: Ints  # the nearest, up to the beam, nearest first
    distances: Floats  # squared
    candidates: Ints  # these and all others whose list may want the node, in any order


@fast_kernel
def _squared_distance(rows: CSR, row: int, dense: Floats, norm2: float) -> float:
    """Return ``‖x − q‖²`` of a row and a dense vector q whose ‖q‖² is `norm2`."""
    first, last = rows.indptr[row], rows.indptr[row + 1]
    total = 0.0
    if last - first == dense.shape[0]:  # a full row: its values are in the order of the columns
        values = rows.values[first:last]
        for c in range(dense.shape[0]):
            difference = values[c] - dense[c]
            total += difference * difference
        return total
    for p in range(first, last):
        total += rows.values[p] * (rows.values[p] - 2.0 * dense[rows.columns[p]])
    return max(norm2 + total, 0.0)


@fast_kernel
def _place(beam: Beam, size: int, node: int, distance: float) -> int:
    """Insert a node into the beam, of which `size` places are taken, after equal distances; returns its place.

    It is the length of the beam where the node is too far.
    """
    slot = size
    if size == beam.nodes.shape[0]:
        if distance >= beam.distances[size - 1]:
            return size
        slot = size - 1
    while slot > 0 and distance < beam.distances[slot - 1]:
        beam.nodes[slot] = beam.nodes[slot - 1]
        beam.distances[slot] = beam.distances[slot - 1]
        beam.expanded[slot] = beam.expanded[slot - 1]
        slot -= 1
    beam.nodes[slot], beam.distances[slot], beam.expanded[slot] = node, distance, False
    return slot


@fast_kernel
def _met_from(layer: Layer, near: int, node: int, met: Ints) -> int:
    """Write the nodes that are met when one is expanded; returns how many."""
    size = 0
    for a in range(min(layer.neighbors.shape[1], EXPANDED)):
        if layer.neighbors[node, a] >= 0:
            met[size] = layer.neighbors[node, a]
            size += 1
    entry, stop = layer.first[node], size + LISTERS
    while entry >= 0 and size < stop:
        met[size] = entry // near
        size += 1
        entry = layer.following[entry]
    return size


@fast_kernel
def search(
    layer: Layer, near: int, rows: CSR, row: int, starts: Ints, width: int, visited: Flags, dense: Floats
) -> Found:
    """Return the nodes nearest to a row.

    Arguments:
        layer: what to search.
        near: how many of each list are reversed.
        rows: all rows.
        row: which of them to search for.
        starts: nodes to start with.
        width: of the beam.
        visited: (S,), False everywhere, and again on return.
        dense: (D,), zeros, and again on return.
    """
    norm2 = 0.0
    for p in range(rows.indptr[row], rows.indptr[row + 1]):
        dense[rows.columns[p]] = rows.values[p]
        norm2 += rows.values[p] * rows.values[p]
    beam = Beam(np.empty(width, np.int64), np.empty(width), np.empty(width, np.bool_))
    seen, distances = np.empty(starts.shape[0] + 1024, np.int64), np.empty(starts.shape[0] + 1024)
    met, n_met = np.empty(max(EXPANDED + LISTERS, starts.shape[0]), np.int64), starts.shape[0]
    for a in range(n_met):
        met[a] = starts[a]
    n_seen, size, cursor = 0, 0, 0
    while True:
        if n_seen + n_met > seen.shape[0]:
            longer, further = np.empty(2 * (n_seen + n_met), np.int64), np.empty(2 * (n_seen + n_met))
            for a in range(n_seen):
                longer[a], further[a] = seen[a], distances[a]
            seen, distances = longer, further
        for a in range(n_met):
            if not visited[met[a]]:
                visited[met[a]] = True
                distance = _squared_distance(rows, layer.nodes[met[a]], dense, norm2)
                seen[n_seen], distances[n_seen] = met[a], distance
                n_seen += 1
                slot = _place(beam, size, met[a], distance)
                size = min(size + 1, width)
                cursor = min(cursor, slot)
        while cursor < size and beam.expanded[cursor]:
            cursor += 1
        if cursor == size:
            break
        beam.expanded[cursor] = True
        n_met = _met_from(layer, near, beam.nodes[cursor], met)
    for p in range(rows.indptr[row], rows.indptr[row + 1]):
        dense[rows.columns[p]] = 0.0
    wanted, rounding_slack = 0, ROUNDING * (dense.shape[0] + 4)
    for a in range(n_seen):
        i, visited[seen[a]] = seen[a], False
        lowest = distances[a] - rounding_slack * (layer.norms2[i] + norm2)
        if distances[a] <= beam.distances[size - 1] or lowest < layer.reach[i]:
            seen[wanted] = i
            wanted += 1
    return Found(beam.nodes[:size], beam.distances[:size], seen[:wanted].copy())
