"""Approximate search for the nearest nodes, over their lists of neighbors: best first, with a beam.

From nodes to start with, the nearest nodes that were met and are not expanded yet are expanded, `AT_ONCE` at a time:
all in their lists, and some that have listed them (`Listers`), are met. It ends when none of the `beam` nearest that
were met is left to expand. A list of near ones alone leads nowhere from a node that nobody lists, or into a group that
only lists itself; the listers lead to the former, and starts that are near enough into the latter (see
`agents.parts.neighbor_index`).

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
Codes = NDArray[np.int16]
Marks = NDArray[np.uint8]

LISTERS, STAYING = 48, 24
"""So many that have listed a node are known, of which so many stay: the first, which are from far and near. The others
give way to later ones, which are nearer. Some nodes are listed by thousands."""

AT_ONCE = 4
"""So many nodes are expanded together, so that the search waits less often for memory: lists of the others are on their
way while those of the first are read, and rows of all that they name."""

Reals = NDArray[np.float32] | NDArray[np.float64]

SCALE, COLUMNS = 2**14 - 1, 32
"""Rows at unit length are coded as whole numbers ``round(SCALE x)``, whose differences have 16 bits, and their squared
distances 31. Their columns are so many, or several times as many: a line of a cache each."""

NO_CODES = np.zeros((0, COLUMNS), np.int16)


class Points(NamedTuple):
    """The rows that distances are taken of, in single or double precision."""

    rows: CSR
    matrix: Reals  # (T, D): the same values, where no row has zeros; otherwise (0, D)
    codes: Codes  # (T, W): these values coded, where rows are at unit length besides; otherwise (0, W)
    rounding: float  # more than the rounding error of a squared distance, as a share of squared lengths and columns


def points_of(rows: CSR, dimension: int, codes: Codes = NO_CODES) -> Points:
    """Rows of so many columns, to be searched."""
    count, values = len(rows.indptr) - 1, rows.values
    matrix = values if len(values) == count * dimension else values[:0]
    return Points(rows, matrix.reshape(-1, max(dimension, 1)), codes, 4.0 * float(np.finfo(values.dtype).eps))


MET, UNKNOWN = 128, 127
"""Of a mark: the bit that a node was met, and the code of a reach of which no bound is known."""

BOUNDS = np.append(4.0 * 2.0 ** ((np.arange(UNKNOWN) - (UNKNOWN - 1)) / 8.0), np.inf)
"""The bounds of a reach by their codes: steps of a twelfth, up to the largest squared distance at unit length."""


def marks_of(reach: Floats) -> Marks:
    """The codes of the lowest bounds of each reach (S,)."""
    return np.searchsorted(BOUNDS[:-1], reach).astype(np.uint8)


class Layer(NamedTuple):
    """What to search, and how far the lists of nearest nodes reach."""

    nodes: Columns  # (S,): the row of each
    neighbors: Columns  # (S, L): see `knn.Lists`
    listers: Columns  # (S, LISTERS): see `Listers`
    reach: Floats  # (S,): see `knn.Lists`
    marks: Marks  # (S,): codes of bounds of these


class Listers(NamedTuple):
    """Some of the nodes that have listed each, which may list it no longer."""

    by: Columns  # (S, LISTERS): these, then −1
    times: Columns  # (S,): how often one was noted


class Found(NamedTuple):
    """What a search returns."""

    nodes: Ints  # the nearest, up to the beam; distances rise
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
def _between_codes(one: Codes, other: Codes) -> int:
    """Return ``‖x − z‖²`` of two coded vectors; by casts, since sums of numba's have 64 bits, a quarter as many."""
    total = np.int32(0)
    for c in range(one.shape[0]):
        difference = np.int32(np.int16(one[c] - other[c]))
        total = np.int32(total + np.int32(difference * difference))
    return int(total)


@fast_kernel
def _measure(points: Points, met: Ints, size: int, row: int, dense: Floats, distances: Floats) -> None:
    """Write ``‖x_i − q‖²`` of the first `size` rows that were met; the row q is in `dense` where rows have zeros."""
    indptr, columns, values, matrix = points.rows.indptr, points.rows.columns, points.rows.values, points.matrix
    codes = points.codes
    if codes.shape[0]:
        for a in range(size):
            squared = _between_codes(codes[np.uint64(met[a])], codes[row])
            distances[a] = squared * (1.0 / SCALE**2)
        return
    if matrix.shape[0]:
        for a in range(size):
            distances[a] = _between(matrix[np.uint64(met[a])], matrix[row])
        return
    norm2 = 0.0
    for p in range(indptr[row], indptr[row + 1]):
        norm2 += values[p] * values[p]
    for a in range(size):
        total = norm2
        for p in range(indptr[met[a]], indptr[met[a] + 1]):
            total += values[p] * (values[p] - 2.0 * dense[np.uint64(columns[p])])
        distances[a] = max(total, 0.0)


@fast_kernel
def _enter(keys: Floats, nodes: Ints, size: int, key: float, node: int) -> int:
    """Enter a node among those of the lowest keys, which rise, in the place of the last of `size`; return its own."""
    at = size - 1
    while at > 0 and keys[np.uint64(at - 1)] > key:
        keys[np.uint64(at)], nodes[np.uint64(at)] = keys[np.uint64(at - 1)], nodes[np.uint64(at - 1)]
        at -= 1
    keys[np.uint64(at)], nodes[np.uint64(at)] = key, node
    return at


