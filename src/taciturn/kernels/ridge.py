"""Ridge regression for K arms at once, kept as inverses and changed one context at a time.

Each arm k has the covariance ``A_k = λI + Σ w x xᵀ``, the vector ``b_k = Σ β x`` and the solution
``θ_k = A_k⁻¹ b_k``. A change of weight ``w`` and target ``β`` with ``v = A⁻¹x`` and ``q = xᵀv`` gives
(Sherman and Morrison 1950)

    A⁻¹ ← A⁻¹ − w/(1 + wq) · v vᵀ          θ ← θ + (β − w·θᵀx)/(1 + wq) · v

with ``w = 1`` to learn and ``w = −1`` to take the same context back.

Touching all of a D×D inverse for every change is what makes LinUCB slow with a thousand features. Here the
last few ``v`` are kept apart and folded into the matrix a block at a time, so that most changes cost a few rows:

    A_k⁻¹ = inverse[k] − Σ_{j < counts[k]} gains[k, j] · pending_updates[k, j] pending_updates[k, j]ᵀ

where ``inverse[k]`` stands for I/λ until the first fold writes to it: the system hands its memory out lazily, and an
arm costs none before it has learned a block.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import fast_kernel, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

BLOCK = 64
"""How many changes wait before they are folded; an even number, since `_fold` takes two at a time."""

DENSE = 2
"""A context with more than one in this many of all columns is for `dense_scores`: with its zeros it is faster."""

FEW = 32
"""All contexts over no more columns are for `dense_scores`: fast enough, and one kernel less to compile."""

LARGEST_SHRINKING = 100.0
"""Where a column shrinks by more, an inverse that is moved directly would lose more than four of its digits."""

EIGHT = 8
"""How many contexts `normal_equations` takes at a time."""


class RidgeState(NamedTuple):
    """The ridge regressions of K arms over D features."""

    scale: Floats  # (1,): 1/λ
    inverse: Floats  # (K, D, D)
    folds: Ints  # (K,): how often a block went into inverse[k]
    pending_updates: Floats  # (K, BLOCK, D)
    gains: Floats  # (K, BLOCK)
    counts: Ints  # (K,): how many of pending_updates[k] are in use
    theta: Floats  # (K, D)


def new_state(arms: int, dimension: int, ridge: float) -> RidgeState:
    """The state before any evidence: ``A_k = λI``, ``θ_k = 0``."""
    return RidgeState(
        scale=np.array([1.0 / ridge]),
        inverse=np.zeros((arms, dimension, dimension)),
        folds=np.zeros(arms, np.int64),
        pending_updates=np.zeros((arms, BLOCK, dimension)),
        gains=np.zeros((arms, BLOCK)),
        counts=np.zeros(arms, np.int64),
        theta=np.zeros((arms, dimension)),
    )


def widened(state: RidgeState, dimension: int) -> RidgeState:
    """The same evidence over more features; the new ones were zero so far, so their prior is untouched."""
    arms, before = state.theta.shape
    wide = new_state(arms, dimension, float(1.0 / state.scale[0]))
    wide.pending_updates[:, :, :before] = state.pending_updates
    wide.theta[:, :before] = state.theta
    more = np.arange(before, dimension)
    for k in np.flatnonzero(state.folds):  # one by one: a selection of several would be copied first
        wide.inverse[k, :before, :before] = state.inverse[k]
        wide.inverse[k, more, more] = state.scale[0]
    return wide._replace(scale=state.scale, folds=state.folds, gains=state.gains, counts=state.counts)


def with_arm(state: RidgeState, like: int | None) -> RidgeState:
    """One arm more, with the evidence of another or with none."""
    arms, dimension = state.theta.shape
    more = new_state(arms + 1, dimension, float(1.0 / state.scale[0]))._replace(scale=state.scale)
    for new, old in zip(more[1:], state[1:], strict=True):
        for k in np.flatnonzero(state.folds) if old is state.inverse else range(arms):  # leave lazy memory alone
            new[k] = old[k]
        if like is not None:
            new[arms] = old[like]
    return more


@kernel
def fold(columns: Columns, values: Floats, width: int) -> tuple[Columns, Floats]:
    """A row over `width` features: a column beyond them adds to one of them, with a sign, both by a hash of it."""
    folded = np.zeros(width)
    used = np.zeros(width, np.bool_)
    for entry in range(columns.shape[0]):
        column, value = columns[entry], values[entry]
        if column >= width:
            mixed = np.uint64(column) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            value = value if mixed & np.uint64(1) else -value
            column = np.int32((mixed >> np.uint64(33)) % np.uint64(width))
        folded[column] += value
        used[column] = True
    kept = np.flatnonzero(used)
    return kept.astype(np.int32), folded[kept]


def fold_into(state: RidgeState, k: int, inverse: Floats) -> None:
    """Give arm k, in place, the evidence of an A⁻¹ over more features: ``λI + P(A − λI)Pᵀ`` with P that of `fold`."""
    width, more = state.theta.shape[1], len(inverse)
    P = np.zeros((width, more))
    for column in range(more):
        to, sign = fold(np.array([column], np.int32), np.ones(1), width)
        P[to, column] = sign
    evidence = np.linalg.inv(inverse) - np.eye(more) / state.scale[0]
    state.inverse[k] = np.linalg.inv(P @ evidence @ P.T + np.eye(width) / state.scale[0])
    state.inverse[k] = (state.inverse[k] + state.inverse[k].T) / 2
    state.pending_updates[k], state.gains[k], state.counts[k], state.folds[k] = 0.0, 0.0, 0, 1


def rescale(state: RidgeState, columns: Ints, block: Any) -> None:
    """Keep the evidence where contexts have moved linearly: ``x'[columns] = block @ x[columns]``, or ``x' = S x``.

    `block` is sparse.

        A' = λI + S(A − λI)Sᵀ = SASᵀ + λ(I − SSᵀ)          b' = S b

    S differs from the identity in a few columns E, so ``A'⁻¹ = P − PE N (I + EᵀPE N)⁻¹ EᵀP`` (Woodbury) with
    ``P = S⁻ᵀA⁻¹S⁻¹`` and ``N = λ(I − block blockᵀ)``. Where most columns move, or one by so much that P loses digits,
    A is inverted twice instead. In place. Raises `LinAlgError` where an A has no inverse; some arms have moved then.
    """
    ridge, dimension = 1.0 / state.scale[0], state.theta.shape[1]
    few = 4 * len(columns) <= dimension and np.abs(np.linalg.inv(block.toarray())).max() < LARGEST_SHRINKING
    move = _moved_by_few if few else _moved
    for k in np.flatnonzero((state.folds > 0) | (state.counts > 0)):
        inverse = whole_inverse(state, int(k))
        state.inverse[k], state.theta[k] = move(inverse, state.theta[k], columns, block, ridge)
        state.pending_updates[k], state.gains[k], state.counts[k], state.folds[k] = 0.0, 0.0, 0, 1


def whole_inverse(state: RidgeState, k: int) -> Floats:
    """``A_k⁻¹`` (D, D) with all updates."""
    n = int(state.counts[k])
    inverse = state.inverse[k].copy() if state.folds[k] else np.eye(state.theta.shape[1]) * state.scale[0]
    pending = state.pending_updates[k, :n]
    return np.asarray(inverse - (pending.T * state.gains[k, :n]) @ pending)


def _moved(inverse: Floats, theta: Floats, columns: Ints, block: Any, ridge: float) -> tuple[Floats, Floats]:
    """``A'⁻¹`` and ``θ'`` of `rescale` for one arm, by two inversions."""
    covariance = np.linalg.inv(inverse)
    b = covariance @ theta
    b[columns] = block @ b[columns]
    diagonal = np.diag_indices(len(b))
    covariance[diagonal] -= ridge
    covariance[columns] = block @ covariance[columns]
    covariance[:, columns] = covariance[:, columns] @ block.T
    covariance[diagonal] += ridge
    after = np.linalg.inv(covariance)
    after = (after + after.T) / 2
    return after, after @ b


def _moved_by_few(inverse: Floats, theta: Floats, columns: Ints, block: Any, ridge: float) -> tuple[Floats, Floats]:
    """``A'⁻¹`` and ``θ'`` of `rescale` for one arm, at the cost of D² for each column that moves."""
    block = block.toarray()
    back = np.linalg.inv(block)  # S⁻¹ in the columns
    inverse[columns] = back.T @ inverse[columns]
    inverse[:, columns] = inverse[:, columns] @ back
    theta = theta.copy()
    theta[columns] = back.T @ theta[columns]  # P b' = S⁻ᵀA⁻¹b = S⁻ᵀθ
    change = ridge * (np.eye(len(columns)) - block @ block.T)
    reached = inverse[:, columns]
    core = change @ np.linalg.inv(np.eye(len(columns)) + reached[columns] @ change)
    theta -= reached @ (core @ theta[columns])
    inverse -= reached @ core @ reached.T
    return (inverse + inverse.T) / 2, theta


def clear(state: RidgeState, arms: Ints) -> None:
    """Take all evidence away from some arms, in place."""
    for part in state[1:]:
        part[arms] = 0


def fit(state: RidgeState, arms: Ints, pieces: Iterable[tuple[Floats, Floats, NDArray[np.bool_]]]) -> None:
    """Learn many contexts at once, in place: arms that have no evidence yet get ``A_k = λI + Σ xxᵀ``, ``b_k = Σ β x``.

    Each piece has rows (n, D), targets β (n, K), and for which of the arms each row counts (n, K).
    """
    b, diagonal = np.zeros_like(state.theta), np.arange(state.theta.shape[1])
    for rows, targets, masks in pieces:
        for k in arms:
            of_arm = rows[masks[:, k]]
            state.inverse[k] += of_arm.T @ of_arm  # A_k, until it is inverted
            b[k] += of_arm.T @ targets[masks[:, k], k]
    for k in arms:
        state.inverse[k, diagonal, diagonal] += 1.0 / state.scale[0]
        inverse = np.linalg.inv(state.inverse[k])
        state.inverse[k] = (inverse + inverse.T) / 2
        state.theta[k] = state.inverse[k] @ b[k]
    state.folds[arms] = 1


def is_dense(size: int, width: int) -> bool:
    """Whether contexts with so many entries, over so many columns, are scored by `dense_scores`."""
    return width <= FEW or DENSE * size > width


def scores(state: RidgeState, columns: Columns, values: Floats, alpha: float = 1.0) -> tuple[Floats, Floats]:
    """``θ_kᵀx`` (K,) and ``α√(xᵀA_k⁻¹x)`` (K,) of one context; a dense one takes the way of a batch, to round alike."""
    arms, width = state.theta.shape
    if is_dense(len(columns), width):
        context = np.zeros((1, width))
        context[0, columns] = values
        of_rows = dense_scores(state, context, alpha)
        return of_rows[0][0], of_rows[1][0]
    means, widths = np.empty(arms), np.empty(arms)
    given = columns, values, float(alpha), means, widths
    _sparse_scores(*(state + given))  # a sum of tuples takes half the time of a list with what is unpacked
    return means, widths


def dense_scores(state: RidgeState, contexts: Floats, alpha: float = 1.0) -> tuple[Floats, Floats]:
    """``θ_kᵀx`` and ``α√(xᵀA_k⁻¹x)`` of N contexts (N, D) with most of their entries: (N, K) each."""
    shape = len(contexts), len(state.theta)
    means, widths = np.empty(shape), np.empty(shape)
    _dense_scores(*state, contexts, float(alpha), means, widths)
    return means, widths


# Kernels are given arrays, not a state, and those that they write to: a tuple, an allocation or a view of a row take
# longer to compile than the loops. A⁻¹ is positive definite; only rounding can push a spread below zero.


@fast_kernel
def _dense_scores(
    scale: Floats,
    inverse: Floats,
    folds: Ints,
    pending: Floats,
    gains: Floats,
    counts: Ints,
    theta: Floats,
    contexts: Floats,
    alpha: float,
    means: Floats,
    widths: Floats,
) -> None:
    """Arrays run side by side, half of a symmetric A⁻¹ is read, and an arm's is read once for all contexts."""
    dimension = contexts.shape[1]
    for k in range(theta.shape[0]):
        for n in range(contexts.shape[0]):
            mean, spread = 0.0, 0.0
            for c in range(dimension):
                mean += theta[k, c] * contexts[n, c]
            if folds[k] == 0:
                for c in range(dimension):
                    spread += contexts[n, c] * contexts[n, c]
                spread *= scale[0]
            else:
                for i in range(dimension):
                    x, product = contexts[n, i], 0.0
                    for c in range(i):
                        product += inverse[k, i, c] * contexts[n, c]
                    spread += x * (2.0 * product + inverse[k, i, i] * x)
            for j in range(counts[k]):
                product = 0.0
                for c in range(dimension):
                    product += pending[k, j, c] * contexts[n, c]
                spread -= gains[k, j] * product * product
            means[n, k] = mean
            widths[n, k] = 0.0 if spread < 0.0 else alpha * np.sqrt(spread)


