"""Ridge regressions on V views of the same contexts, whose features are stored only where that takes less.

View v of context i is ``f_iv = (Â^v X)_i`` scaled to unit length, v = 0 … V−1: the context itself, then averaged over
its neighbors, over their neighbors, and so on. In view v the coefficients of arm k minimize

    Σ_i m_ik (f_ivᵀθ_vk − q_ik)² + λ‖θ_vk‖²

with targets q (T, K) and weights m (T, K). All V·K columns of ``theta`` (D, V·K), column v·K + k for θ_vk, are solved
together by conjugate gradients (Hestenes and Stiefel 1952), one step per call, starting from the current ``theta``. A
product with all features of view v is one sparse product with X and v sparse products with Â (T, T) (`Operands`), or
one with the features themselves (`Features`).
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel, kernel
from taciturn.kernels.spmm import multiply, multiply_transposed

Singles = NDArray[np.float32]


DENSE_WIDTH = 16
"""From so many columns on, a product with rows that have no zeros goes through BLAS."""

BLOCK = 64
"""So many columns of all contexts are propagated at a time: few enough for the processor's cache."""

LINE = 16
"""So many columns are propagated at a time where features are stored: a line of the processor's cache in each row."""

AT_ONCE = 2**12
"""Stored features of so many contexts are multiplied at a time: they are read once, and scores stay in the caches."""

PIECE, FEWEST_ARMS = 2**20, 4
"""Regressions of some arms are solved at a time, so that their scores have about so many entries; of no fewer arms."""

MANY_FEATURES, FEW_ENTRIES = 2**12, 4
"""Where there are more features, and so many times more than entries of contexts, these are numbered anew."""

SHORTEST = 1e-6
"""A view of contexts at unit length that is shorter says nothing: a context without entries, far from all others."""

SMALL = 1e-15
"""Squares of numbers of such a length begin to vanish in single precision."""


@kernel
def to_unit_length(indptr: NDArray[np.int64], values: NDArray[np.float64]) -> None:
    """Bring each sparse row to unit length, in place; one of zeros, or without entries, stays."""
    for i in range(indptr.shape[0] - 1):
        norm2 = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            norm2 += values[p] * values[p]
        if norm2 > 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                values[p] = values[p] / np.sqrt(norm2)


