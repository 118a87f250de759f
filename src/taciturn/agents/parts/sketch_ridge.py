"""Ridge regressions of all arms over any number of features: means from all of them, widths from a sketch.

An arm's expected reward needs θ (D,) alone, which `WideMeans` finds without a matrix of features by features. Its width
needs A⁻¹ (D, D), which is kept for `rank` features only: those beyond are folded onto these, with signs, by a hash (a
count sketch). So a sketch that is too small explores too little or too much, and does not spoil what is expected.
`SketchRidge.width_ratio` measures how far widths are off.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.lifecycle import Example, Lifecycle
from taciturn.agents.parts.part import Part, Scores
from taciturn.agents.parts.ridge import ArmRidge
from taciturn.agents.parts.wide_means import WideMeans
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change

CHECKED, CG_STEPS, CHECK_WORK = 4, 32, 2**26
"""Widths are compared with exact ones at so many contexts, each found by so many steps of conjugate gradients; at
fewer, but at one, where that would take more multiplications."""

CONVERGED = 1e-3
"""A residual of conjugate gradients that is this small, as a share of the first, tells the exact width to six digits
or so: its error is of second order."""

RECHECKED = 1.25
"""They are compared again when contexts have grown by this factor: health is asked for often."""


class SketchRidge(Part):
    """`ArmRidge` of bounded memory: `WideMeans` over all features, and widths over `rank` of them.

    While there are no more features than that, nothing is folded, and all of it is exact.

    Arguments:
        contexts, lifecycle, ridge_weight, imputed: as of `ArmRidge`.
        rank: how many features the widths have.
    """

    def __init__(
        self, contexts: RowStore, lifecycle: Lifecycle, ridge_weight: float, *, imputed: bool, rank: int
    ) -> None:
        super().__init__()
        self._contexts, self._lifecycle, self._ridge_weight = contexts, lifecycle, ridge_weight
        self._imputed, self.rank, self._n_features = imputed, rank, 0
        widths = ArmRidge(contexts, lifecycle, ridge_weight, imputed=imputed, max_width=rank, linear=False)
        self.widths = self.child("widths", widths)
        self.means = self.child("means", WideMeans(contexts, lifecycle, ridge_weight, imputed=imputed))
        self._ratio: tuple[int, float | None] = 0, None  # when it was measured, and what was found

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (K, D), as a copy."""
        return self.means.theta.T.copy() if self._is_folded else self.widths.theta[:, : self._n_features]

    @property
    def _is_folded(self) -> bool:
        return self._n_features > self.rank

    def scores(self, row: SparseRow, alpha: float, *, normalize_theta: bool = False) -> Scores:
        """``μ_k = θ_kᵀx``, and ``σ_k = α √(zᵀA_k⁻¹z)`` of the sketch z of x, for all arms (K,)."""
        if not self._is_folded:
            return self.widths.scores(row, alpha, normalize_theta=normalize_theta)
        means = self.means.scores(row)
        if normalize_theta:
            lengths = np.linalg.norm(self.means.theta, axis=0)
            means = means / np.where(lengths > 0, lengths, 1.0)
        return means, self.widths.scores(row, alpha)[1]

    def learn(self, example: Example) -> None:
        """Learn an example in both."""
        if self._imputed or not example.imputed:
            self.widths.learn(example)
            if self._is_folded:
                self.means.learn(example)

    def unlearn(self, example: Example) -> None:
        """Take it back from both."""
        if self._imputed or not example.imputed:
            self.widths.unlearn(example)
            if self._is_folded:
                self.means.unlearn(example)

    def add_features(self, n_features: int) -> None:
        """Extend both; when features are first folded, θ begins with what it was exactly."""
        before, exact, says_all = self._n_features, self.widths.theta, not self.widths.has_more_than_examples
        super().add_features(n_features)
        self._n_features = n_features
        if before <= self.rank < n_features:
            self.means.take_over(exact[:, :before], examples_say_all=says_all)

    def allocate(self, n_arms: int, n_features: int) -> None:
        """Nothing is learned."""
        super().allocate(n_arms, n_features)
        self._n_features = n_features

    def rescale(self, change: Change) -> None:
        """Both follow; θ is exact while nothing is folded."""
        self.widths.rescale(change)
        if self._is_folded:
            self.means.rescale(change)

    def train_step(self) -> bool:
        """θ, where it is needed."""
        return self._is_folded and self.means.train_step()

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        self._n_features = n_features

    @property
    def unsolved(self) -> float:
        """How far θ is from the solution: see `WideMeans`."""
        return self.means.unsolved if self._is_folded else 0.0

    def width_ratio(self) -> float | None:
        """The widths of a few of the last contexts, as a share of what they would be without a sketch; the median.

        None before anything was learned, or where there is no sketch yet. It may be that of a little earlier.
        """
        count, (at, ratio) = self._contexts.count, self._ratio
        if ratio is None or not at <= count < RECHECKED * at:
            self._ratio = count, self._measured_ratio()
        return self._ratio[1]

    def _measured_ratio(self) -> float | None:
        contexts = self._contexts
        if not self._is_folded:
            return None
        X, ratios = contexts.matrix(0, contexts.count), []
        n_checked = int(np.clip(CHECK_WORK // (2 * CG_STEPS * max(contexts.n_entries, 1)), 1, CHECKED))
        labels = self._lifecycle.labels(imputed=self._imputed)
        for number, node in enumerate(range(max(contexts.count - n_checked, 0), contexts.count)):
            k = number % self.widths.n_arms
            of_arm = X[labels.nodes[labels.dense(np.array([k]))[0][:, 0] > 0]]
            exact = _spread(of_arm, X[node].toarray().ravel(), self._ridge_weight) if of_arm.shape[0] else None
            if exact is not None:
                ratios.append(float(self.widths.scores(contexts[node], 1.0)[1][k] / np.sqrt(exact)))
        return float(np.median(ratios)) if ratios else None


def _spread(X: Any, x: NDArray[np.float64], ridge: float) -> float | None:
    """``xᵀ(λI + XᵀX)⁻¹x`` by conjugate gradients; None where they have not converged, or nothing is to be found."""
    z, r = np.zeros_like(x), x.copy()
    first = norm2 = float(r @ r)
    if not np.finfo(float).tiny < first < np.inf:
        return None
    p = r.copy()
    for _ in range(CG_STEPS):
        if norm2 <= CONVERGED**2 * first:
            return float(x @ z)
        Ap = X.T @ (X @ p) + ridge * p
        step = norm2 / float(p @ Ap)
        z += step * p
        r -= step * Ap
        before, norm2 = norm2, float(r @ r)
        p = r + norm2 / before * p
    return None