@fast_kernel
def _sparse_scores(
    scale: Floats,
    inverse: Floats,
    folds: Ints,
    pending: Floats,
    gains: Floats,
    counts: Ints,
    theta: Floats,
    columns: Columns,
    values: Floats,
    alpha: float,
    means: Floats,
    widths: Floats,
) -> None:
    size = columns.shape[0]
    for k in range(theta.shape[0]):
        mean, spread = 0.0, 0.0
        for a in range(size):
            column, x = np.uint64(columns[a]), values[a]
            mean += theta[k, column] * x
            if folds[k] == 0:
                spread += x * x * scale[0]
            else:
                product = 0.0
                for c in range(size):
                    product += inverse[k, column, np.uint64(columns[c])] * values[c]
                spread += product * x
        for j in range(counts[k]):
            product = 0.0
            for a in range(size):
                product += pending[k, j, np.uint64(columns[a])] * values[a]
            spread -= gains[k, j] * product * product
        means[k] = mean
        widths[k] = 0.0 if spread < 0.0 else alpha * np.sqrt(spread)


@fast_kernel
def _fold(inverse: Floats, pending: Floats, gains: Floats) -> None:
    """``inverse −= Σ_j gains[j] · pending[j] pending[j]ᵀ`` for one arm's full block; lower half, then mirrored.

    Only rows and columns that a pending update has entries in are touched: sparse contexts reach few, and the system
    gives out memory for the others when they are first written. Four rows are made at a time, from the same updates;
    what they get beyond the diagonal is not kept.
    """
    used = np.empty(inverse.shape[0], np.int64)
    count = 0
    for c in range(inverse.shape[0]):
        for j in range(BLOCK):
            if pending[j, c] != 0.0:
                used[count] = c
                count += 1
                break
    packed, rows = np.zeros((BLOCK, count + 4)), np.zeros((4, count + 4))
    for j in range(BLOCK):
        for c in range(count):
            packed[j, c] = pending[j, used[c]]
    for top in range(0, count, 4):
        stop = min(top + 4, count)
        for i in range(top, stop):
            for c in range(i + 1):
                rows[i - top, c] = inverse[used[i], used[c]]
        for j in range(0, BLOCK, 2):
            a0, b0 = gains[j] * packed[j, top], gains[j + 1] * packed[j + 1, top]
            a1, b1 = gains[j] * packed[j, top + 1], gains[j + 1] * packed[j + 1, top + 1]
            a2, b2 = gains[j] * packed[j, top + 2], gains[j + 1] * packed[j + 1, top + 2]
            a3, b3 = gains[j] * packed[j, top + 3], gains[j + 1] * packed[j + 1, top + 3]
            if a0 == b0 == a1 == b1 == a2 == b2 == a3 == b3 == 0.0:
                continue
            for c in range(stop):
                p, q = packed[j, c], packed[j + 1, c]
                rows[0, c] -= a0 * p + b0 * q
                rows[1, c] -= a1 * p + b1 * q
                rows[2, c] -= a2 * p + b2 * q
                rows[3, c] -= a3 * p + b3 * q
        for i in range(top, stop):
            for c in range(i + 1):
                inverse[used[i], used[c]] = rows[i - top, c]
    tile = 32
    for top in range(0, count, tile):
        for left in range(0, top + 1, tile):
            for i in range(top, min(top + tile, count)):
                for c in range(left, min(left + tile, i)):
                    inverse[used[c], used[i]] = inverse[used[i], used[c]]


