"""Diagnostics: why an arm was chosen, and how an agent is doing."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.answer_model import AnswerModel
from taciturn.agents.parts.part import MAX_COUNT, Nearby, Part, in_range, require
from taciturn.agents.rows import RowStore
from taciturn.agents.table import LABELLED, PENDING, REWARDED, SILENT, NodeTable
from taciturn.contracts import STATES, Arm
from taciturn.introspection import Calibration, Explanation, Health, Neighbor

MAX_NEIGHBORS = 5
"""How many supporting and how many opposing neighbors an explanation names."""

NEAREST = 50
"""How many contexts are looked at where there is no graph."""

BINS = 10

RECENT = 100
"""How many of the last rewards are compared with all before them to see a drift, if both are `ENOUGH`."""

ENOUGH = 20


class FeedbackStats(Part):
    """Counts of what happened to decisions, and how well imputed rewards predicted late ones."""

    COUNTS = ("corrected", "late", "expired", "withdrawn", "forgotten", "evicted_pending")
    SAVED: ClassVar[dict[str, str]] = {name: name for name in COUNTS} | {"squared_error": "_squared_error"}

    def __init__(self) -> None:
        super().__init__()
        self.corrected = self.late = self.expired = self.withdrawn = self.forgotten = self.evicted_pending = 0
        self._squared_error = 0.0
        self.answer_model = AnswerModel()
        self._bins = self.array("bins", np.float64, 3, BINS)  # counts, and sums of imputed and observed

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Counts are from 0, and sums finite."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        bins = self._bins.data
        require(np.isfinite(bins).all() and in_range(bins[0], 0, MAX_COUNT), "the calibration is not sound")

    def record(self, *, corrected: bool, late: bool, imputed: float, reward: float | None) -> None:
        """Feedback replaced a reward (`corrected`) or silence (`late`); `imputed` is what had been learned, or NaN."""
        self.corrected += corrected
        self.late += late
        if reward is not None and not np.isnan(imputed):
            i = min(int(np.clip(imputed, 0.0, 1.0) * BINS), BINS - 1)
            self._bins.data[:, i] += 1.0, imputed, reward
            self._squared_error += (imputed - reward) ** 2

    def calibration(self) -> Calibration | None:
        """None before any late reward."""
        filled = self._bins.data[:, self._bins.data[0] > 0]
        count = int(filled[0].sum())
        if not count:
            return None
        bins = tuple((float(i / n), float(o / n), int(n)) for n, i, o in filled.T)
        return Calibration(count, self._squared_error / count, bins)


def nearest(contexts: RowStore, node: int) -> Nearby:
    """The contexts with the highest cosine to one, and their cosines, where there is no graph."""
    matrix = contexts.matrix(0, contexts.count)
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    products = np.asarray((matrix @ matrix[node].T).todense()).ravel()
    cosines = products / np.maximum(lengths * lengths[node], np.finfo(float).tiny)
    cosines[node] = -np.inf
    order = np.argsort(-cosines, kind="stable")[:NEAREST]
    order = order[cosines[order] > 0]
    return order, cosines[order]


def explain(
    table: NodeTable,
    node: int,
    nearby: Nearby,
    names: tuple[Arm, ...],
    *,
    one_right_arm: bool,
) -> Explanation:
    """The neighbors whose own arm and reward support or oppose the arm chosen at a context, and the runner-up."""
    count, arm, state = table.count, int(table.arm.data[node]), int(table.state.data[node])
    nodes, closeness = nearby
    values, same = table.value.data[nodes], table.arm.data[nodes] == arm
    silent = table.state.data[nodes] == SILENT
    supports = same & (values > 0.5)
    # Where one arm is right, another arm's observed success opposes this one.
    opposes = (same & (values <= 0.5)) | (one_right_arm & ~same & (values == 1) & ~silent)

    def closest(selected: NDArray[np.bool_]) -> tuple[Neighbor, ...]:
        picked = np.flatnonzero(selected)
        picked = picked[np.argsort(-closeness[picked], kind="stable")][:MAX_NEIGHBORS]
        ids, arms = table.id.data[nodes[picked]].tolist(), table.arm.data[nodes[picked]].tolist()
        columns = values[picked].tolist(), silent[picked].tolist(), closeness[picked].tolist()
        return tuple(Neighbor(id, names[k], *rest) for id, k, *rest in zip(ids, arms, *columns, strict=True))

    learned = (table.arm.data[:count] == arm) & ~np.isnan(table.value.data[:count])
    imputed = learned & (table.state.data[:count] == SILENT)
    value = float(table.value.data[node])
    scores, widths = table.scores.data[node].astype(float), table.widths.data[node].astype(float)
    bounds = np.where(np.isnan(scores), -np.inf, scores + widths)
    bounds[arm] = -np.inf
    return Explanation(
        id=int(table.id.data[node]),
        arm=names[arm],
        state=STATES[state],
        reward=value if state in (REWARDED, LABELLED) else None,
        imputed_reward=value if state == SILENT and not np.isnan(value) else None,
        propensity=float(table.propensity.data[node]),
        arms=names,
        scores=scores,
        widths=widths,
        second=names[int(bounds.argmax())] if bounds.max() > -np.inf else None,
        supporting=closest(supports),
        opposing=closest(opposes),
        imputed_share=float(imputed.sum() / learned.sum()) if learned.any() else 0.0,
    )


def health(
    table: NodeTable, stats: FeedbackStats, decisions: int, nbytes: int, approximations: dict[str, Any]
) -> Health:
    """Counts by state, rates, calibration and drift; `approximations` are those of `Part.approximations`."""
    states, values = table.state.data[: table.count], table.value.data[: table.count]
    counts = np.bincount(states, minlength=len(STATES))
    learned = ~np.isnan(values)
    imputed = learned & (states == SILENT)
    rewards = values[states == REWARDED]
    recent, before = rewards[-RECENT:], rewards[:-RECENT]
    return Health(
        decisions=decisions,
        remembered=table.count,
        pending=int(counts[PENDING]),
        rewarded=int(counts[REWARDED]),
        silent=int(counts[SILENT]),
        labelled=int(counts[LABELLED]),
        late=stats.late,
        corrected=stats.corrected,
        expired=stats.expired,
        withdrawn=stats.withdrawn,
        forgotten=stats.forgotten,
        evicted_pending=stats.evicted_pending,
        imputed_share=float(imputed.sum() / learned.sum()) if learned.any() else 0.0,
        calibration=stats.calibration(),
        answers=stats.answer_model.rates(table),
        reward_rate=float(rewards.mean()) if len(rewards) else None,
        recent_reward_rate=float(recent.mean()) if len(recent) else None,
        drift=_drift(recent, before),
        memory=nbytes,
        **approximations,
    )


def _drift(recent: NDArray[np.float64], before: NDArray[np.float64]) -> float | None:
    """The recent mean less the one before, in standard errors; None where there are too few rewards."""
    if min(len(recent), len(before)) < ENOUGH:
        return None
    variance = np.concatenate([recent, before]).var() * (1 / len(recent) + 1 / len(before))
    return float((recent.mean() - before.mean()) / np.sqrt(variance)) if variance > 0 else 0.0
