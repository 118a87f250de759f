"""ViewUCB: several views of a context over the graph, each trusted as far as it has proved right."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.base import BaseAgent, Scores
from taciturn.agents.contexts import RowStore, keep_rows, room_for
from taciturn.agents.graph import ContextGraph
from taciturn.agents.ledger import REWARDED
from taciturn.agents.linear import ArmRidge
from taciturn.agents.storage import fits, storable, within
from taciturn.agents.trust import Trust
from taciturn.contracts import SparseRow
from taciturn.kernels import views
from taciturn.kernels.csr import CSR
from taciturn.validate import check_number

storable(views.CGState)

RECORDS = 4096
"""How many of the last answers count for the trust."""

ABSENT = -1e3
"""What all views said of an arm that was not there: certainly not."""

AT_ONCE, A_PIECE = 2**62, 256
"""How many contexts are scaled in one piece."""

STALE = 10
"""Contexts may be one part in this many more before the lengths of all views are taken again: they hardly change."""


@dataclass(kw_only=True, eq=False)
class ViewUCB(BaseAgent):
    """The library's recommended agent; ``docs/viewucb.md`` tells the idea and what each part is worth.

    Contexts x at unit length are nodes of a graph Â, given or of nearest neighbours. View v of a context is
    f_v = (Â^v X) at unit length: the context, its neighbourhood, and so on. In each view every arm has a ridge
    regression θ_vk on what is known of all contexts so far, over the graph as it is now:

        s_vk = f_vᵀθ_vk / ‖θ_vk‖        p = softmax(Σ_v β_v s_v + b)        ŷ = argmax_k (p_k + α √(xᵀA_k⁻¹x))

    reward 1    the target of ŷ is 1 and that of all other arms 0
    reward 0    the target of ŷ is 0; the others share the rest as p does, at a weight of `soft_label_weight`, and again
                each time the regressions are solved
    silence     nothing, but the context is a node of the graph: what is known of its neighbours goes through it

    The trust β in the views and the arms' biases b are fitted to the answers that came (`Trust`). A_k = λI + Σ xxᵀ over
    the contexts where arm k is known to be right or wrong. The regressions are solved, from where they are, whenever
    the contexts have grown by `refit_growth`.

    Arguments:
        alpha: how much to explore: the weight of the widths √(xᵀA_k⁻¹x).
        ridge: λ.
        hops: how far a view looks; there are hops + 1 views.
        neighbors: k of the nearest-neighbour graph, where no graph is given.
        soft_label_weight: the weight of what a wrong answer says about the other arms.
        refit_growth: the regressions are solved each time the contexts have grown by this share.

    Shapes: T contexts, D features, V views, K arms; θ is (D, V·K), `_targets` and `_weights` are (T, K).
    """

    alpha: float = 4.0
    ridge: float = 0.5
    hops: int = 3
    neighbors: int = 5
    soft_label_weight: float = 0.3
    refit_growth: float = 0.01

    SOLVER_STEPS = 4

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        super().__post_init__()
        check_number("alpha", self.alpha, 0)
        check_number("ridge", self.ridge, 1e-6)
        check_number("hops", self.hops, 0, 8, whole=True)
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)
        check_number("soft_label_weight", self.soft_label_weight, 0, 1)
        check_number("refit_growth", self.refit_growth, 1e-6, 1)

    def _begin(self) -> None:
        arms, dimension = len(self._arm_names), self._rows.dimension
        self._views = self.hops + 1
        self._unit = RowStore()  # the contexts at unit length
        self._unit.dimension = dimension
        self._graph = ContextGraph(self._unit, self.neighbors)
        self._widths = ArmRidge(arms, dimension, self.ridge)
        self._trust = Trust(self._views, arms, exclusive=self.one_right_arm)
        self._theta = np.zeros((dimension, self._views * arms), np.float32)
        self._unit_theta = self._theta.copy()  # at unit length
        self._projected = np.zeros((0, self._views * arms), np.float32)  # X times that
        self._targets = np.zeros((0, arms), np.float32)
        self._weights = np.zeros((0, arms), np.float32)
        self._wrong = np.zeros(0, np.int32)  # the arm that turned out wrong, or −1
        self._said = np.zeros((0, self._views, arms), np.float32)  # what the views said before they knew, or NaN
        self._scales = np.zeros((0, self._views), np.float32)  # what brings each view of a context to unit length
        self._solved = 0  # how many contexts there were when the regressions were last solved
        self._scaled = 0  # and when all scales were last made
        self._unscaled = 0  # from which on they are still to be made, this time
        self._stage = 0  # of the solution that is under way
        self._course: views.CGState | None = None

    def _widen(self, dimension: int) -> None:
        self._unit.dimension = dimension
        self._widths.widen(dimension)
        more = ((0, dimension - len(self._theta)), (0, 0))
        self._theta, self._unit_theta = np.pad(self._theta, more), np.pad(self._unit_theta, more)
        self._stage, self._course = 0, None

    def _arrive(self, node: int, neighbors: list[int] | None) -> None:
        columns, values = self._rows[node]
        length = np.sqrt((values**2).sum())
        self._unit.append(SparseRow(columns, values / length if length > 0 else values))
        self._graph.add(node, neighbors)
        self._projected = room_for(self._projected, node + 1, 0.0)
        self._scales = room_for(self._scales, node + 1, 0.0)
        self._targets = room_for(self._targets, node + 1, 0.0)
        self._weights = room_for(self._weights, node + 1, 0.0)
        self._wrong = room_for(self._wrong, node + 1, -1)
        self._said = room_for(self._said, node + 1, np.nan)
        row = self._unit[node]
        self._projected[node] = row.values.astype(np.float32) @ self._unit_theta[row.columns]

    def _started(self) -> None:
        self._scaled = self._unscaled = 0
        self._solve()

    def _score(self, node: int) -> Scores:
        self._scale(np.array([node]))
        if not self.deferred and self._due(node):
            self._solve()
        said = views.project(self._graph.adjacency, self._projected[: node + 1], node, self._views)
        said *= self._scales[node][:, None]
        self._said[node] = said
        _, widths = self._widths.scores(self._unit[node], self.alpha)
        return self._trust.probabilities(said), widths

    def _learn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        speaks_of = self._speaks_of(node, reward, imputed=imputed)
        self._targets[node, arm], self._weights[node, arm] = reward, 1.0
        if speaks_of:
            self._targets[node, :speaks_of] = np.arange(speaks_of) == arm
            self._weights[node, :speaks_of] = 1.0
        elif self.one_right_arm and reward == 0 and not imputed:
            self._wrong[node] = arm
            if not np.isnan(self._said[node, 0, 0]):
                self._guess_others(np.array([node]), self._trust.probabilities(self._said[node])[None])
        self._widths.learn(self._unit[node], arm, reward, speaks_of)

    def _unlearn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        known = self._ledger.arms[node]  # arms that came later, by a copy, keep theirs
        self._targets[node, :known] = self._weights[node, :known] = 0.0
        self._wrong[node] = -1
        speaks_of = self._speaks_of(node, reward, imputed=imputed)
        self._widths.unlearn(self._unit[node], arm, reward, speaks_of, self._facts(self._unit), complete=self._complete)

    def _keep(self, kept: NDArray[np.int64]) -> None:
        self._unit.keep(kept)
        self._graph.keep(kept)
        for array in (self._projected, self._scales, self._targets, self._weights):
            keep_rows(array, kept, 0.0)
        keep_rows(self._wrong, kept, -1)
        keep_rows(self._said, kept, np.nan)
        for name in ("_solved", "_scaled", "_unscaled"):
            setattr(self, name, int(np.searchsorted(kept, getattr(self, name))))

    def _add_arm(self, like: int | None) -> None:
        self._stage, self._course = 0, None
        self._widths.add_arm(like)
        self._trust.add_arm(like)
        for name in ("_theta", "_unit_theta", "_projected"):
            by_view = getattr(self, name).reshape(-1, self._views, len(self._arm_names))
            more = np.zeros_like(by_view[:, :, :1]) if like is None else by_view[:, :, like : like + 1]
            setattr(self, name, np.concatenate([by_view, more], axis=2).reshape(len(by_view), -1))
        for name in ("_targets", "_weights"):
            known = getattr(self, name)
            more = np.zeros_like(known[:, :1]) if like is None else known[:, like : like + 1]
            setattr(self, name, np.concatenate([known, more], axis=1))
        self._said = np.pad(self._said, ((0, 0), (0, 0), (0, 1)), constant_values=ABSENT)

    def _near(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._graph.near(node)

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        views = self.hops + 1
        by_view = views * arms
        of_features = (self._theta, self._unit_theta)
        return (
            self._views == views
            and (self._unit.count, self._unit.dimension) == (count, dimension)
            and self._widths.fits(arms, dimension)
            and self._trust.fits(views, arms)
            and all(held.shape == (dimension, by_view) and held.dtype == np.float32 for held in of_features)
            and fits(self._projected, np.float32, count, by_view)
            and fits(self._scales, np.float32, count, views)
            and fits(self._targets, np.float32, count, arms)
            and fits(self._weights, np.float32, count, arms)
            and fits(self._said, np.float32, count, views, arms)
            and fits(self._wrong, np.int32, count)
            and (self._course is not None or not 4 <= self._stage < 4 + self.SOLVER_STEPS)
            and (
                self._course is None or [part.shape for part in self._course] == [*[self._theta.shape] * 2, (by_view,)]
            )
            and (self._course is None or all(part.dtype == np.float32 for part in self._course))
            and 0 <= self._unscaled <= count
            and within(self._wrong, -1, arms)
        )

    def _estimate(self, arms: int, dimension: int, nodes: int) -> float:
        views = (self.hops + 1) * arms
        of_nodes = 4.0 * (2 * views + 2 * arms) + 12.0 * (self._rows.entries_a_row(dimension) + self.neighbors) + 40.0
        own = ArmRidge.estimate(arms, dimension) + 8.0 * views * dimension + nodes * of_nodes
        return super()._estimate(arms, dimension, nodes) + own

    def _guess_others(self, nodes: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
        """Where an arm turned out wrong, share what is left among the others as they are believed now."""
        wrong = self._wrong[nodes]
        there = np.arange(len(self._arm_names)) < self._ledger.arms[nodes][:, None]  # an arm that came later was not
        probabilities = np.where(there, probabilities, 0.0)
        probabilities[np.arange(len(nodes)), wrong] = 0.0
        shares = probabilities / np.maximum(probabilities.sum(axis=1, keepdims=True), 1e-9)
        self._targets[nodes] = np.where(there, shares, self._targets[nodes])
        self._weights[nodes] = np.where(there, self.soft_label_weight, self._weights[nodes])
        self._weights[nodes, wrong] = 1.0

    def _scale(self, nodes: NDArray[np.int64]) -> None:
        """See how long the views of some contexts are, over the graph as it is."""
        of = self._graph.adjacency, self._unit.rows
        self._scales[nodes] = views.unit_scales(*of, nodes, self._views, self._unit.dimension)

    # Solving the regressions: a few pieces, one after the other, at once or each when there is time.

    def _solve(self) -> None:
        """All of it."""
        self._stage = 0
        self._do_piece(AT_ONCE)
        while self._stage:
            self._do_piece(AT_ONCE)

    def _due(self, count: int) -> bool:
        return count > 0 and (count - self._solved) / count >= self.refit_growth

    def _train_step(self) -> bool:
        if self._stage == 0 and not self._due(self._rows.count):
            return False
        self._do_piece(A_PIECE)
        return True

    def _do_piece(self, most: int) -> None:
        if self._stage == 0:
            self._scale_some(most)
        elif self._stage == 1:
            self._refit_trust()
        elif self._stage == 2:
            self._hear()
        elif self._stage == 3:
            self._course = views.cg_init(*self._views_of_all(), *self._evidence(), self.ridge, self._theta)
        elif self._course is not None and self._stage < 4 + self.SOLVER_STEPS:
            weights, _ = self._evidence()
            views.cg_step(*self._views_of_all(), weights, self.ridge, self._theta, self._course)
        else:
            self._conclude()
            return
        self._stage += 1

    def _scale_some(self, most: int) -> None:
        """Take the lengths of all views again, if there are many more contexts than when that was last done."""
        count = self._rows.count
        if self._unscaled == 0 and count * STALE < self._scaled * (STALE + 1):
            return
        stop = min(self._unscaled + most, count)
        self._scale(np.arange(self._unscaled, stop))
        self._unscaled = stop
        if stop < count:
            self._stage -= 1  # not done yet
        else:
            self._scaled, self._unscaled = count, 0

    def _refit_trust(self) -> None:
        """Fit the trust to the last answers that came to decisions."""
        count = self._rows.count
        answered = np.flatnonzero((self._ledger.state[:count] == REWARDED) & ~np.isnan(self._said[:count, 0, 0]))
        last = answered[-RECORDS:]
        self._trust.refit(self._said[last], self._ledger.arm[last], self._ledger.value[last])

    def _hear(self) -> None:
        """What wrong answers say of the other arms, as they are believed now."""
        doubtful = np.flatnonzero(self._wrong[: self._rows.count] >= 0)
        if len(doubtful):
            said = views.predict(*self._views_of_all(), self._unit_theta)[doubtful]
            self._guess_others(doubtful, self._trust.probabilities(said.reshape(len(doubtful), self._views, -1)))

    def _conclude(self) -> None:
        """From now on the arms are judged by what was found."""
        lengths = np.linalg.norm(self._theta, axis=0)
        self._unit_theta = np.asarray(self._theta / np.where(lengths > 0, lengths, 1.0), np.float32)
        self._projected[: self._rows.count] = views.spmm(self._singles(), self._unit_theta)
        self._stage, self._course, self._solved = 0, None, self._rows.count

    def _singles(self) -> CSR:
        """The contexts at unit length, in single precision."""
        contexts = self._unit.rows
        return CSR(contexts.indptr, contexts.columns, contexts.values.astype(np.float32))

    def _views_of_all(self) -> tuple[CSR, CSR, NDArray[np.float32]]:
        return self._graph.adjacency, self._singles(), self._scales[: self._rows.count]

    def _evidence(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._weights[: self._rows.count], self._targets[: self._rows.count]
