"""The thread of one agent: decisions first, learning between them, and results once they are durable."""

import threading
import time
from collections import Counter, deque
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, Protocol

from taciturn.service.core.errors import LimitExceeded, NotQueued, Unavailable
from taciturn.service.core.jobs import Batch, Job, Result, resolve, unavailable
from taciturn.service.core.operations import Decide, Reward, RewardBatch
from taciturn.service.core.processor import Processor, Settings
from taciturn.service.core.restore import Restored
from taciturn.service.core.session import Session
from taciturn.service.journal.commit import Busy, GroupCommit

MAX_IN_FLIGHT = 1
"""Batches that may wait for the disk while the next is processed."""

MAX_IN_FLIGHT_LOADED, LOADED = 3, 64
"""The same where at least `LOADED` decisions, rewards and queries have been queued since the last batch."""

MAX_RESULT_DELAY = 0.002
"""Seconds that results may wait for more rewards to be learned in the same batch."""


class Owner(Settings, Protocol):
    """What a worker needs of the service that it belongs to."""

    learn_budget: float
    snapshot_every: int
    snapshot_seconds: float

    def appended(self, position: int) -> None:
        """Entries up to this position are durable."""

    def recover(self, worker: "Worker") -> None:
        """The session of one agent is broken: restore it."""

    def append_failed(self, error: Exception) -> None:
        """Entries were lost, of this agent and maybe of others: restore all sessions that are ahead of the journal."""

    def write_snapshot(self, worker: "Worker") -> Future[None] | None:
        """Copy the worker's session, on the worker's thread, and write the copy as a snapshot on another."""

    def removed(self, worker: "Worker") -> None:
        """The agent is durably deleted, or could not be created."""


class SnapshotPoint(NamedTuple):
    """A snapshot's position in the journal, and the number of entries that its worker had sent by then."""

    position: int
    entries: int


