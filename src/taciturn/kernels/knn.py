"""An exact k-nearest-neighbor graph over sparse rows, built one node at a time.

The rows are a CSR matrix passed as ``indptr``, ``columns``, ``values``. ``nodes`` (T,) holds the rows that are nodes of
the graph; everything else refers to a node by its index in ``nodes``. ``neighbors`` (T, k) holds the indices of each
node's nearest others, nearest first and the lower index first among equal distances; ``distances`` (T, k) holds the
squared distances, infinite where there are fewer than k others.

A new node is compared with all others in two passes. The first is approximate: ``‖x‖² + ‖z‖² − 2xᵀz``, where an
inverted index (`Postings`) computes all products at the cost of the entries that the rows share with x. The second
computes the exact distance to the nodes that the first cannot rule out, rounding errors included: usually a few dozen,
in the worst case all of them (far from the origin, where the norms and products cancel).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import fast_kernel, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

ROUNDING = 2.0**-50
"""Rounding error per entry of two rows: eight times that of one operation, more than all operations on it add up to."""

UNDERFLOW = 2.0**-1040
"""More than all rounding errors of squares and products below the smallest normal number: 2⁻¹⁰⁷⁴ for each of them."""

SMALLEST_NORMAL = 2.0**-1022
"""Below it numbers are denormal, and their inverse may be infinite."""


@kernel
def _squared_distance(indptr: Ints, columns: Columns, values: Floats, i: int, j: int) -> float:
    """Return ``‖x_i − x_j‖²`` of the rows i and j.

    Squared differences are summed in the order of the columns, so nothing cancels far from the origin, equal rows have
    distance exactly 0, and equal rows have exactly the same distance to any third.
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
    """Inverted index of the first nodes: slots ``starts[c]`` to ``starts[c+1]−1`` hold the nonzeros of column c."""

    indexed: int  # it covers the nodes 0 … indexed−1
    starts: Ints  # (D+1,)
    members: Columns  # the node of each slot
    values: Floats  # its value


def postings(indptr: Ints, columns: Columns, values: Floats, nodes: Columns, dimension: int) -> Postings:
    """Return the inverted index of all `nodes`, or an empty one if more than half of their entries are nonzero.

    The index pays where rows share few columns; dense rows are faster one after the other.
    """
    entries = int((indptr[nodes + 1] - indptr[nodes]).sum())
    if 2 * entries > len(nodes) * dimension:
        nodes = nodes[:0]
    return Postings(len(nodes), *_postings(indptr, columns, values, nodes, dimension))


@kernel
def _postings(
    indptr: Ints, columns: Columns, values: Floats, nodes: Columns, dimension: int
) -> tuple[Ints, Columns, Floats]:
    """Return ``starts``, ``members`` and ``values`` of `Postings`: the transpose of the rows `nodes`."""
    starts = np.zeros(dimension + 1, np.int64)
    for i in range(nodes.shape[0]):
        for p in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            starts[columns[p] + 1] += 1
    for c in range(dimension):
        starts[c + 1] += starts[c]
    members = np.empty(starts[dimension], np.int32)
    by_column = np.empty(starts[dimension])
    next_slot = starts[:dimension].copy()
    for i in range(nodes.shape[0]):
        for p in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            members[next_slot[columns[p]]] = i
            by_column[next_slot[columns[p]]] = values[p]
            next_slot[columns[p]] += 1
    return starts, members, by_column


@fast_kernel
def _dot_products(
    indptr: Ints, columns: Columns, values: Floats, nodes: Columns, inverted: Postings, node: int, stop: int
) -> Floats:
    """Return ``xᵀz`` (stop,) of one node with the nodes 0 … stop−1; the order of summation is not fixed."""
    dimension = inverted.starts.shape[0] - 1
    row = np.zeros(dimension)
    products = np.zeros(stop)
    for p in range(indptr[nodes[node]], indptr[nodes[node] + 1]):
        c, value = columns[p], values[p]
        row[c] = value
        for q in range(inverted.starts[c], inverted.starts[c + 1]):
            products[inverted.members[q]] += value * inverted.values[q]
    for i in range(inverted.indexed, stop):
        first, last = indptr[nodes[i]], indptr[nodes[i] + 1]
        product = 0.0
        if last - first == dimension:  # a full row: its values are in the order of the columns
            other = values[first:last]
            for c in range(dimension):
                product += other[c] * row[c]
        else:
            for p in range(first, last):
                product += values[p] * row[columns[p]]
        products[i] = product
    return products


