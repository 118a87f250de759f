"""Approximate search for the nearest nodes, over their lists of neighbors: best first, with a beam.

From nodes to start with, the nearest node that was met and is not expanded yet is expanded: all in its list, and some
that have listed it (`Listers`), are met. It ends when none of the `beam` nearest that were met is left to expand. A
list of near ones alone leads nowhere from a node that nobody lists, or into a group that only lists itself; the listers
lead to the former, and starts that are near enough into the latter (see `agents.parts.neighbor_index`).

Distances here are rounded, in any order; lists are filled by exact ones (`knn.offer`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.fetching import fetch
from taciturn.kernels.jit import fast_kernel, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]
Flags = NDArray[np.bool_]

LISTERS, STAYING = 48, 24
"""So many that have listed a node are known, of which so many stay: the first, which are from far and near. The others
give way to later ones, which are nearer. Some nodes are listed by thousands."""

Reals = NDArray[np.float32] | NDArray[np.float64]


class Points(NamedTuple):
    """The rows that distances are taken of, in single or double precision."""

    rows: CSR
    matrix: Reals  # (T, D): the same values, where no row has zeros; otherwise (0, D)
    rounding: float  # more than the rounding error of a squared distance, as a share of squared lengths and columns


def points_of(rows: CSR, dimension: int) -> Points:
    """Rows of so many columns, to be searched."""
    count, values = len(rows.indptr) - 1, rows.values
    matrix = values if len(values) == count * dimension else values[:0]
    return Points(rows, matrix.reshape(-1, max(dimension, 1)), 4.0 * float(np.finfo(values.dtype).eps))


class Layer(NamedTuple):
    """What to search, and how far the lists of nearest nodes reach."""

    nodes: Columns  # (S,): the row of each
    neighbors: Columns  # (S, L): see `knn.Lists`
    listers: Columns  # (S, LISTERS): see `Listers`
    reach: Floats  # (S,): see `knn.Lists`


class Listers(NamedTuple):
    """Some of the nodes that have listed each, which may list it no longer."""

    by: Columns  # (S, LISTERS): these, then −1
    times: Columns  # (S,): how often one was noted


class Found(NamedTuple):
    """What a search returns."""

    nodes: Ints  # the nearest, up to the beam, in any order
    candidates: Ints  # these that are near enough for the list, and all others whose list may want the node: any order


@fast_kernel
def _between(one: Reals, other: Reals) -> float:
    """Return ``‖x − z‖²`` of two vectors."""
    total = one.dtype.type(0)
    for c in range(one.shape[0]):
        difference = one[c] - other[c]
        total += difference * difference
    return float(total)


@fast_kernel
def _measure(points: Points, nodes: Columns, met: Ints, size: int, row: int, dense: Floats, distances: Floats) -> None:
    """Write ``‖x_i − q‖²`` of the rows of the first `size` nodes that were met, and the row q.

    It is in `dense` if rows have zeros.
    """
    indptr, columns, values, matrix = points.rows.indptr, points.rows.columns, points.rows.values, points.matrix
    if matrix.shape[0]:
        for a in range(size):
            distances[a] = _between(matrix[np.uint64(nodes[np.uint64(met[a])])], matrix[row])
        return
    norm2 = 0.0
    for p in range(indptr[row], indptr[row + 1]):
        norm2 += values[p] * values[p]
    for a in range(size):
        total = norm2
        for p in range(indptr[nodes[met[a]]], indptr[nodes[met[a]] + 1]):
            total += values[p] * (values[p] - 2.0 * dense[np.uint64(columns[p])])
        distances[a] = max(total, 0.0)


@fast_kernel
def _push(keys: Floats, nodes: Ints, size: int, key: float, node: int) -> None:
    """Add a node to a binary heap of the first `size`, with the lowest key on top."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if keys[above] <= key:
            break
        keys[at], nodes[at] = keys[above], nodes[above]
        at = above
    keys[at], nodes[at] = key, node


@fast_kernel
def _pop(keys: Floats, nodes: Ints, size: int) -> None:
    """Take the top off a heap of the first `size`."""
    last = size - 1
    key, node, at = keys[last], nodes[last], 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[at], nodes[at] = keys[below], nodes[below]
        at = below
    keys[at], nodes[at] = key, node


@fast_kernel
def _unmet(others: Columns, visited: Flags, met: Ints, size: int, nodes: Columns, matrix: Reals) -> int:
    """Write those of some nodes that were not met yet behind the first `size`; returns how many there are then.

    Their rows in `matrix` are fetched meanwhile, where there are any.
    """
    for other in others:
        if other < 0:
            break
        if not visited[np.uint64(other)]:
            visited[np.uint64(other)] = True
            met[size] = other
            size += 1
            if matrix.shape[0]:
                fetch(matrix, nodes[np.uint64(other)])
    return size


@fast_kernel
def _longer(keys: Floats, nodes: Ints, size: int) -> tuple[Floats, Ints]:
    """Return two arrays in others of twice the length."""
    longer_keys, longer_nodes = np.empty(2 * keys.shape[0]), np.empty(2 * keys.shape[0], np.int64)
    for a in range(size):
        longer_keys[a], longer_nodes[a] = keys[a], nodes[a]
    return longer_keys, longer_nodes