def update(
    state: RidgeState, columns: Columns, values: Floats, targets: Floats, mask: NDArray[np.bool_], weight: float
) -> None:
    """``A_k += w x xᵀ`` and ``b_k += β_k x`` for the arms of a mask (≤ K), with their targets ``β``; in place."""
    given = columns, values, targets, mask, float(weight)
    if _update(*(state + given)):  # as in `scores`
        _fold_full(state)


@fast_kernel
def _update(
    scale: Floats,
    inverse: Floats,
    folds: Ints,
    pending: Floats,
    gains: Floats,
    counts: Ints,
    theta: Floats,
    columns: Columns,
    values: Floats,
    targets: Floats,
    mask: NDArray[np.bool_],
    weight: float,
) -> bool:
    """As `update`, but for blocks that are full now; return whether there are any."""
    full, size, width = False, columns.shape[0], theta.shape[1]
    for k in range(mask.shape[0]):
        if not mask[k]:
            continue
        slot = counts[k]
        v = pending[k, slot]  # becomes A_k⁻¹x
        for c in range(width):
            v[c] = 0.0
        for a in range(size):
            column, x = columns[a], values[a]
            if folds[k] == 0:
                v[column] = x * scale[0]
            else:
                for c in range(width):
                    v[c] += x * inverse[k, column, c]
        for j in range(slot):
            product = 0.0
            if size == width:
                for c in range(size):
                    product += pending[k, j, c] * values[c]
            else:
                for a in range(size):
                    product += pending[k, j, columns[a]] * values[a]
            product *= gains[k, j]
            if product != 0.0:
                for c in range(width):
                    v[c] -= product * pending[k, j, c]
        quadratic, mean = 0.0, 0.0
        for a in range(size):
            column, x = columns[a], values[a]
            quadratic += v[column] * x
            mean += theta[k, column] * x
        shrink = 1.0 / (1.0 + weight * quadratic)
        step = shrink * (targets[k] - weight * mean)
        for c in range(width):
            theta[k, c] += step * v[c]
        gains[k, slot] = weight * shrink
        counts[k] = slot + 1
        full |= slot + 1 == BLOCK
    return full