def unit_values(indptr: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values of sparse rows with each row at unit length, as a copy."""
    units = values.copy()
    to_unit_length(indptr, units)
    return units


def full_width(matrix: CSR) -> int:
    """How many columns a matrix has whose rows have no zeros, so that its values are those of a dense one; else 0."""
    indptr, count = matrix.indptr, len(matrix.indptr) - 1
    width = int(indptr[1] - indptr[0]) if count else 0
    if not width or indptr[count] - indptr[0] != count * width or matrix.columns[indptr[count] - 1] != width - 1:
        return 0
    lasts = matrix.columns[indptr[0] + width - 1 : indptr[count] : width]
    is_full = (np.diff(indptr) == width).all() and (lasts == width - 1).all()
    return width if is_full else 0


def lengths(columns: Singles) -> NDArray[Any]:
    """``‖θ‖`` of each column (D, …), 1 where that is 0; where θ has nearly vanished, summed in double precision."""
    found = np.linalg.norm(columns, axis=0)
    if (found < SMALL).any():
        found = np.where(found < SMALL, np.linalg.norm(columns.astype(float), axis=0), found)
    return np.where(found > 0, found, np.float32(1.0))


def spmm(matrix: CSR, dense: Singles, out: Singles | None = None) -> Singles:
    """Return ``matrix · dense`` (N, U) for a sparse matrix (N, M) and a dense one (M, U), in `out` if that is given."""
    count = len(matrix.indptr) - 1
    out = np.empty((count, dense.shape[1]), np.float32) if out is None else out
    multiply(*matrix, dense, np.ones(count, np.bool_), out)
    return out


class Rows(NamedTuple):
    """X (T, D) in single precision, for products with it."""

    sparse: CSR
    dense: Singles | None  # (T, W): the first W columns, where rows have these and no zeros


def rows_of(sparse: CSR) -> Rows:
    """Rows for products: those without zeros go through BLAS, if they have some columns."""
    width, count = full_width(sparse), len(sparse.indptr) - 1
    dense = sparse.values[: count * width].reshape(count, width) if width >= DENSE_WIDTH else None
    return Rows(sparse, dense)


def times(contexts: Rows, theta: Singles) -> Singles:
    """``X · θ`` (T, U) for θ (D, U)."""
    if contexts.dense is None:
        return spmm(contexts.sparse, theta)
    return np.asarray(contexts.dense @ theta[: contexts.dense.shape[1]])


def transposed_times(contexts: Rows, scores: Singles, dimension: int) -> Singles:
    """``Xᵀ · scores`` (D, U) for scores (T, U)."""
    out = np.zeros((dimension, scores.shape[1]), np.float32)
    if contexts.dense is None:
        multiply_transposed(*contexts.sparse, scores, np.ones(len(scores), np.bool_), out)
    else:
        np.matmul(contexts.dense.T, scores, out=out[: contexts.dense.shape[1]])
    return out


class Operands(NamedTuple):
    """The features of all views, by what they are made of: ``f_iv = scales_iv (Â^v X)_i``."""

    adjacency: CSR
    contexts: Rows
    scales: Singles  # (T, V), those of `unit_scales`


class Features(NamedTuple):
    """The features of all views at some contexts, each stored: less than scores where there are more arms than D."""

    of_views: Singles  # (V, N, D)


@fast_kernel
def dense_rows(matrix: CSR, rows: NDArray[np.int64], dimension: int) -> Singles:
    """Some rows of a matrix as dense ones (N, D)."""
    dense = np.zeros((rows.shape[0], dimension), np.float32)
    for i in range(rows.shape[0]):
        for p in range(matrix.indptr[rows[i]], matrix.indptr[rows[i] + 1]):
            dense[i, matrix.columns[p]] = matrix.values[p]
    return dense


def stored(of: Operands, nodes: NDArray[np.int64], dimension: int) -> Features:
    """The features at some nodes, made `LINE` columns at a time: what is made on the way takes little memory."""
    dense, views = _dense(of.contexts, dimension), of.scales.shape[1]
    found = np.zeros((views, len(nodes), dimension), np.float32)
    for first in range(0, dense.shape[1], LINE):
        columns = slice(first, min(first + LINE, dense.shape[1]))
        for v, averaged in enumerate(_averages(of.adjacency, dense[:, columns], LINE, views)):
            for start in range(0, len(nodes), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                features = averaged[nodes[some]] * of.scales[nodes[some], v, None]
                found[v, some, columns] = features[:, : columns.stop - first]
    return Features(found)


def each_view(of: Operands, nodes: NDArray[np.int64], dimension: int) -> Iterator[Singles]:
    """The features at some nodes (N, D) of one view after the other."""
    views = of.scales.shape[1]
    for v, averaged in enumerate(_averages(of.adjacency, _dense(of.contexts, dimension), dimension, views)):
        yield averaged[nodes] * of.scales[nodes, v, None]


def _dense(contexts: Rows, dimension: int) -> Singles:
    """X (T, W): all columns, or the first ones where these have all entries."""
    if contexts.dense is not None:
        return contexts.dense
    return np.asarray(dense_rows(contexts.sparse, np.arange(len(contexts.sparse.indptr) - 1), dimension))


def _averages(adjacency: CSR, columns: Singles, width: int, views: int) -> Iterator[Singles]:
    """``Â^v`` times some columns, and zeros (T, W), of one view after the other; the next but one overwrites it."""
    now, spare = _in_lines(len(columns), width), _in_lines(len(columns), width)
    now[:, : columns.shape[1]], now[:, columns.shape[1] :] = columns, 0.0
    yield now
    for _ in range(1, views):
        now, spare = spmm(adjacency, now, spare), now
        yield now


def _in_lines(count: int, width: int) -> Singles:
    """An array (N, W) of any content that begins with a line of the cache: rows of `LINE` numbers are in one each."""
    room = np.empty(count * width + LINE, np.float32)
    first = -(room.ctypes.data // room.itemsize) % LINE
    return room[first : first + count * width].reshape(count, width)


def _apply_hops(adjacency: CSR, columns: Singles, views: int) -> None:
    """Multiply the K columns of view v by ``Â^v``, in place; ``columns`` is (T, V·K).

    Hop v multiplies the columns of the views v, v+1, … by Â, so every view gets as many hops as its number.
    """
    arms = columns.shape[1] // views
    for v in range(1, views):
        columns[:, v * arms :] = spmm(adjacency, np.ascontiguousarray(columns[:, v * arms :]))


def by_view(array: Singles, views: int) -> Singles:
    """An array (N, V·A) as (N, V, A), also where there are no rows."""
    return array.reshape(len(array), views, array.shape[1] // views)


def predict(of: Operands | Features, theta: Singles) -> Singles:
    """Return the scores ``f_ivᵀθ_vk`` (T, V·K) for θ (D, V·K)."""
    if isinstance(of, Features):
        of_view = by_view(theta, len(of.of_views))
        return np.concatenate([f @ of_view[:, v] for v, f in enumerate(of.of_views)], axis=1)
    views = of.scales.shape[1]
    scores = times(of.contexts, theta)
    _apply_hops(of.adjacency, scores, views)
    of_view = by_view(scores, views)
    of_view *= of.scales[:, :, None]
    return scores


def adjoint(of: Operands, weights: Singles, scores: Singles, dimension: int) -> Singles:
    """Return ``Σ_i m_ik · scores_ivk · f_iv`` (D, V·K), the adjoint of `predict`; overwrites ``scores`` (T, V·K)."""
    views = of.scales.shape[1]
    of_view = by_view(scores, views)
    of_view *= of.scales[:, :, None]
    of_view *= weights[:, None]
    _apply_hops(of.adjacency, scores, views)  # Â is symmetric
    return transposed_times(of.contexts, scores, dimension)


def right_sides(of: Operands | Features, weights: Singles, targets: Singles, dimension: int, views: int) -> Singles:
    """Return ``b = Σ_i m_ik q_ik f_iv`` (D, V·K)."""
    if isinstance(of, Features):
        weighted = weights * targets
        return np.concatenate([f.T @ weighted for f in of.of_views], axis=1)
    return adjoint(of, weights, np.tile(targets, views), dimension)


def normal_products(of: Operands | Features, weights: Singles, theta: Singles) -> Singles:
    """Return ``Σ_i m_ik f_iv f_ivᵀ θ_vk`` (D, V·K)."""
    if not isinstance(of, Features):
        return adjoint(of, weights, predict(of, theta), len(theta))
    of_view = by_view(theta, len(of.of_views))
    products = np.zeros_like(of_view)
    for first in range(0, len(weights), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        for v, f in enumerate(of.of_views[:, some]):
            products[:, v] += f.T @ (weights[some] * (f @ of_view[:, v]))
    return products.reshape(theta.shape)


def _column_dots(left: Singles, right: Singles) -> Singles:
    """Return the dot product of each column of ``left`` (D, U) with the same column of ``right``: (U,)."""
    return np.asarray(np.einsum("du,du->u", left, right))


class CGState(NamedTuple):
    """Conjugate-gradient state: residual r and direction p, both (D, V·K), and rᵀr (V·K) of each column."""

    residual: Singles
    direction: Singles
    residual_norm2: Singles


def pieces(arms: int, entries: int) -> list[slice]:
    """Slices of K arms, of which each has so many entries in an array: what is made of a piece is small.

    They are as long as each other, or one longer: a piece of an arm that is left over takes as long as one of several.
    """
    size = max(PIECE // max(entries, 1), FEWEST_ARMS)
    count = max(min(-(-arms // size), arms // FEWEST_ARMS), 1)
    ends = [-(-arms * number // count) for number in range(count + 1)]
    return [slice(first, end) for first, end in itertools.pairwise(ends)]


def piece_of(array: Singles, arms: slice) -> Singles:
    """The columns (N, V·A) of some of the arms of an array (N, V, K): itself where these are all, else a copy."""
    piece = np.ascontiguousarray(array[:, :, arms])
    return piece.reshape(len(piece), piece.shape[1] * piece.shape[2])  # also where there are no rows


def cg_init(of: Operands | Features, weights: Singles, targets: Singles, ridge: float, theta: Singles) -> CGState:
    """Return the state at ``theta`` (D, V·K), from which `cg_step` starts: ``r = b − Aθ``, ``p = r``.

    In the columns of view v and arm k, ``A = Σ_i m_ik f_iv f_ivᵀ + λI`` and ``b = Σ_i m_ik q_ik f_iv``; ``weights``
    (T, K) is m, ``targets`` (T, K) is q and ``ridge`` is λ.
    """
    dimension, views = len(theta), theta.shape[1] // targets.shape[1]
    r = right_sides(of, weights, targets, dimension, views)
    Atheta = normal_products(of, weights, theta)
    Atheta += np.float32(ridge) * theta
    r -= Atheta
    return CGState(r, r.copy(), _column_dots(r, r))


def cg_step(of: Operands | Features, weights: Singles, ridge: float, theta: Singles, state: CGState) -> None:
    """Take one conjugate-gradient step in every column; updates ``theta`` (D, V·K) and ``state`` in place.

    The step length is 0 in a column with ``pᵀAp = 0``: p is zero there, because r is.
    """
    r, p, residual_norm2 = state
    Ap = normal_products(of, weights, p)
    Ap += np.float32(ridge) * p
    pAp = _column_dots(p, Ap)
    alpha = np.divide(residual_norm2, pAp, out=np.zeros_like(pAp), where=pAp > 0)
    _add_scaled(theta, alpha, p, theta)
    _add_scaled(r, -alpha, Ap, r)
    norm2 = _column_dots(r, r)
    _add_scaled(r, np.divide(norm2, residual_norm2, out=np.zeros_like(pAp), where=residual_norm2 > 0), p, p)
    residual_norm2[:] = norm2


@kernel
def _add_scaled(left: Singles, factors: Singles, right: Singles, out: Singles) -> None:
    """Write ``left + factors · right`` (D, U), one factor for each column, without temporary arrays."""
    for d in range(out.shape[0]):
        for u in range(out.shape[1]):
            out[d, u] = left[d, u] + factors[u] * right[d, u]


@kernel
def _taken(matrix: CSR, rows: NDArray[np.int64]) -> tuple[CSR, int]:
    """Some rows of a matrix, with columns renumbered as they come, and how many of these there are.

    The numbers are in a table with room to spare, at the place that a hash of the column says or the next free one.
    """
    indptr, size, n_columns = np.zeros(rows.shape[0] + 1, np.int64), 2, 0
    for i in range(rows.shape[0]):
        indptr[i + 1] = indptr[i] + matrix.indptr[rows[i] + 1] - matrix.indptr[rows[i]]
    while size < 2 * indptr[-1]:
        size *= 2
    columns, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    known, numbers = np.full(size, -1, np.int32), np.empty(size, np.int32)
    for i in range(rows.shape[0]):
        start = matrix.indptr[rows[i]] - indptr[i]
        for p in range(indptr[i], indptr[i + 1]):
            column = matrix.columns[start + p]
            place = ((np.int64(column) * 0x9E3779B1) >> 7) & (size - 1)
            while known[place] != column and known[place] >= 0:
                place = (place + 1) & (size - 1)
            if known[place] < 0:
                known[place], numbers[place] = column, n_columns
                n_columns += 1
            columns[p], values[p] = numbers[place], matrix.values[start + p]
    return CSR(indptr, columns, values), n_columns


def unit_scales(
    adjacency: CSR, contexts: CSR, members: NDArray[np.int64], nodes: NDArray[np.int64], views: int, dimension: int
) -> Singles:
    """Return ``1/‖(Â^v X)_i‖`` (N, V) for each of `nodes` (N,) and each view; 0 where a view has hardly any length.

    Row i of X is row ``members[i]`` of `contexts`.
    """
    scales, no_walk = np.zeros((len(nodes), views), np.float32), np.zeros((0, len(members)), np.float32)
    _follow(adjacency, contexts, members, nodes, scales, no_walk, dimension)
    return scales


class Walk(NamedTuple):
    """Where the views of one node come from, and how long they are."""

    weights: Singles  # (H+1, T): row i of Â^h, from h = 0 on
    scales: Singles  # (V,): those of `unit_scales`


def walk(
    adjacency: CSR, contexts: CSR, members: NDArray[np.int64], node: int, hops: int, views: int, dimension: int
) -> Walk:
    """Return the walk of so many hops from a node, with the scales of its first V ≤ H+1 views; see `unit_scales`."""
    scales, weights = np.zeros((1, views), np.float32), np.zeros((hops + 1, len(members)), np.float32)
    _follow(adjacency, contexts, members, np.array([node]), scales, weights, dimension)
    return Walk(weights, scales[0])


def _follow(
    adjacency: CSR,
    contexts: CSR,
    members: NDArray[np.int64],
    nodes: NDArray[np.int64],
    scales: Singles,
    weights: Singles,
    dimension: int,
) -> None:
    """Write `scales` (N, V) of all nodes, and `weights` (H+1, T) of the last one; either may be empty."""
    starts, count = contexts.indptr[members], len(members)
    lengths = contexts.indptr[members + 1] - starts
    entries, width = int(lengths.sum()), int(lengths[0]) if count else 0
    if not width or (lengths != width).any() or (contexts.columns[starts + width - 1] != width - 1).any():
        width = 0  # some row has zeros
    if dimension > MANY_FEATURES and FEW_ENTRIES * entries < dimension:  # arrays of that length would cost more
        contexts, dimension = _taken(contexts, members)
        members = np.arange(count)
    rows, supports = np.zeros((2, count), np.float32), np.empty((2, count), np.int32)
    features = np.zeros(dimension), np.empty(dimension, np.int32), np.zeros(dimension, np.bool_)
    _follow_all(*adjacency, *contexts, members, nodes, scales, weights, rows, supports, *features, width)


@fast_kernel
def _follow_all(
    indptr: NDArray[np.int64],
    neighbors: NDArray[np.int32],
    edges: Singles,
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    members: NDArray[np.int64],
    nodes: NDArray[np.int64],
    scales: Singles,
    weights: Singles,
    rows: Singles,
    supports: NDArray[np.int32],
    feature: NDArray[np.float64],
    met: NDArray[np.int32],
    seen: NDArray[np.bool_],
    width: int,
) -> None:
    """See `_follow`; Â is ``indptr, neighbors, edges``, and `contexts` are ``starts, columns, values``.

    Row i of Â^v is dense in ``rows[v % 2]`` (T,), with its nonzeros at ``supports[v % 2, :size]``; `width` is that of
    the contexts if they have no zeros. `rows`, `feature` and `seen` are zero, and are again afterwards.
    """
    views = max(scales.shape[1], weights.shape[0])
    for i in range(nodes.shape[0]):
        size, now = 1, 0
        rows[0, nodes[i]], supports[0, 0] = 1.0, nodes[i]
        for v in range(views):
            if v > 0:
                before, n_before = now, size
                size, now = 0, 1 - now
                for a in range(n_before):
                    node = supports[before, a]
                    for p in range(indptr[node], indptr[node + 1]):
                        neighbor, product = neighbors[p], edges[p] * rows[before, node]
                        if product > 0.0:  # Â is never negative, so what is 0 is not in the support yet
                            if rows[now, neighbor] == 0.0:
                                supports[now, size] = neighbor
                                size += 1
                            rows[now, neighbor] += product
                    rows[before, node] = 0.0
            if v < weights.shape[0]:
                for a in range(size):
                    weights[v, supports[now, a]] = rows[now, supports[now, a]]
            if v >= scales.shape[1]:
                continue
            n_met, norm2 = width, 0.0
            for a in range(size):
                weight, start = rows[now, supports[now, a]], starts[members[supports[now, a]]]
                if width > 0:
                    for c in range(width):
                        feature[c] += weight * values[start + c]
                    continue
                for p in range(start, starts[members[supports[now, a]] + 1]):
                    if not seen[columns[p]]:
                        seen[columns[p]], met[n_met] = True, columns[p]
                        n_met += 1
                    feature[columns[p]] += weight * values[p]
            for a in range(n_met):
                c = a if width > 0 else met[a]
                norm2 += feature[c] * feature[c]
                feature[c], seen[c] = 0.0, False
            if norm2 > SHORTEST * SHORTEST:
                scales[i, v] = 1.0 / np.sqrt(norm2)
        for a in range(size):
            rows[now, supports[now, a]] = 0.0


def all_unit_scales(adjacency: CSR, contexts: Singles, views: int) -> Singles:
    """Return what `unit_scales` does of all nodes (T, V), for contexts (T, W) without zeros (see `full_width`).

    The views of some columns at a time are multiplied by Â; followed one by one, nodes would be visited by all whose
    view they are in.
    """
    norms2 = np.zeros((len(contexts), views))
    for first in range(0, contexts.shape[1], BLOCK):
        columns = contexts[:, first : first + BLOCK]
        for v, averaged in enumerate(_averages(adjacency, columns, columns.shape[1], views)):
            norms2[:, v] += np.square(averaged).sum(axis=1, dtype=np.float64)
    is_long = norms2 > SHORTEST * SHORTEST
    return np.sqrt(np.divide(1.0, norms2, out=np.zeros_like(norms2), where=is_long)).astype(np.float32)


def project(weights: Singles, projected: Singles, rows: NDArray[np.int64]) -> Singles:
    """Return ``(Â^v X θ_vk)_i`` (V, K) from row i of Â^v, ``weights`` (V, T); not scaled to unit length.

    ``X θ`` are the `rows` (T,) of ``projected`` (N, ≥ V, K), which are read where they are.
    """
    scores = np.zeros((len(weights), projected.shape[2]), np.float32)
    _project(weights, projected, rows, scores)
    return scores


@kernel
def _project(weights: Singles, projected: Singles, rows: NDArray[np.int64], scores: Singles) -> None:
    """Add to the scores (V, K) of `project`."""
    for v in range(weights.shape[0]):
        for t in range(rows.shape[0]):
            weight, row = weights[v, t], rows[t]
            if weight > 0.0:
                for k in range(scores.shape[1]):
                    scores[v, k] += weight * projected[row, v, k]


def smoothed(shares: Singles, rows: NDArray[np.int64], weights: Singles, values: Singles, prior: float) -> Singles:
    """Return ``Σ_j a_j m_jk z_jk / (Σ_j a_j m_jk + c)`` (K,) for shares a (N,) of `rows` (N,) of m and z (T, K)."""
    sums = np.zeros((2, weights.shape[1]), np.float32)
    _add_shares(shares, rows, weights, values, sums)
    return np.asarray(sums[0] / (sums[1] + np.float32(prior)))


@kernel
def _add_shares(shares: Singles, rows: NDArray[np.int64], weights: Singles, values: Singles, sums: Singles) -> None:
    """Add ``Σ_j a_j m_jk z_jk`` and ``Σ_j a_j m_jk`` to two sums (2, K); see `smoothed`."""
    for j in range(rows.shape[0]):
        share, row = shares[j], rows[j]
        for k in range(sums.shape[1]):
            weight = share * weights[row, k]
            sums[0, k] += weight * values[row, k]
            sums[1, k] += weight


def combine(view_scores: Singles, beta: NDArray[np.float64], bias: NDArray[np.float64], *, exclusive: bool) -> Any:
    """Probabilities of the arms (…, K) from the scores of the views (…, V, K), by the logits ``Σ_v β_v s_v + b``."""
    return probabilities(np.einsum("v,...vk->...k", beta, view_scores) + bias, exclusive=exclusive)


def probabilities(logits: NDArray[np.float64], *, exclusive: bool) -> Any:
    """Softmax of logits (…, K); where arms are right or wrong on their own (not `exclusive`), the logistic function."""
    if not exclusive:
        return 1.0 / (1.0 + np.exp(-np.clip(logits, -500, 500)))
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
