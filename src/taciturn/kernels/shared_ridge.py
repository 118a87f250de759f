"""Ridge regressions of many arms on the same features, solved directly where most weights are the same for all arms.

The coefficients θ_k of arm k minimize ``Σ_i m_ik (f_iᵀθ_k − q_ik)² + λ‖θ_k‖²``. An answer tells the same of all arms
but of a few, so that with weights c_i common to the arms and the set S_k of contexts where arm k has another

    A_k = M + Σ_{i∈S_k} (m_ik − c_i) f_i f_iᵀ        M = Σ_i c_i f_i f_iᵀ + λI

M (D, D) is inverted once for all arms, and S_k is a correction of as low a rank as it is small (Woodbury 1950).
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

VOTES = 15
"""The common weight of a context is the median of that of so many arms: where most are alike, it is theirs."""

AT_ONCE = 2**18
"""So many numbers of features are in double precision at a time, or those of one arm."""

FEW = 8
"""A row with fewer nonzeros than 1/8 of all is multiplied as a sparse one."""


class SharedWeights(NamedTuple):
    """Weights m (N, K), by what is common to the arms and what is not."""

    common: Singles  # c (N,)
    starts: Ints  # (K+1,): arm k has the exceptions starts[k] … starts[k+1]−1
    rows: Ints  # of each exception (E,)
    more: Singles  # m_ik − c_i of each


def shared(weights: Singles) -> SharedWeights:
    """Weights (N, K) as those that are common, and exceptions."""
    n_arms = weights.shape[1]
    voters = np.linspace(0, n_arms - 1, VOTES).astype(np.int64)
    common = np.sort(weights[:, voters], axis=1)[:, VOTES // 2]
    rows, arms = np.nonzero(weights != common[:, None])
    order = np.argsort(arms, kind="stable")
    rows, arms = rows[order], arms[order]
    starts = np.searchsorted(arms, np.arange(n_arms + 1))
    return SharedWeights(common, starts, rows, weights[rows, arms] - common[rows])


class Weighted(NamedTuple):
    """Targets times weights (N, K): the rows that have few nonzeros, and the others."""

    is_few: NDArray[np.bool_]  # (N,)
    few: sp.csr_matrix  # in double precision
    others: Singles


def weighted(targets: Singles, weights: Singles) -> Weighted:
    """Targets (N, K), which are overwritten, times weights (N, K)."""
    targets *= weights
    is_few = FEW * np.count_nonzero(targets, axis=1) < targets.shape[1]
    return Weighted(is_few, sp.csr_matrix(targets[is_few], dtype=np.float64), targets[~is_few])


def products(weights: SharedWeights, dimension: int) -> float:
    """How many multiplications the exceptions take."""
    sizes = np.diff(weights.starts).astype(float)
    is_low = sizes <= dimension
    low, high = sizes[is_low], sizes[~is_low]
    return dimension * float((low * (dimension + low)).sum() + dimension * (high + dimension).sum())


def solution(features: Singles, weights: SharedWeights, targets: Weighted, ridge: float) -> Floats:
    """Return θ (K, D) for features (N, D)."""
    normal = _normal_matrix(features, weights.common, ridge)
    inverse, right = np.asarray(np.linalg.inv(normal), np.float64), right_sides(features, targets)
    theta = right @ inverse
    sizes = np.diff(weights.starts)
    for arm in np.flatnonzero(sizes > len(normal)):  # the correction has full rank
        exceptions = slice(weights.starts[arm], weights.starts[arm + 1])
        own = features[weights.rows[exceptions]].astype(float)
        theta[arm] = np.linalg.solve(normal + (own.T * weights.more[exceptions]) @ own, right[arm])
    width = 1
    while width < 2 * len(normal):  # corrections of about the same rank together
        arms = np.flatnonzero((sizes > width // 2) & (sizes <= min(width, len(normal))))
        step = max(AT_ONCE // (width * len(normal)), 1)
        for first in range(0, len(arms), step):
            _correct(theta, arms[first : first + step], width, features, weights, inverse)
        width *= 2
    return theta


def _normal_matrix(features: Singles, common: Singles, ridge: float) -> Floats:
    """M (D, D)."""
    count, dimension = features.shape
    normal, step = ridge * np.eye(dimension), max(AT_ONCE // max(dimension, 1), 1)
    for first in range(0, count, step):
        some = features[first : first + step] * np.sqrt(common[first : first + step, None].astype(float))
        normal += some.T @ some
    return normal


def right_sides(features: Singles, targets: Weighted) -> Floats:
    """``Σ_i m_ik q_ik f_i`` (K, D) for features (N, D).

    Summed in double precision: where features do not span all directions, M⁻¹ multiplies rounding errors by 1/λ.
    """
    right: Floats = np.zeros((targets.others.shape[1], features.shape[1]))
    step = max(AT_ONCE // max(features.shape[1], 1), 1)
    few, others = np.flatnonzero(targets.is_few), np.flatnonzero(~targets.is_few)
    for first in range(0, len(few), step):
        some = features[few[first : first + step]].astype(float)
        right += (targets.few if len(few) <= step else targets.few[first : first + step]).T @ some
    for first in range(0, len(others), step):
        some = features[others[first : first + step]].astype(float)
        right += targets.others[first : first + step].T.astype(float) @ some
    return right


def _correct(theta: Floats, arms: Ints, width: int, features: Singles, weights: SharedWeights, inverse: Floats) -> None:
    """Correct θ (K, D) of some arms for their exceptions, at most `width` of each, in place.

    With the features U (r, D) of an arm's exceptions and the diagonal δ of what their weights differ by, it is
    ``θ − M⁻¹Uᵀ (I + δ U M⁻¹ Uᵀ)⁻¹ δ U θ``. Exceptions that an arm has fewer have δ = 0.
    """
    entries = weights.starts[arms, None] + np.arange(width)  # (n, r)
    is_own = entries < weights.starts[arms + 1, None]
    entries = np.where(is_own, entries, 0)
    U = features[weights.rows[entries]].astype(float)  # (n, r, D)
    more = np.where(is_own, weights.more[entries], 0.0)[:, :, None]
    Z = (U.reshape(-1, U.shape[2]) @ inverse).reshape(U.shape)
    capacity = np.eye(width) + more * (U @ Z.transpose(0, 2, 1))
    solved = np.linalg.solve(capacity, more * (U @ theta[arms, :, None]))  # (n, r, 1)
    theta[arms] -= (Z.transpose(0, 2, 1) @ solved)[:, :, 0]
