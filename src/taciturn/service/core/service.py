"""All agents of a journal: restored at the start, run by one worker each, and restored again after a failed append."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from taciturn.service.core.errors import LimitExceeded, NameTaken, Unavailable, UnknownAgent
from taciturn.service.core.jobs import Job, Query
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import Create, Import, Op
from taciturn.service.core.restore import AgentPositions, Restored, Restorer, SnapshotStore
from taciturn.service.core.session import Session
from taciturn.service.core.worker import Worker
from taciturn.service.journal.base import Journal
from taciturn.service.journal.commit import GroupCommit

log = logging.getLogger("taciturn.service")
MAX_RETRY_SECONDS = 30.0
IDLE_SNAPSHOTS = 10
"""An agent that is rarely used writes a snapshot after so many times `snapshot_every` entries of others."""


class Service:
    """The agents of a journal.

    Arguments:
        journal: where every operation is written; the owner closes it.
        snapshots: where states are kept so that a start need not read all of the journal; None for no snapshots.
        limits: how much is accepted.
        learn_budget_ms: how long learning may delay the decisions of the same agent, in milliseconds.
        snapshot_every: entries of an agent between two snapshots.
        clock: the time in seconds; it is read once a decision, for agents with `expire_after`, and written down.
        retry_seconds: pause before the agents are restored after a second failure in a row; doubled each time.
    """

    def __init__(
        self,
        journal: Journal,
        snapshots: SnapshotStore | None = None,
        *,
        limits: Limits | None = None,
        learn_budget_ms: float = 10.0,
        snapshot_every: int = 20_000,
        clock: Callable[[], float] = time.time,
        retry_seconds: float = 1.0,
    ) -> None:
        self.limits = limits or Limits()
        self.learn_budget = learn_budget_ms / 1000.0
        self.snapshot_every = snapshot_every
        self.clock = clock
        self._retry_seconds = retry_seconds
        self.failures = 0  # failed appends and broken sessions since the last successful append
        self._snapshots = snapshots
        self._restorer = Restorer(journal, snapshots)
        self._lock = threading.Lock()
        self._catalogue_lock = threading.Lock()
        self._stopping = threading.Event()
        self.healthy = threading.Event()  # cleared while sessions are restored
        self.healthy.set()
        self._workers: dict[str, Worker] = {}
        self._incomplete = False  # closed before all agents were restored
        self._last = journal.last()
        self._commit = GroupCommit(journal)
        restored, self._failed = self._restorer.restore()
        for name, state in restored.items():
            self._workers[name] = Worker(name, self, self._commit, state)

    def close(self) -> None:
        """Process what is queued, write snapshots, and stop."""
        self._stopping.set()
        workers = self.workers()
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()
        self._commit.close()
        self._write_catalogue()

    # Called by the API.

    @property
    def ready(self) -> bool:
        """Whether requests are served now."""
        return self.healthy.is_set() and not self._stopping.is_set()

    @property
    def position(self) -> int:
        """Position of the last durable entry."""
        return self._last

    def names(self) -> list[str]:
        """Names of all agents, sorted."""
        with self._lock:
            return sorted(name for name, worker in self._workers.items() if worker.visible)

    def workers(self) -> list[Worker]:
        """The workers of all agents."""
        with self._lock:
            return list(self._workers.values())

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
        if isinstance(job.what, Create | Import):
            self._put_new(name, job)
            return
        if not self.healthy.is_set():
            raise Unavailable("the service is restoring agents from the journal")
        worker = self._workers.get(name)
        if worker is None:
            if name in self._failed:
                raise Unavailable(f"agent {name!r} cannot be restored from the journal; the log says why")
            raise UnknownAgent(name)
        worker.put(job)

    def _put_new(self, name: str, job: Job) -> None:
        with self._lock:
            if not self.ready:
                raise Unavailable("the service is not ready")
            if name in self._workers or name in self._failed:
                raise NameTaken(name)
            if len(self._workers) >= self.limits.agents:
                raise LimitExceeded(f"there are {len(self._workers)} agents; {self.limits.agents} are allowed")
            state = Restored(Session(), self._last, self._last, self._last)
            self._workers[name] = worker = Worker(name, self, self._commit, state)
        worker.put(job)

    # Called by the workers.

    def appended(self, position: int) -> None:
        """Entries up to this position are durable."""
        with self._lock:
            self._last = position
            self.failures = 0

    def removed(self, worker: Worker) -> None:
        """An agent is durably deleted, or could not be created."""
        with self._lock:
            if self._workers.get(worker.name) is worker:
                del self._workers[worker.name]
        worker.abort(UnknownAgent(worker.name))

    def snapshot(self, worker: Worker) -> None:
        """Write a snapshot of an agent, and the catalogue; if that fails, only the next start takes longer."""
        if self._snapshots is None:
            return
        try:
            self._snapshots.put(worker.name, worker.position, worker.session.save)
            worker.snapshot_at, worker.entries_since_snapshot = worker.position, 0
            self._write_catalogue()
        except Exception:
            log.exception("no snapshot of %s", worker.name)
        stale = self._last - IDLE_SNAPSHOTS * self.snapshot_every  # an old snapshot makes a start read from there
        for other in self.workers():
            if other is not worker and other.entries_since_snapshot and other.snapshot_at < stale:
                other.request_snapshot()

    def _write_catalogue(self) -> None:
        if self._snapshots is None or self._failed or self._incomplete:
            return  # an agent that was not restored is only in the journal, and must be found there again
        with self._catalogue_lock:
            last = self._last  # read first: an agent without new entries after this had none at this position
            positions = {worker.name: _positions(worker, last) for worker in self.workers()}
            self._restorer.write_catalogue(last, positions)

    # Recovery after a failed append.

    def recover(self) -> None:
        """Pause all workers and restore the broken sessions, on a thread of its own."""
        with self._lock:
            if not self.healthy.is_set():
                return
            self.healthy.clear()
            self.failures += 1
        threading.Thread(target=self._run_recovery, name="taciturn-recovery", daemon=True).start()

    def _retry_pause(self) -> float:
        if self.failures == 1:
            return 0.0
        return min(self._retry_seconds * 2.0 ** (self.failures - 2), MAX_RETRY_SECONDS)

    def _run_recovery(self) -> None:
        """Restore broken sessions. Nothing is appended until all workers have paused: no entry follows a lost one."""
        workers = self.workers()
        for worker in workers:
            worker.pause()
        for worker in workers:
            worker.wait_paused()
        restored = self._restore_until_closed({worker.name for worker in workers if worker.broken})
        self._commit.resume()
        for worker in workers:
            if worker.broken and worker.name not in restored:
                self.removed(worker)
            worker.resume(restored.get(worker.name))
        self.healthy.set()
        if any(worker.broken for worker in self.workers()):  # another failure, while this recovery ended
            self.recover()

    def _restore_until_closed(self, names: set[str]) -> dict[str, Restored]:
        """Restore agents, with pauses between attempts; without result if the service is closed meanwhile."""
        while not self._stopping.wait(self._retry_pause()):
            try:
                restored, failed = self._restorer.restore(names)
            except Exception:
                self.failures += 1
                log.exception("the agents cannot be restored yet")
            else:
                others = {name: fault for name, fault in self._failed.items() if name not in names}
                self._failed = failed | others
                return restored
        self._incomplete = True
        return {}


def _positions(worker: Worker, last: int) -> AgentPositions:
    # The count is read first, because the thread that writes a snapshot sets `snapshot_at` first.
    changed, snapshot_at = worker.entries_since_snapshot, worker.snapshot_at
    return AgentPositions(worker.created_at, snapshot_at, snapshot_at if changed else last)
