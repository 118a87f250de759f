"""The normalized adjacency ``Â = (𝒟+I)^(−1/2) (A+I) (𝒟+I)^(−1/2)`` of a graph: all of it, or what is around one node.

A has two kinds of undirected edges. Two nodes are connected if either is among the k nearest of the other (elementwise
maximum), with ``A_ij = exp(−‖x_i − x_j‖² / σ²)``, or 1 if σ is 0 (all listed pairs coincide then). Others are connected
by a given edge of weight 1. 𝒟 is the diagonal of row sums of A.

An edge between nearest neighbors belongs to the lower index if both list each other, and else to the one that lists the
other. A row of Â has the diagonal first, then the edges by the index they belong to, those of one index in the order of
its list, and then the given edges. Degrees are summed in that order. So both kernels here return the same bits.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

SMALLEST_NORMAL = 2.0**-1022
"""Below it numbers are denormal, and their inverse may be infinite."""

BLOCK = 1024
"""The mean distance is summed by blocks of so many nodes: an insertion changes few of them."""


class Graph(NamedTuple):
    """Nodes 0 … size−1, of which `nodes` are connected to their nearest among these."""

    neighbors: Columns  # (S, ≥ k): the indices in `nodes` of the nearest, nearest first
    distances: Floats  # (S, ≥ k): squared
    k: int
    nodes: Columns  # (S,): rising
    sources: Columns  # (E,): the ends of the given edges
    targets: Columns  # (E,)
    size: int


class Neighborhood(NamedTuple):
    """The rows of Â that are less than some steps from a node, with columns renumbered."""

    members: Ints  # (M,): the nodes up to that many steps away; the first is the node itself
    adjacency: CSR  # (M, M): the rows of those that are fewer steps away, in the order of Â; the others are empty


@kernel
def bandwidth(distances: Floats, k: int, count: int, sums: Floats) -> float:
    """Return σ: the mean distance to the k-th neighbor, or to the last of all others while there are fewer than k.

    ``sums`` holds the sum over each `BLOCK` of nodes, or NaN where it has to be made; they are made here.
    """
    k = min(k, count - 1)
    if k < 1:
        return 0.0
    total = 0.0
    for first in range(0, count, BLOCK):
        block = first // BLOCK
        if np.isnan(sums[block]):
            sums[block] = 0.0
            for i in range(first, min(first + BLOCK, count)):
                sums[block] += np.sqrt(distances[i, k - 1])
        total += sums[block]
    return total / count


@kernel
def _similarity(distance: float, sigma: float) -> float:
    """Return ``exp(−distance / σ²)`` of a squared distance, or 1 if σ is 0; never NaN."""
    if sigma == 0.0:
        return 1.0
    if sigma * sigma >= SMALLEST_NORMAL:
        return float(np.exp(-distance * (1.0 / (sigma * sigma))))
    ratio = np.sqrt(distance) / sigma  # a denormal σ² has lost its digits, and 1/σ² may be infinite
    return float(np.exp(-ratio * ratio))


@kernel
def _place_of(neighbors: Columns, k: int, i: int, j: int) -> int:
    """Return the place of j among the first k neighbors of i, or −1."""
    for a in range(k):
        if neighbors[i, a] == j:
            return a
    return -1


@kernel
def _connect(
    columns: Columns, values: NDArray[np.float32], next_slot: Ints, i: int, j: int, weight: float, scales: Floats
) -> None:
    """Append the edge between i and j to both rows of Â, at ``next_slot`` (T,), which advances."""
    value = weight * scales[i] * scales[j]
    columns[next_slot[i]] = j
    values[next_slot[i]] = value
    next_slot[i] += 1
    columns[next_slot[j]] = i
    values[next_slot[j]] = value
    next_slot[j] += 1


@kernel
def normalized_adjacency(graph: Graph) -> CSR:
    """Return Â (size, size)."""
    neighbors, nodes, count = graph.neighbors, graph.nodes, graph.size
    n_nodes = nodes.shape[0]
    k = max(min(graph.k, n_nodes - 1), 0)
    sums = np.empty(n_nodes // BLOCK + 1)
    for block in range(sums.shape[0]):
        sums[block] = np.nan
    sigma = bandwidth(graph.distances, k, n_nodes, sums)
    weights = np.empty((n_nodes, k))
    degrees, indptr = np.empty(count), np.empty(count + 1, np.int64)
    indptr[0] = 0
    for i in range(count):
        degrees[i], indptr[i + 1] = 1.0, 0
    for i in range(n_nodes):
        for a in range(k):
            j = int(neighbors[i, a])
            if j < i and _place_of(neighbors, k, j, i) >= 0:
                weights[i, a] = -1.0  # the edge belongs to j
                continue
            weights[i, a] = _similarity(graph.distances[i, a], sigma)
            degrees[nodes[i]] += weights[i, a]
            degrees[nodes[j]] += weights[i, a]
            indptr[nodes[i] + 1] += 1
            indptr[nodes[j] + 1] += 1
    for e in range(graph.sources.shape[0]):
        for end in (graph.sources[e], graph.targets[e]):
            degrees[end] += 1.0
            indptr[end + 1] += 1
    for i in range(count):
        indptr[i + 1] += indptr[i] + 1
    columns = np.empty(indptr[count], np.int32)
    values = np.empty(indptr[count], np.float32)
    scales, next_slot = np.empty(count), np.empty(count, np.int64)
    for i in range(count):
        scales[i] = 1.0 / np.sqrt(degrees[i])
        columns[indptr[i]] = i
        values[indptr[i]] = scales[i] * scales[i]
        next_slot[i] = indptr[i] + 1
    for i in range(n_nodes):
        for a in range(k):
            if weights[i, a] >= 0.0:
                _connect(columns, values, next_slot, nodes[i], nodes[neighbors[i, a]], weights[i, a], scales)
    for e in range(graph.sources.shape[0]):
        _connect(columns, values, next_slot, graph.sources[e], graph.targets[e], 1.0, scales)
    return CSR(indptr, columns, values)


class Links(NamedTuple):
    """What the rows of a graph need beside the lists."""

    sigma: float
    slots: Columns  # (size,): the index in `nodes` of each node, or −1
    first: Columns  # (S,): of the entries that list each index; see `reverse.Reverse`
    following: Columns  # (S·k,)
    first_edge: Ints  # (size,): likewise the given edges of each node: 2e is the source of edge e, 2e + 1 its target
    following_edge: Ints  # (2E,)
    most: int  # of the entries that list an index, the first so many count
    degrees: NDArray[np.float32]  # of some first nodes, where they are known; those of the others are made


class _Edges(NamedTuple):
    """Edges of the nodes that were reached, one after the other, in arrays with room for more."""

    others: Columns  # the other end
    weights: Floats
    own: NDArray[np.bool_]  # whether the edge belongs to the node


@kernel
def _with_room(edges: _Edges, size: int, more: int) -> _Edges:
    """Return the edges, in longer arrays if there is not enough room behind the first `size` of them."""
    if size + more <= edges.others.shape[0]:
        return edges
    room = 2 * (size + more)
    longer = _Edges(np.empty(room, np.int32), np.empty(room), np.empty(room, np.bool_))
    for e in range(size):
        longer.others[e], longer.weights[e], longer.own[e] = edges.others[e], edges.weights[e], edges.own[e]
    return longer


@kernel
def _most_edges(graph: Graph, links: Links, node: int) -> int:
    """Return how many edges a node has at most."""
    size, slot = 0, int(links.slots[node])
    if slot >= 0:
        size += graph.k
        entry, listing = links.first[slot], 0
        while entry >= 0 and listing < links.most:
            listing += 1
            entry = links.following[entry]
        size += listing
    end = links.first_edge[node]
    while end >= 0:
        size += 1
        end = links.following_edge[end]
    return size


@kernel
def _edges_of(graph: Graph, links: Links, node: int, edges: _Edges, size: int) -> int:
    """Write a node's edges behind the first `size`, in the order of Â, and return how many there are then."""
    slot, k = int(links.slots[node]), min(graph.k, graph.nodes.shape[0] - 1)
    if slot >= 0:
        entry, listed, listing = links.first[slot], 0, 0
        while entry >= 0 or listed < k:
            # Those with a lower index that list it come first, then its own list, then the others.
            i = entry // graph.k  # −1 where there is no entry
            belongs = listed < k and (entry < 0 or i > slot)
            if belongs:
                i = int(graph.neighbors[slot, listed])
                owner, place, counts = slot, listed, i > slot or _place_of(graph.neighbors, k, i, slot) < 0
                listed += 1
            else:
                owner, place = i, _place_of(graph.neighbors, k, i, slot)
                counts = i < slot or _place_of(graph.neighbors, k, slot, i) < 0
                listing += 1
                entry = links.following[entry] if listing < links.most else -1
            if counts:
                edges.others[size], edges.own[size] = graph.nodes[i], belongs
                edges.weights[size] = _similarity(graph.distances[owner, place], links.sigma)
                size += 1
    end = links.first_edge[node]
    while end >= 0:
        is_source = end % 2 == 0
        edges.others[size] = graph.targets[end // 2] if is_source else graph.sources[end // 2]
        edges.weights[size], edges.own[size] = 1.0, is_source
        size += 1
        end = links.following_edge[end]
    return size


@kernel
def neighborhood(graph: Graph, links: Links, node: int, steps: int, number: Columns) -> Neighborhood:
    """Return the rows of Â that are less than `steps` from a node: row by row what `normalized_adjacency` returns.

    Where `links` bound the entries that count, rows are shorter. It costs what the neighborhood does. ``number``
    (size,) is −1 everywhere, and is again on return.
    """
    edges = _Edges(np.empty(1024, np.int32), np.empty(1024), np.empty(1024, np.bool_))
    starts, members = np.empty(257, np.int64), np.empty(256, np.int64)
    starts[0], members[0], number[node] = 0, node, 0
    n_members, inner = 1, 0
    p = starts[0]  # a plain 0 would be compiled for once more, as a constant
    for _ in range(steps):
        reached = n_members
        while inner < reached:
            more = _most_edges(graph, links, members[inner])
            edges = _with_room(edges, p, more)
            if n_members + more >= members.shape[0]:  # as many new members at most
                members, starts = _twice(members, n_members + more), _twice(starts, n_members + more)
            stop = _edges_of(graph, links, members[inner], edges, p)
            for a in range(p, stop):
                if number[edges.others[a]] < 0:
                    number[edges.others[a]] = n_members
                    members[n_members] = edges.others[a]
                    n_members += 1
            p = stop
            inner += 1
            starts[inner] = p
    scales = np.empty(n_members)
    for m in range(n_members):
        if members[m] < links.degrees.shape[0]:
            scales[m] = 1.0 / np.sqrt(np.float64(links.degrees[members[m]]))
            continue
        first, stop = p, p
        if m < inner:
            first, stop = starts[m], starts[m + 1]
        else:
            edges = _with_room(edges, p, _most_edges(graph, links, members[m]))
            stop = _edges_of(graph, links, members[m], edges, p)
        degree = 1.0
        for a in range(first, stop):
            degree += edges.weights[a]
        scales[m] = 1.0 / np.sqrt(degree)
    indptr, kept = np.empty(n_members + 1, np.int64), np.empty(n_members, np.int64)
    columns, values = np.empty(p + inner, np.int32), np.empty(p + inner, np.float32)
    for m in range(inner):
        slot = starts[m] + m  # the edges before it, and a diagonal each
        indptr[m], columns[slot], values[slot] = slot, m, scales[m] * scales[m]
        for a in range(starts[m], starts[m + 1]):
            other = number[edges.others[a]]
            source, target = (m, other) if edges.own[a] else (other, m)
            columns[a + m + 1], values[a + m + 1] = other, edges.weights[a] * scales[source] * scales[target]
    for m in range(inner, n_members + 1):
        indptr[m] = p + inner
    for m in range(n_members):
        number[members[m]] = -1
        kept[m] = members[m]
    return Neighborhood(kept, CSR(indptr, columns, values))


@kernel
def _twice(array: Ints, size: int) -> Ints:
    """Return an array in one with room for twice as many entries as `size`."""
    longer = np.empty(2 * size + 1, np.int64)
    for i in range(array.shape[0]):
        longer[i] = array[i]
    return longer


@kernel
def link_edges(first: Ints, last: Ints, following: Ints, sources: Columns, targets: Columns, start: int) -> None:
    """Append the ends of the given edges from `start` on to those of their nodes; see `Links`."""
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