def _fold_full(state: RidgeState) -> None:
    """Fold the blocks that are full into their inverses.

    Not a kernel: one that calls another rounds otherwise in the process that compiles it than in those that read it
    from the cache.
    """
    for k in np.flatnonzero(state.counts == BLOCK):
        if state.folds[k] == 0:
            np.fill_diagonal(state.inverse[k], state.scale[0])
        _fold(state.inverse[k], state.pending_updates[k], state.gains[k])
        state.folds[k] += 1
        state.counts[k] = 0


@fast_kernel
def _add_products(covariance: Floats, rows: NDArray[np.float32]) -> None:
    """``covariance += Σ_j rows_j rows_jᵀ`` for eight rows (8, L), written out so that a sum stays in a register."""
    for a in range(rows.shape[1]):
        out = covariance[a]
        for c in range(rows.shape[1]):
            out[c] += (
                (rows[0, a] * rows[0, c] + rows[1, a] * rows[1, c])
                + (rows[2, a] * rows[2, c] + rows[3, a] * rows[3, c])
            ) + (
                (rows[4, a] * rows[4, c] + rows[5, a] * rows[5, c])
                + (rows[6, a] * rows[6, c] + rows[7, a] * rows[7, c])
            )


@fast_kernel
def normal_equations(contexts: NDArray[np.float32], rewards: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Covariances and targets from scratch, where old contexts move and nothing can be updated.

    ``A_k = λI + Σ_{t ∈ C_k} g_kt g_ktᵀ``, ``b_k = Σ_{t ∈ C_k} r_kt g_kt`` with ``g_kt = contexts[t, k]`` (T, K, L)
    and ``C_k`` the rows where ``rewards[t, k]`` (T, K) is not NaN. Returns (K, L, L) and (K, L).
    """
    steps, arms, size = contexts.shape
    covariances = np.zeros((arms, size, size))
    targets = np.zeros((arms, size))
    rows = np.empty((EIGHT, size), contexts.dtype)  # products of eight rows are added up in their own precision
    for k in range(arms):
        waiting = 0
        for t in range(steps):
            reward = rewards[t, k]
            if np.isnan(reward):
                continue
            for a in range(size):
                rows[waiting, a] = contexts[t, k, a]
                targets[k, a] += reward * contexts[t, k, a]
            waiting += 1
            if waiting == EIGHT:
                _add_products(covariances[k], rows)
                waiting = 0
        rows[waiting:] = 0.0
        _add_products(covariances[k], rows)
        for a in range(size):
            covariances[k, a, a] += ridge
    return covariances, targets
