"""Ridge regressions on several views of the same contexts, whose features are never written down.

View v of context i is ``f_iv = (Â^v X)_i`` at unit length, v = 0 … V−1: the context itself, averaged with its
neighbours, with theirs, and so on. In view v arm k has the coefficients that minimise

    Σ_i m_ik (f_ivᵀθ_vk − q_ik)² + λ‖θ_vk‖²

with targets q (T, K) and weights m (T, K). The V·K columns of ``theta`` (D, V·K) are solved side by side by conjugate
gradients from where they are, a step at a time; a product with all features of a view is one with X and v with Â, each
sparse.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel

Singles = NDArray[np.float32]


@fast_kernel
def spmm(matrix: CSR, dense: Singles) -> Singles:
    """``matrix · dense``, sparse times dense."""
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
    """``matrixᵀ · dense``, where the matrix has `rows` columns."""
    out = np.zeros((rows, dense.shape[1]), np.float32)
    for i in range(dense.shape[0]):
        row = dense[i]
        for p in range(matrix.indptr[i], matrix.indptr[i + 1]):
            value, other = np.float32(matrix.values[p]), out[matrix.columns[p]]
            for u in range(row.shape[0]):
                other[u] += value * row[u]
    return out


@fast_kernel
def _hops(adjacency: CSR, columns: Singles, views: int) -> None:
    """``Â^v`` on the columns (T, V·K) of view v, in place: one hop after another, each leaving one view behind."""
    arms = columns.shape[1] // views
    for v in range(1, views):
        columns[:, v * arms :] = spmm(adjacency, np.ascontiguousarray(columns[:, v * arms :]))


@fast_kernel
def predict(adjacency: CSR, contexts: CSR, scales: Singles, theta: Singles) -> Singles:
    """``f_ivᵀθ_vk`` (T, V·K); `scales` (T, V) brings each view of each context to unit length."""
    views = scales.shape[1]
    arms = theta.shape[1] // views
    scores = spmm(contexts, theta)
    _hops(adjacency, scores, views)
    for i in range(scores.shape[0]):
        for v in range(views):
            for k in range(arms):
                scores[i, v * arms + k] *= scales[i, v]
    return scores


@fast_kernel
def adjoint(
    adjacency: CSR, contexts: CSR, scales: Singles, weights: Singles, scores: Singles, dimension: int
) -> Singles:
    """``Σ_i m_ik · scores_ivk · f_iv`` (D, V·K): back from scores to features. Overwrites `scores`."""
    views = scales.shape[1]
    arms = weights.shape[1]
    for i in range(scores.shape[0]):
        for v in range(views):
            for k in range(arms):
                scores[i, v * arms + k] *= scales[i, v] * weights[i, k]
    _hops(adjacency, scores, views)  # Â is symmetric
    return spmm_t(contexts, scores, dimension)


@fast_kernel
def _column_products(left: Singles, right: Singles) -> Singles:
    products = np.zeros(left.shape[1], np.float32)
    for d in range(left.shape[0]):
        for u in range(left.shape[1]):
            products[u] += left[d, u] * right[d, u]
    return products


class CGState(NamedTuple):
    """Where conjugate gradients are: what is left, where to go next (both (D, V·K)), and how much is left (V·K)."""

    residual: Singles
    direction: Singles
    residual_norm2: Singles


@fast_kernel
def cg_init(
    adjacency: CSR, contexts: CSR, scales: Singles, weights: Singles, targets: Singles, ridge: float, theta: Singles
) -> CGState:
    """Begin to move ``theta`` (D, V·K) towards the minimum, from where it is."""
    dimension, views = theta.shape[0], scales.shape[1]
    wanted = np.empty((targets.shape[0], theta.shape[1]), np.float32)
    for i in range(targets.shape[0]):
        for v in range(views):
            for k in range(targets.shape[1]):
                wanted[i, v * targets.shape[1] + k] = targets[i, k]
    residual = adjoint(adjacency, contexts, scales, weights, wanted, dimension)
    now = predict(adjacency, contexts, scales, theta)
    residual -= adjoint(adjacency, contexts, scales, weights, now, dimension) + np.float32(ridge) * theta
    return CGState(residual, residual.copy(), _column_products(residual, residual))


@fast_kernel
def cg_step(
    adjacency: CSR, contexts: CSR, scales: Singles, weights: Singles, ridge: float, theta: Singles, state: CGState
) -> None:
    """One step of conjugate gradients, in place."""
    residual, direction, residual_norm2 = state
    ahead = predict(adjacency, contexts, scales, direction)
    Ap = adjoint(adjacency, contexts, scales, weights, ahead, theta.shape[0]) + np.float32(ridge) * direction
    curvature = _column_products(direction, Ap)
    alpha = np.zeros_like(residual_norm2)
    for u in range(residual_norm2.shape[0]):
        if curvature[u] > 0.0:
            alpha[u] = residual_norm2[u] / curvature[u]
    theta += alpha * direction
    residual -= alpha * Ap
    left = _column_products(residual, residual)
    for u in range(residual_norm2.shape[0]):
        beta = left[u] / residual_norm2[u] if residual_norm2[u] > 0.0 else np.float32(0.0)
        residual_norm2[u] = left[u]
        for d in range(direction.shape[0]):
            direction[d, u] = residual[d, u] + beta * direction[d, u]


@fast_kernel
def unit_scales(adjacency: CSR, contexts: CSR, nodes: NDArray[np.int64], views: int, dimension: int) -> Singles:
    """``1/‖(Â^v X)_i‖`` for the nodes asked (N, V), zero where a view has no length: what brings it to unit length."""
    count = adjacency.indptr.shape[0] - 1
    scales = np.zeros((nodes.shape[0], views), np.float32)
    mass, spread = np.zeros(count, np.float32), np.zeros(count, np.float32)
    held, reached = np.empty(count, np.int32), np.empty(count, np.int32)
    feature, columns = np.zeros(dimension), np.empty(dimension, np.int32)
    seen = np.zeros(dimension, np.bool_)
    for place in range(nodes.shape[0]):
        mass[nodes[place]], held[0], size = 1.0, nodes[place], 1
        for v in range(views):
            if v > 0:
                size = propagate(adjacency, mass, held, size, spread, reached)
                mass, spread = spread, mass
                held, reached = reached, held
            touched = 0
            for a in range(size):
                weight = mass[held[a]]
                for p in range(contexts.indptr[held[a]], contexts.indptr[held[a] + 1]):
                    c = contexts.columns[p]
                    if not seen[c]:
                        seen[c] = True
                        columns[touched] = c
                        touched += 1
                    feature[c] += weight * contexts.values[p]
            residual_norm2 = 0.0
            for a in range(touched):
                residual_norm2 += feature[columns[a]] * feature[columns[a]]
                feature[columns[a]] = 0.0
                seen[columns[a]] = False
            if residual_norm2 > 0.0:
                scales[place, v] = 1.0 / np.sqrt(residual_norm2)
        for a in range(size):
            mass[held[a]] = 0.0
    return scales


@fast_kernel
def propagate(
    adjacency: CSR, mass: Singles, held: NDArray[np.int32], size: int, out: Singles, reached: NDArray[np.int32]
) -> int:
    """One hop: ``out = Â · mass`` over the nodes reached, whose number is returned; `mass` is cleared."""
    count = 0
    for a in range(size):
        node = held[a]
        for p in range(adjacency.indptr[node], adjacency.indptr[node + 1]):
            other, moved = adjacency.columns[p], adjacency.values[p] * mass[node]
            if moved > 0.0:  # weights are never negative, so zero mass means not reached yet
                if out[other] == 0.0:
                    reached[count] = other
                    count += 1
                out[other] += moved
        mass[node] = 0.0
    return count


@fast_kernel
def project(adjacency: CSR, projected: Singles, node: int, views: int) -> Singles:
    """``(Â^v X θ_v)`` of one node (V, K), from ``projected = X θ`` (T, V·K) of all."""
    count, arms = projected.shape[0], projected.shape[1] // views
    mass, spread = np.zeros(count, np.float32), np.zeros(count, np.float32)
    held, reached = np.empty(count, np.int32), np.empty(count, np.int32)
    mass[node], held[0], size = 1.0, node, 1
    scores = np.zeros((views, arms), np.float32)
    for v in range(views):
        if v > 0:
            size = propagate(adjacency, mass, held, size, spread, reached)
            mass, spread = spread, mass
            held, reached = reached, held
        for a in range(size):
            for k in range(arms):
                scores[v, k] += mass[held[a]] * projected[held[a], v * arms + k]
    return scores
