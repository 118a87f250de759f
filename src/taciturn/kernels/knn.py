"""A k-nearest-neighbor graph over sparse rows: nodes are inserted one at a time, and evicted.

``nodes`` (T,) holds the rows of a CSR matrix that are nodes of the graph; everything else refers to a node by its index
in ``nodes``.

`insert` is exact. It compares a new node with all others in two passes. The first is approximate: ``‖x‖² + ‖z‖² −
2xᵀz``, where an inverted index (`Postings`) computes all products at the cost of the entries that the rows share with
x. The second computes the exact distance to the nodes that the first cannot rule out, rounding errors included: usually
a few dozen, in the worst case all of them (far from the origin, where the norms and products cancel). `offer` compares
it with some nodes that are near, as `kernels.search` finds them where there are many.

An evicted node is removed from the lists that have it. Lists hold more than the k neighbors that are asked for, so that
few of them become too short and are filled anew by comparing with all others. Insertions lengthen lists about as often
as evictions shorten them, so with m entries to spare a list lasts for about m² of either.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel, inner_kernel, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

ROUNDING = 2.0**-50
"""Rounding error per entry of two rows: eight times that of one operation, more than all operations on it add up to."""

UNDERFLOW = 2.0**-1040
"""More than all rounding errors of squares and products below the smallest normal number: 2⁻¹⁰⁷⁴ for each of them."""


class Lists(NamedTuple):
    """The nearest others of each node.

    ``neighbors`` (T, L) holds their indices, nearest first and the lower index first among equal distances;
    ``distances`` (T, L) holds the squared distances. The first ``known`` (T,) of a list are exact, the rest is −1 and
    infinite. All others that are nearer than ``reach`` (T,) are in the list; it is infinite where all others are.
    ``norms2`` (T,) is ‖x‖². A node that is not inserted yet has an empty list, an infinite reach and the norm 0.
    """

    neighbors: Columns
    distances: Floats
    known: Columns
    reach: Floats
    norms2: Floats


@inner_kernel
def _squared_distance(indptr: Ints, columns: Columns, values: Floats, i: int, j: int) -> float:
    """Return ``‖x_i − x_j‖²`` of the rows i and j.

    Squared differences are summed in the order of the columns, so nothing cancels far from the origin, equal rows have
    distance exactly 0, and equal rows have exactly the same distance to any third.
    """
    total = 0.0
    p, p_stop = indptr[i], indptr[i + 1]
    q, q_stop = indptr[j], indptr[j + 1]
    size = p_stop - p
    if 0 < size == q_stop - q and columns[p_stop - 1] == columns[q_stop - 1] == size - 1:  # rows without zeros
        for c in range(size):
            difference = values[p + c] - values[q + c]
            total += difference * difference
        return total
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
    """Inverted index of some first nodes: slots ``starts[c]`` to ``starts[c+1]−1`` hold the nonzeros of column c.

    Its entries are numbered as the nodes were when it was made; since then some may have been evicted.
    """

    numbers: Columns  # of the nodes 0, 1, … that it covers, in the index: rising
    size: int  # how many nodes it covered when it was made
    starts: Ints  # (D+1,)
    members: Columns  # the number of each slot's node
    values: Floats  # its value


def postings(rows: CSR, nodes: Columns, dimension: int) -> Postings:
    """Return the inverted index of all `nodes`, or an empty one if more than half of their entries are nonzero.

    The index pays where rows share few columns; dense rows are faster one after the other.
    """
    entries = int((rows.indptr[nodes + 1] - rows.indptr[nodes]).sum())
    if 2 * entries > len(nodes) * dimension or not entries:
        return Postings(nodes[:0], 0, np.zeros(dimension + 1, np.int64), np.zeros(0, np.int32), np.zeros(0))
    matrix = sp.csr_matrix((rows.values, rows.columns, rows.indptr), shape=(len(rows.indptr) - 1, dimension))
    by_column = matrix[nodes].tocsc()  # the nodes of a column rise
    members, values = by_column.indices.astype(np.int32, copy=False), by_column.data
    return Postings(
        np.arange(len(nodes), dtype=np.int32), len(nodes), by_column.indptr.astype(np.int64), members, values
    )


@fast_kernel
def _dot_products(
    indptr: Ints,
    columns: Columns,
    values: Floats,
    nodes: Columns,
    node: int,
    numbers: Columns,
    starts: Ints,
    members: Columns,
    indexed: Floats,
    row: Floats,
    by_number: Floats,
    products: Floats,
) -> None:
    """Write ``xᵀz`` of one node with the nodes 0, 1, …; the order of summation is not fixed.

    Rows are ``indptr, columns, values``, and `Postings` are ``numbers, starts, members, indexed``. ``row`` (D,) and
    ``by_number`` (size of the postings,) are zero.
    """
    for p in range(indptr[nodes[node]], indptr[nodes[node] + 1]):
        c, value = columns[p], values[p]
        row[c] = value
        for q in range(starts[c], starts[c + 1]):
            by_number[np.uint64(members[q])] += value * indexed[q]
    for i in range(numbers.shape[0]):
        products[i] = by_number[np.uint64(numbers[i])]
    for i in range(numbers.shape[0], products.shape[0]):
        first, last = indptr[nodes[i]], indptr[nodes[i] + 1]
        product = 0.0
        if last - first == row.shape[0]:  # a full row: its values are in the order of the columns
            start = np.uint64(first)  # an index that cannot be negative, so that this loop is vectorized
            for c in range(row.shape[0]):
                product += values[start + np.uint64(c)] * row[c]
        else:
            for p in range(first, last):
                product += values[p] * row[columns[p]]
        products[i] = product


@kernel
def _possible(
    products: Floats, norms2: Floats, reach: Floats, rounding: float, nearest: Floats, candidates: Ints
) -> int:
    """Write the nodes that can be among the nearest of the last one, or it among theirs; returns how many there are.

    A squared distance is ``‖x‖² + ‖z‖² − 2xᵀz``, up to `rounding` times both norms: ``products`` (T−1,) are xᵀz, and
    ``norms2`` (T,) the norms. ``nearest`` (L,) is infinite, and then holds what those that are nearest are at most.
    Nodes whose distance overflowed are among the candidates.
    """
    new, last, size = products.shape[0], nearest.shape[0] - 1, 0
    for i in range(new):
        norms = norms2[i] + norms2[new]
        most = norms - 2.0 * products[i] + (rounding * norms + UNDERFLOW)
        if most < nearest[last]:
            place = last
            while place > 0 and most < nearest[place - 1]:
                nearest[place] = nearest[place - 1]
                place -= 1
            nearest[place] = most
    for i in range(new):
        norms = norms2[i] + norms2[new]
        least = norms - 2.0 * products[i] - (rounding * norms + UNDERFLOW)
        if not (least > nearest[last] and least > reach[i]):  # false for NaN too
            candidates[size] = i
            size += 1
    return size


def _candidates(lists: Lists, inverted: Postings, rows: CSR, nodes: Columns) -> Ints:
    """The nodes, rising, that can be among the nearest of the last one, or it among theirs."""
    new, dimension, width = len(nodes) - 1, len(inverted.starts) - 1, lists.distances.shape[1]
    numbers, size, starts, members, values = inverted
    products, candidates = np.empty(new), np.empty(new, np.int64)
    _dot_products(*rows, nodes, new, numbers, starts, members, values, np.zeros(dimension), np.zeros(size), products)
    rounding = ROUNDING * (dimension + 5)  # no row has more entries than there are columns
    return candidates[: _possible(products, lists.norms2, lists.reach, rounding, np.full(width, np.inf), candidates)]


@inner_kernel
def _add_candidate(
    neighbors: Columns, distances: Floats, known: Columns, reach: Floats, node: int, candidate: int, distance: float
) -> None:
    """Add a candidate to a node's list if it is within its reach; its index must be above all in the list."""
    if distance >= reach[node]:
        return
    width, size = distances.shape[1], known[node]
    slot = size
    if size == width:  # the last drops out
        slot -= 1
    else:
        known[node] = size + 1
    while slot > 0 and distance < distances[node, slot - 1]:
        distances[node, slot] = distances[node, slot - 1]
        neighbors[node, slot] = neighbors[node, slot - 1]
        slot -= 1
    distances[node, slot], neighbors[node, slot] = distance, candidate
    if known[node] == width:
        reach[node] = distances[node, width - 1]


