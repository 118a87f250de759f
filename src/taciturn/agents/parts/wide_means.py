"""Ridge solutions of all arms over any number of features, without a matrix of features by features.

Arm k has the rows X_k that its examples are at, their targets r_k and

    θ_k = argmin ‖X_k θ − r_k‖² + λ‖θ‖² − 2 f_kᵀθ

where f is what no example says: contexts that were evicted, or the arm that another began as a copy of. An example
that comes, or goes, moves θ at once as if A_k were the diagonal d_k = λ + Σ x², in time proportional to its entries;
and each time that examples have changed by a share, conjugate gradients continue from there, preconditioned by d.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.arrays import grown
from taciturn.agents.lifecycle import Example, Labels, Lifecycle
from taciturn.agents.parts.part import Part, Sizes, is_array, require, with_spare
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import wide
from taciturn.kernels.views import full_width

Floats = NDArray[np.float64]

GROWTH = 0.05
"""θ is solved for each time that so large a share of the examples has changed."""

CG_STEPS, MOST_CG_STEPS = 8, 64
"""Steps of conjugate gradients in a solve, and where they cost little."""

WORK_PER_CHANGE, CHEAP = 2**22, 2**18
"""About how many multiplications a solve may take for each example that has changed: others wait longer. One that takes
so few need not wait."""

WORK_AT_ONCE = 2**31
"""And at once: where there are so many arms that it would take more, they take turns."""

ENTRIES_AT_ONCE = 2**21
"""Arrays of features by arms have so many entries while θ is solved for: more arms are solved for in pieces."""

CLOSE = 1e-10
"""Columns whose residual is this small, by the preconditioner's norm of the right side, are solved."""


class Operands(NamedTuple):
    """The rows of examples X (n, D), and of some arms what each says: weights 0 or 1 and targets (n, k)."""

    X: Any
    weights: Floats
    targets: Floats


