"""A view that is not linear: ridge regressions on random Fourier features of the contexts."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import Array, Part, Sizes, require
from taciturn.agents.rows import RowStore
from taciturn.agents.table import Table
from taciturn.features.scale import Change
from taciturn.kernels import fourier
from taciturn.kernels.csr import CSR
from taciturn.kernels.shared_ridge import SharedWeights, Weighted, solution
from taciturn.kernels.views import lengths
from taciturn.validate import LARGEST_SEED

Singles = NDArray[np.float32]

N_FEATURES = 256
"""F: a kernel of unit length is approximated to about 1/√F."""

MAX_INPUTS = 2048
"""Features of contexts beyond so many are not looked at: in a large vocabulary no single word says much here."""

BLOCK = 64
"""Frequencies are drawn for so many features at a time: those of a feature do not depend on how many there are."""

SAMPLE = 64
"""The median distance between so many contexts is the bandwidth."""

TOLERANCE = 0.1
"""The bandwidth stays while the median distance is within this share of it."""

FRESH_STEPS = 4
"""How many times more steps of conjugate gradients a solve takes that starts from zero."""

AT_ONCE = 2**12
"""Features of so many contexts are multiplied at a time: of all, they would be held twice, and read from memory."""

SHORTEST = 1e-9
"""Where contexts are closer than this to each other, the bandwidth is 1."""


def centered(targets: Singles, means: Array | None) -> Singles:
    """Targets (N, K) less the means of their arms (K,), if there are any."""
    return targets if means is None else (targets - means.data).astype(np.float32)


ARRAYS = ("theta", "residual", "direction", "unit_theta")


class FourierView(Part):
    """θ (F, K) over the features ``φ = cos(xᵀW/h + b)`` of the contexts, which are functions of their distances.

    The bandwidth h is the median distance between contexts, measured each time that there are twice as many of them or
    that they have moved. In column k the regression minimizes ``Σ_i m_ik (φ_iᵀθ_k − q_ik)² + λ‖θ_k‖²``.

    Arguments:
        contexts: the contexts as they are scaled, not at unit length.
        targets, weights: columns (T, K): the targets q and their weights m.
        means: (K,), which q is less of; None for none.
        seed: of the frequencies and phases.
        ridge: λ.
    """

    SAVED: ClassVar[dict[str, str]] = {
        "seed": "_seed",  # which the agent's is no longer, once it was reseeded
        "bandwidth": "_bandwidth",
        "measured_at": "_measured_at",
        "is_fresh": "_is_fresh",
    }

    def __init__(
        self,
        contexts: RowStore,
        targets: Array,
        weights: Array,
        means: Array | None = None,
        *,
        seed: int,
        ridge: float,
    ) -> None:
        super().__init__()
        self._contexts, self._targets, self._weights, self._means = contexts, targets, weights, means
        self._seed, self._ridge = seed, ridge
        self._rows = Table()
        self._features = self._rows.column("features", np.float32, N_FEATURES)
        self._theta, self._residual, self._direction, self._unit_theta = (
            self.array(name, np.float32, N_FEATURES, "arm") for name in ARRAYS
        )
        self._bandwidth, self._measured_at = 1.0, 0
        self._is_fresh = True  # θ starts from zero at the next solve
        self._draw_phases()

    def _draw_phases(self) -> None:
        """The phases; frequencies are drawn as features come."""
        self._phases = self._rng(0).uniform(0.0, 2.0 * np.pi, N_FEATURES).astype(np.float32)
        self._frequencies = np.zeros((0, N_FEATURES), np.float32)

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, 8, number])

    # Features.

    def add(self, node: int) -> None:
        """The features of a context that has come."""
        self._rows.extend()
        if node + 1 >= 2 * self._measured_at and self._measure():
            self._remake()
            return
        columns, values = self._contexts[node]
        self._make(node, CSR(np.array([0, len(columns)]), columns, values))

    def _measure(self) -> bool:
        """Measure the bandwidth; returns whether it is another, so that θ is to be found from zero."""
        count = self._contexts.count
        self._measured_at = count
        chosen = np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64))
        dimension = min(self._contexts.n_features, MAX_INPUTS)
        rows = self._contexts.some(chosen)
        distances = np.sqrt(fourier.squared_distances(rows, np.arange(len(chosen)), dimension))
        distances = distances[distances > SHORTEST]
        median = float(np.median(distances)) if len(distances) else 1.0
        if abs(median - self._bandwidth) <= TOLERANCE * self._bandwidth:
            return False
        self._bandwidth, self._is_fresh = median, True
        self._theta.data[...] = 0.0
        return True

    def _remake(self) -> None:
        """Make all features anew."""
        for first, rows in self._contexts.pieces():
            self._make(first, rows)

    def _make(self, first: int, rows: CSR) -> None:
        """Make the features of some contexts, of which this is the first."""
        self._draw()
        features = self._features.data[first : first + len(rows.indptr) - 1]
        fourier.fourier_rows(rows, self._frequencies, self._phases, self._bandwidth, features)

    def _draw(self) -> None:
        """Draw frequencies for features that have none."""
        wanted = min(self._contexts.n_features, MAX_INPUTS)
        drawn = len(self._frequencies)
        if wanted > drawn:
            blocks = [
                self._rng(1 + block).standard_normal((BLOCK, N_FEATURES), np.float32)
                for block in range(drawn // BLOCK, -(-wanted // BLOCK))
            ]
            self._frequencies = np.concatenate([self._frequencies, *blocks])

    # Solving: see `CGSolver`, which calls these in its own steps.

    def begin(self) -> None:
        """``r = b − Aθ``, ``p = r``."""
        theta = self._theta.data
        parts = (rows.T @ (weights * (targets - rows @ theta)) for rows, weights, targets in self._weighted())
        residual = sum(parts, np.zeros_like(theta)) - self._ridge * theta
        self._residual.data[...] = self._direction.data[...] = residual

    def step(self) -> None:
        """A step of conjugate gradients in every column, or several where θ starts from zero."""
        theta, r, p = self._theta.data, self._residual.data, self._direction.data
        for _ in range(FRESH_STEPS if self._is_fresh else 1):
            norm2 = (r * r).sum(axis=0)
            parts = (rows.T @ (weights * (rows @ p)) for rows, weights, _ in self._weighted())
            Ap = sum(parts, np.zeros_like(p)) + self._ridge * p
            pAp = (p * Ap).sum(axis=0)
            alpha = np.divide(norm2, pAp, out=np.zeros_like(norm2), where=pAp > 0)
            theta += alpha * p
            r -= alpha * Ap
            p *= np.divide((r * r).sum(axis=0), norm2, out=np.zeros_like(norm2), where=norm2 > 0)
            p += r

    def solve_directly(self, known: NDArray[np.int64], weights: SharedWeights, targets: Weighted) -> None:
        """θ for the contexts that have targets, their weights and targets."""
        features = self._features.data[known]
        self._theta.data[...] = solution(features, weights, targets, self._ridge).T

    def publish(self) -> None:
        """Use the solved θ, at unit length, for scoring from now on."""
        self._unit_theta.data[...] = self._theta.data / lengths(self._theta.data)
        self._is_fresh = False

    def _weighted(self) -> Iterator[tuple[Singles, Singles, Singles]]:
        """The features, weights and targets of contexts that have a target, of so many at a time."""
        known = np.flatnonzero(self._weights.data[: self._contexts.count].any(axis=1))
        for first in range(0, len(known), AT_ONCE):
            some = known[first : first + AT_ONCE]
            targets = centered(self._targets.data[some], self._means)
            yield self._features.data.take(some, axis=0), self._weights.data[some], targets

    # Scores.

    def scores(self, node: int) -> Singles:
        """The cosines ``φᵀθ_k / ‖θ_k‖`` (K,) of a context."""
        return np.asarray(self._features.data[node] @ self._unit_theta.data)

    def predict(self, nodes: NDArray[np.int64], arms: slice) -> Singles:
        """The same for many contexts and some arms (N, A)."""
        return np.asarray(self._features.data[nodes] @ self._unit_theta.data[:, arms])

    # Growth and files.

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all contexts but these. What is held no longer grows, so that nothing is measured for that."""
        self._rows.keep(nodes)
        self._measured_at = min(self._measured_at, len(nodes))

    def rescale(self, change: Change) -> None:
        """Distances have changed: they are measured anew, and all features made."""
        self._measure()
        self._remake()

    def nbytes(self, sizes: Sizes) -> float:
        """Features of each context, frequencies, and θ with what solves it."""
        return (
            super().nbytes(sizes)
            + self._rows.nbytes(sizes)
            + 4.0 * N_FEATURES * min(sizes.features + BLOCK, MAX_INPUTS)
        )

    def working_nbytes(self, sizes: Sizes) -> float:
        """The features once more, while they are copied; or some of them with weights, targets and scores."""
        some = min(sizes.nodes, AT_ONCE)
        return max(self._rows.working_nbytes(sizes), some * (4.0 * N_FEATURES + 16.0 * sizes.arms))

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take θ over; the features are made anew from the contexts."""
        super().load_state_dict({"seed": self._seed} | state, n_arms, n_features, n_nodes)  # older files have none
        require(0 <= self._seed <= LARGEST_SEED, "the seed of Fourier features is not one")
        self._draw_phases()
        arrays = self._theta, self._residual, self._direction, self._unit_theta
        require(
            all(np.isfinite(array.data).all() for array in arrays), "regressions on Fourier features are not finite"
        )
        require((np.abs(self._unit_theta.data) <= 1.0 + 1e-3).all(), "θ is not at unit length")
        require(self._bandwidth > SHORTEST, "the bandwidth is not one")
        self._rows.load_state_dict({"features": np.zeros((n_nodes, N_FEATURES), np.float32)}, n_arms, n_nodes)
        self._remake()