class Changes(NamedTuple):
    """The nodes whose nearest changed with a new one."""

    nodes: Ints  # that have the new one among the first of their list, rising
    lost: Columns  # which it took the place of: the one that is no longer among the first, or −1


@kernel
def _offer(
    neighbors: Columns,
    distances: Floats,
    known: Columns,
    reach: Floats,
    indptr: Ints,
    columns: Columns,
    values: Floats,
    nodes: Columns,
    near: int,
    candidates: Ints,
    lost: Columns,
) -> int:
    """See `offer`; writes the changes to the first of `candidates` and `lost`, and returns how many there are."""
    new, size = nodes.shape[0] - 1, 0
    for c in range(candidates.shape[0]):
        i = candidates[c]
        if reach[i] == reach[new] == 0.0:  # both lists are full of equal rows
            continue
        exact = _squared_distance(indptr, columns, values, nodes[i], nodes[new])
        _add_candidate(neighbors, distances, known, reach, new, i, exact)
        if exact < reach[i]:
            if exact < distances[i, near - 1]:
                candidates[size], lost[size] = i, neighbors[i, near - 1]
                size += 1
            _add_candidate(neighbors, distances, known, reach, i, new, exact)
    return size


def offer(lists: Lists, rows: CSR, nodes: Columns, near: int, candidates: Ints) -> Changes:
    """As `insert`, but compare with the `candidates` only, which rise."""
    _write_norm(lists, rows, nodes)
    return _offer_to(lists, rows, nodes, near, candidates.copy())


