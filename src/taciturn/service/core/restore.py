"""Restores sessions from snapshots and the journal, and keeps the catalogue that says where to start reading.

The catalogue is a snapshot of its own: the agents at a position of the journal, each with its `AgentPositions`.
"""

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from taciturn.errors import TaciturnError
from taciturn.service.core.errors import Unavailable
from taciturn.service.core.marker import ReplayMarker
from taciturn.service.core.operations import OPERATIONS, Decide, operation_of
from taciturn.service.core.session import Session
from taciturn.service.journal.base import DamagedJournal, Journal, Record

CATALOGUE = "/agents"
"""The catalogue's name among the snapshots; no agent can have it."""

log = logging.getLogger("taciturn.service")


class SnapshotStore(Protocol):
    """Where snapshots are kept (`taciturn.service.journal.snapshots.Snapshots`)."""

    def put(self, agent: str, position: int, content: bytes | Callable[[Path], object]) -> None:
        """Store a state."""

    def newest_first(self, agent: str) -> Iterable[tuple[int, Path]]:
        """Positions and files, newest first."""


class Restored(NamedTuple):
    """A session, and positions in the journal: of its last entry, of its snapshot, and just before its first entry.

    `replayed` decisions came after the snapshot, and it took so many `seconds` to replay all that did.
    """

    session: Session
    position: int
    snapshot_at: int
    created_at: int
    replayed: int = 0
    seconds: float = 0.0


class AgentPositions(NamedTuple):
    """Where an agent is in the journal.

    All entries of the agent come after `created_at`; those that its newest snapshot, at `snapshot_at`, does not have
    come after `read_after`.
    """

    created_at: int
    snapshot_at: int
    read_after: int


class AgentJournal(Journal, Protocol):
    """A journal in which each agent has records of its own (`taciturn.service.journal.shared.SharedJournal`)."""

    def agents(self, only: set[str] | None = None) -> dict[str, int]:
        """The agents, or those of some names, each with the position just before its first entry."""

    def read_agent(self, name: str, after: int) -> Iterable[Record]:
        """An agent's records after a position."""


