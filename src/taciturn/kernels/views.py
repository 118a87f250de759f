"""Ridge regressions on V views of the same contexts, without storing the features of the views.

View v of context i is ``f_iv = (Â^v X)_i`` scaled to unit length, v = 0 … V−1: the context itself, then averaged over
its neighbors, over their neighbors, and so on. In view v the coefficients of arm k minimize

    Σ_i m_ik (f_ivᵀθ_vk − q_ik)² + λ‖θ_vk‖²

with targets q (T, K) and weights m (T, K). All V·K columns of ``theta`` (D, V·K), column v·K + k for θ_vk, are solved
together by conjugate gradients (Hestenes and Stiefel 1952), one step per call, starting from the current ``theta``. A
product with all features of view v is one sparse product with X and v sparse products with Â (T, T).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel, kernel

Singles = NDArray[np.float32]


DENSE_WIDTH = 16
"""From so many columns on, a product with rows that have no zeros goes through BLAS."""

BLOCK = 64
"""So many columns of all contexts are propagated at a time: few enough for the processor's cache."""

PIECE, FEWEST_ARMS = 2**20, 4
"""Regressions of some arms are solved at a time, so that their scores have about so many entries; of no fewer arms."""

MANY_FEATURES, FEW_ENTRIES = 2**12, 4
"""Where there are more features, and so many times more than entries of contexts, these are numbered anew."""

SHORTEST = 1e-6
"""A view of contexts at unit length that is shorter says nothing: a context without entries, far from all others."""


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


@kernel
def _full_width(indptr: NDArray[np.int64], columns: NDArray[np.int32]) -> int:
    """See `full_width`."""
    count = indptr.shape[0] - 1
    width = indptr[1] - indptr[0] if count > 0 else 0
    if width == 0 or indptr[count] - indptr[0] != count * width:
        return 0
    for i in range(count):
        stop = indptr[i + 1]
        if stop - indptr[i] != width or columns[stop - 1] != width - 1:
            return 0
    return int(width)


def full_width(matrix: CSR) -> int:
    """How many columns a matrix has whose rows have no zeros, so that its values are those of a dense one; else 0."""
    return _full_width(matrix.indptr, matrix.columns)


@fast_kernel
def spmm(matrix: CSR, dense: Singles) -> Singles:
    """Return ``matrix · dense`` (N, U) for a sparse matrix (N, M) and a dense one (M, U)."""
    out = np.zeros((matrix.indptr.shape[0] - 1, dense.shape[1]), np.float32)
    for i in range(out.shape[0]):
        for p in range(matrix.indptr[i], matrix.indptr[i + 1]):
            value, c = matrix.values[p], matrix.columns[p]
            for u in range(out.shape[1]):
                out[i, u] += value * dense[c, u]
    return out


@fast_kernel
def spmm_t(matrix: CSR, dense: Singles, out: Singles) -> None:
    """Add ``matrixᵀ · dense`` to ``out`` (M, U) for a sparse matrix (N, M) and a dense one (N, U)."""
    for i in range(dense.shape[0]):
        for p in range(matrix.indptr[i], matrix.indptr[i + 1]):
            value, c = matrix.values[p], matrix.columns[p]
            for u in range(dense.shape[1]):
                out[c, u] += value * dense[i, u]


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
        spmm_t(contexts.sparse, scores, out)
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
    """The features at some nodes."""
    found = np.empty((of.scales.shape[1], len(nodes), dimension), np.float32)
    for v, features in enumerate(each_view(of, nodes, dimension)):
        found[v] = features
    return Features(found)


def each_view(of: Operands, nodes: NDArray[np.int64], dimension: int) -> Iterator[Singles]:
    """The features at some nodes (N, D) of one view after the other."""
    count, views = of.scales.shape
    averaged = dense_rows(of.contexts.sparse, np.arange(count), dimension)
    for v in range(views):
        if v > 0:
            averaged = spmm(of.adjacency, averaged)
        yield averaged[nodes] * of.scales[nodes, v, None]


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


