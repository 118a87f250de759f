"""An exact k-nearest-neighbour graph that grows one node at a time, over sparse rows.

CSR live in the usual compressed form: row i is ``columns[indptr[i]:indptr[i+1]]`` with ``values`` alongside.
``neighbors`` (T, k) holds each node's nearest others, nearest first and the earlier node first among equals;
``distances`` (T, k) holds the squared distances, infinite where there are fewer than k others.

A node that joins is compared with all others twice. First roughly, by ``‖x‖² + ‖z‖² − 2xᵀz``, where an index by
columns (`Postings`) finds all products at the cost of the entries that the rows share with x. What this cannot rule
out, rounding allowed for, is then compared exactly: a few dozen rows as a rule, and all of them in the worst case, far
from the origin, where lengths and products cancel.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import fast_kernel, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

ROUNDING = 2.0**-50
"""Eight times the relative error of one operation: more than all operations on one entry of two rows add up to."""


@kernel
def _squared_distance(indptr: Ints, columns: Columns, values: Floats, i: int, j: int) -> float:
    """``‖x_i − x_j‖²``, exactly the same for equal rows.

    Differences are summed column by column, in the order of the columns: nothing cancels however far from the origin
    the rows are, equal rows are at distance exactly zero, and equal rows are exactly as far from any third.
    """
    total = 0.0
    p, p_stop = indptr[i], indptr[i + 1]
    q, q_stop = indptr[j], indptr[j + 1]
    while p < p_stop and q < q_stop:
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
    while p < p_stop:
        total += values[p] * values[p]
        p += 1
    while q < q_stop:
        total += values[q] * values[q]
        q += 1
    return total


class Postings(NamedTuple):
    """The first rows of the graph by columns: column c occurs in ``places[starts[c]:starts[c+1]]``, with values."""

    indexed: int
    starts: Ints
    places: Columns
    values: Floats


def postings(indptr: Ints, columns: Columns, values: Floats, nodes: Columns, dimension: int) -> Postings:
    """Index the rows `nodes`, whose places in the graph are 0, 1, …; none of them where half of all entries are there.

    Going through columns pays where rows share few of them; otherwise rows are faster one after the other.
    """
    entries = int((indptr[nodes + 1] - indptr[nodes]).sum())
    if 2 * entries > len(nodes) * dimension:
        nodes = nodes[:0]
    return Postings(len(nodes), *_postings(indptr, columns, values, nodes, dimension))


@kernel
def _postings(
    indptr: Ints, columns: Columns, values: Floats, nodes: Columns, dimension: int
) -> tuple[Ints, Columns, Floats]:
    starts = np.zeros(dimension + 1, np.int64)
    for place in range(nodes.shape[0]):
        for p in range(indptr[nodes[place]], indptr[nodes[place] + 1]):
            starts[columns[p] + 1] += 1
    for c in range(dimension):
        starts[c + 1] += starts[c]
    places = np.empty(starts[dimension], np.int32)
    by_column = np.empty(starts[dimension])
    fill = starts[:dimension].copy()
    for place in range(nodes.shape[0]):
        for p in range(indptr[nodes[place]], indptr[nodes[place] + 1]):
            places[fill[columns[p]]] = place
            by_column[fill[columns[p]]] = values[p]
            fill[columns[p]] += 1
    return starts, places, by_column


@fast_kernel
def _products(
    indptr: Ints, columns: Columns, values: Floats, nodes: Columns, index: Postings, place: int, stop: int
) -> Floats:
    """``xᵀz`` of one of `nodes` with the first `stop` of them, in whatever order of summation is fastest."""
    dimension = index.starts.shape[0] - 1
    row = np.zeros(dimension)
    products = np.zeros(stop)
    for p in range(indptr[nodes[place]], indptr[nodes[place] + 1]):
        c, value = columns[p], values[p]
        row[c] = value
        for q in range(index.starts[c], index.starts[c + 1]):
            products[index.places[q]] += value * index.values[q]
    for i in range(index.indexed, stop):
        first, last = indptr[nodes[i]], indptr[nodes[i] + 1]
        product = 0.0
        if last - first == dimension:  # no column is left out, so the two run side by side
            other = values[first:last]
            for c in range(dimension):
                product += other[c] * row[c]
        else:
            for p in range(first, last):
                product += values[p] * row[columns[p]]
        products[i] = product
    return products


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
def insert(
    neighbors: Columns,
    distances: Floats,
    kth_distance: Floats,
    squares: Floats,
    index: Postings,
    indptr: Ints,
    columns: Columns,
    values: Floats,
    nodes: Columns,
) -> None:
    """Let the last of `nodes` join: the others take it in where it is near enough, and it gets its own k nearest.

    `nodes` are rows of the compressed matrix; lists name places in `nodes`, and `index` covers some first part of them.
    ``kth_distance`` (T,) is the last column of `distances` and ``squares`` (T,) holds ‖x‖², contiguous for speed.
    """
    place, k = nodes.shape[0] - 1, distances.shape[1]
    node = nodes[place]
    for p in range(indptr[node], indptr[node + 1]):
        squares[place] += values[p] * values[p]
    products = _products(indptr, columns, values, nodes, index, place, place)
    rounding_slack = ROUNDING * (index.starts.shape[0] + 4)  # no row has more entries than there are columns
    own = np.inf
    for i in range(place):
        norms = squares[i] + squares[place]
        if norms - 2.0 * products[i] - rounding_slack * norms < max(kth_distance[i], own):
            exact = _squared_distance(indptr, columns, values, nodes[i], node)
            _place(neighbors[place], distances[place], i, exact)
            _place(neighbors[i], distances[i], place, exact)
            kth_distance[i] = distances[i, k - 1]
            own = distances[place, k - 1]
    kth_distance[place] = own


@kernel
def recompute(
    neighbors: Columns,
    distances: Floats,
    kth_distance: Floats,
    squares: Floats,
    index: Postings,
    indptr: Ints,
    columns: Columns,
    values: Floats,
    nodes: Columns,
    places: Ints,
) -> None:
    """Let some places of `nodes` look for their k nearest again, among all others; arguments as those of `insert`."""
    k = distances.shape[1]
    rounding_slack = ROUNDING * (index.starts.shape[0] + 4)
    for place in places:
        products = _products(indptr, columns, values, nodes, index, place, nodes.shape[0])
        neighbors[place] = -1
        distances[place] = np.inf
        for i in range(nodes.shape[0]):
            norms = squares[i] + squares[place]
            if i != place and norms - 2.0 * products[i] - rounding_slack * norms < distances[place, k - 1]:
                exact = _squared_distance(indptr, columns, values, nodes[place], nodes[i])
                _place(neighbors[place], distances[place], i, exact)
        kth_distance[place] = distances[place, k - 1]


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
def _connect(
    columns: Columns, values: NDArray[np.float32], fill: Ints, i: int, j: int, weight: float, scales: Floats
) -> None:
    """Write an edge into the rows of both its ends."""
    value = weight * scales[i] * scales[j]
    columns[fill[i]] = j
    values[fill[i]] = value
    fill[i] += 1
    columns[fill[j]] = i
    values[fill[j]] = value
    fill[j] += 1


@kernel
def normalized_adjacency(
    neighbors: Columns, distances: Floats, nodes: Columns, sources: Columns, targets: Columns, count: int
) -> tuple[Ints, Columns, NDArray[np.float32]]:
    """``Â = (𝒟+I)^(−1/2) (A+I) (𝒟+I)^(−1/2)`` over `count` nodes, as compressed rows.

    A has two kinds of undirected edges. Two of `nodes` are joined if either lists the other (the elementwise maximum),
    with ``A_ij = exp(−‖x_i − x_j‖² / σ²)``; where σ is 0 all listed pairs coincide and weigh 1. The nodes
    ``sources[e]`` and ``targets[e]`` are joined by an edge that was given, of weight 1.
    """
    places = nodes.shape[0]
    k = max(min(neighbors.shape[1], places - 1), 0)
    sigma = bandwidth(distances, places)
    rate = 0.0 if sigma == 0.0 else 1.0 / (sigma * sigma)
    weights = np.empty((places, k))
    degrees = np.ones(count)
    indptr = np.zeros(count + 1, np.int64)
    for i in range(places):
        for a in range(k):
            j = neighbors[i, a]
            mutual = False
            if j < i:
                for c in range(k):
                    mutual |= neighbors[j, c] == i
            if mutual:
                weights[i, a] = -1.0  # counted when j was the one listing i
                continue
            weights[i, a] = np.exp(-distances[i, a] * rate)
            degrees[nodes[i]] += weights[i, a]
            degrees[nodes[j]] += weights[i, a]
            indptr[nodes[i] + 1] += 1
            indptr[nodes[j] + 1] += 1
    for e in range(sources.shape[0]):
        degrees[sources[e]] += 1.0
        degrees[targets[e]] += 1.0
        indptr[sources[e] + 1] += 1
        indptr[targets[e] + 1] += 1
    for i in range(count):
        indptr[i + 1] += indptr[i] + 1
    columns = np.empty(indptr[count], np.int32)
    values = np.empty(indptr[count], np.float32)
    scales = 1.0 / np.sqrt(degrees)
    fill = indptr[:count].copy()
    for i in range(count):
        columns[fill[i]] = i
        values[fill[i]] = scales[i] * scales[i]
        fill[i] += 1
    for i in range(places):
        for a in range(k):
            if weights[i, a] >= 0.0:
                _connect(columns, values, fill, nodes[i], nodes[neighbors[i, a]], weights[i, a], scales)
    for e in range(sources.shape[0]):
        _connect(columns, values, fill, sources[e], targets[e], 1.0, scales)
    return indptr, columns, values
