"""Ridge regressions on V views of the same contexts, without storing the features of the views.

View v of context i is ``f_iv = (Â^v X)_i`` scaled to unit length, v = 0 … V−1: the context itself, then averaged over
its neighbors, over their neighbors, and so on. In view v the coefficients of arm k minimize

    Σ_i m_ik (f_ivᵀθ_vk − q_ik)² + λ‖θ_vk‖²

with targets q (T, K) and weights m (T, K). All V·K columns of ``theta`` (D, V·K), column v·K + k for θ_vk, are solved
together by conjugate gradients (Hestenes and Stiefel 1952), one step per call, starting from the current ``theta``. A
product with all features of view v is one sparse product with X and v sparse products with Â (T, T).
"""

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

SHORTEST = 1e-6
"""A view of contexts at unit length that is shorter says nothing: a context without entries, far from all others."""


@kernel
def unit_values(indptr: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values of sparse rows with each row at unit length; one of zeros, or without entries, stays."""
    units = values.copy()
    for i in range(indptr.shape[0] - 1):
        norm2 = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            norm2 += values[p] * values[p]
        if norm2 > 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                units[p] = values[p] / np.sqrt(norm2)
    return units


@kernel
def full_width(matrix: CSR) -> int:
    """How many columns a matrix has whose rows have no zeros, so that its values are those of a dense one; else 0."""
    count = matrix.indptr.shape[0] - 1
    width = matrix.indptr[1] - matrix.indptr[0] if count > 0 else 0
    if width == 0 or matrix.indptr[count] - matrix.indptr[0] != count * width:
        return 0
    for i in range(count):
        stop = matrix.indptr[i + 1]
        if stop - matrix.indptr[i] != width or matrix.columns[stop - 1] != width - 1:
            return 0
    return width


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


@fast_kernel
def spmm(matrix: CSR, dense: Singles) -> Singles:
    """Return ``matrix · dense`` (N, U) for a sparse matrix (N, M) and a dense one (M, U)."""
    width, count = full_width(matrix), matrix.indptr.shape[0] - 1
    if width >= DENSE_WIDTH:
        values = matrix.values[: count * width].astype(np.float32).reshape(count, width)
        return np.asarray(np.dot(values, np.ascontiguousarray(dense[:width])))
    out = np.zeros((matrix.indptr.shape[0] - 1, dense.shape[1]), np.float32)
    for i in range(out.shape[0]):
        row = out[i]
        for p in range(matrix.indptr[i], matrix.indptr[i + 1]):
            value, other = np.float32(matrix.values[p]), dense[matrix.columns[p]]
            for u in range(row.shape[0]):
                row[u] += value * other[u]
    return out


@fast_kernel
def spmm_t(matrix: CSR, dense: Singles, rows: int) -> Singles:
    """Return ``matrixᵀ · dense`` (rows, U) for a sparse matrix (N, rows) and a dense one (N, U)."""
    out = np.zeros((rows, dense.shape[1]), np.float32)
    width, count = full_width(matrix), matrix.indptr.shape[0] - 1
    if width >= DENSE_WIDTH:
        values = matrix.values[: count * width].astype(np.float32).reshape(count, width)
        out[:width] = np.dot(values.T, np.ascontiguousarray(dense))
        return out
    for i in range(dense.shape[0]):
        row = dense[i]
        for p in range(matrix.indptr[i], matrix.indptr[i + 1]):
            value, other = np.float32(matrix.values[p]), out[matrix.columns[p]]
            for u in range(row.shape[0]):
                other[u] += value * row[u]
    return out


@fast_kernel
def _apply_hops(adjacency: CSR, columns: Singles, views: int) -> None:
    """Multiply the K columns of view v by ``Â^v``, in place; ``columns`` is (T, V·K).

    Hop v multiplies the columns of the views v, v+1, … by Â, so every view gets as many hops as its number.
    """
    arms = columns.shape[1] // views
    for v in range(1, views):
        columns[:, v * arms :] = spmm(adjacency, np.ascontiguousarray(columns[:, v * arms :]))


@fast_kernel
def predict(adjacency: CSR, contexts: CSR, scales: Singles, theta: Singles) -> Singles:
    """Return the scores ``f_ivᵀθ_vk`` (T, V·K); ``scales`` (T, V) are those of `unit_scales`."""
    views = scales.shape[1]
    arms = theta.shape[1] // views
    scores = spmm(contexts, theta)
    _apply_hops(adjacency, scores, views)
    for i in range(scores.shape[0]):
        for v in range(views):
            for k in range(arms):
                scores[i, v * arms + k] *= scales[i, v]
    return scores


@fast_kernel
def adjoint(
    adjacency: CSR, contexts: CSR, scales: Singles, weights: Singles, scores: Singles, dimension: int
) -> Singles:
    """Return ``Σ_i m_ik · scores_ivk · f_iv`` (D, V·K), the adjoint of `predict`; overwrites ``scores`` (T, V·K)."""
    views = scales.shape[1]
    arms = weights.shape[1]
    for i in range(scores.shape[0]):
        for v in range(views):
            for k in range(arms):
                scores[i, v * arms + k] *= scales[i, v] * weights[i, k]
    _apply_hops(adjacency, scores, views)  # Â is symmetric
    return spmm_t(contexts, scores, dimension)


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


@fast_kernel
def cg_init(
    adjacency: CSR, contexts: CSR, scales: Singles, weights: Singles, targets: Singles, ridge: float, theta: Singles
) -> CGState:
    """Return the state at ``theta`` (D, V·K), from which `cg_step` starts: ``r = b − Aθ``, ``p = r``.

    In the columns of view v and arm k, ``A = Σ_i m_ik f_iv f_ivᵀ + λI`` and ``b = Σ_i m_ik q_ik f_iv``; ``weights``
    (T, K) is m, ``targets`` (T, K) is q and ``ridge`` is λ.
    """
    dimension, views = theta.shape[0], scales.shape[1]
    repeated_targets = np.empty((targets.shape[0], theta.shape[1]), np.float32)
    for i in range(targets.shape[0]):
        for v in range(views):
            for k in range(targets.shape[1]):
                repeated_targets[i, v * targets.shape[1] + k] = targets[i, k]
    r = adjoint(adjacency, contexts, scales, weights, repeated_targets, dimension)
    scores = predict(adjacency, contexts, scales, theta)
    r -= adjoint(adjacency, contexts, scales, weights, scores, dimension) + np.float32(ridge) * theta
    return CGState(r, r.copy(), _column_dots(r, r))


@fast_kernel
def cg_step(
    adjacency: CSR, contexts: CSR, scales: Singles, weights: Singles, ridge: float, theta: Singles, state: CGState
) -> None:
    """Take one conjugate-gradient step in every column; updates ``theta`` (D, V·K) and ``state`` in place.

    The step length is 0 in a column with ``pᵀAp = 0``: p is zero there, because r is.
    """
    r, p, residual_norm2 = state
    scores = predict(adjacency, contexts, scales, p)
    Ap = adjoint(adjacency, contexts, scales, weights, scores, theta.shape[0]) + np.float32(ridge) * p
    pAp = _column_dots(p, Ap)
    alpha = np.zeros_like(residual_norm2)
    for u in range(residual_norm2.shape[0]):
        if pAp[u] > 0.0:
            alpha[u] = residual_norm2[u] / pAp[u]
    theta += alpha * p
    r -= alpha * Ap
    new_norm2 = _column_dots(r, r)
    for u in range(residual_norm2.shape[0]):
        beta = new_norm2[u] / residual_norm2[u] if residual_norm2[u] > 0.0 else np.float32(0.0)
        residual_norm2[u] = new_norm2[u]
        for d in range(p.shape[0]):
            p[d, u] = r[d, u] + beta * p[d, u]


@fast_kernel
def unit_scales(
    adjacency: CSR, contexts: CSR, members: NDArray[np.int64], nodes: NDArray[np.int64], views: int, dimension: int
) -> Singles:
    """Return ``1/‖(Â^v X)_i‖`` (N, V) for each of `nodes` (N,) and each view; 0 where a view has hardly any length.

    Row i of X is row ``members[i]`` of `contexts`. Row i of Â^v is kept as a dense ``row`` (T,) whose nonzeros are at
    ``support[:size]``.
    """
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
def all_unit_scales(adjacency: CSR, contexts: CSR, views: int) -> Singles:
    """Return what `unit_scales` does of all nodes (T, V), for contexts without zeros (see `full_width`).

    The views of some columns at a time are multiplied by Â; followed one by one, nodes would be visited by all whose
    view they are in.
    """
    count, width = adjacency.indptr.shape[0] - 1, full_width(contexts)
    values = contexts.values[: count * width].reshape(count, width)
    norms2 = np.zeros((count, views))
    for first in range(0, width, BLOCK):
        columns = values[:, first : first + BLOCK].astype(np.float32)
        for v in range(views):
            if v > 0:
                columns = spmm(adjacency, columns)
            for i in range(count):
                for c in range(columns.shape[1]):
                    norms2[i, v] += columns[i, c] * columns[i, c]
    scales = np.zeros((count, views), np.float32)
    for i in range(count):
        for v in range(views):
            if norms2[i, v] > SHORTEST * SHORTEST:
                scales[i, v] = 1.0 / np.sqrt(norms2[i, v])
    return scales


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
def project(adjacency: CSR, projected: Singles, node: int, views: int) -> Singles:
    """Return ``(Â^v X θ_vk)_node`` (V, K) from ``projected = X θ`` (T, V·K); not scaled to unit length.

    Row `node` of Â^v is kept as in `unit_scales`.
    """
    count, arms = projected.shape[0], projected.shape[1] // views
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
            for k in range(arms):
                scores[v, k] += row[support[a]] * projected[support[a], v * arms + k]
    return scores


def combine(view_scores: Singles, beta: NDArray[np.float64], bias: NDArray[np.float64], *, exclusive: bool) -> Any:
    """Probabilities of the arms (…, K) from the scores of the views (…, V, K): ``softmax(Σ_v β_v s_v + b)``.

    Where arms are right or wrong on their own (not `exclusive`), the logistic function in place of softmax.
    """
    logits = np.einsum("v,...vk->...k", beta, view_scores) + bias
    if not exclusive:
        return 1.0 / (1.0 + np.exp(-np.clip(logits, -500, 500)))
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
