"""Keeps as many shards alive as are wanted, and replaces those that are gone.

It has no state that matters: another supervisor finds in PostgreSQL what there is, and goes on. Two of them at a time
do no harm either: only one process can hold the lease of a shard.
"""

import logging
import time
from collections.abc import Callable, Collection
from typing import Literal, NamedTuple, Protocol

from taciturn.service.journal.directory import Directory, ShardRow

log = logging.getLogger("taciturn.service")
State = Literal["answers", "silent", "dead"]
START_SECONDS = 60.0
"""How long a process may take until it holds the lease of its shard."""


class Launcher(Protocol):
    """Starts and ends the processes of shards, which have names: their places."""

    def launch(self, shard: int) -> str:
        """Start a process for a shard; returns its place at once."""

    def states(self, places: Collection[str]) -> dict[str, State]:
        """Whether processes answer; asked of all at the same time."""

    def stop(self, place: str) -> None:
        """Have a process finish what it does, and wait for its end."""

    def kill(self, place: str) -> None:
        """End a process at once, if it can be reached."""


class _Started(NamedTuple):
    place: str
    at: float


class Supervisor:
    """Looks after the shards whenever `tick` is called.

    Arguments:
        directory: what is wanted, and what there is.
        launcher: starts and ends processes.
        clock: seconds, monotonic.
    """

    def __init__(self, directory: Directory, launcher: Launcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory, self._launcher, self._clock = directory, launcher, clock
        self._started: dict[int, _Started] = {}

    def tick(self) -> None:
        """Start the shards that are missing or gone, and stop those that are not needed any more."""
        rows = {row.shard: row for row in self._directory.shards()}
        # A shard that is one too many is needed until it has handed over all its agents.
        needed = set(range(self._directory.wanted())) | self._directory.counts().keys()
        for shard, row in rows.items():  # of an earlier supervisor
            if row.live and shard not in self._started:
                self._started[shard] = _Started(row.place, self._clock())
        places = {one.place for one in self._started.values()} | {row.place for row in rows.values()}
        states = self._launcher.states(places)
        for row in rows.values():
            self._prefer_owner(row, states)
        for shard in sorted(needed):
            started = self._started.get(shard)
            if started is None or self._is_gone(started, states[started.place], rows.get(shard)):
                self._replace(shard)
        for shard in self._started.keys() - needed:
            self._launcher.stop(self._started.pop(shard).place)
            log.info("shard %d has no agents left, and is stopped", shard)
        for shard in rows.keys() - needed:
            self._directory.retire(shard)

    def _prefer_owner(self, row: ShardRow, states: dict[str, State]) -> None:
        """Go on with the process that holds the lease and answers, if it is not the one that was started last.

        Of two that a supervisor and the one before it have started, only one has got the lease.
        """
        started = self._started.get(row.shard)
        if started is not None and row.live and row.place != started.place and states[row.place] == "answers":
            self._launcher.kill(started.place)
            self._started[row.shard] = _Started(row.place, self._clock())

    def _is_gone(self, started: _Started, state: State, row: ShardRow | None) -> bool:
        """Whether a process must be replaced: it is dead, or neither answers nor holds a lease that runs."""
        if state != "silent":
            return state == "dead"
        if row is not None and row.place == started.place:
            return not row.live
        return self._clock() - started.at > START_SECONDS

    def _replace(self, shard: int) -> None:
        if (before := self._started.pop(shard, None)) is not None:
            log.warning("shard %d is gone, and started again", shard)
            self._launcher.kill(before.place)
        self._started[shard] = _Started(self._launcher.launch(shard), self._clock())

    def stop(self) -> None:
        """Stop all shards, each after what it does."""
        for started in self._started.values():
            self._launcher.stop(started.place)
        self._started.clear()
