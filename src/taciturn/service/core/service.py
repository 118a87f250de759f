"""All agents together: made from the journal, kept apart while they work, and made anew when an append has failed."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from taciturn.errors import TaciturnError
from taciturn.service.api.problems import Problem, Unavailable
from taciturn.service.core.limits import Limits, TooMuch
from taciturn.service.core.operations import KINDS, Create, Import, Op, op_of
from taciturn.service.core.session import Session
from taciturn.service.core.tasks import Look, Restored, Rewards, Task
from taciturn.service.core.worker import Worker
from taciturn.service.journal.base import Journal, Record
from taciturn.service.journal.commit import GroupCommit

log = logging.getLogger("taciturn.service")
CATALOGUE = "/agents"
"""What the list of all agents is kept under among the snapshots; no agent can be called so."""

LONGEST_PAUSE = 30.0


class Store(Protocol):
    """Where snapshots are kept (`taciturn.service.journal.snapshots.Snapshots`)."""

    def put(self, agent: str, position: int, content: bytes | Callable[[Path], object]) -> None:
        """Keep a state."""

    def newest_first(self, agent: str) -> Any:
        """Positions and files, newest first."""


class _Known(NamedTuple):
    """An agent in the catalogue, by positions in the journal.

    All entries of it are behind `born`; those that its newest snapshot, at `kept`, does not have are behind `clean`.
    """

    born: int
    kept: int
    clean: int


class Service:
    """The agents of a journal.

    Arguments:
        journal: where everything is written; closing it is left to the owner.
        snapshots: where states are kept so that a start need not read all of the journal; None does without.
        limits: how much of everything is taken.
        learn_budget_ms: how long learning may keep the decisions of the same agent waiting.
        snapshot_every: entries of an agent between two snapshots.
        clock: the time in seconds; it is asked once a decision, of agents with `expire_after`, and written down.
        patience: seconds to wait before the journal is tried again when it fails twice, and twice as long each time.
    """

    def __init__(
        self,
        journal: Journal,
        snapshots: Store | None = None,
        *,
        limits: Limits | None = None,
        learn_budget_ms: float = 10.0,
        snapshot_every: int = 20_000,
        clock: Callable[[], float] = time.time,
        patience: float = 1.0,
    ) -> None:
        self.limits = limits or Limits()
        self.learn_budget = learn_budget_ms / 1000.0
        self.snapshot_every = snapshot_every
        self.clock = clock
        self._patience = patience
        self.failures = 0  # appends that failed, or sessions that broke, since the last append that went well
        self._journal, self._snapshots = journal, snapshots
        self._lock = threading.Lock()
        self._keeping = threading.Lock()
        self._stopping = threading.Event()
        self.well = threading.Event()  # not while sessions are made anew
        self.well.set()
        self._workers: dict[str, Worker] = {}
        self._unusable: dict[str, str] = {}
        self._given_up = False  # it was stopped before all agents were made anew
        self._last = journal.last()
        self._commit = GroupCommit(journal)
        for name, restored in self._restore().items():
            self._workers[name] = Worker(name, self, self._commit, restored)

    def close(self) -> None:
        """Finish what waits, keep snapshots, and stop."""
        self._stopping.set()
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()
        self._commit.close()
        self._keep_catalogue()

    # What is asked of it.

    @property
    def ready(self) -> bool:
        """Whether requests are served now."""
        return self.well.is_set() and not self._stopping.is_set()

    @property
    def position(self) -> int:
        """Of the last entry that is durable."""
        return self._last

    def names(self) -> list[str]:
        """All agents."""
        with self._lock:
            return sorted(name for name, worker in self._workers.items() if worker.shown)

    def workers(self) -> list[Worker]:
        """Those who work for them."""
        with self._lock:
            return list(self._workers.values())

    def put(self, name: str, task: Task) -> None:
        """Let an agent do something, or look at something; the task's waiter hears of it."""
        if not self.well.is_set():
            raise Unavailable("the service is making its agents anew after an append failed")
        worker = self._workers.get(name)
        if worker is None:
            if name in self._unusable:
                raise Unavailable(f"agent {name!r} cannot be made from the journal; the log says why")
            raise Problem(404, "unknown-agent", f"there is no agent {name!r}")
        worker.put(task)

    def begin(self, name: str, task: Task) -> None:
        """Let a new agent come to be, by a task that creates or imports it."""
        with self._lock:
            if not self.ready:
                raise Unavailable("the service is not ready")
            if name in self._workers or name in self._unusable:
                raise Problem(409, "name-taken", f"there is an agent {name!r}", "name")
            if len(self._workers) >= self.limits.agents:
                raise TooMuch(f"there are {len(self._workers)} agents; {self.limits.agents} are allowed")
            state = Restored(Session(), self._last, self._last, self._last)
            self._workers[name] = worker = Worker(name, self, self._commit, state)
        worker.put(task)

    def call(self, name: str, what: Op | Look | Rewards, raw: bytes | None = None) -> Any:
        """Do something and wait for it; for use without an event loop."""
        waiter: Future[Any] = Future()
        task = Task(what, waiter, raw)
        (self.begin if isinstance(what, Create | Import) else self.put)(name, task)
        return waiter.result(self.limits.seconds)

    # What workers tell.

    def appended(self, worker: Worker, position: int) -> None:
        """Entries of a worker are durable: everything before them has been heard of, too."""
        with self._lock:
            self._last = position
            self.failures = 0

    def gone(self, worker: Worker) -> None:
        """An agent is deleted, durably, or could not be made."""
        with self._lock:
            if self._workers.get(worker.name) is worker:
                del self._workers[worker.name]
        worker.end(Problem(404, "unknown-agent", f"there is no agent {worker.name!r}"))

    def keep(self, worker: Worker) -> None:
        """Keep a snapshot of an agent, and the catalogue; where that fails, a start takes longer, and that is all."""
        if self._snapshots is None:
            return
        try:
            self._snapshots.put(worker.name, worker.position, worker.session.save)
            worker.kept, worker.since = worker.position, 0
            self._keep_catalogue()
        except Exception:
            log.exception("no snapshot of %s", worker.name)
        for other in self.workers():  # who hardly ever is asked holds the start of the journal otherwise
            if other.since and self._last - other.kept > 10 * self.snapshot_every and other is not worker:
                other.nudge()

    def _keep_catalogue(self) -> None:
        if self._snapshots is None or self._unusable or self._given_up:
            return  # who could not be made is in the journal, and must be found there again
        with self._keeping:
            last = self._last  # first: who has nothing new after this had nothing new then
            known = {worker.name: _known(worker, last) for worker in self.workers()}
            self._snapshots.put(CATALOGUE, last, msgspec.json.encode(known))

    # From the journal.

    def _restore(self, only: set[str] | None = None) -> dict[str, Restored]:
        """The agents, or some of them, as the journal has them."""
        position, known = self._catalogue()
        found: dict[str, Restored] = {}
        lost: dict[str, str] = {}
        start = position
        for name, at in known.items():
            if only is None or name in only:
                start = min(start, self._begin(name, at, found))
        for record in self._journal.read(start):
            if (only is None or record.agent in only) and record.kind in KINDS and record.agent not in lost:
                try:
                    self._replay(record, found)
                except Exception as error:  # the others are not to suffer from it
                    log.exception("agent %s cannot be made from the journal: entry %d", record.agent, record.position)
                    lost[record.agent] = f"entry {record.position}: {error}"
                    found.pop(record.agent, None)
        self._unusable = lost | {
            name: why for name, why in self._unusable.items() if only is not None and name not in only
        }
        return found

    def _begin(self, name: str, at: _Known, found: dict[str, Restored]) -> int:
        """Take an agent's snapshot, if there is a good one; from where the journal must be read for it."""
        restored = self._snapshot(name, at.born)
        if restored is None:
            return at.born
        found[name] = restored
        return at.clean if restored.kept == at.kept else restored.kept

    def _replay(self, record: Record, found: dict[str, Restored]) -> None:
        name, position = record.agent, record.position
        if name not in found and record.kind in ("create", "import"):
            found[name] = self._snapshot(name, position) or Restored(Session(), 0, position - 1, position - 1)
        if name not in found or position <= found[name].position:
            return
        session = found[name].session
        session.apply(op_of(record.kind, record.body))
        found[name] = found[name]._replace(position=position)
        if not session.alive:
            del found[name]

    def _catalogue(self) -> tuple[int, dict[str, _Known]]:
        for position, path in self._snapshots.newest_first(CATALOGUE) if self._snapshots else ():
            try:
                return position, msgspec.json.decode(path.read_bytes(), type=dict[str, _Known])
            except (OSError, msgspec.DecodeError):
                log.warning("the catalogue at %d is left out", position)
        return 0, {}

    def _snapshot(self, name: str, born: int) -> Restored | None:
        """The newest good snapshot of an agent, and not of one of the same name that was there before."""
        for position, path in self._snapshots.newest_first(name) if self._snapshots else ():
            if position < born:
                return None
            try:
                return Restored(Session.load(path), position, position, born)
            except (OSError, TaciturnError):
                log.warning("the snapshot of %s at %d is left out", name, position)
        return None

    # When an append has failed.

    def in_trouble(self) -> None:
        """Some sessions are not what the journal says: stop everything and make them anew."""
        with self._lock:
            if not self.well.is_set():
                return
            self.well.clear()
            self.failures += 1
        threading.Thread(target=self._recover, name="taciturn-recovery", daemon=True).start()

    def _pause(self) -> float:
        return 0.0 if self.failures == 1 else min(self._patience * 2.0 ** (self.failures - 2), LONGEST_PAUSE)

    def _recover(self) -> None:
        """Nothing is appended until all workers stand still: no entry can follow one that is lost."""
        workers = self.workers()
        for worker in workers:
            worker.halt()
        for worker in workers:
            worker.parked()
        while not self._stopping.wait(self._pause()):
            try:
                restored = self._restore({worker.name for worker in workers if worker.broken})
                break
            except Exception:
                self.failures += 1
                log.exception("the agents cannot be made anew yet")
        else:
            restored, self._given_up = {}, True
        self._commit.resume()
        for worker in workers:
            if not worker.broken:
                worker.go_on()
            elif worker.name in restored:
                worker.go_on(restored[worker.name])
            else:
                self.gone(worker)
                worker.go_on()
        self.well.set()
        if any(worker.broken for worker in self.workers()):  # again, before it was over
            self.in_trouble()


def _known(worker: Worker, last: int) -> _Known:
    news, kept = worker.since, worker.kept  # in this order: a snapshot that is made meanwhile sets them in the other
    return _Known(worker.born, kept, kept if news else last)
