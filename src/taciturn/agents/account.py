"""Giving an account: why an arm was chosen, and how an agent is doing."""

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.contexts import RowStore
from taciturn.agents.ledger import LABELLED, PENDING, REWARDED, SILENT, Ledger
from taciturn.agents.storage import storable
from taciturn.contracts import STATES, Arm, Calibration, Explanation, Health, Neighbor

VOICES = 5
"""How many contexts are named that spoke for an arm, and how many against."""

NEAREST = 50
"""How many contexts are asked where there is no graph."""

BINS = 10

RECENT = 100
"""How many of the last rewards are held against all before them to see a drift."""

ENOUGH = 20


@storable
class Tally:
    """What happened to an agent's decisions, counted; of truths that landed late, how right the supposition was."""

    def __init__(self) -> None:
        self.corrected = 0
        self.late = 0
        self.expired = 0
        self.withdrawn = 0
        self.forgotten = 0
        self.evicted_pending = 0
        self._landed = np.zeros(BINS, np.int64)  # by what was supposed: how many, their sums, and the squared errors
        self._supposed = np.zeros(BINS)
        self._earned = np.zeros(BINS)
        self._squares = 0.0

    def settled(self, before: int, after: int, supposed: float, reward: float | None) -> None:
        """A decision went from one state to the next; `supposed` is what had been learned in silence, or NaN."""
        self.corrected += before == REWARDED
        self.late += before == SILENT and after == REWARDED
        if reward is not None and not np.isnan(supposed):
            place = min(int(np.clip(supposed, 0.0, 1.0) * BINS), BINS - 1)
            self._landed[place] += 1
            self._supposed[place] += supposed
            self._earned[place] += reward
            self._squares += (supposed - reward) ** 2

    def calibration(self) -> Calibration | None:
        """None before any truth landed late."""
        count = int(self._landed.sum())
        if not count:
            return None
        full = np.flatnonzero(self._landed)
        sizes = self._landed[full]
        bins = zip(self._supposed[full] / sizes, self._earned[full] / sizes, sizes, strict=True)
        return Calibration(count, self._squares / count, tuple((float(s), float(e), int(n)) for s, e, n in bins))


def nearest(rows: RowStore, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The contexts most like one, by cosine, where no graph says who is near."""
    matrix = rows.matrix(0, rows.count)
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    products = np.asarray((matrix @ matrix[node].T).todense()).ravel()
    cosines = products / np.maximum(lengths * lengths[node], np.finfo(float).tiny)
    cosines[node] = -np.inf
    order = np.argsort(-cosines, kind="stable")[:NEAREST]
    order = order[cosines[order] > 0]
    return order, cosines[order]


def explain(
    ledger: Ledger,
    node: int,
    near: tuple[NDArray[np.int64], NDArray[np.float64]],
    names: tuple[Arm, ...],
    *,
    exclusive: bool,
) -> Explanation:
    """Who of those near a context spoke for and against the arm chosen there; their own arm and reward say which."""
    arm, state = int(ledger.arm[node]), int(ledger.state[node])
    nodes, closeness = near
    values, same = ledger.value[nodes], ledger.arm[nodes] == arm
    supposed = ledger.state[nodes] == SILENT
    supporting = same & (values > 0.5)
    # Where one arm is right, another that turned out right speaks against this one.
    opposing = (same & (values <= 0.5)) | (exclusive & ~same & (values == 1) & ~supposed)
    voices: list[tuple[Neighbor, ...]] = []
    for spoke in (supporting, opposing):
        loudest = np.flatnonzero(spoke)
        loudest = loudest[np.argsort(-closeness[loudest], kind="stable")][:VOICES]
        voices.append(
            tuple(
                Neighbor(
                    int(ledger.id[nodes[i]]),
                    names[ledger.arm[nodes[i]]],
                    float(values[i]),
                    bool(supposed[i]),
                    float(closeness[i]),
                )
                for i in loudest
            )
        )
    count = ledger.count
    known = (ledger.arm[:count] == arm) & ~np.isnan(ledger.value[:count])
    imputed = known & (ledger.state[:count] == SILENT)
    value = float(ledger.value[node])
    scores, widths = ledger.scores[node].astype(float), ledger.widths[node].astype(float)
    bounds = np.where(np.isnan(scores), -np.inf, scores + widths)
    bounds[arm] = -np.inf
    second = names[int(bounds.argmax())] if bounds.max() > -np.inf else None
    return Explanation(
        id=int(ledger.id[node]),
        arm=names[arm],
        state=STATES[state],
        reward=value if state in (REWARDED, LABELLED) else None,
        imputed_reward=value if state == SILENT and not np.isnan(value) else None,
        propensity=float(ledger.propensity[node]),
        arms=names,
        scores=scores,
        widths=widths,
        second=second,
        supporting=voices[0],
        opposing=voices[1],
        imputed_share=float(imputed.sum() / known.sum()) if known.any() else 0.0,
    )


def health(ledger: Ledger, tally: Tally, decisions: int, size: int) -> Health:
    """All of it from the ledger and the tally."""
    count = ledger.count
    states = np.bincount(ledger.state[:count], minlength=len(STATES))
    known = int((~np.isnan(ledger.value[:count])).sum())
    imputed = int((~np.isnan(ledger.value[ledger.nodes(SILENT)])).sum())
    rewards = ledger.value[ledger.nodes(REWARDED)]
    recent, before = rewards[-RECENT:], rewards[:-RECENT]
    return Health(
        decisions=decisions,
        remembered=count,
        pending=int(states[PENDING]),
        rewarded=int(states[REWARDED]),
        silent=int(states[SILENT]),
        labelled=int(states[LABELLED]),
        late=tally.late,
        corrected=tally.corrected,
        expired=tally.expired,
        withdrawn=tally.withdrawn,
        forgotten=tally.forgotten,
        evicted_pending=tally.evicted_pending,
        imputed_share=imputed / known if known else 0.0,
        calibration=tally.calibration(),
        reward_rate=float(rewards.mean()) if len(rewards) else None,
        recent_reward_rate=float(recent.mean()) if len(recent) else None,
        drift=_drift(recent, before),
        memory=size,
    )


def _drift(recent: NDArray[np.float64], before: NDArray[np.float64]) -> float | None:
    """How many standard errors the recent mean is from the one before; None where there are too few."""
    if min(len(recent), len(before)) < ENOUGH:
        return None
    spread = np.concatenate([recent, before]).var() * (1 / len(recent) + 1 / len(before))
    return float((recent.mean() - before.mean()) / np.sqrt(spread)) if spread > 0 else 0.0