def adjoint(of: Operands | Features, weights: Singles, scores: Singles, dimension: int) -> Singles:
    """Return ``Σ_i m_ik · scores_ivk · f_iv`` (D, V·K), the adjoint of `predict`; overwrites ``scores`` (T, V·K)."""
    if isinstance(of, Features):
        of_view = by_view(scores, len(of.of_views))
        of_view *= weights[:, None]
        return np.concatenate([f.T @ of_view[:, v] for v, f in enumerate(of.of_views)], axis=1)
    views = of.scales.shape[1]
    of_view = by_view(scores, views)
    of_view *= of.scales[:, :, None]
    of_view *= weights[:, None]
    _apply_hops(of.adjacency, scores, views)  # Â is symmetric
    return transposed_times(of.contexts, scores, dimension)


@fast_kernel
def _column_dots(left: Singles, right: Singles) -> Singles:
    """Return the dot product of each column of ``left`` (D, U) with the same column of ``right``: (U,)."""
    dots = np.zeros(left.shape[1], np.float32)
    for d in range(left.shape[0]):
        for u in range(left.shape[1]):
            dots[u] += left[d, u] * right[d, u]
    return dots


class CGState(NamedTuple):
    """Conjugate-gradient state: residual r and direction p, both (D, V·K), and rᵀr (V·K) of each column."""

    residual: Singles
    direction: Singles
    residual_norm2: Singles


