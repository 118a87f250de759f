"""Sessions: which decision a conversation stays with, and until when. All of it can be made again from the journal."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

MAX_SESSIONS = 20_000
"""How many sessions are known; the oldest are forgotten first, and their next text is a new decision."""


class Turn(NamedTuple):
    """The decision that a session stays with: its id and arm, and when it was made, in seconds."""

    id: int
    arm: str
    at: float


class Sessions:
    """The latest decision of each session.

    Arguments:
        seconds: for how long after its decision a session stays with it.
        turns: what is known at the start, oldest first.
    """

    def __init__(self, seconds: float, turns: Iterable[tuple[str, Turn]] = ()) -> None:
        self._seconds = seconds
        self._turns: dict[str, Turn] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        for session, turn in turns:
            self.put(session, turn)

    def __iter__(self) -> Iterator[str]:
        return iter(self._turns)

    def put(self, session: str, turn: Turn) -> None:
        """A session stays with this decision from now on."""
        self._turns.pop(session, None)
        self._turns[session] = turn
        if len(self._turns) > MAX_SESSIONS:
            del self._turns[next(iter(self._turns))]

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
