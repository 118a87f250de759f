"""All agents of a journal: restored at the start, run by one worker each, and restored again where something failed.

What fails, and who notices:
- One agent's session, by an error that was not foreseen: that agent is restored from the journal, the others serve.
  Where that happens again and again, with nothing in between that could be written, the agent is set aside.
- An append: what was in flight is lost for all agents. Their sessions are restored at once and can be read; writing
  goes on when the journal can be written again.
- The replay of one agent: it is set aside, can be deleted, and the others serve.
- Another writer has taken the journal over (`Fenced`): this service stops for good, and refuses what is queued at once.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from taciturn import __version__
from taciturn.agents.storage import Content
from taciturn.errors import TaciturnError
from taciturn.service.core.errors import LimitExceeded, NameTaken, SetAside, Unavailable, UnknownAgent
from taciturn.service.core.jobs import Job, Query, Result, resolve
from taciturn.service.core.limits import Limits
from taciturn.service.core.marker import ReplayMarker
from taciturn.service.core.operations import Create, Delete, Import, Op, entry_of
from taciturn.service.core.restore import AgentPositions, Restored, Restorer, SnapshotStore
from taciturn.service.core.session import Session
from taciturn.service.core.worker import SnapshotPoint, Worker
from taciturn.service.journal.base import Fenced, Journal
from taciturn.service.journal.commit import GroupCommit

log = logging.getLogger("taciturn.service")
MAX_RETRY_SECONDS = 30.0
MAX_BREAKS = 5
"""An agent that breaks so many times in a row is set aside."""

IDLE_SNAPSHOTS = 10
"""An agent that is rarely used writes a snapshot after so many times `snapshot_every` entries of others."""


class Service:
    """The agents of a journal.

    Arguments:
        journal: where every operation is written; the owner closes it.
        snapshots: where states are kept so that a start need not read all of the journal; None for no snapshots.
        limits: how much is accepted.
        learn_budget_ms: how long learning may delay the decisions of the same agent, in milliseconds.
        snapshot_every, snapshot_seconds: an agent's decisions, or seconds of its computing, between two snapshots.
        clock: the time in seconds; it is read once a decision and written down.
        retry_seconds: pause before the next attempt after a second failure in a row; doubled each time.
        prepare: called before the agents are restored, in the same thread.
        background: restore the agents in a thread, and return at once; `ready` says when they are served.
        marker: the file in which the replay says where it is; None for none.
    """

    def __init__(
        self,
        journal: Journal,
        snapshots: SnapshotStore | None = None,
        *,
        limits: Limits | None = None,
        learn_budget_ms: float = 10.0,
        snapshot_every: int = 20_000,
        snapshot_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
        retry_seconds: float = 1.0,
        prepare: Callable[[], object] | None = None,
        background: bool = False,
        marker: Path | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.learn_budget = learn_budget_ms / 1000.0
        self.snapshot_every, self.snapshot_seconds = snapshot_every, snapshot_seconds
        self.clock = clock
        self._retry_seconds = retry_seconds
        self.failures = 0  # failed appends since the last successful one
        self.fatal: Exception | None = None  # why this service has stopped for good
        self._journal, self._snapshots = journal, snapshots
        self._marker = None if marker is None else ReplayMarker(marker, __version__)
        self._stopping = threading.Event()
        self._ending = threading.Event()  # set when nothing is tried again: it is stopping, or has stopped for good
        self._restorer = self._make_restorer()
        self._lock = threading.Lock()
        self._catalogue_lock = threading.Lock()
        self._recovery_lock = threading.Lock()
        self.started = threading.Event()  # set once all agents are restored, or `fatal` says why they cannot be
        self.readable = threading.Event()  # cleared while sessions are restored after a failed append
        self.writable = threading.Event()  # cleared until the journal can be written again
        self._workers: dict[str, Worker] = {}
        self.set_aside: dict[str, str] = {}  # agents that cannot be restored, and why
        self._incomplete = False  # closed before all agents were restored
        self._last = journal.last()
        self._commit = self._make_commit(journal)
        self._snapshot_writer = ThreadPoolExecutor(1, "taciturn-snapshots")
        self._preparing = prepare is not None
        self._starter = threading.Thread(target=self._start, args=(prepare,), name="taciturn-start", daemon=True)
        self._starter.start()
        if not background:
            self._starter.join()
            self.check()

    def _make_commit(self, journal: Journal) -> GroupCommit:
        return GroupCommit(journal)

    def _make_restorer(self) -> Restorer:
        return Restorer(self._journal, self._snapshots, self._marker, self._stopping.is_set)

    def _restore_at_start(self) -> tuple[dict[str, Restored], dict[str, str]]:
        return self._restorer.restore()

    def _start(self, prepare: Callable[[], object] | None) -> None:
        try:
            if prepare is not None:
                prepare()
                self._preparing = False
            restored, self.set_aside = self._restore_at_start()
        except Exception as error:  # noqa: BLE001 - the owner is told, whatever it is
            self._incomplete = True
            if not self._stopping.is_set():
                self.fatal = error
        else:
            with self._lock:
                if not self._stopping.is_set():
                    for name, state in restored.items():
                        self._workers[name] = Worker(name, self, self._commit, state)
                self._incomplete = self._stopping.is_set()
            self.readable.set()
            self.writable.set()
        self.started.set()

    def check(self) -> None:
        """Close the service and raise the reason, if it has stopped for good."""
        if self.fatal is not None:
            self.close()
            raise self.fatal

    def stop_for_good(self, reason: Exception) -> None:
        """Refuse all requests from now on, also those that are queued; `check` raises the reason."""
        with self._lock:
            self.fatal = self.fatal or reason
            self._incomplete = True
        self._ending.set()
        for worker in self.workers():
            worker.abort(Unavailable(self.status))

    def close(self) -> None:
        """Process what is queued, write snapshots, and stop."""
        self._stopping.set()
        self._ending.set()
        self._starter.join()
        workers = self.workers()
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()
        self._snapshot_writer.shutdown()
        self._commit.close()
        self._write_catalogue()
        if self._marker is not None:
            self._marker.close()

    # Called by the API.

    @property
    def ready(self) -> bool:
        """Whether all requests are served now."""
        serving = self.readable.is_set() and self.writable.is_set() and not self._stopping.is_set()
        return serving and self.fatal is None and self._journal.responsive

    @property
    def status(self) -> str:
        """In a few words, what the service is doing."""
        if self.fatal is not None:
            return f"stopped for good: {self.fatal}"
        if self._stopping.is_set():
            return "stopping"
        if self._preparing:
            return "compiling: the kernels are prepared, which takes some seconds the first time"
        if not self.started.is_set():
            done, total = self.progress
            return f"restoring: {done} of {total} entries are replayed"
        if not self.readable.is_set():
            return "restoring the agents after the journal could not be written"
        if not self.writable.is_set() or not self._journal.responsive:
            return "read-only: the journal cannot be written now"
        return "ready"

    @property
    def progress(self) -> tuple[int, int]:
        """How many entries of the journal were replayed, and how many are to be, at the start or in a recovery."""
        return self._restorer.progress

    @property
    def differing(self) -> int:
        """Replayed decisions that were kept although this version would have chosen another arm."""
        return self._restorer.differing

    @property
    def position(self) -> int:
        """Position of the last durable entry."""
        return self._last

    def names(self) -> list[str]:
        """Names of all agents that are served, sorted."""
        with self._lock:
            return sorted(name for name, worker in self._workers.items() if worker.visible)

    def workers(self) -> list[Worker]:
        """The workers of all agents."""
        with self._lock:
            return list(self._workers.values())

    def memory_in_use(self) -> float:
        """Bytes that all agents hold together, as they were last measured."""
        return sum(worker.memory for worker in list(self._workers.values()))

    def call(self, name: str, what: Op | Query, raw: bytes | None = None) -> Any:
        """Run an operation or a query and wait for its result; for callers without an event loop."""
        future: Future[Any] = Future()
        self.put(name, Job(what, future, raw))
        return future.result(self.limits.seconds)

    async def call_async(self, name: str, what: Op | Query, raw: bytes | None = None) -> Any:
        """Run an operation or a query and await its result."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.put(name, Job(what, future, raw))
        return await future

    def put(self, name: str, job: Job) -> None:
        """Queue a job for an agent, which is new if the job creates or imports it; the job's future gets the result."""
        reads = callable(job.what)  # while sessions are restored after a failed append, it waits in its queue
        if not self.started.is_set() or self.fatal is not None or not (reads or self.writable.is_set()):
            raise Unavailable(self.status)
        if isinstance(job.what, Create | Import):
            self._put_new(name, job)
            return
        worker = self._workers.get(name)
        if worker is not None:
            worker.put(job)
        elif name not in self.set_aside:
            raise UnknownAgent(name)
        elif isinstance(job.what, Delete):
            self._delete_set_aside(name, job)
        else:
            raise SetAside(name, self.set_aside[name])

    def _put_new(self, name: str, job: Job) -> None:
        with self._lock:
            if not self.ready:
                raise Unavailable(self.status)
            if name in self._workers or name in self.set_aside:
                raise NameTaken(name)
            if len(self._workers) >= self.limits.agents:
                raise LimitExceeded(f"there are {len(self._workers)} agents; {self.limits.agents} are allowed")
            state = Restored(Session(), self._last, self._last, self._last)
            self._workers[name] = worker = Worker(name, self, self._commit, state)
        worker.put(job)

    def _delete_set_aside(self, name: str, job: Job) -> None:
        """Delete an agent that has no session."""

        def appended(error: Exception | None, position: int) -> None:
            if error is None:
                self.appended(position)
                self.set_aside.pop(name, None)
            else:
                self.append_failed(error)
                error = Unavailable("the journal could not be written")
            resolve([Result(job.future, None, error)])

        self._commit.submit([entry_of(name, Delete())], appended)

    # Called by the workers.

    def appended(self, position: int) -> None:
        """Entries up to this position are durable."""
        with self._lock:
            self._last = position
            self.failures = 0

    def removed(self, worker: Worker) -> None:
        """An agent is durably deleted, could not be created, or is set aside."""
        with self._lock:
            if self._workers.get(worker.name) is worker:
                del self._workers[worker.name]
        fault = self.set_aside.get(worker.name)
        if self.fatal is not None or self._incomplete:
            worker.abort(Unavailable(self.status))
        else:
            worker.abort(UnknownAgent(worker.name) if fault is None else SetAside(worker.name, fault))

    def write_snapshot(self, worker: Worker) -> Future[None] | None:
        """Copy an agent's session, on its thread, and write the copy on another, so that decisions need not wait.

        If that fails, only the next start takes longer.
        """
        if self._snapshots is None or self.fatal is not None:
            return None
        try:
            point, content = SnapshotPoint(worker.position, worker.entries), worker.session.frozen()
        except (TaciturnError, MemoryError):
            log.exception("no snapshot of %s", worker.name)
            return None
        return self._snapshot_writer.submit(self._put_snapshot, worker, point, content)

    def _put_snapshot(self, worker: Worker, point: SnapshotPoint, content: Content) -> None:
        if self._snapshots is None:
            return
        try:
            self._snapshots.put(worker.name, point.position, content.write)
            worker.snapshot = point
            self._write_catalogue()
        except Exception:
            log.exception("no snapshot of %s", worker.name)
        self._request_snapshots(worker)

    def _request_snapshots(self, worker: Worker) -> None:
        """After a snapshot of one agent, ask for those of others that are rarely used and too old."""
        stale = self._last - IDLE_SNAPSHOTS * self.snapshot_every  # an old snapshot makes a start read all from there
        for other in self.workers():
            if other is not worker and other.entries_since_snapshot and other.snapshot.position < stale:
                other.request_snapshot()

    def _write_catalogue(self) -> None:
        if self._snapshots is None or self.set_aside or self._incomplete:
            return  # an agent that was not restored is only in the journal, and must be found there again
        with self._catalogue_lock:
            last = self._last  # read first: an agent without new entries after this had none at this position
            positions = {worker.name: _positions(worker, last) for worker in self.workers()}
            try:
                self._restorer.write_catalogue(last, positions)
            except Exception:  # as with a snapshot, only the next start takes longer
                log.exception("no catalogue of the agents")

    # Recovery.

    def recover(self, worker: Worker) -> None:
        """Restore the broken session of one agent, on a thread of its own; the other agents serve meanwhile."""
        threading.Thread(target=self._recover_one, args=(worker,), name="taciturn-recovery", daemon=True).start()

    def append_failed(self, error: Exception) -> None:
        """Pause all workers and restore the sessions that are ahead of the journal, on a thread of its own."""
        if isinstance(error, Fenced):
            self.stop_for_good(error)
            return
        with self._lock:
            if not self.readable.is_set():
                return
            self.readable.clear()
            self.writable.clear()
            self.failures += 1
        log.error("the journal could not be written, and is read-only until it can: %s", error)
        threading.Thread(target=self._recover_all, name="taciturn-recovery", daemon=True).start()

    def _retry_pause(self, failures: int) -> float:
        return 0.0 if failures <= 1 else min(self._retry_seconds * 2.0 ** (failures - 2), MAX_RETRY_SECONDS)

    def _recover_one(self, worker: Worker) -> None:
        hopeless = worker.breaks >= MAX_BREAKS
        if not hopeless and self._ending.wait(self._retry_pause(worker.breaks)):
            self._incomplete = True
        with self._recovery_lock:
            worker.pause()
            worker.wait_paused()
            if not worker.broken or worker.append_failed:  # all agents are being restored, or were
                worker.resume()
            elif hopeless:
                log.error("agent %s is set aside: it failed %d times in a row", worker.name, worker.breaks)
                self.set_aside[worker.name] = f"it failed {worker.breaks} times in a row, and the log says how"
                self._resume([worker], {})
            else:
                self._resume([worker], self._restore_until_closed({worker.name}))

    def _recover_all(self) -> None:
        """Restore broken sessions. Nothing is appended until all workers have paused: no entry follows a lost one."""
        with self._recovery_lock:
            workers = self.workers()
            for worker in workers:
                worker.pause()
            for worker in workers:
                worker.wait_paused()
            restored = self._restore_until_closed({worker.name for worker in workers if worker.broken})
            self._commit.resume()
            self._resume(workers, restored)
            self.readable.set()
        while not self._ending.wait(self._retry_pause(self.failures)):
            try:
                self._journal.probe()
            except Fenced as error:
                self.stop_for_good(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                self.failures += 1
                log.debug("the journal still cannot be written: %s", error)
            else:
                log.info("the journal can be written again")
                self.writable.set()
                return

    def _resume(self, workers: list[Worker], restored: dict[str, Restored]) -> None:
        for worker in workers:
            if worker.broken and worker.name not in restored:
                self.removed(worker)
            worker.resume(restored.get(worker.name))

    def _restore_until_closed(self, names: set[str]) -> dict[str, Restored]:
        """Restore agents, with pauses between attempts; without result if the service is closed meanwhile."""
        attempts = 0
        while not self._ending.wait(self._retry_pause(attempts)):
            attempts += 1
            try:
                restored, failed = self._restorer.restore(names)
            except Fenced as error:
                self.stop_for_good(error)
            except Exception:
                log.exception("the agents cannot be restored yet")
            else:
                others = {name: fault for name, fault in self.set_aside.items() if name not in names}
                self.set_aside = failed | others
                return restored
        self._incomplete = True
        return {}


def _positions(worker: Worker, last: int) -> AgentPositions:
    snapshot = worker.snapshot  # read before the number of entries, so that none of those after it is overlooked
    changed = worker.entries > snapshot.entries
    return AgentPositions(worker.created_at, snapshot.position, snapshot.position if changed else last)