@kernel
def _add_candidate(neighbors: Columns, distances: Floats, candidate: int, distance: float) -> None:
    """Insert a candidate into one node's sorted lists (k,), after equal distances; the last entry drops out."""
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
    norms2: Floats,
    inverted: Postings,
    indptr: Ints,
    columns: Columns,
    values: Floats,
    nodes: Columns,
) -> None:
    """Add the last of `nodes` to the graph: fill its lists, and update those of the others where it is near enough.

    ``kth_distance`` (T,) equals the last column of ``distances`` and ``norms2`` (T,) is ‖x‖², both contiguous for
    speed. On entry the new node has the lists −1 and infinity, kth_distance infinity and norm 0. ``inverted`` may
    cover any first part of the nodes.
    """
    new, k = nodes.shape[0] - 1, distances.shape[1]
    for p in range(indptr[nodes[new]], indptr[nodes[new] + 1]):
        norms2[new] += values[p] * values[p]
    products = _dot_products(indptr, columns, values, nodes, inverted, new, new)
    rounding_slack = ROUNDING * (inverted.starts.shape[0] + 4)  # no row has more entries than there are columns
    new_kth_distance = np.inf
    for i in range(new):
        norms = norms2[i] + norms2[new]
        if norms - 2.0 * products[i] - rounding_slack * norms - UNDERFLOW < max(kth_distance[i], new_kth_distance):
            exact = _squared_distance(indptr, columns, values, nodes[i], nodes[new])
            _add_candidate(neighbors[new], distances[new], i, exact)
            _add_candidate(neighbors[i], distances[i], new, exact)
            kth_distance[i] = distances[i, k - 1]
            new_kth_distance = distances[new, k - 1]
    kth_distance[new] = new_kth_distance


@kernel
def recompute(
    neighbors: Columns,
    distances: Floats,
    kth_distance: Floats,
    norms2: Floats,
    inverted: Postings,
    indptr: Ints,
    columns: Columns,
    values: Floats,
    nodes: Columns,
    indices: Ints,
) -> None:
    """Fill the lists of the nodes at `indices` anew, from all other nodes; the other arguments are as in `insert`."""
    k = distances.shape[1]
    rounding_slack = ROUNDING * (inverted.starts.shape[0] + 4)
    for i in indices:
        products = _dot_products(indptr, columns, values, nodes, inverted, i, nodes.shape[0])
        neighbors[i] = -1
        distances[i] = np.inf
        for j in range(nodes.shape[0]):
            norms = norms2[j] + norms2[i]
            if j != i and norms - 2.0 * products[j] - rounding_slack * norms - UNDERFLOW < distances[i, k - 1]:
                exact = _squared_distance(indptr, columns, values, nodes[i], nodes[j])
                _add_candidate(neighbors[i], distances[i], j, exact)
        kth_distance[i] = distances[i, k - 1]


@kernel
def bandwidth(distances: Floats, count: int) -> float:
    """Return σ: the mean distance to the k-th neighbor, or to the last of all others while there are fewer than k."""
    k = min(distances.shape[1], count - 1)
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
def normalized_adjacency(
    neighbors: Columns, distances: Floats, nodes: Columns, sources: Columns, targets: Columns, count: int
) -> tuple[Ints, Columns, NDArray[np.float32]]:
    """Return ``Â = (𝒟+I)^(−1/2) (A+I) (𝒟+I)^(−1/2)`` (count, count) as indptr, columns and values.

    A has two kinds of undirected edges. Two of `nodes` are connected if either lists the other (elementwise maximum),
    with ``A_ij = exp(−‖x_i − x_j‖² / σ²)``, or 1 if σ is 0 (all listed pairs coincide then). The rows ``sources[e]``
    and ``targets[e]`` are connected by a given edge of weight 1. 𝒟 is the diagonal of row sums of A.
    """
    n_nodes = nodes.shape[0]
    k = max(min(neighbors.shape[1], n_nodes - 1), 0)
    sigma = bandwidth(distances, n_nodes)
    weights = np.empty((n_nodes, k))
    degrees = np.ones(count)
    indptr = np.zeros(count + 1, np.int64)
    for i in range(n_nodes):
        for a in range(k):
            j = neighbors[i, a]
            mutual = False
            if j < i:
                for c in range(k):
                    mutual |= neighbors[j, c] == i
            if mutual:
                weights[i, a] = -1.0  # the edge was counted already, in the list of j
                continue
            weights[i, a] = _similarity(distances[i, a], sigma)
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
    next_slot = indptr[:count].copy()
    for i in range(count):
        columns[next_slot[i]] = i
        values[next_slot[i]] = scales[i] * scales[i]
        next_slot[i] += 1
    for i in range(n_nodes):
        for a in range(k):
            if weights[i, a] >= 0.0:
                _connect(columns, values, next_slot, nodes[i], nodes[neighbors[i, a]], weights[i, a], scales)
    for e in range(sources.shape[0]):
        _connect(columns, values, next_slot, sources[e], targets[e], 1.0, scales)
    return indptr, columns, values