def _offer_to(lists: Lists, rows: CSR, nodes: Columns, near: int, candidates: Ints) -> Changes:
    """See `offer`; `candidates` are overwritten."""
    lost = np.empty(len(candidates), np.int32)
    size = _offer(*lists[:4], *rows, nodes, near, candidates, lost)
    return Changes(candidates[:size], lost[:size])


def _write_norm(lists: Lists, rows: CSR, nodes: Columns) -> None:
    """Write the squared norm of the last node."""
    values = rows.values[rows.indptr[nodes[-1]] : rows.indptr[nodes[-1] + 1]]
    lists.norms2[len(nodes) - 1] = values @ values


def insert(lists: Lists, inverted: Postings, rows: CSR, nodes: Columns, near: int) -> Changes:
    """Add the last of `nodes` to the graph: fill its list, and update those of the others where it is near enough.

    ``inverted`` may cover any first part of the nodes. Returns the changes among the first `near` of the lists.
    """
    _write_norm(lists, rows, nodes)
    return _offer_to(lists, rows, nodes, near, _candidates(lists, inverted, rows, nodes))


@kernel
def fill(lists: Lists, rows: CSR, nodes: Columns, node: int, candidates: Ints) -> None:
    """Fill the list of a node anew from the `candidates`, which rise; the node itself may be among them."""
    neighbors, distances, known, reach, _ = lists
    indptr, columns, values = rows
    neighbors[node] = -1
    distances[node] = np.inf
    known[node] = 0
    reach[node] = np.inf
    for c in range(candidates.shape[0]):
        i = candidates[c]
        if i != node:
            exact = _squared_distance(indptr, columns, values, nodes[i], nodes[node])
            _add_candidate(neighbors, distances, known, reach, node, i, exact)


@kernel
def measure(lists: Lists, rows: CSR, nodes: Columns) -> None:
    """Write the squared norms of all nodes, and the distances to those in their lists, as `insert`."""
    indptr, columns, values = rows
    for i in range(nodes.shape[0]):
        lists.norms2[i] = 0.0
        for p in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            lists.norms2[i] += values[p] * values[p]
        for a in range(lists.known[i]):
            other = nodes[lists.neighbors[i, a]]
            lists.distances[i, a] = _squared_distance(indptr, columns, values, nodes[i], other)


@kernel
def remove(lists: Lists, index_now: Columns, count: int, k: int) -> Ints:
    """Take evicted nodes out of the lists of the `count` that are left, and return the nodes that know fewer than k.

    ``index_now`` holds the index of each former node, −1 if it was evicted. A reach stays, as all that are nearer are
    in the list still; it is infinite where all others are and there is room for more.
    """
    wanted = min(k, count - 1)
    too_short = np.empty(count, np.int64)
    found = 0
    for i in range(count):
        neighbors, distances = lists.neighbors[i], lists.distances[i]
        size = 0
        for a in range(lists.known[i]):
            neighbors[size] = index_now[neighbors[a]]
            distances[size] = distances[a]
            size += neighbors[size] >= 0
        for a in range(size, lists.known[i]):
            neighbors[a] = -1
            distances[a] = np.inf
        lists.known[i] = size
        if size == count - 1 and size < distances.shape[0]:
            lists.reach[i] = np.inf
        if size < wanted:
            too_short[found] = i
            found += 1
    return too_short[:found]


