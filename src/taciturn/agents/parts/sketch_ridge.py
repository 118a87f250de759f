"""Ridge regressions of all arms over any number of features: means from all of them, widths from a sketch.

An arm's expected reward needs θ (D,) alone, which coordinate ascent finds in time proportional to the entries of a
context. Its width needs A⁻¹ (D, D), which is kept for `rank` features only: those beyond are folded onto these, with
signs, by a hash (a count sketch). So a sketch that is too small explores too little or too much, and never spoils what
is expected. `SketchRidge.width_ratio` measures how far widths are off.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.lifecycle import Example, Lifecycle
from taciturn.agents.parts.part import Array, Part, Scores, Sizes, is_array, require, with_spare
from taciturn.agents.parts.ridge import ArmRidge
from taciturn.agents.table import RowStore, Table, grown
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import dual

REPLAYED, WORK = 128, 2**20
"""With each example that is learned or taken back, so many others get a step, or about so many multiplications."""

PASSES = 2
"""How often all examples get a step after the contexts have moved."""

CHECKED, CG_STEPS, CHECK_WORK = 4, 32, 2**26
"""Widths are compared with exact ones at so many contexts, each found by so many steps of conjugate gradients; at
fewer, but at one, where that would take more multiplications."""

RECHECKED = 1.25
"""They are compared again when contexts have grown by this factor: health is asked for often."""


class DualMeans(Part):
    """``θ_k = argmin Σ_i (θᵀx_i − r_ik)² + λ‖θ‖²`` of all arms, by coordinate ascent over the contexts held.

    Contexts that are evicted leave their share of θ behind, as it was.

    Arguments:
        contexts: the rows that examples name by their node.
        ridge_weight: λ.
    """

    SAVED: ClassVar[dict[str, str]] = {"cursor": "_cursor"}

    def __init__(self, contexts: RowStore, ridge_weight: float) -> None:
        super().__init__()
        self._contexts, self._ridge_weight = contexts, ridge_weight
        self._theta = np.zeros((0, 0))  # (D, K), with spare features
        self._cursor = 0
        self._table = Table()  # rows are nodes, up to the last that was learned
        self._duals = self._new_columns()

    def _new_columns(self) -> Array:
        self._known = self._table.column("known", np.int32)  # as in `dual.replay`
        self._arms = self._table.column("arms", np.int32)
        self._rewards = self._table.column("rewards", np.float64)
        return self._table.column("duals", np.float64, "arm")

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (D, K)."""
        return self._theta[: self._contexts.n_features]

    def scores(self, row: SparseRow) -> NDArray[np.float64]:
        """``θ_kᵀx`` (K,)."""
        return dual.means(self._theta, *row)

    def learn(self, example: Example) -> None:
        """A step at an example, and at others."""
        node = example.node
        self._set(example)
        self._step(node)
        self._replay(REPLAYED, WORK)

    def _set(self, example: Example) -> None:
        node = example.node
        if node >= self._table.count:
            self._table.extend(node + 1 - self._table.count)
        self._known.data[node] = len(example.mask) if example.mask.all() else -1
        self._arms.data[node], self._rewards.data[node] = example.arm, example.reward

    def _labelled(self, node: int) -> tuple[int, int]:
        """The arms that the example at a node labels: first, and after the last."""
        known, arm = int(self._known.data[node]), int(self._arms.data[node])
        return (arm, arm + 1) if known < 0 else (0, known)

    def _step(self, node: int) -> None:
        of = *self._contexts[node], *self._labelled(node), int(self._arms.data[node]), float(self._rewards.data[node])
        dual.ascend(self._theta, self._duals.data[node], *of, self._ridge_weight)

    def _replay(self, most: int, work: int) -> None:
        count = self._table.count
        examples = self._known.data[:count], self._arms.data[:count], self._rewards.data[:count]
        of = self._theta, self._duals.data, self._contexts.rows, *examples, self._ridge_weight
        self._cursor = dual.replay(*of, self._cursor, most, work) if count else 0

    def unlearn(self, example: Example) -> None:
        """Subtract the example's share of θ; the others get steps."""
        node = example.node
        columns, values = self._contexts[node]
        arms = slice(*self._labelled(node))
        self._theta[columns, arms] -= np.outer(values, self._duals.data[node, arms] / self._ridge_weight)
        self._duals.data[node], self._known.data[node] = 0.0, 0
        self._replay(REPLAYED, WORK)

    def take_over(self, theta: NDArray[np.float64], examples: list[Example]) -> None:
        """Begin with a solution (K, D) and its examples: of a solution ``a_ik = r_ik − θ_kᵀx_i``."""
        self._theta[: theta.shape[1]] = theta.T
        for example in examples:
            self._set(example)
            row, arms = self._contexts[example.node], slice(*self._labelled(example.node))
            self._duals.data[example.node, arms] = example.targets[arms] - self.scores(row)[arms]

    def learned_by(self, arm: int) -> NDArray[np.int64]:
        """The contexts held whose examples label an arm."""
        known, arms = self._known.data[: self._table.count], self._arms.data[: self._table.count]
        return np.flatnonzero((known > arm) | ((known < 0) & (arms == arm)))

    @property
    def unsolved(self) -> float:
        """The root mean square of ``r_ik − θ_kᵀx_i − a_ik``, which a solution makes 0, at a hundred examples or so."""
        nodes = np.flatnonzero(self._known.data[: self._table.count])
        off = [0.0]
        for node in nodes[:: max(1, len(nodes) // 100)].tolist():
            arms, arm = range(*self._labelled(node)), int(self._arms.data[node])
            targets = np.where(np.array(arms) == arm, self._rewards.data[node], 0.0)
            found = self.scores(self._contexts[node])[arms.start : arms.stop]
            off += (targets - found - self._duals.data[node, arms.start : arms.stop]).tolist()
        return float(np.sqrt(np.mean(np.square(off))))

    # Growth and files.

    def allocate(self, n_arms: int, n_features: int) -> None:
        """``θ = 0``."""
        self._theta = np.zeros((n_features, n_arms))
        self._table = Table(n_arms)
        self._duals = self._new_columns()

    def add_features(self, n_features: int) -> None:
        """Rows of zeros, with spare ones so that few extensions copy."""
        self._theta = grown(self._theta, n_features, 0.0)

    def add_arm(self, like: int | None) -> None:
        """A column of zeros, or of another arm, which has no examples of its own."""
        more = np.zeros((len(self._theta), 1)) if like is None else self._theta[:, [like]]
        self._theta = np.hstack([self._theta, more])
        self._table.add_arm(None)

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """What evicted contexts taught stays in θ."""
        self._table.keep(nodes[: np.searchsorted(nodes, self._table.count)])

    def rescale(self, change: Change) -> None:
        """θ is a sum of contexts, so it moves as they do; then all examples get steps."""
        self._theta[change.slots] = change.block @ self._theta[change.slots]
        self._replay(max(PASSES * self._table.count, REPLAYED), np.iinfo(np.int64).max)

    def nbytes(self, sizes: Sizes) -> float:
        """θ, with spare features, and a dual of each context and arm."""
        return 8.0 * with_spare(sizes.features) * sizes.arms + self._table.nbytes(sizes)

    def replaced_nbytes(self) -> float:
        """θ, while it is copied."""
        return float(self._theta.nbytes)

    def state_dict(self) -> dict[str, Any]:
        """θ and the duals."""
        return super().state_dict() | {"theta": self.theta, "examples": self._table.state_dict()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take them over."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        theta, examples = state["theta"], state["examples"]
        require(is_array(theta, np.float64, n_features, n_arms) and np.isfinite(theta).all(), "θ does not fit")
        self.allocate(n_arms, 0)
        self._theta, count = theta, len(examples["known"])
        self._table.load_state_dict(examples, n_arms, count)
        known, arms, rewards = self._known.data, self._arms.data, self._rewards.data
        require(count <= n_nodes and 0 <= self._cursor < 2**32, "the examples do not fit")
        require(((known >= -1) & (known <= n_arms)).all(), "the examples label other arms")
        require(((arms >= 0) & (arms < n_arms)).all() and np.isfinite(rewards).all(), "the examples do not fit")


class SketchRidge(Part):
    """`ArmRidge` of bounded memory: `DualMeans` over all features, and widths over `rank` of them.

    Arguments:
        contexts, lifecycle, ridge_weight, imputed: as of `ArmRidge`.
        rank: how many features the widths have.
    """

    def __init__(
        self, contexts: RowStore, lifecycle: Lifecycle, ridge_weight: float, *, imputed: bool, rank: int
    ) -> None:
        super().__init__()
        self._contexts, self._ridge_weight, self._imputed, self.rank = contexts, ridge_weight, imputed, rank
        widths = ArmRidge(contexts, lifecycle, ridge_weight, imputed=imputed, max_width=rank, linear=False)
        self.widths = self.child("widths", widths)
        self.means = self.child("means", DualMeans(contexts, ridge_weight))
        self._ratio: tuple[int, float | None] = 0, None  # when it was measured, and what was found

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (K, D), as a copy."""
        return self.means.theta.T.copy()

    def scores(self, row: SparseRow, alpha: float, *, normalize_theta: bool = False) -> Scores:
        """``μ_k = θ_kᵀx``, and ``σ_k = α √(zᵀA_k⁻¹z)`` of the sketch z of x, for all arms (K,)."""
        means = self.means.scores(row)
        if normalize_theta:
            lengths = np.linalg.norm(self.means.theta, axis=0)
            means = means / np.where(lengths > 0, lengths, 1.0)
        return means, self.widths.scores(row, alpha)[1]

    def learn(self, example: Example) -> None:
        """Learn an example in both."""
        if self._imputed or not example.imputed:
            self.widths.learn(example)
            self.means.learn(example)

    def unlearn(self, example: Example) -> None:
        """Take it back from both."""
        if self._imputed or not example.imputed:
            self.widths.unlearn(example)
            self.means.unlearn(example)

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
        if contexts.n_features <= self.rank:
            return None
        X, ratios = contexts.matrix(0, contexts.count), []
        n_checked = int(np.clip(CHECK_WORK // (2 * CG_STEPS * max(contexts.n_entries, 1)), 1, CHECKED))
        for number, node in enumerate(range(max(contexts.count - n_checked, 0), contexts.count)):
            k = number % self.widths.n_arms
            of_arm = X[self.means.learned_by(k)]
            if of_arm.shape[0]:
                exact = _spread(of_arm, X[node].toarray().ravel(), self._ridge_weight)
                ratios.append(float(self.widths.scores(contexts[node], 1.0)[1][k] / np.sqrt(exact)))
        return float(np.median(ratios)) if ratios else None


def _spread(X: Any, x: NDArray[np.float64], ridge: float) -> float:
    """``xᵀ(λI + XᵀX)⁻¹x`` by conjugate gradients."""
    z, r = np.zeros_like(x), x.copy()
    p, norm2 = r.copy(), float(r @ r)
    for _ in range(CG_STEPS):
        if norm2 <= 1e-20 * float(x @ x):
            break
        Ap = X.T @ (X @ p) + ridge * p
        step = norm2 / float(p @ Ap)
        z += step * p
        r -= step * Ap
        before, norm2 = norm2, float(r @ r)
        p = r + norm2 / before * p
    return max(float(x @ z), np.finfo(float).tiny)
