"""Sessions: which decision a conversation stays with, and until when, and which requests were turns of it.

The journal says which sessions there are. The requests that only stayed with a decision are not in it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
MAX_SESSIONS = 20_000
"""How many sessions are known; the oldest are forgotten first, and their next text is a new decision."""

MAX_STAYED = 20_000
"""How many requests are known that stayed with a decision; the oldest are forgotten first."""


class Turn(NamedTuple):
    """The decision that a session stays with: its id and arm, and when it was made, in seconds."""

    id: int
    arm: str
    at: float


class Stayed(NamedTuple):
    """A request that stayed with a decision, and what it asked, as a hash."""

    turn: Turn
    asked: int


class Sessions:
    """The latest decision of each session, and the requests that stayed with one.

    Arguments:
        seconds: for how long after its decision a session stays with it.
        turns: what is known at the start, oldest first.
    """

    def __init__(self, seconds: float, turns: Iterable[tuple[str, Turn]] = ()) -> None:
        self._seconds = seconds
        self._turns: dict[str, Turn] = {}
        self._stayed: dict[str, Stayed] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        for session, turn in turns:
            self.put(session, turn)

    def __iter__(self) -> Iterator[str]:
        return iter(self._turns)

    def put(self, session: str, turn: Turn) -> None:
        """A session stays with this decision from now on."""
        _put_last(self._turns, session, turn, MAX_SESSIONS)

    def stay(self, request_id: str, turn: Turn, asked: int) -> None:
        """A request stayed with this decision."""
        _put_last(self._stayed, request_id, Stayed(turn, asked), MAX_STAYED)

    def stayed(self, request_id: str) -> Stayed | None:
        """What a request stayed with, if that is known."""
        return self._stayed.get(request_id)

    def latest(self, session: str) -> Turn | None:
        """The latest decision of a session, however old."""
        return self._turns.get(session)

    def current(self, session: str, now: float) -> Turn | None:
        """The decision that a session stays with now."""
        turn = self._turns.get(session)
        return turn if turn is not None and now < turn.at + self._seconds else None

    def drop(self, session: str, id: int) -> None:
        """A decision was withdrawn: its session begins anew."""
        turn = self._turns.get(session)
        if turn is not None and turn.id == id:
            del self._turns[session]

    @asynccontextmanager
    async def turn_of(self, session: str | None) -> AsyncIterator[None]:
        """One turn of a session at a time: two first texts at once are one decision, and then a turn of it."""
        if session is None:
            yield
            return
        lock = self._locks.setdefault(session, asyncio.Lock())
        async with lock:
            yield


def _put_last(known: dict[str, T], name: str, value: T, most: int) -> None:
    """Put a value at the end of a dictionary, and take the first one out if there are too many."""
    known.pop(name, None)
    known[name] = value
    if len(known) > most:
        del known[next(iter(known))]
