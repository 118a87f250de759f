"""The ridge regressions of all views, solved by conjugate gradients in steps that can be deferred and saved."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.arrays import grown
from taciturn.agents.parts.fourier_view import FourierView
from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.parts.part import Array, Part, Sizes, is_array, require
from taciturn.agents.parts.unit_rows import UnitRows
from taciturn.agents.table import NodeTable
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import shared_ridge, views

CG_STEPS = 4
"""Steps of conjugate gradients in a solve, which starts from the solution before."""

MANY_ARMS = 256
"""With as many arms, and more of them than features, the features of the views are stored while they are solved."""

BEYOND_CACHES, WIDER = 2**23, 4
"""Where the scores of all contexts take more bytes, products of them with Â wait for memory. With at most so many times
more features than scores, the features of all views are then made once, for all products of a solve."""

CHUNK = 256
"""How many contexts at most are rescaled in one deferred step."""

EDGES_PER_STEP = 2**22
"""About how many edges are followed in one deferred step: in a dense graph fewer contexts are rescaled."""

PRODUCTS_PER_STEP = 2**27
"""Contexts without zeros are rescaled all at once in a deferred step if that takes no more multiplications."""

FEW_ENTRIES = 8
"""Contexts with more entries than this count for more edges."""

FEW_FEATURES = 2**12
"""While there are no more, a solve under way starts over with every new feature."""

MANY_COLUMNS = 8
"""Where so many times more columns than slots move with the scale, the inverse of their change is made first."""

LONGEST = 100.0
"""θ at unit length that a change of scale has made longer than this is brought back: it says little then."""

STALE_SHARE, STALE_SHARE_OF_MANY, MANY = 10, 2, 4096
"""All scales are recomputed once the contexts have grown by 1/10: until then they hardly change. Beyond so many
contexts, by 1/2: each has its own scale from its own decision, and to follow the neighborhoods of all takes long."""


FOLLOWED = 16
"""Among thousands of contexts a decision follows no more than so many edges to contexts that have one among their
nearest, beside those to its own: some contexts are near to thousands of others, each of which counts little then."""


class CGSolver(Part):
    """θ (D, V, K) of V views and K arms; see `kernels.views` for what is minimized.

    A solve is a sequence of stages: rescale all views to unit length (if there are many more contexts), run the
    `preparations`, start conjugate gradients, `CG_STEPS` steps of them, and publish the solution for scoring. ``solve``
    runs all of it; ``train_step`` runs one piece and resumes where it stopped.

    ``projected`` (T, V, K), a column of the table, is X times the published θ at unit length; ``scales`` (T, V),
    another, brings each view of a context to unit length. Only the first ``n_used`` views are solved and scored: the
    published θ of the others is 0, so that they score 0.

    With many arms and dense contexts of fewer features (``by_features``), nothing is projected: the features of the
    views are made where they are needed, which are fewer numbers.

    Arguments:
        contexts: the contexts at unit length.
        targets, weights: columns (T, K): the targets q and their weights m of `kernels.views`.
        means: (K,), which q is less of; None for none.
        n_needed: returns how many of the views, the first ones, the next solve needs.
        fourier: the view that is solved along with these, step by step; None where there is none.
        preparations: called before the equations are set up.
        is_due: whether a solve is due with so many contexts.
    """

    SAVED: ClassVar[dict[str, str]] = {
        "solved_at": "solved_at",
        "scaled_at": "_scaled_at",
        "scaled_to": "_scaled_to",
        "stage": "_stage",
        "n_used": "n_used",
        "by_features": "by_features",
    }

    def __init__(
        self,
        table: NodeTable,
        contexts: UnitRows,
        graph: NodeGraph,
        targets: Array,
        weights: Array,
        means: Array | None,
        *,
        ridge: float,
        n_views: int,
        n_needed: Callable[[], int],
        fourier: FourierView | None,
        preparations: Sequence[Callable[[], None]],
        is_due: Callable[[int], bool],
    ) -> None:
        super().__init__()
        self._contexts, self._graph = contexts, graph
        self._targets, self._weights, self._means = targets, weights, means
        self._ridge, self._n_views, self._n_needed = ridge, n_views, n_needed
        self.n_used, self.by_features = n_views, False
        self._fourier, self._preparations, self._is_due = fourier, preparations, is_due
        self.projected = table.column("projected", np.float32, n_views, "arm")
        self.scales = table.column("view_scales", np.float32, n_views)
        self._theta = self.array("theta", np.float32, "feature", n_views, "arm")
        self.unit_theta = self.array("unit_theta", np.float32, "feature", n_views, "arm")  # as published
        self.solved_at = 0  # how many contexts there were at the last solve
        self._scaled_at = 0  # and when all scales were last made
        self._scaled_to = 0  # contexts before this one have been rescaled in this solve
        self._stage = 0
        self._cg: views.CGState | None = None
        self._is_whole = False  # whether all stages of this solve follow each other, so that nothing changes meanwhile
        self._stored: tuple[views.Features, NDArray[np.int64]] | None = None  # what `_equations` made for all of them

    def add(self, node: int, row: SparseRow) -> None:
        """A context has come, which is such a row at unit length."""
        if self.by_features:
            return
        theta, projected = _flat(self.unit_theta), self.projected.data[node]
        if len(row.columns) < len(theta):
            theta = theta[row.columns]  # (entries, V·K)
        projected[...] = (row.values.astype(np.float32) @ theta).reshape(projected.shape)

    def scores(self, node: int, members: NDArray[np.int64], walk: views.Walk) -> NDArray[np.float32]:
        """The scores ``f_vᵀθ_vk / ‖θ_vk‖`` (V, K) of a context, by the members of its neighborhood."""
        scores = np.zeros(self.projected.data.shape[1:], np.float32)
        used = slice(self.n_used)
        if self.by_features:
            features = walk.weights[used] @ views.dense_rows(self._contexts.singles, members, self._contexts.n_features)
            for v, f in enumerate(features):
                scores[v] = f @ self.unit_theta.data[:, v]
        else:
            scores[used] = views.project(walk.weights[used], self.projected.data, members)
        scores[used] *= self.scales.data[node, used, None]
        return scores

    # A solve.

    def solve(self) -> None:
        """All stages, from the first."""
        self._stage, self._is_whole = 0, True
        try:
            self._solve_step(self._contexts.count)
            while self._stage:
                self._solve_step(self._contexts.count)
        finally:
            self._is_whole, self._stored = False, None

    def train_step(self) -> bool:
        """One piece of a solve that is under way or due; False if neither."""
        if self._stage == 0 and not self._is_due(self._contexts.count):
            return False
        self._solve_step(self._affordable_chunk())
        return True

    def _affordable_chunk(self) -> int:
        """How many contexts to rescale in one step; of each, all edges within its reach are followed in every view."""
        edges, count = len(self._graph.adjacency.columns), max(self._contexts.count, 1)
        dense = self._contexts.without_zeros()
        if self._contexts.dense_singles is not None:  # few, of which none are at hand in double precision
            return count
        if dense is not None and edges * dense.shape[1] * self.n_used <= PRODUCTS_PER_STEP:
            return count
        degree = edges / count
        entries = max(self._contexts.n_entries / count / FEW_ENTRIES, 1.0)  # each edge adds the entries of a context
        followed = entries * sum(min(degree**hops, edges) for hops in range(1, self.n_used))
        return max(1, min(CHUNK, int(EDGES_PER_STEP / max(followed, 1))))

    def after_warm_start(self) -> None:
        """Solve with all scales made anew."""
        self._scaled_at = self._scaled_to = 0
        self.solve()

    def _solve_step(self, chunk: int) -> None:
        first_cg = 1 + len(self._preparations)
        if self._stage == 0:
            if self._scaled_to == 0:
                self._use(self._n_needed())
            if not self._rescale(chunk):
                return
        elif self._stage < first_cg:
            self._preparations[self._stage - 1]()
        elif self._stage == first_cg:
            if self._solve_directly():
                self._stage += CG_STEPS
            else:
                self._begin()
                if self._fourier is not None:
                    self._fourier.begin()
        elif self._cg is not None and self._stage <= first_cg + CG_STEPS:
            self._step(self._cg)
            if self._fourier is not None:
                self._fourier.step()
        else:
            self._publish()
            return
        self._stage += 1

    def _solve_directly(self) -> bool:
        """Solve all regressions exactly where that takes less, with many arms and few features; whether it was done."""
        n_features, n_arms = self._contexts.n_features, self._theta.data.shape[2]
        if not self.has_more_arms:
            return False
        self._contexts.hold()
        known = self._known()
        weights = self._weights.data[known]
        shared = shared_ridge.shared(weights)
        if shared_ridge.products(shared, n_features) > 2.0 * (CG_STEPS + 1) * len(known) * n_features * n_arms:
            return False
        targets = self._targets.data[known]
        if self._means is not None:
            targets -= self._means.data.astype(np.float32)
        weighted = shared_ridge.weighted(targets, weights)
        del targets, weights  # nothing else holds them, and they are large
        for v, features in enumerate(self._each_view(known)):
            self._theta.data[:, v] = shared_ridge.solution(features, shared, weighted, self._ridge).T
        if self._fourier is not None:
            self._fourier.solve_directly(known, shared, weighted)
        return True

    def _each_view(self, known: NDArray[np.int64]) -> Iterable[NDArray[np.float32]]:
        """The features (N, D) of one view after the other at the contexts that have a target."""
        if self._stored is not None:
            return self._stored[0].of_views
        return views.each_view(self._operands(), known, self._contexts.n_features)

    def _begin(self) -> None:
        """Start conjugate gradients from the last solution."""
        theta, (of, rows) = self._theta.data[:, : self.n_used], self._equations()
        residual, norm2 = np.empty_like(theta, order="C"), np.empty(theta.shape[1:], np.float32)
        for arms in self._pieces():
            targets = self._targets.data[rows, arms]
            targets = targets if self._means is None else (targets - self._means.data[arms]).astype(np.float32)
            weights, columns = self._weights.data[rows, arms], views.piece_of(theta, arms)
            begun = views.cg_init(of, weights, targets, self._ridge, columns)
            residual[:, :, arms] = begun.residual.reshape(len(theta), self.n_used, -1)
            norm2[:, arms] = begun.residual_norm2.reshape(self.n_used, -1)
        residual = residual.reshape(len(theta), -1)
        self._cg = views.CGState(residual, residual.copy(), norm2.reshape(-1))

    def _step(self, cg: views.CGState) -> None:
        """One step of conjugate gradients."""
        theta, (of, rows) = self._theta.data[:, : self.n_used], self._equations()
        parts = theta, *(part.reshape(-1, *theta.shape[1:]) for part in cg)
        for arms in self._pieces():
            columns, *state = pieces = [views.piece_of(part, arms) for part in parts]
            state[-1] = state[-1].reshape(-1)
            views.cg_step(of, self._weights.data[rows, arms], self._ridge, columns, views.CGState(*state))
            for part, piece in zip(parts, pieces, strict=True):
                if not np.may_share_memory(part, piece):
                    part[:, :, arms] = piece.reshape(len(part), self.n_used, -1)

    def _pieces(self) -> list[slice]:
        """Arms that are solved together."""
        return views.pieces(self._theta.data.shape[2], self._contexts.count * self.n_used)

    def _use(self, n_views: int) -> None:
        """Solve and score the first so many views from now on; those that come back need scales."""
        if n_views > self.n_used:
            self._scaled_at = 0
        self.n_used = n_views

    def _rescale(self, chunk: int) -> bool:
        """Make up to `chunk` scales anew, if there are many more contexts than at the last time; whether all are."""
        count = self._contexts.count
        share = STALE_SHARE_OF_MANY if self._scaled_at >= MANY else STALE_SHARE
        if self._scaled_to == 0 and count * share < self._scaled_at * (share + 1):
            return True
        stop = min(self._scaled_to + chunk, count)
        dense = self._contexts.without_zeros()
        if stop - self._scaled_to == count and dense is not None:
            self.scales.data[:count, : self.n_used] = views.all_unit_scales(self._graph.adjacency, dense, self.n_used)
        else:
            nodes = np.arange(self._scaled_to, stop)
            of = self._graph.shortened(FOLLOWED), *self._contexts.at(np.arange(count)), nodes
            self.scales.data[nodes, : self.n_used] = views.unit_scales(*of, self.n_used, self._contexts.n_features)
        self._scaled_to = stop if stop < count else 0
        if self._scaled_to == 0:
            self._scaled_at = count
        return self._scaled_to == 0

    def _publish(self) -> None:
        """Use the solved θ for scoring from now on."""
        used, unit = self._theta.data[:, : self.n_used], self.unit_theta.data
        np.divide(used, views.lengths(used), out=unit[:, : self.n_used])
        unit[:, self.n_used :] = 0.0
        self.by_features = self._has_many_arms()
        self._project()
        if self._fourier is not None:
            self._fourier.publish()
        self._graph.measure_degrees()
        self._stage, self._cg, self.solved_at = 0, None, self._contexts.count

    def _project(self) -> None:
        """``projected`` of all contexts, by θ as published."""
        if self.by_features:
            return
        contexts, projected = self._contexts.for_products(), self._rows_of(self.projected)
        for arms in self._pieces():
            found = views.times(contexts, views.piece_of(self.unit_theta.data, arms))
            projected[:, :, arms] = found.reshape(len(found), self._n_views, -1)

    def predictions(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """The scores of the published θ at all contexts (T, V, A), over the graph as it is now, of A arms at a time.

        Of a context without a target they can be anything.
        """
        count, unused, (of, rows) = self._contexts.count, self._n_views - self.n_used, self._equations()
        for arms in self._pieces():
            scores = views.predict(of, views.piece_of(self.unit_theta.data[:, : self.n_used], arms))
            by_view = views.by_view(scores, self.n_used)
            if unused or len(scores) < count:
                of_all = np.zeros((count, self._n_views, by_view.shape[2]), np.float32)
                of_all[rows, : self.n_used] = by_view
                by_view = of_all
            yield arms, by_view

    def _has_many_arms(self) -> bool:
        """Whether features of contexts are fewer numbers than scores, which are made of most of them anyway."""
        return self.has_more_arms and self._contexts.n_entries * 2 >= self._contexts.count * self._contexts.n_features

    @property
    def has_more_arms(self) -> bool:
        """Whether there are many arms, and no fewer than features."""
        return bool(self._theta.data.shape[2] >= max(MANY_ARMS, self._contexts.n_features))

    def _known(self) -> NDArray[np.int64]:
        """The contexts that have a target."""
        return np.flatnonzero(self._rows_of(self._weights).any(axis=1))

    def _equations(self) -> tuple[views.Operands | views.Features, NDArray[np.int64] | slice]:
        """The features that the regressions are on, and of which contexts they are."""
        if self._stored is not None:
            return self._stored
        if self._has_many_arms():
            self._contexts.hold()
        elif not self._is_quicker_stored():
            return self._operands(), slice(self._contexts.count)
        known = self._known()
        stored = views.stored(self._operands(), known, self._contexts.n_features), known
        self._stored = stored if self._is_whole else None
        return stored

    def _is_quicker_stored(self) -> bool:
        """Whether it takes less to make the features of all views once than to multiply scores by Â in each product."""
        n_scores = self.n_used * self._theta.data.shape[2]
        return self._is_whole and _are_features_stored(self._contexts.count, self._contexts.n_features, n_scores)

    def _rows_of(self, column: Array) -> NDArray[np.float32]:
        return column.data[: self._contexts.count]

    def _operands(self) -> views.Operands:
        scales = np.ascontiguousarray(self._rows_of(self.scales)[:, : self.n_used])
        return views.Operands(self._graph.adjacency, self._contexts.for_products(), scales)

    # Growth and files.

    def add_features(self, n_features: int) -> None:
        """A solve under way starts over; in a large vocabulary, where hardly a context has no new words, it goes on.

        Contexts so far have zeros in new features, so that residuals and directions are 0 there.
        """
        super().add_features(n_features)
        if n_features <= FEW_FEATURES:
            self._stage, self._cg = 0, None
        elif self._cg is not None:
            residual, direction, norm2 = self._cg
            residual, direction = (grown(part, n_features, 0.0)[:n_features] for part in (residual, direction))
            self._cg = views.CGState(residual, direction, norm2)

    def add_arm(self, like: int | None) -> None:
        """A solve under way starts over."""
        self._stage, self._cg = 0, None
        super().add_arm(like)

    def rescale(self, change: Change) -> None:
        """θ says the same of the moved contexts, ``θ' = S⁻ᵀθ``; a solve starts over, with all scales made anew."""
        self._stage, self._cg = 0, None
        self.solved_at = self._scaled_at = self._scaled_to = 0
        for theta in (_flat(self._theta), _flat(self.unit_theta)):
            theta[change.slots] = _moved(theta[change.slots], change)
        unit = _flat(self.unit_theta)
        lengths = np.linalg.norm(unit, axis=0)
        unit /= np.where(lengths > LONGEST, lengths, 1.0)
        self._project()

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Adjust the numbers of contexts to those that are left."""
        self.solved_at = int(np.searchsorted(nodes, self.solved_at))
        self._scaled_at = int(np.searchsorted(nodes, self._scaled_at))
        self._scaled_to = int(np.searchsorted(nodes, self._scaled_to))

    def nbytes(self, sizes: Sizes) -> float:
        """θ as solved and as published; residuals and directions, as during a solve."""
        return super().nbytes(sizes) + 8.0 * sizes.features * self._n_views * sizes.arms

    def working_nbytes(self, sizes: Sizes) -> float:
        """The most of a step of conjugate gradients for a piece of the arms, or of a direct solution.

        The first is the scores (T, V·A) with those of all views but the first before and after a hop, or the scores
        with a gradient (D, V·A), or two of these; copies of θ, residuals and directions where a piece is not all; and
        the features of all views where they are stored.
        """
        n_views, piece = self._n_views, views.pieces(sizes.arms, sizes.nodes * self._n_views)[0]
        arm_columns = 4.0 * float(piece.stop)
        scores, gradient = arm_columns * sizes.nodes * n_views, arm_columns * sizes.features * n_views
        hopping = scores + 2.0 * arm_columns * sizes.nodes * (n_views - 1)
        copied = 3.0 * gradient if arm_columns < 4.0 * sizes.arms else 0.0
        by_steps = max(hopping, scores + gradient, 2.0 * gradient) + copied
        has_more_arms, of_view = sizes.arms >= max(MANY_ARMS, sizes.features), 4.0 * sizes.features * sizes.nodes
        if not (has_more_arms or _are_features_stored(sizes.nodes, sizes.features, n_views * sizes.arms)):
            return by_steps
        direct = self._direct_nbytes(sizes) if has_more_arms else 0.0
        return n_views * of_view + max(2.0 * of_view, by_steps, direct)

    def _direct_nbytes(self, sizes: Sizes) -> float:
        """Bytes of a direct solution: weights and targets, and their products; or these and one view, with its θ."""
        of_nodes, of_arms = 4.0 * sizes.nodes, 4.0 * sizes.arms
        return max(
            3.0 * of_nodes * sizes.arms, of_nodes * (sizes.arms + 3.0 * sizes.features) + 6.0 * of_arms * sizes.features
        )

    def state_dict(self) -> dict[str, Any]:
        """Conjugate gradients too; scales and projections are in the table."""
        return super().state_dict() | {"cg": None if self._cg is None else self._cg._asdict()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take all over; conjugate gradients are there where the stage needs them. Files of before use all views."""
        before = {"n_used": self._n_views, "by_features": False}
        super().load_state_dict(before | state, n_arms, n_features, n_nodes)
        require(1 <= self.n_used <= self._n_views, "the number of views is not sound")
        cg, first_cg = state["cg"], 1 + len(self._preparations)
        self._cg = None if cg is None else views.CGState(*(cg[name] for name in views.CGState._fields))
        shape = (n_features, self.n_used * n_arms)
        for held, wanted in zip(self._cg or (), (shape, shape, shape[1:]), strict=cg is not None):
            require(is_array(held, np.float32, *wanted) and np.isfinite(held).all(), "conjugate gradients do not fit")
        within = first_cg < self._stage <= first_cg + CG_STEPS
        require(self._stage >= 0 and (cg is not None or not within), "the stage of the solve is not sound")
        require(self._stage <= first_cg + CG_STEPS + 1, "the stage of the solve is not sound")
        counts = self._scaled_to, self._scaled_at, self.solved_at
        require(max(counts) <= n_nodes, "the numbers of contexts are not sound")


def _are_features_stored(count: int, n_features: int, n_scores: int) -> bool:
    """Whether a solve makes the features of all views once, though arms are few: see `BEYOND_CACHES`."""
    return 4.0 * count * n_scores > BEYOND_CACHES and n_features <= WIDER * n_scores


def _moved(theta: NDArray[np.float32], change: Change) -> NDArray[Any]:
    """``S⁻ᵀθ`` (m, U); where there are many columns, by S⁻¹ itself."""
    size, width = theta.shape
    if width < MANY_COLUMNS * size:
        return change.of_weights(theta)
    return np.asarray(change.of_weights(np.eye(size)).astype(np.float32) @ theta)


def _flat(array: Array) -> NDArray[np.float32]:
    """(D, V·K), as a view."""
    return array.data.reshape(len(array.data), -1)