@fast_kernel
def _unmet(
    others: Columns | Ints, nodes: Columns, marks: Marks, points: Points, slots: Ints, rows: Ints, size: int
) -> int:
    """Write those of some slots that were not met yet, and their rows, behind the first `size`; returns how many now.

    The rows are fetched meanwhile, where they have no zeros. Without `nodes` they are the slots themselves.
    """
    codes, matrix = points.codes, points.matrix
    for other in others:
        if other < 0:
            break
        if marks[np.uint64(other)] < MET:
            marks[np.uint64(other)] |= np.uint8(MET)
            row = int(nodes[np.uint64(other)] if nodes.shape[0] else other)
            slots[size], rows[size] = other, row
            size += 1
            if codes.shape[0]:
                fetch(codes, row)
            elif matrix.shape[0]:
                fetch(matrix, row)
    return size


@fast_kernel
def _longer(keys: Floats, nodes: Ints, size: int) -> tuple[Floats, Ints]:
    """Return two arrays in others of twice the length."""
    longer_keys, longer_nodes = np.empty(2 * keys.shape[0]), np.empty(2 * keys.shape[0], np.int64)
    for a in range(size):
        longer_keys[a], longer_nodes[a] = keys[a], nodes[a]
    return longer_keys, longer_nodes


@fast_kernel
def _keep_candidates(
    layer: Layer, points: Points, row: int, farthest: float, distances: Floats, seen: Ints, size: int
) -> int:
    """Keep the candidates of the nodes that were met, at the front of `seen`, and unmark all; returns how many.

    Arguments, after those of `search`:
        farthest: how far the last of the nearest that are wanted is; all that are nearer are candidates.
        distances, seen: of the first `size`, by which a node that may want the row in its list is one too.
    """
    reach, marks, kept = layer.reach, layer.marks, 0
    rounding_slack = points.rounding * (points.matrix.shape[1] + 4)
    code_slack = 2.0 * np.sqrt(points.matrix.shape[1]) / SCALE if points.codes.shape[0] else 0.0  # each is off by 1/2
    norm2 = 0.0
    for p in range(points.rows.indptr[row], points.rows.indptr[row + 1]):
        norm2 += points.rows.values[p] * points.rows.values[p]
    farthest += code_slack * (np.sqrt(farthest) + code_slack / 4.0)
    for a in range(size):
        i, distance = np.uint64(seen[a]), distances[a]
        mark = marks[i] & np.uint8(MET - 1)
        marks[i] = mark
        # ‖x_i‖² ≤ 2 (‖q‖² + ‖x_i − q‖²), which takes no look at each row's own; nor is its reach read if it is too low.
        lowest = distance - rounding_slack * (3.0 * norm2 + 2.0 * distance) - code_slack * np.sqrt(distance)
        if lowest <= farthest or (lowest < BOUNDS[mark] and lowest < reach[i]):
            seen[kept] = seen[a]
            kept += 1
    return kept


@fast_kernel
def search(layer: Layer, points: Points, row: int, starts: Ints, width: int, wanted: int, dense: Floats) -> Found:
    """Return the nodes nearest to a row.

    Arguments:
        layer: what to search. None of its nodes is marked as met, nor on return.
        points: all rows.
        row: which of them to search for.
        starts: nodes to start with, none of them twice.
        width: of the beam.
        wanted: how many of the nearest are candidates.
        dense: (D,), zeros, and again on return.
    """
    # Arrays by themselves: in tuples, numba counts references to all of them at each use.
    nodes, neighbors, listers, marks = layer.nodes, layer.neighbors, layer.listers, layer.marks
    if nodes[nodes.shape[0] - 1] == nodes.shape[0] - 1:  # each row is the slot of the same number
        nodes = nodes[:0]
    for p in range(points.rows.indptr[row], points.rows.indptr[row + 1]):
        dense[points.rows.columns[p]] = points.rows.values[p]
    room = max(starts.shape[0], AT_ONCE * (neighbors.shape[1] + LISTERS))
    met, now = np.empty(room, np.int64), np.empty(AT_ONCE, np.int64)
    keys, nearest, n_nearest = np.empty(width), np.empty(width, np.int64), 0  # those expanded are there as ~node
    first = 0  # all before it are expanded
    distances, seen, n_seen = np.empty(room + 1024), np.empty(room + 1024, np.int64), 0
    n_met = _unmet(starts, nodes, marks, points, seen, met, 0)
    while True:
        _measure(points, met, n_met, row, dense, distances[n_seen:])
        for a in range(n_seen, n_seen + n_met):
            if n_nearest == width and distances[a] >= keys[np.uint64(width - 1)]:
                continue
            n_nearest = min(n_nearest + 1, width)
            first = min(first, _enter(keys, nearest, n_nearest, distances[a], seen[a]))
        n_seen, n_met, n_now = n_seen + n_met, 0, 0
        while first < n_nearest and n_now < AT_ONCE:
            node = nearest[np.uint64(first)]
            if node >= 0:
                fetch(neighbors, node)
                fetch(listers, node)
                now[n_now], nearest[np.uint64(first)] = node, ~node
                n_now += 1
            first += 1
        if n_now == 0:
            break
        if n_seen + room > seen.shape[0]:
            distances, seen = _longer(distances, seen, n_seen)
        for node in now[:n_now]:
            n_met = _unmet(neighbors[np.uint64(node)], nodes, marks, points, seen[n_seen:], met, n_met)
            n_met = _unmet(listers[np.uint64(node)], nodes, marks, points, seen[n_seen:], met, n_met)
    for p in range(points.rows.indptr[row], points.rows.indptr[row + 1]):
        dense[points.rows.columns[p]] = 0.0
    size = _keep_candidates(layer, points, row, keys[min(n_nearest, wanted) - 1], distances, seen, n_seen)
    return Found(~nearest[:n_nearest], seen[:size].copy())


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