@kernel
def _nearest(lists: Lists, inverted: Postings, rows: CSR, nodes: Columns, node: int) -> tuple[Columns, Floats]:
    """Return the L+1 nodes nearest to one, itself among them, with distances; the lower index first among equals."""
    (indptr, columns, values), (numbers, n_numbers, starts, members, indexed) = rows, inverted
    count, width = nodes.shape[0], min(lists.distances.shape[1] + 1, nodes.shape[0])
    neighbors, distances = np.full((1, width), -1, np.int32), np.full((1, width), np.inf)
    known, reach, products = np.zeros(1, np.int32), np.full(1, np.inf), np.empty(count)
    row, by_number = np.zeros(starts.shape[0] - 1), np.zeros(n_numbers)
    _dot_products(indptr, columns, values, nodes, node, numbers, starts, members, indexed, row, by_number, products)
    only, rounding_slack = min(node, 0), ROUNDING * (starts.shape[0] + 4)  # a plain 0 would be compiled for once more
    for j in range(count):
        norms = lists.norms2[j] + lists.norms2[node]
        if norms - 2.0 * products[j] - rounding_slack * norms - UNDERFLOW < reach[0]:
            exact = _squared_distance(indptr, columns, values, nodes[node], nodes[j])
            _add_candidate(neighbors, distances, known, reach, only, j, exact)
    return neighbors[0], distances[0]


@kernel
def _are_equal(rows: CSR, i: int, j: int) -> bool:
    """Return whether the rows i and j have the same entries: a distance of 0 could be one that underflowed."""
    first, other = rows.indptr[i], rows.indptr[j]
    length = rows.indptr[i + 1] - first
    if length != rows.indptr[j + 1] - other:
        return False
    for p in range(length):
        if rows.columns[first + p] != rows.columns[other + p] or rows.values[first + p] != rows.values[other + p]:
            return False
    return True


@kernel
def refill(lists: Lists, inverted: Postings, rows: CSR, nodes: Columns, indices: Ints) -> None:
    """Fill the lists of the nodes at `indices` anew, from all other nodes.

    Nodes next to each other in `indices` whose rows are equal (see `equal_rows_together`) cost one search.
    """
    width = lists.distances.shape[1]
    neighbors, distances = np.empty(0, np.int32), np.empty(0)
    for position in range(indices.shape[0]):
        i = indices[position]
        if position == 0 or not _are_equal(rows, nodes[indices[position - 1]], nodes[i]):
            neighbors, distances = _nearest(lists, inverted, rows, nodes, i)
        size = 0
        for a in range(neighbors.shape[0]):
            if neighbors[a] != i and size < width:
                lists.neighbors[i, size] = neighbors[a]
                lists.distances[i, size] = distances[a]
                size += 1
        lists.neighbors[i, size:] = -1
        lists.distances[i, size:] = np.inf
        lists.known[i] = size
        lists.reach[i] = lists.distances[i, width - 1]


@kernel
def _hash(rows: CSR, i: int) -> np.uint64:
    """Return a hash of row i, by the method of Fowler, Noll and Vo on its columns and the bits of its values."""
    bits = rows.values.view(np.uint64)
    hashed = np.uint64(0xCBF29CE484222325)
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        hashed = (hashed ^ bits[p] ^ (np.uint64(rows.columns[p]) << np.uint64(20))) * np.uint64(0x100000001B3)
        hashed ^= hashed >> np.uint64(29)
    return hashed


@kernel
def equal_rows_together(rows: CSR, nodes: Columns, indices: Ints) -> Ints:
    """Return `indices` reordered so that nodes with equal rows are next to each other, unless hashes clash."""
    hashes = np.empty(indices.shape[0], np.uint64)
    for position in range(indices.shape[0]):
        hashes[position] = _hash(rows, nodes[indices[position]])
    return indices[np.argsort(hashes)]
