"""The normalized adjacency ``Â = (𝒟+I)^(−1/2) (A+I) (𝒟+I)^(−1/2)`` of a graph: all of it, or what is around one node.

A has two kinds of undirected edges. Two nodes are connected if either is among the k nearest of the other (elementwise
maximum), with ``A_ij = exp(−‖x_i − x_j‖² / σ²)``, or 1 if σ is 0 (all listed pairs coincide then). Others are connected
by a given edge of weight 1. 𝒟 is the diagonal of row sums of A.

An edge between nearest neighbors belongs to the lower index if both list each other, and else to the one that lists the
other. A row of Â has the diagonal first, then the edges by the index they belong to, those of one index in the order of
its list, and then the given edges. Degrees are summed in that order, so that all rows and those of a neighborhood have
the same bits.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.exponential import exp_of_negative
from taciturn.kernels.jit import inner_kernel, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]
Index = int | np.int64

BLOCK = 1024
"""The mean distance is summed by blocks of so many nodes: an insertion changes few of them."""

FEW_ENTRIES = 2**13
"""There is room for so many entries of a neighborhood, where nobody knows better."""


UNBOUNDED = 2**62
NO_DEGREES = np.zeros(0, np.float32)


class Graph(NamedTuple):
    """Nodes 0 … size−1, of which S, one for each index, are connected to their nearest among these."""

    neighbors: Columns  # (S, ≥ k): the indices of the nearest, nearest first
    distances: Floats  # (S, ≥ k): squared
    k: int
    sigma: float  # see `bandwidth`
    nodes: Columns  # (S,): rising
    slots: Columns  # (size,): the index of each node in `nodes`, or −1
    first: Columns  # (S,): of the entries that list each index; see `reverse.Reverse`
    following: Columns  # (S·k,)
    sources: Columns  # (E,): the ends of the given edges
    targets: Columns  # (E,)
    first_edge: Ints  # (size,): of the given edges of each node: 2e is the source of edge e, 2e + 1 its target
    following_edge: Ints  # (2E,)
    most: int = UNBOUNDED  # of the entries that list an index, the first so many count
    degrees: NDArray[np.float32] = NO_DEGREES  # of some first nodes, where they are known; those of the others are made


class Neighborhood(NamedTuple):
    """The rows of Â that are less than some steps from a node, with columns renumbered."""

    members: Ints  # (M,): the nodes up to that many steps away; the first is the node itself
    adjacency: CSR  # (M, M): the rows of those that are fewer steps away, in the order of Â; the others are empty


def bandwidth(farthest: Floats, sums: Floats) -> float:
    """Return σ: the mean distance to the k-th neighbor, or to the last of all others while there are fewer than k.

    ``farthest`` (S,) are the squares of these distances. ``sums`` holds their sum over each `BLOCK` of nodes, or NaN
    where it has to be made; they are made here.
    """
    count = len(farthest)
    if count < 2:
        return 0.0
    whole = count // BLOCK
    changed = np.flatnonzero(np.isnan(sums[:whole]))
    sums[changed] = np.sqrt(farthest[: whole * BLOCK].reshape(whole, BLOCK)[changed]).sum(axis=1)
    if count > whole * BLOCK:
        sums[whole] = np.sqrt(farthest[whole * BLOCK :]).sum()
    return float(sums[: -(-count // BLOCK)].sum()) / count


@inner_kernel
def _place_of(neighbors: Columns, k: int, i: Index, j: Index) -> int:
    """Return the place of j among the first k neighbors of i, or −1."""
    for a in range(k):
        if neighbors[i, a] == j:
            return a
    return -1


class ListEdges(NamedTuple):
    """The edges between nearest neighbors: the first k of each index, and which of them belong to it."""

    others: Columns  # (S, k): the other index, or any where there are fewer than k
    distances: Floats  # (S, k): squared
    counts: NDArray[np.bool_]  # (S, k)


@kernel
def note_edges(
    neighbors: Columns, distances: Floats, indices: Ints, others: Columns, lengths: Floats, counts: NDArray[np.bool_]
) -> None:
    """Write the edges of some indices to `ListEdges`, by the lists of now; −1 is none."""
    for i in indices:
        for a in range(others.shape[1] if i >= 0 else 0):
            j = np.int64(neighbors[i, a])
            others[i, a], lengths[i, a] = j * (j > 0), distances[i, a]
            counts[i, a] = j > i or (j >= 0 and _place_of(neighbors, others.shape[1], j, i) < 0)


@kernel
def _make_rows(
    neighbors: Columns,
    distances: Floats,
    k: int,
    sigma: float,
    nodes: Columns,
    slots: Columns,
    first: Columns,
    following: Columns,
    sources: Columns,
    targets: Columns,
    first_edge: Ints,
    following_edge: Ints,
    most: int,
    degrees: NDArray[np.float32],
    members: Ints,
    size: int,
    steps: int,
    number: Columns,
    scales: Floats,
    indptr: Ints,
    columns: Columns,
    weights: Floats,
    values: NDArray[np.float32],
) -> int:
    """Write the rows of Â less than `steps` from some nodes, with columns renumbered.

    Arguments, after the fields of a `Graph` with σ above 0:
        members: the nodes to start with, and then all that are up to `steps` away, in the order in which they are met.
        size: how many nodes to start with.
        steps: how far to go.
        number: the place of each node among the members, −1 of all others; afterwards too.
        scales: (𝒟+I)^(−1/2) of each member.
        indptr: where the row of each member begins; those that are `steps` away have an empty one.
        columns, weights, values: the entries of the rows, of A + I and of Â.

    Returns how many members there are, or −1 if there is no room for all entries; what was written is void then.
    """
    m, start, listing, scale = 0, 0, min(k, nodes.shape[0] - 1), 1.0 / sigma
    for step in range(steps + 1):
        reached = size
        while m < reached:
            indptr[m], node = start, members[m]
            if step == steps and node < degrees.shape[0]:
                scales[m] = 1.0 / np.sqrt(np.float64(degrees[node]))
                m += 1
                continue
            slot = np.int64(slots[node])  # indices are all of one type: `_place_of` is compiled once
            end, listed, entry, listers = first_edge[node], listing, np.int64(-1), 0
            if slot >= 0:
                listed, entry = 0, np.int64(first[slot])
            stop, degree, other, weight = start, 0.0, node, 1.0  # the diagonal comes first
            while other >= 0:
                if stop >= columns.shape[0]:
                    return -1
                columns[stop], weights[stop] = other, weight
                degree += weight
                stop += 1
                other = -1
                while other < 0 and (entry >= 0 or listed < listing):
                    # Those with a lower index that list it come first, then its own list, then the others.
                    if listed < listing and (entry < 0 or entry > slot * k):
                        owner, place, i = slot, listed, np.int64(neighbors[slot, listed])
                        counts = i > slot or _place_of(neighbors, listing, i, slot) < 0
                        listed += 1
                    else:
                        owner = i = entry // k
                        place = _place_of(neighbors, listing, i, slot)
                        counts = i < slot or _place_of(neighbors, listing, slot, i) < 0
                        listers += 1
                        entry = np.int64(following[entry]) if listers < most else np.int64(-1)
                    if counts:
                        other, weight = int(nodes[i]), exp_of_negative(-distances[owner, place] * scale * scale)
                if other < 0 <= end:
                    other, weight = int(sources[end // 2] if end % 2 else targets[end // 2]), 1.0
                    end = following_edge[end]
            if node < degrees.shape[0]:
                degree = np.float64(degrees[node])
            scales[m] = 1.0 / np.sqrt(degree)
            if step < steps:
                while start < stop:
                    other = int(columns[start])
                    if number[other] < 0:
                        number[other], members[size] = size, other
                        size += 1
                    columns[start] = number[other]
                    start += 1
            m += 1
    indptr[m] = start
    for row in range(m):
        for p in range(indptr[row], indptr[row + 1]):
            values[p] = weights[p] * (scales[row] * scales[columns[p]])
    return size


def _rows_from(graph: Graph, nodes: Ints, steps: int, number: Columns, room: int) -> Neighborhood | None:
    """The rows of Â less than `steps` from some nodes, which have their ``number``; None if there are more entries."""
    size = min(room, len(number)) + 1
    members, scales, indptr = np.empty(size, np.int64), np.empty(size), np.empty(size + 1, np.int64)
    columns, weights, values = np.empty(room, np.int32), np.empty(room), np.empty(room, np.float32)
    members[: len(nodes)] = nodes
    graph = graph._replace(sigma=graph.sigma or 1.0)  # all listed pairs coincide if it is 0
    of_rows = indptr, columns, weights, values
    size = _make_rows(*graph, members, len(nodes), steps, number, scales, *of_rows)
    if size < 0:
        return None
    for array in (columns, values):
        array.resize(indptr[size], refcheck=False)  # which gives memory back, where a copy would take more
    return Neighborhood(members[:size].copy(), CSR(indptr[: size + 1].copy(), columns, values))


@kernel
def _make_all(
    others: Columns,
    distances: Floats,
    counts: NDArray[np.bool_],
    sigma: float,
    nodes: Columns,
    sources: Columns,
    targets: Columns,
    left: Columns,
    right: Columns,
    weights: Floats,
    scales: Floats,
    indptr: Ints,
    ends: Ints,
    columns: Columns,
    values: NDArray[np.float32],
) -> None:
    """Write all rows of Â as `_make_rows` would, each edge at both ends at once: that takes less than half of the time.

    Arguments, after `ListEdges` and what else is of a `Graph` with σ above 0: room for the ends and the weights of all
    edges, and one more (S·k + E + 1,); ones, which become (𝒟+I)^(−1/2) (size,); zeros, where rows begin (size+1,) and
    where they end so far (size,); and the entries. Edges are listed first and passed over twice: without a branch that
    cannot be predicted.
    """
    scale, count, one = 1.0 / sigma, np.uint64(0), np.uint64(1)
    for i in range(nodes.shape[0]):
        for a in range(others.shape[1]):
            left[count], right[count], weights[count] = nodes[i], nodes[np.uint64(others[i, a])], distances[i, a]
            count += np.uint64(counts[i, a])
    for e in range(sources.shape[0]):
        left[count], right[count], weights[count] = sources[e], targets[e], 0.0  # exp(−0) is their weight
        count += one
    for e in range(np.int64(count)):  # by itself, it is vector code
        weights[e] = exp_of_negative(-weights[e] * scale * scale)
    for e in range(count):
        begin, end = np.uint64(left[e]), np.uint64(right[e])
        scales[begin] += weights[e]
        scales[end] += weights[e]
        indptr[begin + one] += 1
        indptr[end + one] += 1
    for i in range(scales.shape[0]):
        start = np.uint64(indptr[i])
        indptr[i + 1] += indptr[i] + 1
        scales[i] = 1.0 / np.sqrt(scales[i])
        columns[start], values[start] = i, scales[i] * scales[i]
        ends[i] = indptr[i] + 1
    for e in range(count):
        begin, end = np.uint64(left[e]), np.uint64(right[e])
        value = weights[e] * (scales[begin] * scales[end])
        columns[np.uint64(ends[begin])], values[np.uint64(ends[begin])] = end, value
        columns[np.uint64(ends[end])], values[np.uint64(ends[end])] = begin, value
        ends[begin] += 1
        ends[end] += 1


def normalized_adjacency(
    edges: ListEdges, sigma: float, nodes: Columns, sources: Columns, targets: Columns, size: int
) -> CSR:
    """Return Â (size, size); all but the edges of the lists is as in `Graph`."""
    n_edges = edges.others.shape[1] * len(nodes) + len(sources)
    room = size + 2 * n_edges
    indptr, columns, values = np.zeros(size + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.float32)
    listed = np.empty(n_edges + 1, np.int32), np.empty(n_edges + 1, np.int32), np.empty(n_edges + 1)
    given = *edges, sigma or 1.0, nodes, sources, targets  # all listed pairs coincide if σ is 0
    _make_all(*given, *listed, np.ones(size), indptr, np.empty(size, np.int64), columns, values)
    for array in (columns, values):
        array.resize(indptr[-1], refcheck=False)  # which gives memory back, where a copy would take more
    return CSR(indptr, columns, values)


def neighborhood(graph: Graph, node: int, steps: int, number: Columns, room: int = FEW_ENTRIES) -> Neighborhood:
    """Return the rows of Â that are less than `steps` from a node: row by row what `normalized_adjacency` returns.

    Where the graph bounds the entries that count, rows are shorter. It costs what the neighborhood does. ``number``
    (size,) is −1 everywhere, and is again on return. A neighborhood of more entries than there is `room` for is made
    again, with room for four times as many.
    """
    found = None
    while found is None:
        number[node] = 0
        found = _rows_from(graph, np.array([node]), steps, number, room)
        number[slice(None) if found is None else found.members] = -1
        room *= 4
    return found


@kernel
def link_edges(first: Ints, last: Ints, following: Ints, sources: Columns, targets: Columns, start: int) -> None:
    """Append the ends of the given edges from `start` on to those of their nodes; see `Graph`."""
    for e in range(start, sources.shape[0]):
        for end in range(2 * e, 2 * e + 2):
            node = sources[e] if end == 2 * e else targets[e]
            following[end] = -1
            if last[node] < 0:
                first[node] = end
            else:
                following[last[node]] = end
            last[node] = end


def heaviest(matrix: CSR, most: int) -> CSR:
    """Return a matrix with at most so many entries in a row: the largest, the first among equals, in their order."""
    indptr, columns, values = matrix
    lengths = np.diff(indptr)
    if lengths.max(initial=0) <= most:
        return matrix
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((-values, rows))  # within each row
    kept = np.sort(order[np.arange(len(order)) - indptr[rows] < most])
    shorter = np.concatenate([[0], np.cumsum(np.minimum(lengths, most))])
    return CSR(shorter, columns[kept], values[kept])