class Worker:
    """One agent's session and its thread.

    The session is ahead of the journal by the batches in flight. Nobody has seen those: every result, also of a refusal
    or a query, waits for all entries before it.
    """

    def __init__(self, name: str, owner: Owner, commit: GroupCommit, state: Restored) -> None:
        self.name = name
        session, self.position, snapshot_at, self.created_at, replayed, seconds = state
        self.entries = self.position - snapshot_at  # since that snapshot, an upper bound; and those that are sent
        self.snapshot = SnapshotPoint(snapshot_at, 0)  # the newest that is on the disk
        self._writing: Future[None] | None = None  # the snapshot that is being written
        self.visible = session.alive  # whether the creation of the agent is durable
        self._processor = Processor(name, session, owner)
        self._owner, self._commit = owner, commit
        self._ready = threading.Condition()
        self._decides: deque[Job] = deque()
        self._others: deque[Job] = deque()
        self._in_flight: deque[Batch] = deque()
        self._pause = self._paused = self._stop = False
        self.append_failed = False  # the session is ahead of the journal
        self.breaks = 0  # times that the session broke since the last successful append
        self._idle = False
        self._load = 0  # decisions and rewards queued since decisions were last taken
        self._has_pending = False  # there is deferred training left
        # A service that is killed again and again would replay ever more if what it replayed did not count.
        self._decided_at_attempt = -replayed  # the number of decisions at the last attempt at a snapshot
        self._work = seconds  # of computing since then: what a replay would take, at least
        self._snapshot_requested = replayed > 0 and self._snapshot_due()
        self._thread = threading.Thread(target=self._run, name=f"taciturn-{name}", daemon=True)
        self._thread.start()

    @property
    def session(self) -> Session:
        """The agent's session; only the worker's thread may use it."""
        return self._processor.session

    @property
    def broken(self) -> bool:
        """Whether the session must be restored from the journal."""
        return self._processor.broken

    @property
    def counts(self) -> Counter[str]:
        """Decisions, and rewards by their outcome, since the start."""
        return self._processor.counts

    @property
    def memory(self) -> int:
        """Bytes that the agent holds, as they were last measured."""
        return self._processor.memory

    @property
    def entries_since_snapshot(self) -> int:
        """Entries of this agent that the newest snapshot does not have; an upper bound."""
        return self.entries - self.snapshot.entries

    @property
    def waiting(self) -> int:
        """Number of queued jobs."""
        return len(self._decides) + len(self._others)

    # Called by other threads.

    def put(self, job: Job) -> None:
        """Queue a job."""
        with self._ready:
            if self._stop:
                raise NotQueued("the service is stopping")
            queue = self._decides if isinstance(job.what, Decide) else self._others
            if len(queue) >= self._owner.limits.waiting:
                raise LimitExceeded("too many requests wait for this agent")
            self._load += job.size
            queue.append(job)
            if self._idle:
                self._ready.notify_all()

    def request_snapshot(self) -> None:
        """Write a snapshot soon."""
        with self._ready:
            self._snapshot_requested = True
            self._ready.notify_all()

    def pause(self) -> None:
        """Stop before the next batch; `wait_paused` waits until nothing is in flight any more."""
        with self._ready:
            self._pause = True
            self._ready.notify_all()

    def wait_paused(self) -> None:
        """Wait until the thread has paused or ended."""
        with self._ready:
            self._ready.wait_for(lambda: self._paused or not self._thread.is_alive())

    def resume(self, state: Restored | None = None) -> None:
        """Continue after a pause, with a restored session if one is given."""
        with self._ready:
            if state is not None:
                session, self.position, snapshot_at, self.created_at, replayed, seconds = state
                self.entries += self.position - snapshot_at
                self.snapshot = SnapshotPoint(snapshot_at, self.entries - (self.position - snapshot_at))
                self._processor.replace_session(session)
                self._decided_at_attempt, self._work = self.counts["decisions"] - replayed, seconds
                self.append_failed = False
            self._pause = self._paused = False
            self._ready.notify_all()

    def stop(self) -> None:
        """Process what is queued, and end the thread."""
        with self._ready:
            self._stop = True
            self._ready.notify_all()

    def abort(self, error: Exception) -> None:
        """Refuse what is queued with this error, and end the thread."""
        with self._ready:
            self._stop = True
            jobs = [*self._decides, *self._others]
            self._decides.clear()
            self._others.clear()
            self._ready.notify_all()
        resolve([Result(job.future, None, error) for job in jobs])

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    def wait_written(self) -> None:
        """Wait until the snapshot is on the disk that is being written; only after the end of the thread."""
        if self._writing is not None:
            self._writing.result()

    # The thread.

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            with self._ready:
                self._paused = True
                self._ready.notify_all()
            self.abort(Unavailable("the service has stopped"))

    def _serve(self) -> None:
        while (decides := self._next_decides()) is not None:
            started = time.thread_time()
            self._send(self._learn(self._processor.decide(decides)))
            if self.session.alive and not self.broken and self._owner.writable.is_set():
                self._send(self._train())
            self._work += time.thread_time() - started
            if self.broken and not self.append_failed:
                self.breaks += 1
                self._owner.recover(self)
            elif self._snapshot_requested or self._snapshot_due():
                self._snapshot()
        if self.session.alive and self.entries_since_snapshot and not self.broken:
            self._snapshot()

    def _next_decides(self) -> deque[Job] | None:
        """Wait for work; returns the queued decisions (there may be none), or None at the end."""
        with self._ready:
            while True:
                if self._pause:
                    self._wait_landed()
                    self._paused = True
                    self._ready.notify_all()
                elif not self.broken and self._has_work() and self._may_start():
                    self._load = 0
                    decides, self._decides = self._decides, deque()
                    return decides
                elif self._stop and not self._in_flight:
                    return None
                self._idle = True
                self._ready.wait()
                self._idle = False

    def _has_work(self) -> bool:
        training = self._has_pending and not self._stop
        return bool(self._decides or self._others or self._snapshot_requested or training)

    def _may_start(self) -> bool:
        """Whether to start a batch now: a few requests had better share one append, many need not wait for the disk."""
        return len(self._in_flight) < (MAX_IN_FLIGHT if self._load < LOADED else MAX_IN_FLIGHT_LOADED)

    def _wait_landed(self) -> None:
        self._ready.wait_for(lambda: not self._in_flight)

    def _learn(self, batch: Batch) -> Batch:
        """Process everything but decisions until the time is up or the queue is empty; at least one job.

        What is done already is sent to the disk before any job that can take long.
        """
        now = sent = time.perf_counter()
        until = now + self._owner.learn_budget
        while not self.broken and (job := self._next_other()) is not None:
            if now - sent > MAX_RESULT_DELAY or not isinstance(job.what, Reward | RewardBatch):
                self._send(batch)
                batch, sent = Batch(), now
            if not isinstance(job.what, RewardBatch):
                self._processor.process(job, batch)
            elif not self._processor.process_rewards(job, job.what.rewards, batch, until):
                with self._ready:
                    self._others.appendleft(job)
            now = time.perf_counter()
            if now >= until:
                break
        if not (self.session.alive or batch.entries or self._in_flight or self.broken):
            self._owner.removed(self)  # it could not be created
        return batch

    def _next_other(self) -> Job | None:
        with self._ready:
            return self._others.popleft() if self._others else None

    def _train(self) -> Batch:
        until = time.perf_counter() + self._owner.learn_budget
        batch, self._has_pending = self._processor.train(until, lambda: bool(self._decides))
        return batch

    # To the disk, and back to the callers.

    def _send(self, batch: Batch) -> None:
        """Submit a batch for the journal; without entries its results wait for the batch before it."""
        if not batch.results and not batch.entries:
            return
        self.entries += len(batch.entries)
        with self._ready:
            if self.append_failed:
                batch = Batch([], unavailable(batch.results))
            elif batch.entries:
                self._in_flight.append(batch)
            elif self._in_flight:
                self._in_flight[-1].results.extend(batch.results)
                return
        if not batch.entries:
            resolve(batch.results)
            return
        while True:
            try:
                self._commit.submit(batch.entries, partial(self._appended, batch))
            except Busy:
                with self._ready:
                    self._ready.wait(0.01)  # other agents fill the queue, which empties as fast as the disk writes
            else:
                return

    def _appended(self, batch: Batch, error: Exception | None, position: int) -> None:
        """Callback on the thread of the group commit: the batch is durable, or lost with everything after it."""
        with self._ready:
            self._in_flight.remove(batch)
            if error is not None:
                self.append_failed = self._processor.broken = True
            self.position = max(position, self.position)
            self.visible |= error is None
            self._ready.notify_all()
        if error is None:
            self.breaks = 0
            self._owner.appended(position)
            if batch.deletes_agent:
                self._owner.removed(self)
            resolve(batch.results)
        else:
            self._owner.append_failed(error)
            resolve(unavailable(batch.results, error))

    def _snapshot_due(self) -> bool:
        if self._writing is not None and not self._writing.done():
            return False
        decided = self.counts["decisions"] - self._decided_at_attempt
        return decided >= self._owner.snapshot_every or self._work >= self._owner.snapshot_seconds

    def _snapshot(self) -> None:
        """Wait until everything is durable, and start to write a snapshot."""
        with self._ready:
            self._wait_landed()
            self._snapshot_requested = False
        self._decided_at_attempt, self._work = self.counts["decisions"], 0.0
        if not self.broken and self.session.alive:
            self._writing = self._owner.write_snapshot(self)