def pieces(arms: int, entries: int) -> list[slice]:
    """Slices of K arms, of which each has so many entries in an array: what is made of a piece is small."""
    size = max(PIECE // max(entries, 1), FEWEST_ARMS)
    return [slice(first, min(first + size, arms)) for first in range(0, arms, size)]


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
    r = adjoint(of, weights, np.tile(targets, views), dimension)
    Atheta = adjoint(of, weights, predict(of, theta), dimension)
    Atheta += np.float32(ridge) * theta
    r -= Atheta
    return CGState(r, r.copy(), _column_dots(r, r))


def cg_step(of: Operands | Features, weights: Singles, ridge: float, theta: Singles, state: CGState) -> None:
    """Take one conjugate-gradient step in every column; updates ``theta`` (D, V·K) and ``state`` in place.

    The step length is 0 in a column with ``pᵀAp = 0``: p is zero there, because r is.
    """
    r, p, residual_norm2 = state
    Ap = adjoint(of, weights, predict(of, p), len(theta))
    Ap += np.float32(ridge) * p
    pAp = _column_dots(p, Ap)
    _move(theta, r, p, Ap, np.divide(residual_norm2, pAp, out=np.zeros_like(pAp), where=pAp > 0))
    norm2 = _column_dots(r, r)
    _turn(p, r, np.divide(norm2, residual_norm2, out=np.zeros_like(pAp), where=residual_norm2 > 0))
    residual_norm2[:] = norm2


@kernel
def _move(theta: Singles, r: Singles, p: Singles, Ap: Singles, alpha: Singles) -> None:
    """``θ += αp`` and ``r −= αAp`` (D, U), in place; products are rounded before they are added."""
    for d in range(theta.shape[0]):
        for u in range(theta.shape[1]):
            theta[d, u] += alpha[u] * p[d, u]
            r[d, u] -= alpha[u] * Ap[d, u]


@fast_kernel
def _turn(p: Singles, r: Singles, beta: Singles) -> None:
    """``p = r + βp`` (D, U), in place."""
    for d in range(p.shape[0]):
        for u in range(p.shape[1]):
            p[d, u] = r[d, u] + beta[u] * p[d, u]


@kernel
def _full_width_of(matrix: CSR, rows: NDArray[np.int64]) -> int:
    """As `full_width`, of some rows."""
    width = 0
    for i in range(rows.shape[0]):
        start, stop = matrix.indptr[rows[i]], matrix.indptr[rows[i] + 1]
        if stop == start or (i > 0 and stop - start != width) or matrix.columns[stop - 1] != stop - start - 1:
            return 0
        width = stop - start
    return width


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
    entries = int((contexts.indptr[members + 1] - contexts.indptr[members]).sum())
    if dimension > MANY_FEATURES and FEW_ENTRIES * entries < dimension:  # arrays of that length would cost more
        contexts, dimension = _taken(contexts, members)
        members = np.arange(len(members))
    return _unit_scales(adjacency, contexts, members, nodes, views, dimension)


@fast_kernel
def _unit_scales(
    adjacency: CSR, contexts: CSR, members: NDArray[np.int64], nodes: NDArray[np.int64], views: int, dimension: int
) -> Singles:
    """See `unit_scales`. Row i of Â^v is kept as a dense ``row`` (T,) whose nonzeros are at ``support[:size]``."""
    count = adjacency.indptr.shape[0] - 1
    scales = np.zeros((nodes.shape[0], views), np.float32)
    row, next_row = np.zeros(count, np.float32), np.zeros(count, np.float32)
    support, next_support = np.empty(count, np.int32), np.empty(count, np.int32)
    feature, columns = np.zeros(dimension), np.empty(dimension, np.int32)
    seen, width = np.zeros(dimension, np.bool_), _full_width_of(contexts, members)
    for i in range(nodes.shape[0]):
        row[nodes[i]], support[0], size = 1.0, nodes[i], 1
        for v in range(views):
            if v > 0:
                size = propagate(adjacency, row, support, size, next_row, next_support)
                row, next_row = next_row, row
                support, next_support = next_support, support
            n_columns = width
            for a in range(size):
                weight, member = row[support[a]], members[support[a]]
                if width > 0:
                    start = contexts.indptr[member]
                    for c in range(width):
                        feature[c] += weight * contexts.values[start + c]
                    continue
                for p in range(contexts.indptr[member], contexts.indptr[member + 1]):
                    c = contexts.columns[p]
                    if not seen[c]:
                        seen[c] = True
                        columns[n_columns] = c
                        n_columns += 1
                    feature[c] += weight * contexts.values[p]
            norm2 = 0.0
            for a in range(n_columns):
                c = a if width > 0 else columns[a]
                norm2 += feature[c] * feature[c]
                feature[c] = 0.0
                seen[c] = False
            if norm2 > SHORTEST * SHORTEST:
                scales[i, v] = 1.0 / np.sqrt(norm2)
        for a in range(size):
            row[support[a]] = 0.0
    return scales


@fast_kernel
def _add_squares(columns: Singles, norms2: NDArray[np.float64], view: int) -> None:
    """Add the squared lengths of rows (T, C) to a column of ``norms2`` (T, V)."""
    for i in range(columns.shape[0]):
        for c in range(columns.shape[1]):
            norms2[i, view] += columns[i, c] * columns[i, c]


def all_unit_scales(adjacency: CSR, contexts: Singles, views: int) -> Singles:
    """Return what `unit_scales` does of all nodes (T, V), for contexts (T, W) without zeros (see `full_width`).

    The views of some columns at a time are multiplied by Â; followed one by one, nodes would be visited by all whose
    view they are in.
    """
    norms2 = np.zeros((len(contexts), views))
    for first in range(0, contexts.shape[1], BLOCK):
        columns = np.ascontiguousarray(contexts[:, first : first + BLOCK])
        for v in range(views):
            if v > 0:
                columns = spmm(adjacency, columns)
            _add_squares(columns, norms2, v)
    is_long = norms2 > SHORTEST * SHORTEST
    return np.sqrt(np.divide(1.0, norms2, out=np.zeros_like(norms2), where=is_long)).astype(np.float32)


@fast_kernel
def propagate(
    adjacency: CSR, row: Singles, support: NDArray[np.int32], size: int, out: Singles, out_support: NDArray[np.int32]
) -> int:
    """Write ``Â · row`` (T,) to ``out`` and its nonzero indices to ``out_support``; return how many there are.

    ``row`` is nonzero at ``support[:size]`` only. ``out`` must be zero on entry; ``row`` is zero on return.
    """
    count = 0
    for a in range(size):
        node = support[a]
        for p in range(adjacency.indptr[node], adjacency.indptr[node + 1]):
            neighbor, product = adjacency.columns[p], adjacency.values[p] * row[node]
            if product > 0.0:  # Â is never negative, so out[neighbor] == 0 means that it is not in the support yet
                if out[neighbor] == 0.0:
                    out_support[count] = neighbor
                    count += 1
                out[neighbor] += product
        row[node] = 0.0
    return count


@fast_kernel
def reach(adjacency: CSR, node: int, hops: int) -> Singles:
    """Return row `node` of ``Â + Â² + … + Â^hops`` (T,)."""
    count = adjacency.indptr.shape[0] - 1
    total, row, next_row = np.zeros(count, np.float32), np.zeros(count, np.float32), np.zeros(count, np.float32)
    support, next_support = np.empty(count, np.int32), np.empty(count, np.int32)
    row[node], support[0], size = 1.0, node, 1
    for _ in range(hops):
        size = propagate(adjacency, row, support, size, next_row, next_support)
        row, next_row = next_row, row
        support, next_support = next_support, support
        for a in range(size):
            total[support[a]] += row[support[a]]
    return total


@fast_kernel
def project(adjacency: CSR, projected: Singles, rows: NDArray[np.int64], node: int, views: int) -> Singles:
    """Return ``(Â^v X θ_vk)_node`` (V, K); not scaled to unit length.

    ``X θ`` are the `rows` (T,) of ``projected`` (N, ≥ V, K). Row `node` of Â^v is kept as in `_unit_scales`.
    """
    count, arms = rows.shape[0], projected.shape[2]
    row, next_row = np.zeros(count, np.float32), np.zeros(count, np.float32)
    support, next_support = np.empty(count, np.int32), np.empty(count, np.int32)
    row[node], support[0], size = 1.0, node, 1
    scores = np.zeros((views, arms), np.float32)
    for v in range(views):
        if v > 0:
            size = propagate(adjacency, row, support, size, next_row, next_support)
            row, next_row = next_row, row
            support, next_support = next_support, support
        for a in range(size):
            weight, of_row = row[support[a]], projected[rows[support[a]], v]
            for k in range(arms):
                scores[v, k] += weight * of_row[k]
    return scores


@kernel
def smoothed(shares: Singles, rows: NDArray[np.int64], weights: Singles, values: Singles, prior: float) -> Singles:
    """Return ``Σ_j a_j m_jk z_jk / (Σ_j a_j m_jk + c)`` (K,) for shares a (N,) of `rows` (N,) of m and z (T, K)."""
    above, below = np.zeros(weights.shape[1], np.float32), np.zeros(weights.shape[1], np.float32)
    for j in range(rows.shape[0]):
        share, of_row, value = shares[j], weights[rows[j]], values[rows[j]]
        for k in range(above.shape[0]):
            weight = share * of_row[k]
            above[k] += weight * value[k]
            below[k] += weight
    for k in range(above.shape[0]):
        above[k] /= below[k] + np.float32(prior)
    return above


def combine(view_scores: Singles, beta: NDArray[np.float64], bias: NDArray[np.float64], *, exclusive: bool) -> Any:
    """Probabilities of the arms (…, K) from the scores of the views (…, V, K), by the logits ``Σ_v β_v s_v + b``."""
    return probabilities(np.einsum("v,...vk->...k", beta, view_scores) + bias, exclusive=exclusive)


def probabilities(logits: NDArray[np.float64], *, exclusive: bool) -> Any:
    """Softmax of logits (…, K); where arms are right or wrong on their own (not `exclusive`), the logistic function."""
    if not exclusive:
        return 1.0 / (1.0 + np.exp(-np.clip(logits, -500, 500)))
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
