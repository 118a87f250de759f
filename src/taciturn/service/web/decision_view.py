"""A copy of what the page shows of one decision, taken on the agent's own thread."""

from typing import Any

import numpy as np

from taciturn.intervals import within_range
from taciturn.service.core.session import Session
from taciturn.service.web.context_words import in_words

MAX_ARMS = 12
"""The most arms whose scores are shown."""

MAX_FEATURES = 20
"""The most features of a context that are shown."""


def capture(session: Session, id: int) -> dict[str, Any]:
    """Copy what is shown of a decision, on the thread that changes its agent.

    Its explanation, its best arms with the ends of their ranges, also scaled to a width of 100, its features and its
    time.
    """
    found = session.agent.explain(id)
    bounds = np.nan_to_num(found.scores + found.widths, nan=-np.inf)
    order = np.argsort(-bounds, kind="stable")
    chosen = found.arms.index(found.arm)
    first = sorted({*order[:MAX_ARMS].tolist(), chosen}, key=lambda arm: (-bounds[arm], arm))
    ends = [within_range(float(found.scores[arm]), float(found.widths[arm])) for arm in range(len(found.arms))]
    low, high = float(np.nanmin([(0.0, 1.0), *ends])), float(np.nanmax([(0.0, 1.0), *ends]))

    def scale(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    shown = [
        {
            "arm": str(found.arms[arm]),
            "chosen": arm == chosen,
            "score": float(found.scores[arm]),
            "ends": ends[arm],
            "from": scale(ends[arm][0]),
            "at": scale(float(found.scores[arm])),
            "to": scale(ends[arm][1]),
        }
        for arm in first
        if not np.isnan(found.scores[arm])
    ]
    scores = {"shown": shown, "more": len(found.arms) - len(first), "low": low, "high": high}
    return {"found": found} | scores | _context(session, id) | _time(session, id)


def _context(session: Session, id: int) -> dict[str, Any]:
    """What a decision was made on, (name, value) with the largest values first, and how many more there are."""
    agent = session.agent
    found = in_words(agent.decisions.context(id), agent.feature_names, agent.feature_kinds)
    features = [(shown.name, shown.value) for shown in found[:MAX_FEATURES]]
    return {"features": features, "more_features": len(found) - len(features), "named": bool(agent.feature_names)}


def _time(session: Session, id: int) -> dict[str, Any]:
    """`at` in seconds since 1970 if the agent keeps times, otherwise which decision it was, `nth` of `of`."""
    time = session.agent.decisions[id].time
    if not np.isfinite(time):  # a labelled row was not decided on
        return {"at": None, "nth": None, "of": None}
    made = session.agent.health().decisions
    return {"at": time if session.timed else None, "nth": None if session.timed else int(time) + 1, "of": made}
