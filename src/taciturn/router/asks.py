"""What a router is asked, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from taciturn.errors import RequestIdReused
from taciturn.router.reasons import in_words


class Ask(NamedTuple):
    """What is asked: a text, its session and the id of the request, where there are any.

    `sent` is the arm that the caller's own rule has chosen, in observe mode; `without` are arms that cannot be chosen;
    `reasons` says whether the answer is to have scores and reasons.
    """

    text: str
    session: str | None = None
    request_id: str | None = None
    sent: str | None = None
    without: frozenset[str] = frozenset()
    reasons: bool = True

    @property
    def digest(self) -> int:
        """A hash of the text and the session, for this process."""
        return hash((self.text, self.session))

    def reused(self, how: str) -> RequestIdReused:
        """The error that the id of the request was used before."""
        return RequestIdReused(f"request_id {self.request_id!r} was used {how}; give each request an id of its own")


@dataclass(frozen=True, kw_only=True)
class Routed:
    """The answer: a decision of the agent, or another turn of one.

    `would` is the arm that would have been chosen, in observe mode; `new` is false for a turn that stays with an
    earlier decision and for the retry of a request.
    """

    id: int
    arm: str
    propensity: float
    scores: Mapping[str, float | None]
    because: list[dict[str, Any]] = field(default_factory=list)
    sticky: bool = False
    new: bool = True
    would: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is sent."""
        content: dict[str, Any] = {"id": self.id, "arm": self.arm, "sticky": self.sticky, "propensity": self.propensity}
        if self.would is not None:
            content |= {"mode": "observe", "would": self.would}
        chosen = self.arm if self.would is None else self.would
        return content | {"scores": self.scores, "because": self.because, "words": in_words(chosen, self.because)}
