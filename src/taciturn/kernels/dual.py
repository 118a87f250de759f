"""Ridge regressions through their examples: the dual form, for contexts of more features than K matrices can have.

Arm k has learned the rows X_k (n, D) with the targets r_k. With ``M_k = (λI + X_k X_kᵀ)⁻¹`` (n, n) and ``w = X_k x``

    θ_k = X_kᵀ M_k r_k      θ_kᵀx = wᵀ M_k r_k      xᵀA_k⁻¹x = (xᵀx − wᵀ M_k w) / λ

exactly. M is kept for slots, one for each context that was learned: row and column of a slot that an arm has not
learned are zero.

Where there are too many examples for that, θ alone is found by coordinate ascent in the dual (Shalev-Shwartz and Zhang
2013): ``θ_k = Σ_i a_ik x_i / λ``, and a step at example i makes its own condition ``a_ik = r_ik − θ_kᵀx_i`` true:

    δ = (r_ik − θ_kᵀx_i − a_ik) / (1 + ‖x_i‖²/λ)      a_ik ← a_ik + δ      θ_k ← θ_k + δ x_i / λ

A step costs the entries of a context, and an example is taken back by subtracting its own share of θ.
"""

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

TRIES = 8
"""So many contexts are looked at for each that is replayed: most of them may be silent."""


@fast_kernel
def row_products(rows: CSR, nodes: Ints, columns: Columns, values: Floats) -> Floats:
    """``xᵀz`` (N,) of a context with the rows at `nodes`; 0 where a node is −1. Columns rise in every row."""
    products = np.zeros(nodes.shape[0])
    for i in range(nodes.shape[0]):
        if nodes[i] < 0:
            continue
        total, a = 0.0, 0
        for p in range(rows.indptr[nodes[i]], rows.indptr[nodes[i] + 1]):
            while a < columns.shape[0] and columns[a] < rows.columns[p]:
                a += 1
            if a == columns.shape[0]:
                break
            if columns[a] == rows.columns[p]:
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


@fast_kernel
def means(theta: Floats, columns: Columns, values: Floats) -> Floats:
    """``θ_kᵀx`` (K,) of a context, from θ (D, K)."""
    found = np.zeros(theta.shape[1])
    for entry in range(columns.shape[0]):
        row, value = theta[columns[entry]], values[entry]
        for k in range(found.shape[0]):
            found[k] += value * row[k]
    return found


@fast_kernel
def ascend(
    theta: Floats,
    duals: Floats,
    columns: Columns,
    values: Floats,
    first: int,
    stop: int,
    arm: int,
    reward: float,
    ridge: float,
) -> None:
    """One step at an example: θ (D, K) and a (K,) of the arms ``first … stop−1``, in place.

    The target of `arm` is `reward`, that of the others 0.
    """
    size = 0.0
    for entry in range(values.shape[0]):
        size += values[entry] * values[entry]
    step = np.zeros(stop - first)
    for entry in range(columns.shape[0]):
        row, value = theta[columns[entry]], values[entry]
        for k in range(step.shape[0]):
            step[k] += value * row[first + k]
    for k in range(step.shape[0]):
        target = reward if first + k == arm else 0.0
        change = (target - step[k] - duals[first + k]) / (1.0 + size / ridge)
        duals[first + k] += change
        step[k] = change / ridge
    for entry in range(columns.shape[0]):
        row, value = theta[columns[entry]], values[entry]
        for k in range(step.shape[0]):
            row[first + k] += value * step[k]


@fast_kernel
def replay(
    theta: Floats,
    duals: Floats,
    rows: CSR,
    known: Columns,
    arms: Columns,
    rewards: Floats,
    ridge: float,
    cursor: int,
    most: int,
    work: int,
) -> int:
    """Steps at examples that were learned before, at most so many of them and about so many multiplications.

    ``known`` (T,) says of each context how many arms, from the first, its example labels; −1 for its own arm alone and
    0 for none. Contexts are visited in the order of a sequence that is even over all of them, the multiples of the
    golden ratio modulo 1 (Weyl 1916); `cursor` is where it stands, and its next value is returned.
    """
    count, done, spent = known.shape[0], 0, 0
    for _ in range(TRIES * most):
        if done == most or spent >= work:
            break
        cursor = (cursor + 0x9E3779B9) & 0xFFFFFFFF
        i = (cursor * count) >> 32
        if known[i] == 0:
            continue
        first, stop = (arms[i], arms[i] + 1) if known[i] < 0 else (0, known[i])
        entries = slice(rows.indptr[i], rows.indptr[i + 1])
        ascend(theta, duals[i], rows.columns[entries], rows.values[entries], first, stop, arms[i], rewards[i], ridge)
        done += 1
        spent += 2 * (stop - first) * (rows.indptr[i + 1] - rows.indptr[i])
    return cursor