class Restorer:
    """Restores the agents of a journal; without snapshots it reads all of the journal.

    `progress` is how many entries were read, and how many there are to read; `differing` counts the replayed decisions
    for which this version of taciturn would have chosen another arm. `stopped` is asked between two entries.
    """

    def __init__(
        self,
        journal: Journal,
        snapshots: SnapshotStore | None,
        marker: ReplayMarker | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._journal, self._snapshots, self._marker, self._stopped = journal, snapshots, marker, stopped
        self.progress = (0, 0)
        self.differing = 0

    def restore(self, only: set[str] | None = None) -> tuple[dict[str, Restored], dict[str, str]]:
        """Restore all agents, or some of them; returns those that were restored, and what is wrong with the others."""
        start, known = self._read_catalogue()
        found: dict[str, Restored] = {}
        failed: dict[str, str] = {}
        for name, positions in known.items():
            if only is None or name in only:
                start = min(start, self._load_snapshot(name, positions, found))
        last = self._journal.last()
        for record in self._journal.read(start):
            self.progress = record.position - start, last - start
            if self._stopped():
                raise Unavailable("the service was stopped while it restored its agents")
            if only is None or record.agent in only:
                self._replay_or_fail(record, found, failed)
        self.progress = last - start, last - start
        if self._marker is not None:
            self._marker.clear()
        differing = sum(restored.session.differing for restored in found.values())
        if differing:
            log.warning("%d answered decisions were kept that this version would have made otherwise", differing)
        self.differing += differing
        return found, failed

    def _replay_or_fail(self, record: Record, found: dict[str, Restored], failed: dict[str, str]) -> None:
        """Replay a record; where that fails the agent is set aside, until its deletion."""
        name, position = record.agent, record.position
        if name in failed:
            if record.kind == "delete":
                del failed[name]
            return
        try:
            if self._marker is not None:
                self._marker.enter(name, position)
            self._replay(record, found)
        except Exception as error:  # one agent that cannot be restored must not stop the others
            log.exception("agent %s cannot be restored: entry %d", name, position)
            failed[name] = f"it cannot be restored, entry {position}: {error}"
            found.pop(name, None)

    def write_catalogue(self, position: int, agents: dict[str, AgentPositions]) -> None:
        """Store the agents that exist at a position of the journal."""
        if self._snapshots is not None:
            self._snapshots.put(CATALOGUE, position, msgspec.json.encode(agents))

    def _read_catalogue(self) -> tuple[int, dict[str, AgentPositions]]:
        for position, path in self._snapshots.newest_first(CATALOGUE) if self._snapshots else ():
            try:
                return position, msgspec.json.decode(path.read_bytes(), type=dict[str, AgentPositions])
            except (OSError, msgspec.DecodeError):
                log.warning("the catalogue at %d is skipped", position)
        return 0, {}

    def _load_snapshot(self, name: str, positions: AgentPositions, found: dict[str, Restored]) -> int:
        """Load an agent's snapshot into `found`, if there is a valid one; returns where to start reading for it."""
        restored = self._newest_snapshot(name, positions.created_at)
        if restored is None:
            return positions.created_at
        found[name] = restored
        return positions.read_after if restored.snapshot_at == positions.snapshot_at else restored.snapshot_at

    def _newest_snapshot(self, name: str, created_at: int) -> Restored | None:
        """The newest valid snapshot of an agent; None also if it is of an earlier agent of the same name."""
        for position, path in self._snapshots.newest_first(name) if self._snapshots else ():
            if position < created_at:
                return None
            try:
                return Restored(Session.load(path), position, position, created_at)
            except (OSError, TaciturnError):
                log.warning("the snapshot of %s at %d is skipped", name, position)
        return None

    def _replay(self, record: Record, found: dict[str, Restored]) -> None:
        name, position = record.agent, record.position
        if name not in found and record.kind in ("create", "import"):
            before = position - 1
            found[name] = self._newest_snapshot(name, position) or Restored(Session(), 0, before, before)
        if name not in found or position <= found[name].position:
            return
        if record.kind not in OPERATIONS:
            raise TaciturnError(f"a newer taciturn wrote the kind {record.kind!r}; install that one")
        restored, started = found[name], time.thread_time()
        operation = operation_of(record.kind, record.body)
        restored.session.apply(operation)
        decided = len(operation.decisions or ()) if isinstance(operation, Decide) else 0
        found[name] = restored._replace(
            position=position,
            replayed=restored.replayed + decided,
            seconds=restored.seconds + time.thread_time() - started,
        )
        if not restored.session.alive:
            del found[name]


class AgentRestorer(Restorer):
    """Restores agents of a journal in which each has records of its own: none is read for another."""

    def __init__(
        self, journal: AgentJournal, snapshots: SnapshotStore | None, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(journal, snapshots, None, stopped)
        self._agents = journal

    def restore(self, only: set[str] | None = None) -> tuple[dict[str, Restored], dict[str, str]]:
        """Restore all agents, or some of them; returns those that were restored, and what is wrong with the others."""
        found: dict[str, Restored] = {}
        failed: dict[str, str] = {}
        for name, created_at in self._agents.agents(only).items():
            self._restore_agent(name, created_at, found, failed)
        self.differing += sum(restored.session.differing for restored in found.values())
        return found, failed

    def _restore_agent(self, name: str, created_at: int, found: dict[str, Restored], failed: dict[str, str]) -> None:
        found[name] = self._newest_snapshot(name, created_at) or Restored(Session(), created_at, created_at, created_at)
        try:
            for record in self._agents.read_agent(name, found[name].position):
                if self._stopped():
                    raise Unavailable("the service was stopped while it restored its agents")
                self._replay_or_fail(record, found, failed)
                if name in failed:
                    return
        except DamagedJournal as error:
            log.error("agent %s cannot be restored: %s", name, error)  # noqa: TRY400 - the traceback says no more
            failed[name] = str(error)
            del found[name]

    def write_catalogue(self, position: int, agents: dict[str, AgentPositions]) -> None:
        """There is none: the journal knows its agents."""