@fast_kernel
def search(
    layer: Layer, points: Points, row: int, starts: Ints, width: int, wanted: int, visited: Flags, dense: Floats
) -> Found:
    """Return the nodes nearest to a row.

    Arguments:
        layer: what to search.
        points: all rows.
        row: which of them to search for.
        starts: nodes to start with, none of them twice.
        width: of the beam.
        wanted: how many of the nearest are candidates.
        visited: (S,), False everywhere, and again on return.
        dense: (D,), zeros, and again on return.
    """
    # Arrays by themselves: in tuples, numba counts references to all of them at each use.
    nodes, neighbors, listers, reach, matrix = layer.nodes, layer.neighbors, layer.listers, layer.reach, points.matrix
    for p in range(points.rows.indptr[row], points.rows.indptr[row + 1]):
        dense[points.rows.columns[p]] = points.rows.values[p]
    room = max(starts.shape[0], neighbors.shape[1] + LISTERS)
    met, n_met = np.empty(room, np.int64), starts.shape[0]
    for a in range(n_met):
        met[a], visited[starts[a]] = starts[a], True
    keys, nearest = np.empty(width), np.empty(width, np.int64)  # a heap by negative distances: the farthest on top
    ahead_keys, ahead = np.empty(room + 1024), np.empty(room + 1024, np.int64)  # a heap of those to expand
    distances, seen = np.empty(room + 1024), np.empty(room + 1024, np.int64)
    n_seen, n_nearest, n_ahead = 0, 0, 0
    while True:
        if n_seen + n_met > seen.shape[0]:
            distances, seen = _longer(distances, seen, n_seen)
            ahead_keys, ahead = _longer(ahead_keys, ahead, n_ahead)
        for a in range(n_met):
            seen[n_seen + a] = met[a]
        _measure(points, nodes, met, n_met, row, dense, distances[n_seen:])
        for a in range(n_seen, n_seen + n_met):
            if n_nearest == width:
                if distances[a] >= -keys[0]:
                    continue
                _pop(keys, nearest, n_nearest)
                n_nearest -= 1
            _push(keys, nearest, n_nearest, -distances[a], seen[a])
            _push(ahead_keys, ahead, n_ahead, distances[a], seen[a])
            n_nearest, n_ahead = n_nearest + 1, n_ahead + 1
        n_seen += n_met
        if n_ahead == 0 or (n_nearest == width and ahead_keys[0] > -keys[0]):
            break
        node = ahead[0]
        _pop(ahead_keys, ahead, n_ahead)
        n_ahead -= 1
        if n_ahead:  # often the next to be expanded
            fetch(neighbors, ahead[0])
            fetch(listers, ahead[0])
        n_met = _unmet(neighbors[node], visited, met, 0, nodes, matrix)
        n_met = _unmet(listers[node], visited, met, n_met, nodes, matrix)
    for p in range(points.rows.indptr[row], points.rows.indptr[row + 1]):
        dense[points.rows.columns[p]] = 0.0
    found = nearest[:n_nearest].copy()
    while n_nearest > wanted:
        _pop(keys, nearest, n_nearest)
        n_nearest -= 1
    size, rounding_slack = 0, points.rounding * (dense.shape[0] + 4)
    norm2 = 0.0
    for p in range(points.rows.indptr[row], points.rows.indptr[row + 1]):
        norm2 += points.rows.values[p] * points.rows.values[p]
    for a in range(n_seen):
        i, visited[seen[a]] = seen[a], False
        # ‖x_i‖² ≤ 2 (‖q‖² + ‖x_i − q‖²), which takes no look at each row's own.
        lowest = distances[a] - rounding_slack * (3.0 * norm2 + 2.0 * distances[a])
        if lowest <= -keys[0] or lowest < reach[i]:
            seen[size] = i
            size += 1
    return Found(found, seen[:size].copy())


@kernel
def follow(listers: Listers, neighbors: Columns, slots: Ints) -> None:
    """Note that some nodes list their neighbors (S, L)."""
    for slot in slots:
        for a in range(neighbors.shape[1]):
            if neighbors[slot, a] >= 0:
                _note(listers, int(neighbors[slot, a]), slot)


@kernel
def _note(listers: Listers, node: int, by: int) -> None:
    """Note that a node is listed by another, in the first place that is free or else in turn, unless it is known."""
    for a in range(LISTERS):
        if listers.by[node, a] == by:
            return
    times = listers.times[node]
    place = times if times < LISTERS else STAYING + (times - LISTERS) % (LISTERS - STAYING)
    listers.by[node, place] = by
    listers.times[node] = times + 1


@kernel
def keep_listers(listers: Listers, slots: Ints, slot_now: Columns) -> None:
    """Move what is known of the `slots` that are kept, which rise, to their places now, without those evicted."""
    for now in range(slots.shape[0]):
        size = 0
        for a in range(LISTERS):
            by = listers.by[slots[now], a]
            if by >= 0 and slot_now[by] >= 0:
                listers.by[now, size] = slot_now[by]
                size += 1
        listers.by[now, size:] = -1
        listers.times[now] = size
