"""An exact k-nearest-neighbour graph that grows one node at a time, over sparse rows.

Rows live in the usual compressed form: row i is ``columns[indptr[i]:indptr[i+1]]`` with ``values`` alongside.
``neighbors`` (T, k) holds each node's nearest others, nearest first and the earlier node first among equals;
``distances`` (T, k) holds the squared distances, infinite where there are fewer than k others.
"""

import numpy as np
from numpy.typing import NDArray

from tacit.kernels.jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]


@kernel
def squared_distances(indptr: Ints, columns: Columns, values: Floats, node: int) -> Floats:
    """Squared distances (node,) from row `node` to all rows before it.

    Differences are summed column by column, in the order of the columns: nothing cancels however far from the origin
    the rows are, equal rows are at distance exactly zero, and equal rows are exactly as far from any third.
    """
    start, stop = indptr[node], indptr[node + 1]
    distances = np.empty(node)
    for i in range(node):
        total = 0.0
        p, q = indptr[i], start
        end = indptr[i + 1]
        while p < end and q < stop:
            if columns[p] == columns[q]:
                difference = values[p] - values[q]
                p += 1
                q += 1
            elif columns[p] < columns[q]:
                difference = values[p]
                p += 1
            else:
                difference = values[q]
                q += 1
            total += difference * difference
        while p < end:
            total += values[p] * values[p]
            p += 1
        while q < stop:
            total += values[q] * values[q]
            q += 1
        distances[i] = total
    return distances


@kernel
def _place(neighbors: Columns, distances: Floats, candidate: int, distance: float) -> None:
    """Put a candidate into one node's sorted lists (k,), after all that are as near; the last one falls out."""
    k = distances.shape[0]
    if distance >= distances[k - 1]:
        return
    slot = k - 1
    while slot > 0 and distance < distances[slot - 1]:
        distances[slot] = distances[slot - 1]
        neighbors[slot] = neighbors[slot - 1]
        slot -= 1
    distances[slot] = distance
    neighbors[slot] = candidate


@kernel
def insert(neighbors: Columns, distances: Floats, node: int, to_others: Floats) -> None:
    """Let `node` join: the others take it in where it is near enough, and it gets its own k nearest."""
    for i in range(node):
        _place(neighbors[node], distances[node], i, to_others[i])
        _place(neighbors[i], distances[i], node, to_others[i])


@kernel
def bandwidth(distances: Floats, nodes: int) -> float:
    """``σ``: the mean distance to the k-th neighbour, or to the furthest there is while there are fewer than k."""
    k = min(distances.shape[1], nodes - 1)
    if k < 1:
        return 0.0
    total = 0.0
    for i in range(nodes):
        total += np.sqrt(distances[i, k - 1])
    return total / nodes


@kernel
def similarity_edges(neighbors: Columns, distances: Floats, nodes: int) -> tuple[Columns, Columns, Floats]:
    """The undirected edges: each pair once if either end lists the other (the elementwise maximum), weighted.

    ``A_ij = exp(−‖x_i − x_j‖² / σ²)``; where σ is 0 all listed pairs coincide and weigh 1.
    """
    k = min(neighbors.shape[1], nodes - 1)
    sigma = bandwidth(distances, nodes)
    rate = 0.0 if sigma == 0.0 else 1.0 / (sigma * sigma)
    sources = np.empty(nodes * max(k, 0), np.int32)
    targets = np.empty(nodes * max(k, 0), np.int32)
    weights = np.empty(nodes * max(k, 0))
    count = 0
    for i in range(nodes):
        for a in range(k):
            j = neighbors[i, a]
            mutual = False
            for c in range(k):
                mutual = mutual or neighbors[j, c] == i
            if mutual and j < i:
                continue  # written when j was the one listing i
            sources[count] = i
            targets[count] = j
            weights[count] = np.exp(-distances[i, a] * rate)
            count += 1
    return sources[:count], targets[:count], weights[:count]


@kernel
def normalized_adjacency(
    sources: Columns, targets: Columns, weights: Floats, nodes: int
) -> tuple[Ints, Columns, NDArray[np.float32]]:
    """``Â = (𝒟+I)^(−1/2) (A+I) (𝒟+I)^(−1/2)`` as compressed rows, from undirected edges that each occur once."""
    indptr = np.zeros(nodes + 1, np.int64)
    degrees = np.ones(nodes)
    for e in range(sources.shape[0]):
        indptr[sources[e] + 1] += 1
        indptr[targets[e] + 1] += 1
        degrees[sources[e]] += weights[e]
        degrees[targets[e]] += weights[e]
    for i in range(nodes):
        indptr[i + 1] += indptr[i] + 1
    columns = np.empty(indptr[nodes], np.int32)
    values = np.empty(indptr[nodes], np.float32)
    fill = indptr[:nodes].copy()
    for i in range(nodes):
        columns[fill[i]] = i
        values[fill[i]] = 1.0 / degrees[i]
        fill[i] += 1
    for e in range(sources.shape[0]):
        i = sources[e]
        j = targets[e]
        value = weights[e] / np.sqrt(degrees[i] * degrees[j])
        columns[fill[i]] = j
        values[fill[i]] = value
        fill[i] += 1
        columns[fill[j]] = i
        values[fill[j]] = value
        fill[j] += 1
    return indptr, columns, values
