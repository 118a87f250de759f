"""What a worker is given to do, and how those who wait are told."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from taciturn.service.api.problems import Unavailable
from taciturn.service.core.operations import Decide, Op, Reward
from taciturn.service.core.session import Session
from taciturn.service.journal.base import Entry

Waiter = asyncio.Future[Any] | Future[Any]
Answer = tuple[Waiter, Any, Exception | None]
Look = Callable[[Session], Any]
log = logging.getLogger("taciturn.service")


class Rewards(list[Reward]):
    """Many rewards, each of which is learned, or refused, on its own."""


@dataclass(slots=True, eq=False)
class Task:
    """Something to do, and who waits for it. `raw` is the JSON that a decision was asked with."""

    what: Op | Look | Rewards
    waiter: Waiter
    raw: bytes | None = None
    done: int = 0  # of many rewards
    life: int = -1  # in which life of the session they were begun
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many decisions or rewards it is."""
        if isinstance(self.what, Rewards):
            return len(self.what)
        return len(self.what.ask.given) if isinstance(self.what, Decide) else 1


@dataclass(slots=True, eq=False)
class Batch:
    """What was worked on at once: it is appended to the journal, and answered, at once."""

    entries: list[Entry] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    last: bool = False  # the agent is deleted by it


class Restored(NamedTuple):
    """A session, the position up to which it is made of the journal, that of its snapshot, and one before its birth."""

    session: Session
    position: int
    kept: int
    born: int


def refused(answers: list[Answer]) -> list[Answer]:
    """The same people, told that it was in vain."""
    lost = Unavailable("the journal could not be written")
    return [(waiter, None, lost) for waiter, _, _ in answers]


def deliver(answers: list[Answer]) -> None:
    """Wake those who wait: all of an event loop in one call."""
    loops: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        if isinstance(answer[0], Future):
            _settle([answer])
        else:
            loops.setdefault(answer[0].get_loop(), []).append(answer)
    for loop, some in loops.items():
        try:
            loop.call_soon_threadsafe(_settle, some)
        except RuntimeError:  # it is closed: nobody waits any more
            log.debug("%d answers came after the end", len(some))


def _settle(answers: list[Answer]) -> None:
    for waiter, answer, error in answers:
        if not waiter.done():
            waiter.set_result(answer) if error is None else waiter.set_exception(error)
