"""ViewUCB: several views of a context over the graph, each weighted as it has proved right."""

from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.base import BaseAgent
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.answers import Answers
from taciturn.agents.parts.cg_solver import FOLLOWED, CGSolver
from taciturn.agents.parts.fourier_view import FourierView
from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.parts.part import Part, Scores, Sizes, require
from taciturn.agents.parts.residual_view import ResidualView
from taciturn.agents.parts.ridge import MAX_ALPHA, MAX_RIDGE, ArmRidge
from taciturn.agents.parts.unit_rows import UnitRows
from taciturn.agents.parts.view_weights import ABSENT, Answered, IndependentWeights, ViewWeights
from taciturn.agents.table import REWARDED
from taciturn.kernels import views
from taciturn.registry import METHODS
from taciturn.validate import check_choice, check_number

MAX_REWARDS_FITTED = 4096
"""How many of the last observed rewards the weights of the views are fitted to."""

EXPECTED_AT_ONCE = 256
"""How many contexts get their expected targets at a time, so that what that takes does not grow with the contexts."""

WIDTH_ENTRIES = 2**19
"""How large the matrices A_k of all arms are together; contexts of more features are folded for their widths alone."""

MANY = 1000
"""With more contexts the regressions are solved half as often: that takes long then, and says little new. Not less
often still with many more: a solve is a few steps from the last one, and half as many cost two points at 300 000."""

MANY_PRODUCTS = 2**19
"""Where the scores of one context take more multiplications, the regressions are solved as much less often."""

DIRECT_SHARE = 0.5
"""Where regressions are solved directly, on all features, multiplications count half: matrices are multiplied."""

GRAPH_TRUST, FOURIER_TRUST, RESIDUAL_TRUST, PLAIN_TRUST = 15.0, 2.0, 2.0, 1.5
"""The first weights of all views over the graph together, of the view by distances, which knows nothing of words, of
that of residuals, of which there are none at first, and of the plain regressions, which favor arms that were right."""

SOFT_LABEL_WEIGHT, FEW_ARMS = 0.3, 9
"""The weight of soft labels, which is less with more arms: together they must not drown what was seen."""

PROVED, TRIAL = 200, 1.1
"""Views over the graph whose weight is 0 after so many answers, and that of all of more hops, are left out. They are
tried again whenever decisions have doubled, until there are by this factor more; and they come back when the answers
that told against them have been evicted."""

ERRORS, TWO_ERRORS = 0.5, 4.0
"""Where expected rewards have standard errors, α of 1 is half of one, and two of them are explored by default."""


def max_width_of_widths(n_arms: int, entries: int) -> int:
    """Over how many features the widths of so many arms are kept, a power of 2: K matrices have so many entries."""
    return int(2 ** np.clip(np.floor(np.log2(entries / n_arms) / 2), 2, 15))


