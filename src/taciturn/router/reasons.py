"""Why a text was sent to an arm: the nearest earlier texts that spoke for it, as data and in words."""

from typing import Any

from taciturn.service.core.session import Session

REASONS = 3
SHOWN = 80
"""How many reasons are given, and how many characters of a text are shown in words."""


def reasons(session: Session, id: int, arm: str | None = None) -> list[dict[str, Any]]:
    """The nearest texts that speak for the arm of a decision now, or for another `arm`, closest first: at most three.

    Each has its `id`, `text` (None if it is not held), `arm`, `outcome` ("example", "thumbs up", "silent" or a reward)
    and `closeness`, its weight in the graph. Those for another arm are among the ones that oppose the decision's own.
    """
    found = session.agent.explain(id)
    near_ones = found.supporting
    if arm not in (None, found.arm):
        near_ones = tuple(near for near in found.opposing if near.arm == arm and near.reward > 0.5)
    values, decisions = session.remembered.values, session.agent.decisions
    return [
        {
            "id": near.id,
            "text": values.get(near.id, {}).get("text"),
            "arm": near.arm,
            "outcome": _outcome(decisions[near.id].state, near.reward),
            "closeness": round(near.closeness, 4),
        }
        for near in near_ones[:REASONS]
    ]


def _outcome(state: str, reward: float) -> str:
    if state == "labelled":
        return "example"
    if state == "silent":
        return "silent"
    return "thumbs up" if reward == 1 else f"reward {reward:g}"


def in_words(arm: str, because: list[dict[str, Any]]) -> str:
    """The reasons as a sentence."""
    if not because:
        return f"sent to {arm}: no earlier text that is near speaks for an arm yet, so it is tried"
    named = {1: "this one", 2: "these two", 3: "these three"}[len(because)]
    texts = "; ".join(f"{_quoted(reason['text'])} ({_spoken(reason)})" for reason in because)
    return f"sent to {arm} because of {named}: {texts}"


def _quoted(text: str | None) -> str:
    if text is None:
        return "a text that is not held any more"
    line = " ".join(text.split())
    return f"“{line}”" if len(line) <= SHOWN else f"“{line[:SHOWN]}…”"


def _spoken(reason: dict[str, Any]) -> str:
    if reason["outcome"] == "example":
        return f"an example of {reason['arm']}"
    return f"sent to {reason['arm']}, {reason['outcome']}"
