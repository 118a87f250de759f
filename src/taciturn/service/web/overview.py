"""What the page says of an agent: a copy that is taken in the agent's own thread, and numbers made of it elsewhere.

`take` is quick, as decisions wait for it; everything else is a pure function of the copy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.ledger import LABELLED, REWARDED, SILENT
from taciturn.contracts import STATES, Arm, Health
from taciturn.service.core.session import Session

POINTS = 120
"""The most points of a curve."""

ON_MAP, MAP_ENTRIES = 500, 400_000
"""The most contexts on a map, and the most numbers that they may hold together."""

COLOURS = 10
"""The most arms that are told apart; the last colour is for all others then."""

RECENT = 20
NARROWEST = 20
"""The fewest decisions that a point of a curve is about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copy:
    """An agent at one moment. Arrays have one item a remembered decision, oldest first; labelled rows are left out.

    `rows` are the newest contexts, labelled ones too, and `row_arms` their arms.
    """

    name: str
    kind: str
    arms: tuple[Arm, ...]
    active: tuple[Arm, ...]
    features: int
    corrections: bool
    params: dict[str, Any]
    health: Health
    ids: NDArray[np.int64]
    chosen: NDArray[np.int32]
    states: NDArray[np.int8]
    values: NDArray[np.float64]
    propensities: NDArray[np.float64]
    rows: sp.csr_matrix
    row_arms: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """How things went: every point is about the `window` decisions up to the one of `ids`; None where there is none.

    `shares` has the share of each group of arms, in the order of `Groups.labels`.
    """

    window: int
    ids: list[int]
    reward: list[float | None]
    silence: list[float | None]
    imputed: list[float | None]
    shares: list[list[float]]


@dataclass(frozen=True, slots=True)
class Groups:
    """Which arms share a colour: `of` (K,) has a colour for each arm, `labels` their names."""

    labels: list[str]
    of: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Map:
    """Contexts on a plane, both axes from 0 to 1, and how much of their spread the two axes carry."""

    points: list[tuple[float, float, int]]
    carried: float


def take(name: str, session: Session) -> Copy:
    """Copy what is shown of an agent; to be called where nobody changes it meanwhile."""
    agent = session.agent
    ledger, store = agent._ledger, agent._rows  # noqa: SLF001 - `log` has no values of silent ones, and no contexts
    count = ledger.count
    made = np.flatnonzero(ledger.state[:count] != LABELLED)
    ends = store.rows.indptr
    first = max(count - ON_MAP, int(np.searchsorted(ends, ends[-1] - MAP_ENTRIES)), 0)
    return Copy(
        name=name,
        kind=session.kind,
        arms=agent.arm_names,
        active=agent.active_arms,
        features=store.dimension,
        corrections=session.corrections,
        params={key: value for key, value in agent.params.items() if key != "arms"},
        health=agent.health(),
        ids=ledger.id[made],
        chosen=ledger.arm[made],
        states=ledger.state[made],
        values=ledger.value[made],
        propensities=ledger.propensity[made],
        rows=store.matrix(first, count),
        row_arms=ledger.arm[first:count].copy(),
    )


def groups(copy: Copy) -> Groups:
    """A colour for each arm; where there are too many, those chosen most have their own."""
    names = [str(arm) for arm in copy.arms]
    if len(names) <= COLOURS:
        return Groups(names, np.arange(len(names)))
    times = np.bincount(copy.chosen, minlength=len(names))
    most = np.sort(np.argsort(-times, kind="stable")[: COLOURS - 1])
    of = np.full(len(names), COLOURS - 1)
    of[most] = np.arange(COLOURS - 1)
    return Groups([*(names[arm] for arm in most), f"{len(names) - len(most)} others"], of)


def curves(copy: Copy, grouped: Groups) -> Curves:
    """The rates over the decisions that are remembered."""
    count = len(copy.ids)
    window = max(NARROWEST, count // 12)
    ends = np.unique(np.linspace(1, count, min(count, POINTS)).round().astype(np.int64)) if count else np.zeros(0, int)
    starts = np.maximum(ends - window, 0)

    def within(amounts: NDArray[Any]) -> NDArray[np.float64]:
        sums = np.concatenate([[0.0], np.cumsum(amounts)])
        return np.asarray(sums[ends] - sums[starts])

    rewarded, silent = copy.states == REWARDED, copy.states == SILENT
    supposed = silent & ~np.isnan(copy.values)
    colours = grouped.of[copy.chosen]
    shares = [within(colours == colour) / (ends - starts) for colour in range(len(grouped.labels))]
    return Curves(
        window=window,
        ids=copy.ids[ends - 1].tolist(),
        reward=_ratio(within(np.where(rewarded, copy.values, 0.0)), within(rewarded)),
        silence=_ratio(within(silent), within(silent | rewarded)),
        imputed=_ratio(within(supposed), within(supposed | rewarded)),
        shares=[share.tolist() for share in shares],
    )


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> list[float | None]:
    return [float(p / w) if w else None for p, w in zip(part, whole, strict=True)]


def silence_rate(health: Health) -> float | None:
    """How many of the decisions that are settled stayed without an answer."""
    settled = health.silent + health.rewarded
    return health.silent / settled if settled else None


def recent(copy: Copy, most: int = RECENT) -> list[dict[str, Any]]:
    """The last decisions, newest first."""
    return [
        {
            "id": int(copy.ids[i]),
            "arm": str(copy.arms[copy.chosen[i]]),
            "state": STATES[copy.states[i]],
            "reward": None if np.isnan(copy.values[i]) else float(copy.values[i]),
            "propensity": float(copy.propensities[i]),
        }
        for i in range(len(copy.ids) - 1, max(len(copy.ids) - 1 - most, -1), -1)
    ]


def context_map(copy: Copy, grouped: Groups) -> Map | None:
    """The contexts on their first two principal axes; None where there are too few, or all are alike.

    By the products of all pairs, so that the number of features does not matter; a sign is that of an axis' largest
    entry, so that the same contexts always give the same map.
    """
    count = copy.rows.shape[0]
    if count < 3:
        return None
    rows = copy.rows / max(np.abs(copy.rows.data).max(initial=0.0), np.finfo(float).tiny)
    dense = copy.rows.nnz > 0.1 * count * copy.features
    rows = rows.toarray() if dense else rows.tocsr()
    products = np.asarray(rows @ rows.T if dense else (rows @ rows.T).toarray())
    means = products.mean(axis=0)
    products = products - means - means[:, None] + means.mean()
    spread = float(np.trace(products))
    if spread <= 1e-12 * count:
        return None
    values, axes = scipy.linalg.eigh(products, subset_by_index=[count - 2, count - 1])
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    largest = axes[np.abs(axes).argmax(axis=0), [0, 1]]
    places = axes * np.sqrt(values) * np.sign(largest)
    low, wide = places.min(axis=0), np.ptp(places, axis=0)
    places = np.where(wide > 1e-6 * wide.max(), (places - low) / np.maximum(wide, np.finfo(float).tiny), 0.5)
    colours = grouped.of[copy.row_arms]
    points = [(float(x), float(y), int(colour)) for (x, y), colour in zip(places, colours, strict=True)]
    return Map(points, float(values.sum() / spread))
