"""What chat front ends send when somebody presses a thumb, and what it means: which decision, and which reward.

The value is looked for in `SHAPES`, then the decision under the names that front ends have for it. Where a front end
puts both into objects of its own (`data` and `meta`, `feedback`), these are looked into.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from taciturn.service.core.errors import ValidationError

UP = frozenset(["up", "like", "liked", "thumbsup", "thumbs_up", "thumbs-up", "positive", "good", "👍", "+1", "1"])
DOWN = frozenset(["down", "dislike", "disliked", "thumbsdown", "thumbs_down", "thumbs-down", "negative", "bad", "👎"])
DOWN |= {"-1"}
NONE = frozenset(["", "none", "null", "neutral"])

INSIDE = ("data", "meta", "feedback", "metadata")
"""Objects in which front ends put the value or the ids."""

IDS = ("id", "decision", "decision_id", "x-taciturn-decision")
REQUESTS = ("request_id", "message_id", "messageId", "forId", "run_id", "trace_id", "traceId")
SESSIONS = ("session", "session_id", "sessionId", "chat_id", "chatId", "conversation_id", "conversationId", "threadId")
"""Names of a decision's id, of the id that its request had, and of its session."""

MAX_NAME = 128
"""Characters of the id of a request or session."""

SHAPES = (
    '{"id": 7, "reward": 1}',
    '{"id": 7, "rating": "up"}',
    '{"message_id": "…", "rating": "like"}',
    '{"conversationId": "…", "messageId": "…", "feedback": {"rating": "thumbsUp"}}',
    '{"type": "rating", "data": {"rating": 1}, "meta": {"chat_id": "…", "message_id": "…"}}',
    '{"forId": "…", "value": 1}',
    '{"chatId": "…", "messageId": "…", "type": "up"}',
    '{"run_id": "…", "score": 0.8}',
)
"""One example of each shape, for the error that lists them."""


class Thumb(NamedTuple):
    """A reward from 0 to 1, or None if it was taken back; and the names that its decision goes by, those given."""

    reward: float | None
    id: int | None
    request_id: str | None
    session: str | None


def read_thumb(given: Any) -> Thumb:
    """What a front end's message says; raises an error that lists the shapes that are known."""
    if not isinstance(given, dict):
        raise _unknown("an object is needed")
    parts = [given, *(part for name in INSIDE if isinstance(part := given.get(name), dict))]
    reward = _reward(parts)
    id, request_id, session = _id(parts), _name(parts, REQUESTS), _name(parts, SESSIONS)
    if id is None and request_id is None:
        request_id = _name([given], ("id",))  # a front end's own id of the message
    if id is None and request_id is None and session is None:
        raise _unknown("it does not say which decision, message or session it is about")
    return Thumb(reward, id, request_id, session)


def _reward(parts: list[dict[str, Any]]) -> float | None:
    """The reward: `reward` and `score` go from 0 to 1, in `value` 0 is down, in a `rating` −1 is."""
    for part in parts:
        for name in ("reward", "score"):
            if name in part:
                return _graded(part[name], name)
        if "value" in part:
            return _thumb(part["value"], "value", zero_is_down=True)
        for name in ("rating", "thumb", "thumbs", "vote", "reaction"):
            if name in part:
                return _thumb(part[name], name, zero_is_down=False)
        if isinstance(part.get("feedback", {}), str | None):
            return _thumb(part["feedback"], "feedback", zero_is_down=False)
        if part.get("type") in ("up", "down"):  # a tuple, as it can be of any type
            return 1.0 if part["type"] == "up" else 0.0
    raise _unknown("it has no reward, rating, score or value")


def _graded(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValidationError("it is a number from 0 (wrong) to 1 (right), or null to take it back", name)
    return float(value)


def _thumb(value: Any, name: str, *, zero_is_down: bool) -> float | None:
    if value is None:
        return None
    if isinstance(value, str) and len(value) < 20:
        word = value.strip().lower()
        if word in UP | DOWN | NONE:
            return None if word in NONE else float(word in UP)
    elif isinstance(value, bool):
        return float(value)
    elif value in (1, -1):
        return float(value == 1)
    elif value == 0 and isinstance(value, int | float):
        return 0.0 if zero_is_down else None
    raise ValidationError('"up" and "down", "like" and "dislike", 1 and -1, true and false are known; null', name)


def _given(parts: list[dict[str, Any]], names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The names that are there, in their order, and their values; those without one are left out."""
    return ((name, part[name]) for part in parts for name in names if part.get(name) not in (None, ""))


def _id(parts: list[dict[str, Any]]) -> int | None:
    """The id of a decision, also as text, as headers have it; other text in `id` is a front end's own, and no error."""
    for name, value in _given(parts, IDS):
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 17:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
            return value
        if name != "id" or not isinstance(value, str):
            raise ValidationError("the id of a decision is a whole number that is not negative", name)
    return None


def _name(parts: list[dict[str, Any]], names: tuple[str, ...]) -> str | None:
    name, value = next(_given(parts, names), ("", None))
    if value is None or (isinstance(value, str) and len(value) <= MAX_NAME):
        return value
    raise ValidationError(f"it is a text of 1 to {MAX_NAME} characters", name)


def _unknown(problem: str) -> ValidationError:
    return ValidationError(f"{problem}; these shapes are known: {', '.join(SHAPES)}")


def describe_shapes() -> Mapping[str, Any]:
    """The schema of what the webhook takes."""
    return {"type": "object", "description": "Thumbs, in one of these shapes: " + ", ".join(SHAPES)}
