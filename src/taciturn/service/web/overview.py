"""What the page shows of an agent, computed from its `AgentView`: curves, recent decisions, and a map of contexts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.contracts import STATES
from taciturn.introspection import Health
from taciturn.service.web.agent_view import REWARDED, SILENT, AgentView

MAX_POINTS = 120
"""The most points of a curve."""

COLOURS = 10
"""The number of colours; with more arms than colours the last is shared."""

MIN_WINDOW = 20
"""The fewest decisions that a point of a curve averages over."""

RECENT = 20
"""How many recent decisions are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Rates over time: point i averages over the `window` decisions up to `ids[i]`; None without any.

    `shares` (colours × points) are the shares of each group of arms, in the order of `Groups.labels`.
    """

    window: int
    ids: list[int]
    reward: list[float | None]
    silence: list[float | None]
    imputed: list[float | None]
    shares: list[list[float]]


@dataclass(frozen=True, slots=True)
class Groups:
    """Arms by colour: `labels` of the colours, and the colour of each arm, `of` (K,)."""

    labels: list[str]
    of: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Map:
    """Contexts on a plane: points (x, y, colour) with x and y from 0 to 1, and the share of variance they explain."""

    points: list[tuple[float, float, int]]
    explained: float


def groups(view: AgentView) -> Groups:
    """A colour for each arm; with too many arms, the most chosen have their own and all others share the last."""
    names = [str(arm) for arm in view.arms]
    if len(names) <= COLOURS:
        return Groups(names, np.arange(len(names)))
    counts = np.bincount(view.chosen, minlength=len(names))
    most = np.sort(np.argsort(-counts, kind="stable")[: COLOURS - 1])
    of = np.full(len(names), COLOURS - 1)
    of[most] = np.arange(COLOURS - 1)
    return Groups([*(names[arm] for arm in most), f"{len(names) - len(most)} others"], of)


def curves(view: AgentView, grouped: Groups) -> Curves:
    """Moving averages over the decisions that are held."""
    count = len(view.ids)
    window = max(MIN_WINDOW, count // 12)
    points = min(count, MAX_POINTS)
    ends = np.unique(np.linspace(1, count, points).round().astype(np.int64)) if count else np.zeros(0, int)
    starts = np.maximum(ends - window, 0)

    def window_sum(amounts: NDArray[Any]) -> NDArray[np.float64]:
        sums = np.concatenate([[0.0], np.cumsum(amounts)])
        return np.asarray(sums[ends] - sums[starts])

    rewarded, silent = view.states == REWARDED, view.states == SILENT
    imputed = silent & ~np.isnan(view.rewards)
    colours = grouped.of[view.chosen]
    shares = [window_sum(colours == colour) / (ends - starts) for colour in range(len(grouped.labels))]
    return Curves(
        window=window,
        ids=view.ids[ends - 1].tolist(),
        reward=_ratio(window_sum(np.where(rewarded, view.rewards, 0.0)), window_sum(rewarded)),
        silence=_ratio(window_sum(silent), window_sum(silent | rewarded)),
        imputed=_ratio(window_sum(imputed), window_sum(imputed | rewarded)),
        shares=[share.tolist() for share in shares],
    )


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> list[float | None]:
    return [float(p / w) if w else None for p, w in zip(part, whole, strict=True)]


def silence_rate(health: Health) -> float | None:
    """Share of silent decisions among those with feedback; None without any."""
    settled = health.silent + health.rewarded
    return health.silent / settled if settled else None


def recent(view: AgentView, most: int = RECENT) -> list[dict[str, Any]]:
    """The last decisions, newest first."""
    return [
        {
            "id": int(view.ids[i]),
            "arm": str(view.arms[view.chosen[i]]),
            "state": STATES[view.states[i]],
            "reward": None if np.isnan(view.rewards[i]) else float(view.rewards[i]),
            "propensity": float(view.propensities[i]),
            "time": float(view.times[i]),
        }
        for i in range(len(view.ids) - 1, max(len(view.ids) - 1 - most, -1), -1)
    ]


def context_map(view: AgentView, grouped: Groups) -> Map | None:
    """The contexts on their first two principal axes; None for fewer than three contexts, or if all are equal.

    Computed from the centred Gram matrix (n, n), whatever the number of features. The sign of an axis is that of its
    largest entry, so that the same contexts always give the same map.
    """
    count = view.contexts.shape[0]
    if count < 3:
        return None
    gram = _gram(view)
    means = gram.mean(axis=0)
    gram = gram - means - means[:, None] + means.mean()
    variance = float(np.trace(gram))
    if variance <= 1e-12 * count:
        return None
    import scipy.linalg  # noqa: PLC0415 - a service should not start later for what only its page needs

    values, axes = scipy.linalg.eigh(gram, subset_by_index=[count - 2, count - 1])
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    largest = axes[np.abs(axes).argmax(axis=0), [0, 1]]
    positions = axes * np.sqrt(values) * np.sign(largest)
    low, span = positions.min(axis=0), np.ptp(positions, axis=0)
    positions = np.where(span > 1e-6 * span.max(), (positions - low) / np.maximum(span, np.finfo(float).tiny), 0.5)
    colours = grouped.of[view.context_arms]
    points = [(float(x), float(y), int(colour)) for (x, y), colour in zip(positions, colours, strict=True)]
    return Map(points, float(values.sum() / variance))


def _gram(view: AgentView) -> NDArray[np.float64]:
    """Inner products (n, n) of all contexts, scaled so that their largest entry is 1."""
    scaled = view.contexts / max(np.abs(view.contexts.data).max(initial=0.0), np.finfo(float).tiny)
    dense = view.contexts.nnz > 0.1 * view.contexts.shape[0] * view.features
    rows = scaled.toarray() if dense else scaled.tocsr()
    return np.asarray(rows @ rows.T if dense else (rows @ rows.T).toarray())