class WideMeans(Part):
    """θ (D, K) as above.

    Arguments:
        contexts: the rows that examples name by their node.
        lifecycle: what was learned so far.
        ridge_weight: λ.
        imputed: whether imputed rewards are learned too.
    """

    SAVED: ClassVar[dict[str, str]] = {"changes": "_changes", "next_arm": "_next_arm"}

    def __init__(self, contexts: RowStore, lifecycle: Lifecycle, ridge_weight: float, *, imputed: bool) -> None:
        super().__init__()
        self._contexts, self._lifecycle = contexts, lifecycle
        self._ridge_weight, self._imputed = ridge_weight, imputed
        self._theta = self._squares = self._pull = np.zeros((0, 0))  # (D, K) each, with spare features
        self._changes = 0  # examples that came or went since the last solve
        self._next_arm = 0  # whose turn it is

    @property
    def theta(self) -> Floats:
        """``θ`` (D, K)."""
        return self._theta[: self._contexts.n_features]

    def scores(self, row: SparseRow) -> Floats:
        """``θ_kᵀx`` (K,)."""
        return wide.means(self._theta, *row)

    # Learning.

    def learn(self, example: Example) -> None:
        """Move θ by an example, as if A were diagonal; solve if that is due."""
        self._move(example, 1.0)
        self._changed(example)

    def unlearn(self, example: Example) -> None:
        """Move θ back; solve if that is due."""
        self._move(example, -1.0)
        self._changed(None)

    def _move(self, example: Example, sign: float) -> None:
        first, stop = (0, len(example.mask)) if example.mask.all() else (example.arm, example.arm + 1)
        of = *self._contexts[example.node], example.targets, first, stop
        wide.move(self._theta, self._squares, *of, self._ridge_weight, sign)

    def _changed(self, new: Example | None) -> None:
        self._changes += 1
        if not self.deferred and self._is_due:
            self.solve(new)

    @property
    def _is_due(self) -> bool:
        work = 4.0 * CG_STEPS * self._contexts.n_entries * min(self._n_arms, self._arms_at_once)
        enough = min(GROWTH * self._contexts.count, work / CHEAP)
        return self._changes > 0 and self._changes >= max(enough, work / WORK_PER_CHANGE)

    def train_step(self) -> bool:
        """A solve that was deferred."""
        if not self._is_due:
            return False
        self.solve()
        return True

    @property
    def _n_arms(self) -> int:
        return self._theta.shape[1]

    @property
    def _arms_at_once(self) -> int:
        work = 4 * CG_STEPS * max(self._contexts.n_entries, 1)
        return int(np.clip(WORK_AT_ONCE // work, 1, max(self._n_arms, 1)))

    # Solving.

    def solve(self, new: Example | None = None) -> None:
        """Conjugate gradients, from θ on, for the arms whose turn it is. `new` is learned, but not in the table yet."""
        labels = self._lifecycle.labels(imputed=self._imputed, new=new)
        piece = self._arms_at_once
        first = self._next_arm if self._next_arm < self._n_arms else 0
        arms = np.arange(first, min(first + piece, self._n_arms))
        self._next_arm = (first + piece) % max(self._n_arms, 1) if first + piece < self._n_arms else 0
        self._changes = 0
        for piece_of_arms in self._pieces(arms):
            if len(labels.nodes):
                self._conjugate_gradients(self._operands(labels, piece_of_arms), piece_of_arms)
            else:
                self._theta[:, piece_of_arms] = self._pull[:, piece_of_arms] / self._ridge_weight

    def _pieces(self, arms: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        size = max(ENTRIES_AT_ONCE // max(len(self.theta), self._contexts.count, 1), 1)
        return [arms[first : first + size] for first in range(0, len(arms), size)]

    def _operands(self, labels: Labels, arms: NDArray[np.int64]) -> Operands:
        """Dense rows without a copy where most of them are examples: the others have no weight."""
        count, width, rows = self._contexts.count, len(self.theta), self._dense_rows()
        said = labels.dense(arms)
        if rows is None:
            contexts = self._contexts.rows
            X = sp.csr_matrix((contexts.values, contexts.columns, contexts.indptr), (count, width))
            return Operands(X[labels.nodes] if len(labels.nodes) < count else X, *said)
        if 2 * len(labels.nodes) < count:
            return Operands(rows[labels.nodes], *said)
        weights, targets = np.zeros((2, count, len(arms)))
        weights[labels.nodes], targets[labels.nodes] = said
        return Operands(rows, weights, targets)

    def _dense_rows(self) -> Floats | None:
        """The contexts (T, D), as a view, where they have no zeros."""
        (rows, full), shape = self._contexts.rows_or_full, (self._contexts.count, len(self.theta))
        width = len(rows.columns) if full else full_width(rows)
        return rows.values.reshape(shape) if width == shape[1] else None

    def _conjugate_gradients(self, of: Operands, arms: NDArray[np.int64]) -> None:
        X, weights, targets = of
        n_features, ridge = len(self.theta), self._ridge_weight
        theta = np.ascontiguousarray(self._theta[:n_features, arms])
        inverse = 1.0 / (ridge + self._squares[:n_features, arms])
        right = X.T @ (weights * targets) + self._pull[:n_features, arms]
        r = right - X.T @ (weights * (X @ theta)) - ridge * theta
        z = inverse * r
        p, product = z.copy(), (r * z).sum(axis=0)
        enough = CLOSE**2 * (right * inverse * right).sum(axis=0)
        steps = WORK_PER_CHANGE // (4 * max(self._contexts.n_entries, 1) * len(arms))
        for _ in range(int(np.clip(steps, CG_STEPS, MOST_CG_STEPS))):
            if (product <= enough).all():
                break
            Ap = X.T @ (weights * (X @ p)) + ridge * p
            pAp = (p * Ap).sum(axis=0)
            step = np.divide(product, pAp, out=np.zeros_like(product), where=(pAp > 0) & (product > enough))
            theta += step * p
            r -= step * Ap
            z = inverse * r
            before, product = product, (r * z).sum(axis=0)
            p *= np.divide(product, before, out=np.zeros_like(product), where=before > 0)
            p += z
        if np.isfinite(theta).all():
            self._theta[:n_features, arms] = theta

    @property
    def unsolved(self) -> float:
        """How long the residual of the normal equations is, as a share of their longer side: the most of some arms."""
        labels = self._lifecycle.labels(imputed=self._imputed)
        arms = self._pieces(np.arange(self._n_arms))[0]
        theta, right = self.theta[:, arms], self._pull[: len(self.theta), arms]
        left = self._ridge_weight * theta
        if len(labels.nodes):
            X, weights, targets = self._operands(labels, arms)
            right = X.T @ (weights * targets) + right
            left += X.T @ (weights * (X @ theta))
        off, *sides = (np.linalg.norm(part, axis=0) for part in (right - left, right, left))
        return float((off / np.maximum(np.maximum(*sides), np.finfo(float).tiny)).max())

    # Growth, eviction and files.

    def take_over(self, theta: Floats, *, examples_say_all: bool) -> None:
        """Begin with a solution (K, D); what examples do not say of it is kept."""
        self._theta[: theta.shape[1]], self._pull[...] = theta.T, 0.0
        labels = self._lifecycle.labels(imputed=self._imputed)
        self._measure_squares(labels)
        if not examples_say_all:
            self._keep_pull(labels)

    def _measure_squares(self, labels: Labels) -> None:
        self._squares[...] = 0.0
        for arms in self._pieces(np.arange(self._n_arms)) if len(labels.nodes) else ():
            X, weights, _ = self._operands(labels, arms)
            self._squares[: len(self.theta), arms] = (X.multiply(X) if sp.issparse(X) else X * X).T @ weights

    def _keep_pull(self, labels: Labels) -> None:
        """``f = λθ − Xᵀ(r − Xθ)``, so that θ is the solution."""
        n = len(self.theta)
        self._pull[:n] = self._ridge_weight * self.theta
        for arms in self._pieces(np.arange(self._n_arms)) if len(labels.nodes) else ():
            X, weights, targets = self._operands(labels, arms)
            self._pull[:n, arms] -= X.T @ (weights * (targets - X @ self._theta[:n, arms]))

    def evicting(self, nodes: NDArray[np.int64]) -> None:
        """What contexts taught that are about to go stays: ``f += (r − θᵀx) x``."""
        for node in nodes.tolist():
            example = self._lifecycle.learned(node)
            if example is None or (example.imputed and not self._imputed):
                continue
            columns, values = row = self._contexts[node]
            off = np.where(example.mask, example.targets - self.scores(row)[: len(example.mask)], 0.0)
            self._pull[columns, : len(off)] += values[:, None] * off

    def allocate(self, n_arms: int, n_features: int) -> None:
        """``θ = 0``."""
        self._theta, self._squares, self._pull = (np.zeros((n_features, n_arms)) for _ in range(3))

    def add_features(self, n_features: int) -> None:
        """Rows of zeros, with spare ones so that few extensions copy."""
        arrays = self._theta, self._squares, self._pull
        self._theta, self._squares, self._pull = (grown(array, n_features, 0.0) for array in arrays)

    def add_arm(self, like: int | None) -> None:
        """A column of zeros, or a copy, which has no examples of its own: ``f = λθ``."""
        zeros = np.zeros((len(self._theta), 1))
        theta = zeros if like is None else self._theta[:, [like]]
        squares = zeros if like is None else self._squares[:, [like]]
        more = theta, squares, self._ridge_weight * theta
        arrays = self._theta, self._squares, self._pull
        self._theta, self._squares, self._pull = (
            np.hstack([array, column]) for array, column in zip(arrays, more, strict=True)
        )

    def rescale(self, change: Change) -> None:
        """θ says the same of the moved contexts, and f is a sum of contexts; then it is solved for."""
        slots = change.slots
        self._theta[slots] = change.of_weights(self._theta[slots])
        self._pull[slots] = change.block @ self._pull[slots]
        self._measure_squares(self._lifecycle.labels(imputed=self._imputed))
        self.solve()

    def nbytes(self, sizes: Sizes) -> float:
        """θ, d and f, with spare features."""
        return 24.0 * with_spare(sizes.features) * sizes.arms

    def working_nbytes(self, sizes: Sizes) -> float:
        """Seven arrays of features by arms, and four of examples by arms, for the arms that are solved for at once."""
        arms = min(sizes.arms, max(ENTRIES_AT_ONCE // max(sizes.features, 1), 1))
        row = max(sizes.entries / max(sizes.nodes, 1), 1.0)
        examples = min(float(arms) * sizes.nodes, max(WORK_AT_ONCE / (4 * CG_STEPS * row), sizes.nodes))
        return 8.0 * (7.0 * arms * sizes.features + 4.0 * examples)

    def replaced_nbytes(self) -> float:
        """θ, d or f, while it is copied."""
        return float(self._theta.nbytes)

    def state_dict(self) -> dict[str, Any]:
        """θ, d and f."""
        n = self._contexts.n_features
        return super().state_dict() | {"theta": self._theta[:n], "squares": self._squares[:n], "pull": self._pull[:n]}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take them over."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        theta, squares, pull = (state[name] for name in ("theta", "squares", "pull"))
        for array in (theta, squares, pull):
            require(is_array(array, np.float64, n_features, n_arms) and np.isfinite(array).all(), "θ does not fit")
        require((squares >= 0).all() and self._next_arm < max(n_arms, 1), "the regressions are not sound")
        self._theta, self._squares, self._pull = theta, squares, pull