@dataclass(kw_only=True, eq=False)
class ViewUCB(BaseAgent):
    """The library's recommended agent; ``docs/viewucb.md`` explains the idea and what each part is worth.

    Contexts x at unit length are nodes of a graph Â, given or of nearest neighbors. View v of a context is
    f_v = (Â^v X) at unit length: the context, its neighborhood, and so on. One view more is of random Fourier features
    of the scaled contexts, so that it follows distances (`FourierView`). In each view every arm has a ridge regression
    θ_vk on the targets of all contexts so far, over the graph as it is now. Another view is of the residuals of these,
    averaged over the neighborhood (`ResidualView`). The last is what LinUCB expects, xᵀA_k⁻¹b_k, which unlike a cosine
    says how often an arm is right.

        s_vk = f_vᵀθ_vk / ‖θ_vk‖        p = softmax(Σ_v β_v s_v + b)        ŷ = argmax_k (p_k + α e √(xᵀA_k⁻¹x))

    reward 1    the target of ŷ is 1 and that of all other arms 0
    reward 0    the target of ŷ is 0; those of the others are p without ŷ, normalized, with a weight of
                `soft_label_weight`; they are recomputed each time the regressions are solved
    silence     nothing, but the context is a node of the graph: targets of its neighbors propagate through it

    The weights β of the views and the arms' biases b are fitted to the answers that came (`ViewWeights`). A_k = λI +
    Σ xxᵀ over the contexts where arm k has an observed target, and e = min(√a, 2a) for the share a of decisions that
    were answered: to explore teaches nothing where no answer comes. The regressions are solved, from where they are,
    whenever the contexts have grown by `refit_growth`.

    Where several arms can be good (``one_right_arm=False``), a reward is the target of its own arm only, less the arm's
    mean, so that θ is what the context adds to it; the expected rewards and their standard errors ε are those of
    `IndependentWeights`, and ŷ = argmax_k (p_k + α/2 · ε_k).

    Arguments, beside those of `BaseAgent`:
        alpha: how much to explore: the weight α of the widths; None is 1, and 4 where several arms can be good.
        ridge: λ.
        hops: how far a view looks; there are hops + 1 views.
        neighbors: k of the nearest-neighbor graph, where no graph is given.
        fourier: whether there is the view of random Fourier features.
        residuals: whether there is the view of residuals; without hops there is none.
        plain: whether there is the view of plain regressions, where one arm is right; it says nothing where there are
            more features than their matrices hold (`width_entries`).
        constant: what the constant entry of scaled contexts is in the views over the graph: of a context of few words,
            1 would be a good part.
        calibrated: whether exploration depends on how many answers come and, where several arms can be good, on how
            much rewards vary; otherwise widths are α √(xᵀA_k⁻¹x), as in files of before.
        width_entries: how many entries the matrices A_k of all arms have at most; the features of contexts are folded
            onto as many as that allows, for the widths alone.
        soft_label_weight: the weight of what a wrong answer says about the other arms; None is 0.3, or, with K > 9
            arms, 0.3 · 8/(K−1).
        refit_growth: the regressions are solved each time the contexts have grown by this share; beyond 1000 contexts,
            if `calibrated`, by twice of it; and by more where many arms meet many features.

    Shapes: T contexts, D features, V views, K arms; θ is (D, V·K), the columns `_targets` and `_weights` are (T, K),
    `_view_scores` is (T, V, K).
    """

    tag = "viewucb"

    alpha: float | None = None
    ridge: float = 0.5
    hops: int = 3
    neighbors: int = 5
    fourier: bool = True
    residuals: bool = True
    plain: bool = True
    constant: float = 0.7
    calibrated: bool = True
    width_entries: int = WIDTH_ENTRIES
    soft_label_weight: float | None = None
    refit_growth: float = 0.01

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        if self.alpha is not None:
            check_number("alpha", self.alpha, 0, MAX_ALPHA)
        check_number("ridge", self.ridge, 1e-6, MAX_RIDGE)
        check_number("hops", self.hops, 0, 8, whole=True)
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)
        check_choice("fourier", self.fourier, (True, False))
        check_choice("residuals", self.residuals, (True, False))
        check_choice("plain", self.plain, (True, False))
        check_number("constant", self.constant, 0, 1)
        check_choice("calibrated", self.calibrated, (True, False))
        check_number("width_entries", self.width_entries, 2**10, 2**32, whole=True)
        if self.soft_label_weight is not None:
            check_number("soft_label_weight", self.soft_label_weight, 0, 1)
        check_number("refit_growth", self.refit_growth, 1e-6, 1)

    def _build(self) -> dict[str, Part]:
        table, n_views = self._table, len(self._trust)
        self._targets = table.column("targets", np.float32, "arm")
        self._weights = table.column("target_weights", np.float32, "arm")
        # The arm that turned out wrong, or −1.
        self._rejected_arm = table.column("rejected_arm", np.int32, fill=-1, below="arm")
        self._view_scores = table.column("view_scores", np.float32, n_views, "arm", fill=np.nan, new_arm=ABSENT)
        self._contexts.spare_columns = self._contexts.spare_values = True
        self._unit = UnitRows(self._contexts, self.constant if self.scaling == "auto" else 1.0)
        self._graph = NodeGraph(self._unit, self.neighbors)
        self._ridge = self._new_widths()
        self._view_weights = self._new_view_weights()
        evidence = self._targets, self._weights
        self._answers = Answers(table, *evidence) if self.calibrated else None
        means = self._answers.means if self._answers is not None and self._is_independent else None
        self._fourier = None
        if self.fourier:
            self._fourier = FourierView(self._contexts, *evidence, means, seed=self.seed, ridge=self.ridge)
        self._residuals = None
        if self.residuals and self.hops:
            self._residuals = ResidualView(table, *evidence, hops=self.hops)
        self._solver = CGSolver(
            table,
            self._unit,
            self._graph,
            *evidence,
            means,
            ridge=self.ridge,
            n_views=self._n_graph_views,
            n_needed=self._n_needed,
            fourier=self._fourier,
            preparations=(self._refit_view_weights, self._update_expected),
            is_due=self._is_refit_due,
        )
        parts: dict[str, Part | None] = {
            "unit_contexts": self._unit,
            "graph": self._graph,
            "ridge": self._ridge,
            "view_weights": self._view_weights,
            "solver": self._solver,
            "fourier": self._fourier,
            "residuals": self._residuals,
            "answers": self._answers,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _new_widths(self) -> ArmRidge | None:
        """The regressions whose widths say where to explore; None where the errors of the view weights do."""
        if self._is_independent:
            return None
        width = max_width_of_widths(len(self._arm_names), self.width_entries)
        return ArmRidge(self._unit, self._lifecycle, self.ridge, max_width=width, linear=False)

    def _new_view_weights(self) -> ViewWeights:
        if self._is_independent:
            return IndependentWeights(len(self._trust))
        return ViewWeights(np.array(self._trust), exclusive=self.one_right_arm, adaptive=self.calibrated)

    @property
    def _alpha(self) -> float:
        if self.alpha is not None:
            return self.alpha
        return TWO_ERRORS if self._is_independent else 1.0

    @property
    def _has_plain(self) -> bool:
        """Whether the regressions of the widths, which are without division by ‖θ‖, are a view; the last."""
        return self.plain and not self._is_independent

    @property
    def _is_independent(self) -> bool:
        """Whether arms are scored on their own, with standard errors: a reward says nothing about the other arms."""
        return self.calibrated and not self.one_right_arm and not self._lifecycle.full_feedback

    @property
    def _n_graph_views(self) -> int:
        return self.hops + 1

    @property
    def _trust(self) -> list[float]:
        """The first weights of all views, in their order (V,)."""
        over_graph = [GRAPH_TRUST / self._n_graph_views] * self._n_graph_views
        others = [FOURIER_TRUST] * self.fourier + [RESIDUAL_TRUST] * (self.residuals and self.hops > 0)
        return over_graph + others + [PLAIN_TRUST] * self._has_plain

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """The agent of a `state`; one from before there were some of the parameters goes on as it was."""
        return super().from_state_dict(state | {"params": {**METHODS["viewucb"].before, **state["params"]}})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Also check view scores in `state`: cosines or `ABSENT`; larger ones make the fit of the weights singular."""
        super().load_state_dict(state)
        for scores in (self._view_scores.data, self._solver.projected.data):
            require((np.isnan(scores) | (np.abs(scores) <= -ABSENT)).all(), "view scores are not cosines")

    def _add_context(self, node: int, neighbors: list[int] | None) -> None:
        row = self._unit.add(node)
        self._graph.add(node, neighbors)
        self._solver.add(node, row)
        if self._fourier is not None:
            self._fourier.add(node)

    def _score(self, node: int) -> Scores:
        solver, contexts = self._solver, self._unit
        near = self._graph.around(node, self.hops, FOLLOWED)
        of = near.adjacency, *contexts.at(near.members), 0
        walk = views.walk(*of, self.hops, solver.n_used, contexts.n_features)
        solver.scales.data[node, : solver.n_used] = walk.scales
        if not self._solver.deferred and self._is_refit_due(node):
            solver.solve()
        s = solver.scores(node, near.members, walk)
        if self._fourier is not None:
            s = np.concatenate([s, self._fourier.scores(node)[None]])
        if self._residuals is not None:
            s = np.concatenate([s, self._residuals.scores(near.members, walk)[None]])
        if self._ridge is None:
            return self._scored(node, s, None)
        worth = 1.0 if self._answers is None else self._answers.exploration
        means, widths = self._ridge.scores(self._unit[node], self._alpha * worth)
        if self._has_plain:
            plain = np.zeros_like(means) if self._ridge.is_folded else means
            s = np.concatenate([s, plain[None].astype(np.float32)])
        return self._scored(node, s, widths)

    def _scored(self, node: int, view_scores: NDArray[np.float32], widths: NDArray[np.float64] | None) -> Scores:
        """Keep the scores of all views (V, K) and return what they say; widths None are the errors of the weights."""
        # Cosines, but for rounding and for scales that are a little older than the graph; and expected rewards.
        np.clip(view_scores, -1.0, 1.0, out=view_scores)
        self._view_scores.data[node] = view_scores
        if widths is None:
            widths = self._alpha * ERRORS * cast("IndependentWeights", self._view_weights).errors(view_scores)
        return self._view_weights.probabilities(view_scores), widths

    def _learn(self, example: Example) -> None:
        node, arm, n_arms = example.node, example.arm, len(example.mask)
        self._targets.data[node, :n_arms][example.mask] = example.targets[example.mask]
        self._weights.data[node, :n_arms][example.mask] = 1.0
        if self.one_right_arm and example.reward == 0 and not example.imputed:
            self._rejected_arm.data[node] = arm
            if not np.isnan(self._view_scores.data[node, 0, 0]):
                scores = self._view_scores.data[node]
                self._share_among_others(np.array([node]), self._view_weights.probabilities(scores)[None])
        if self._residuals is not None:
            # A labelled row was never scored: all arms were as likely.
            scores = np.nan_to_num(self._view_scores.data[None, node, : self._n_graph_views + self.fourier])
            expected = self._view_weights.from_logits(self._view_weights.logits(scores))
            self._residuals.update(np.array([node]), expected)
        if self._ridge is not None:
            self._ridge.learn(example)

    def _unlearn(self, example: Example) -> None:
        known = len(example.mask)  # arms that were added later as copies keep their targets
        self._targets.data[example.node, :known] = self._weights.data[example.node, :known] = 0.0
        self._rejected_arm.data[example.node] = -1
        if self._ridge is not None:
            self._ridge.unlearn(example)

    @property
    def _soft_weight(self) -> float:
        if self.soft_label_weight is not None:
            return self.soft_label_weight
        return SOFT_LABEL_WEIGHT * min(1.0, (FEW_ARMS - 1) / max(len(self._arm_names) - 1, 1))

    def _share_among_others(self, nodes: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
        """Where an arm turned out wrong, soft labels for the others in proportion to their probabilities (N, K)."""
        rejected = self._rejected_arm.data[nodes]
        known = np.arange(len(self._arm_names)) < self._table.n_arms_known.data[nodes][:, None]
        probabilities = np.where(known, probabilities, 0.0)
        probabilities[np.arange(len(nodes)), rejected] = 0.0
        shares = probabilities / np.maximum(probabilities.sum(axis=1, keepdims=True), 1e-9)
        targets, weights = self._targets.data, self._weights.data
        targets[nodes] = np.where(known, shares, targets[nodes])
        weights[nodes] = np.where(known, self._soft_weight, weights[nodes])
        weights[nodes, rejected] = 1.0

    # What precedes a solve of the regressions.

    def _is_refit_due(self, count: int) -> bool:
        growth = self.refit_growth * (2.0 if self.calibrated and count > MANY else 1.0)
        entries = self._unit.n_entries / max(self._unit.count, 1)
        if self._solver.has_more_arms:
            entries = self._unit.n_features * DIRECT_SHARE
        growth *= max(entries * self._n_graph_views * len(self._arm_names) / MANY_PRODUCTS, 1.0)
        return count > 0 and (count - self._solver.solved_at) / count >= growth

    def _n_needed(self) -> int:
        """How many views over the graph, of 0, 1, … hops, the next solve needs; see `PROVED`."""
        decided = max(self._table.next_id, 1)
        is_trial = decided < TRIAL * 2 ** (decided.bit_length() - 1)
        answers = int((self._table.state.data[: self._table.count] == REWARDED).sum())
        if not self.calibrated or is_trial or answers < PROVED:
            return self._n_graph_views
        (count,) = np.nonzero(self._view_weights.beta.data[: self._n_graph_views])
        return int(count[-1]) + 1 if len(count) else 1

    def _refit_view_weights(self) -> None:
        """Fit the views' weights to the last rewards that were observed, and count answers."""
        if self._answers is not None:
            self._answers.update()
        table, count = self._table, self._table.count
        scored = ~np.isnan(self._view_scores.data[:count, 0, 0])
        # A constant that is learned in silence is a reward like others where arms are scored by their rewards.
        learned = ~np.isnan(table.value.data[:count]) if self._is_independent else table.state.data[:count] == REWARDED
        last = np.flatnonzero(learned & scored)[-MAX_REWARDS_FITTED:]
        known = np.any(self._targets.data[:count][self._rejected_arm.data[:count] < 0] > 0, axis=0)
        answers = Answered(self._view_scores.data[last], table.arm.data[last], table.value.data[last], known)
        self._view_weights.refit(answers)

    def _update_expected(self) -> None:
        """What all views expect now: soft labels of wrong answers, and the residuals of all targets."""
        wrong = self._rejected_arm.data[: self._table.count] >= 0
        has_target = self._weights.data[: self._table.count].any(axis=1)
        wanted = np.flatnonzero(wrong if self._residuals is None else has_target)
        if not len(wanted):
            return
        logits = np.empty((len(wanted), len(self._arm_names)))
        for arms, scores in self._solver.predictions():
            for first in range(0, len(wanted), EXPECTED_AT_ONCE):
                some = slice(first, first + EXPECTED_AT_ONCE)
                logits[some, arms] = self._logits(wanted[some], scores[wanted[some]], arms)
        for first in range(0, len(wanted), EXPECTED_AT_ONCE):
            nodes = wanted[first : first + EXPECTED_AT_ONCE]
            expected = self._view_weights.from_logits(logits[first : first + EXPECTED_AT_ONCE])
            self._share_among_others(nodes[wrong[nodes]], expected[wrong[nodes]])
            if self._residuals is not None:
                self._residuals.update(nodes, expected)

    def _logits(self, nodes: NDArray[np.int64], scores: NDArray[np.float32], arms: slice) -> NDArray[np.float64]:
        """What the views over the graph, whose scores these are, and by distances say of some arms (N, A)."""
        if self._fourier is not None:
            scores = np.concatenate([scores, self._fourier.predict(nodes, arms)[:, None]], axis=1)
        return self._view_weights.logits(scores, arms)

    def _working_nbytes(self, sizes: Sizes) -> float:
        """The fit of the views' weights, their scores twice and five arrays (N, K); or the logits of all contexts."""
        fitted = min(sizes.nodes, MAX_REWARDS_FITTED)
        return max(fitted * sizes.arms * (12.0 * len(self._trust) + 40.0), 8.0 * sizes.nodes * sizes.arms)
