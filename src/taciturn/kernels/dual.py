"""Ridge regressions through their examples: the dual form, for contexts of more features than K matrices can have.

Arm k has learned the rows X_k (n, D) with the targets r_k. With ``M_k = (λI + X_k X_kᵀ)⁻¹`` (n, n) and ``w = X_k x``

    θ_k = X_kᵀ M_k r_k      θ_kᵀx = wᵀ M_k r_k      xᵀA_k⁻¹x = (xᵀx − wᵀ M_k w) / λ

exactly. M is kept for slots, one for each context that was learned: row and column of a slot that an arm has not
learned are zero.
"""

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]


@fast_kernel
def row_products(rows: CSR, nodes: Ints, columns: Columns, values: Floats, full: bool) -> Floats:  # noqa: FBT001
    """``xᵀz`` (N,) of a context with the rows at `nodes`; 0 where a node is −1. Columns rise in every row.

    Where rows are `full`, each has the columns 0, 1, …, and those of `rows` are not looked at.
    """
    products = np.zeros(nodes.shape[0])
    for i in range(nodes.shape[0]):
        if nodes[i] < 0:
            continue
        total, a, start = 0.0, 0, rows.indptr[nodes[i]]
        for p in range(start, rows.indptr[nodes[i] + 1]):
            column = p - start if full else rows.columns[p]
            while a < columns.shape[0] and columns[a] < column:
                a += 1
            if a == columns.shape[0]:
                break
            if columns[a] == column:
                total += values[a] * rows.values[p]
        products[i] = total
    return products


@fast_kernel
def history_scores(inverse: Floats, targets: Floats, products: Floats, size: float, ridge: float) -> Floats:
    """``θ_kᵀx`` and ``xᵀA_k⁻¹x`` of all arms (2, K), from M (K, N, N), r (K, N), w (n,) for n ≤ N slots, ``xᵀx``, λ."""
    arms, count = inverse.shape[0], products.shape[0]
    found = np.empty((2, arms))
    for k in range(arms):
        mean, quadratic = 0.0, 0.0
        for i in range(count):
            row, product = inverse[k, i], 0.0
            for j in range(count):
                product += row[j] * products[j]
            mean += product * targets[k, i]
            quadratic += product * products[i]
        found[0, k] = mean
        found[1, k] = max(size - quadratic, 0.0) / ridge  # only rounding can push it below zero
    return found


@fast_kernel
def add_to_history(
    inverse: Floats, mask: NDArray[np.bool_], products: Floats, size: float, ridge: float, slot: int
) -> None:
    """Border M (K, N, N) of the arms in a mask (≤ K) by a context in an empty slot, in place.

    With ``u = M w`` and the Schur complement ``s = λ + xᵀx − wᵀu``: ``M ← [M + uuᵀ/s, −u/s; −uᵀ/s, 1/s]``.
    """
    count = products.shape[0]
    u = np.empty(count)
    for k in range(mask.shape[0]):
        if not mask[k]:
            continue
        schur = ridge + size
        for i in range(count):
            row, product = inverse[k, i], 0.0
            for j in range(count):
                product += row[j] * products[j]
            u[i] = product
            schur -= product * products[i]
        schur = max(schur, ridge)  # as it is, but for rounding
        for i in range(count):
            for j in range(count):
                inverse[k, i, j] += u[i] * u[j] / schur
            inverse[k, i, slot] = inverse[k, slot, i] = -u[i] / schur
        inverse[k, slot, slot] = 1.0 / schur


@fast_kernel
def remove_from_history(inverse: Floats, mask: NDArray[np.bool_], slot: int, count: int) -> None:
    """Undo `add_to_history`: ``M ← M − eeᵀ/e_slot`` with e the column of the slot, whose row and column are 0 then."""
    column = np.empty(count)
    for k in range(mask.shape[0]):
        if not mask[k]:
            continue
        own = inverse[k, slot, slot]
        for i in range(count):
            column[i] = inverse[k, i, slot]
        for i in range(count):
            for j in range(count):
                inverse[k, i, j] -= column[i] * column[j] / own
        for i in range(count):
            inverse[k, i, slot] = inverse[k, slot, i] = 0.0
