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
def bandwidth(distances: Floats, k: int, count: int) -> float:
    """Return σ: the mean distance to the k-th neighbor, or to the last of all others while there are fewer than k."""
    k = min(k, count - 1)
    if k < 1:
        return 0.0
    total = 0.0
    for i in range(count):
        total += np.sqrt(distances[i, k - 1])
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
    sigma = bandwidth(graph.distances, k, n_nodes)
    weights = np.empty((n_nodes, k))
    degrees = np.ones(count)
    indptr = np.zeros(count + 1, np.int64)
    for i in range(n_nodes):
        for a in range(k):
            j = neighbors[i, a]
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
    scales = 1.0 / np.sqrt(degrees)
    next_slot = indptr[:count].copy()
    for i in range(count):
        columns[next_slot[i]] = i
        values[next_slot[i]] = scales[i] * scales[i]
        next_slot[i] += 1
    for i in range(n_nodes):
        for a in range(k):
            if weights[i, a] >= 0.0:
                _connect(columns, values, next_slot, nodes[i], nodes[neighbors[i, a]], weights[i, a], scales)
    for e in range(graph.sources.shape[0]):
        _connect(columns, values, next_slot, graph.sources[e], graph.targets[e], 1.0, scales)
    return CSR(indptr, columns, values)


class _Reverse(NamedTuple):
    """What the rows of a graph need beside the lists."""

    k: int  # of neighbors that every list has
    sigma: float
    slots: Columns  # (size,): the index in `nodes` of each node, or −1
    starts: Ints  # (S+1,): `listed_by[starts[j]:starts[j+1]]` list j, rising
    listed_by: Columns
    edge_starts: Ints  # (size+1,): likewise the given edges of each node
    edges: Columns


@kernel
def _reverse(graph: Graph) -> _Reverse:
    """Return the lists reversed, and the given edges by node."""
    n_nodes = graph.nodes.shape[0]
    k = max(min(graph.k, n_nodes - 1), 0)
    slots = np.full(graph.size, -1, np.int32)
    starts = np.zeros(n_nodes + 2, np.int64)
    for i in range(n_nodes):
        slots[graph.nodes[i]] = i
        for a in range(k):
            starts[graph.neighbors[i, a] + 2] += 1
    for i in range(n_nodes):
        starts[i + 2] += starts[i + 1]
    listed_by = np.empty(n_nodes * k, np.int32)
    for i in range(n_nodes):
        for a in range(k):
            j = graph.neighbors[i, a]
            listed_by[starts[j + 1]] = i  # one entry further on: it is the end of j's when all are written
            starts[j + 1] += 1
    edge_starts = np.zeros(graph.size + 2, np.int64)
    for e in range(graph.sources.shape[0]):
        for end in (graph.sources[e], graph.targets[e]):
            edge_starts[end + 2] += 1
    for i in range(graph.size):
        edge_starts[i + 2] += edge_starts[i + 1]
    edges = np.empty(2 * graph.sources.shape[0], np.int32)
    for e in range(graph.sources.shape[0]):
        for end in (graph.sources[e], graph.targets[e]):
            edges[edge_starts[end + 1]] = e
            edge_starts[end + 1] += 1
    sigma = bandwidth(graph.distances, k, n_nodes)
    return _Reverse(k, sigma, slots, starts[: n_nodes + 1], listed_by, edge_starts[: graph.size + 1], edges)


@kernel
def _edge_from(graph: Graph, reverse: _Reverse, owner: int, slot: int) -> float:
    """Return the weight of the edge from one that lists `slot`."""
    return _similarity(graph.distances[owner, _place_of(graph.neighbors, reverse.k, owner, slot)], reverse.sigma)


@kernel
def _edges_of(
    graph: Graph, reverse: _Reverse, node: int, others: Columns, weights: Floats, own: NDArray[np.bool_]
) -> int:
    """Write the other ends and the weights of a node's edges, in the order of Â, and return how many there are.

    ``own`` says which belong to the node.
    """
    size, slot, k = 0, reverse.slots[node], reverse.k
    if slot >= 0:
        p, stop = reverse.starts[slot], reverse.starts[slot + 1]
        while p < stop and reverse.listed_by[p] < slot:
            i = reverse.listed_by[p]
            others[size], weights[size], own[size] = graph.nodes[i], _edge_from(graph, reverse, i, slot), False
            size += 1
            p += 1
        for a in range(k):
            j = graph.neighbors[slot, a]
            if j > slot or _place_of(graph.neighbors, k, j, slot) < 0:
                weight = _similarity(graph.distances[slot, a], reverse.sigma)
                others[size], weights[size], own[size] = graph.nodes[j], weight, True
                size += 1
        while p < stop:
            i = reverse.listed_by[p]
            if _place_of(graph.neighbors, k, slot, i) < 0:
                others[size], weights[size], own[size] = graph.nodes[i], _edge_from(graph, reverse, i, slot), False
                size += 1
            p += 1
    for p in range(reverse.edge_starts[node], reverse.edge_starts[node + 1]):
        source, target = graph.sources[reverse.edges[p]], graph.targets[reverse.edges[p]]
        others[size], weights[size], own[size] = (target if source == node else source), 1.0, source == node
        size += 1
    return size


@kernel
def neighborhood(graph: Graph, node: int, steps: int) -> Neighborhood:
    """Return the rows of Â that are less than `steps` from a node: row by row what `normalized_adjacency` returns.

    Lists are reversed at a cost of S·k; everything else costs what the neighborhood does.
    """
    reverse = _reverse(graph)
    ends = 2 * (graph.nodes.shape[0] * reverse.k + graph.sources.shape[0])
    others, weights, own = np.empty(ends, np.int32), np.empty(ends), np.empty(ends, np.bool_)
    starts = np.zeros(graph.size + 1, np.int64)  # where the edges of each member begin in these
    number = np.full(graph.size, -1, np.int32)  # of each node among the members
    members = np.empty(graph.size, np.int64)
    members[0], number[node], n_members, inner, p = node, 0, 1, 0, 0
    for _ in range(steps):
        reached = n_members
        while inner < reached:
            size = _edges_of(graph, reverse, members[inner], others[p:], weights[p:], own[p:])
            for a in range(p, p + size):
                if number[others[a]] < 0:
                    number[others[a]] = n_members
                    members[n_members] = others[a]
                    n_members += 1
            p += size
            inner += 1
            starts[inner] = p
    scales = np.empty(n_members)
    for m in range(n_members):
        first, stop = starts[m], starts[m + 1]
        if m >= inner:
            first, stop = p, p + _edges_of(graph, reverse, members[m], others[p:], weights[p:], own[p:])
        degree = 1.0
        for a in range(first, stop):
            degree += weights[a]
        scales[m] = 1.0 / np.sqrt(degree)
    indptr = np.full(n_members + 1, p + inner)
    columns, values = np.empty(p + inner, np.int32), np.empty(p + inner, np.float32)
    for m in range(inner):
        slot = starts[m] + m  # the edges before it, and a diagonal each
        indptr[m], columns[slot], values[slot] = slot, m, scales[m] * scales[m]
        for a in range(starts[m], starts[m + 1]):
            other = number[others[a]]
            source, target = (m, other) if own[a] else (other, m)
            columns[a + m + 1], values[a + m + 1] = other, weights[a] * scales[source] * scales[target]
    return Neighborhood(members[:n_members].copy(), CSR(indptr, columns, values))
