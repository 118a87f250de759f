"""The thread that works for one agent: decisions first, learning between them, and answers when they are durable."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from taciturn.errors import TaciturnError
from taciturn.service.api.problems import Problem, Unavailable, problem_of
from taciturn.service.core import operations as wire
from taciturn.service.core.limits import Limits, TooMuch
from taciturn.service.core.operations import AddArm, Create, Decide, Delete, Import, Op, RetireArm, Reward, Study, Told
from taciturn.service.core.session import pending
from taciturn.service.core.tasks import Batch, Restored, Rewards, Task, deliver, refused
from taciturn.service.journal.commit import Busy, GroupCommit

log = logging.getLogger("taciturn.service")

AHEAD, LATER, PLENTY = 1, 3, 64
"""How many batches may be on their way to the disk while the next is worked on, and how many where so much waits."""


SOON = 0.002
"""How many seconds answers may wait for what is learned in the same batch."""


class Owner(Protocol):
    """Whom a worker belongs to."""

    limits: Limits
    learn_budget: float
    snapshot_every: int
    clock: Callable[[], float]

    def appended(self, worker: "Worker", position: int) -> None:
        """Entries of a worker are durable."""

    def in_trouble(self) -> None:
        """A worker has lost its way: make its session anew."""

    def keep(self, worker: "Worker") -> None:
        """It is time for a snapshot, which the worker's thread makes now."""

    def gone(self, worker: "Worker") -> None:
        """The agent is deleted, durably, or could not be made."""


class Worker:
    """One agent's session and its thread.

    The session is ahead of the journal by what is on its way to the disk, which nobody has been told of: every answer,
    a refusal or a look as well, waits for all that came before it.
    """

    def __init__(self, name: str, owner: Owner, commit: GroupCommit, state: Restored) -> None:
        self.name = name
        self.session, self.position, self.kept, self.born = state
        self.since = self.position - self.kept  # entries since the last snapshot, at most
        self.shown = self.session.alive  # whether others know of it: it is durable that it was created
        self.broken = False
        self.lives = 0
        self.counts: Counter[str] = Counter()
        self._owner, self._commit = owner, commit
        self._ready = threading.Condition()
        self._decides: deque[Task] = deque()
        self._rest: deque[Task] = deque()
        self._flying: deque[Batch] = deque()
        self._halt = self._parked = self._stop = self._nudged = False
        self._cut = False  # an append failed: what is in memory never was
        self._idle = False
        self._load = 0  # how much has come since decisions were last taken up
        self._owes = False  # there is learning left that was put off
        self._latest = 0.0
        self._due = self.since
        self._thread = threading.Thread(target=self._work, name=f"taciturn-{name}", daemon=True)
        self._thread.start()

    # From other threads.

    def put(self, task: Task) -> None:
        """Let a task wait for its turn."""
        with self._ready:
            if self._stop:
                raise Unavailable("the service is stopping")
            queue = self._decides if isinstance(task.what, Decide) else self._rest
            if len(queue) >= self._owner.limits.waiting:
                raise TooMuch("too many requests wait for this agent")
            self._load += task.size
            queue.append(task)
            if self._idle:
                self._ready.notify_all()

    def nudge(self) -> None:
        """Ask for a snapshot."""
        self._set("_nudged")

    def halt(self) -> None:
        """Stand still before the next batch; `parked` waits until nothing is on its way any more."""
        self._set("_halt")

    def parked(self) -> None:
        """Wait for the thread to stand still."""
        with self._ready:
            self._ready.wait_for(lambda: self._parked or not self._thread.is_alive())

    def go_on(self, state: Restored | None = None) -> None:
        """Continue after a halt, with another session if one is given."""
        with self._ready:
            if state is not None:
                self.session, self.position, self.kept, self.born = state
                self.since = self.position - self.kept
                self.broken = self._cut = False
                self.lives += 1
            self._halt = self._parked = False
            self._ready.notify_all()

    def stop(self) -> None:
        """Finish what waits, and end."""
        self._set("_stop")

    def end(self, error: Exception) -> None:
        """The agent is gone: refuse what still waits."""
        with self._ready:
            self._stop = True
            waiting = [*self._decides, *self._rest]
            self._decides.clear()
            self._rest.clear()
            self._ready.notify_all()
        deliver([(task.waiter, None, error) for task in waiting])

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    @property
    def waiting(self) -> int:
        """How many tasks wait."""
        return len(self._decides) + len(self._rest)

    def _set(self, flag: str) -> None:
        with self._ready:
            setattr(self, flag, True)
            self._ready.notify_all()

    # The thread.

    def _work(self) -> None:
        try:
            self._serve()
        finally:
            self._set("_parked")
            self.end(Unavailable("the service has stopped"))

    def _serve(self) -> None:
        while (decides := self._next()) is not None:
            self._send(self._learn(self._decide(decides)))
            if self.session.alive and not self.broken:
                self._send(self._study())
            if self.broken:
                self._owner.in_trouble()
            elif self._nudged or self._due >= self._owner.snapshot_every:
                self._keep()
        if self.session.alive and self.since and not self.broken:
            self._keep()

    def _next(self) -> deque[Task] | None:
        """The decisions that wait; None at the end."""
        with self._ready:
            while True:
                if self._halt:
                    self._land()
                    self._parked = True
                    self._ready.notify_all()
                elif self.broken:  # until the halt comes
                    if self._stop and not self._flying:
                        return None
                elif (self._decides or self._rest or self._nudged or (self._owes and not self._stop)) and (
                    self._may_go_ahead()
                ):
                    self._load = 0
                    decides, self._decides = self._decides, deque()
                    return decides
                elif self._stop and not self._flying:
                    return None
                self._idle = True
                self._ready.wait()
                self._idle = False

    def _may_go_ahead(self) -> bool:
        """Few requests had better share one append; where much waits the disk need not be waited for."""
        return len(self._flying) < (AHEAD if self._load < PLENTY else LATER)

    def _land(self) -> None:
        self._ready.wait_for(lambda: not self._flying)

    def _decide(self, tasks: deque[Task]) -> Batch:
        batch = Batch()
        waiting = pending(self.session.agent, self._now()) if self.session.alive and tasks else 0
        for task in tasks:
            waiting += self._do(task, batch, waiting)
        return batch

    def _learn(self, batch: Batch) -> Batch:
        """Work on everything else until the time is up, or nothing is left; at least on one thing.

        What is done already goes to the disk before anything that can take long.
        """
        now = sent = time.perf_counter()
        until = now + self._owner.learn_budget
        while not self.broken and (task := self._first()) is not None:
            if now - sent > SOON or not isinstance(task.what, Reward | Rewards):
                self._send(batch)
                batch, sent = Batch(), now
            if not isinstance(task.what, Rewards):
                self._do(task, batch, 0)
            elif not self._hear(task, task.what, batch, until):
                with self._ready:
                    self._rest.appendleft(task)
            now = time.perf_counter()
            if now >= until:
                break
        if not (self.session.alive or batch.entries or self._flying or self.broken):
            self._owner.gone(self)  # it could not be made
        return batch

    def _first(self) -> Task | None:
        """The next of everything but decisions; another thread may have cleared them away."""
        with self._ready:
            return self._rest.popleft() if self._rest else None

    def _hear(self, task: Task, rewards: Rewards, batch: Batch, until: float) -> bool:
        """Many rewards, until the time is up; whether those were all. A session made anew hears all of them again."""
        if task.life != self.lives:
            task.life, task.done, task.refused = self.lives, 0, []
        news: list[Reward] = []
        if not self.session.alive:
            batch.answers.append((task.waiter, None, Problem(404, "unknown-agent", f"there is no agent {self.name!r}")))
            return True
        try:
            while task.done < len(rewards):
                self._hear_one(rewards[task.done], news, task)
                task.done += 1
                if time.perf_counter() >= until:
                    break
        except Exception as error:  # noqa: BLE001
            self._lost(task, error, batch)
            return True
        if news:
            self._write(Told(news), None, batch)
        if task.done < len(rewards):
            return False
        taken = len(rewards) - len(task.refused)
        batch.answers.append((task.waiter, wire.encode({"taken": taken, "refused": task.refused}), None))
        return True

    def _hear_one(self, reward: Reward, news: list[Reward], task: Task) -> None:
        try:
            outcome = self.session.news(reward)
            self.counts[outcome] += 1
            if outcome != "same":
                self.session.apply(reward)
                news.append(reward)
        except TaciturnError as error:
            problem = problem_of(error)
            task.refused.append({"id": reward.id, "status": problem.status, "detail": problem.detail})

    def _study(self) -> Batch:
        """Some of the learning that decisions have put off: a piece, and more while nobody waits for a decision."""
        batch, pieces = Batch(), 0
        until = time.perf_counter() + self._owner.learn_budget
        self._owes = False
        try:
            while self.session.agent.train_pending():
                pieces += 1
                if self._decides or time.perf_counter() >= until:
                    self._owes = True
                    break
        except Exception:
            self.broken = True
            log.exception("agent %s cannot study", self.name)
            return batch
        if pieces:
            self._write(Study(pieces), None, batch)
        return batch

    def _do(self, task: Task, batch: Batch, waiting: int) -> int:
        """Work on one task; how many decisions wait for feedback because of it."""
        if self.broken or task.waiter.cancelled():
            batch.answers.append((task.waiter, None, Unavailable("the agent is being made anew")))
            return 0
        try:
            if isinstance(task.what, msgspec.Struct):
                answer = self._perform(task.what, task.raw, batch, waiting)
            else:
                answer = self._look(task.what)
            batch.answers.append((task.waiter, answer, None))
        except TaciturnError as error:
            batch.answers.append((task.waiter, None, error))
        except Exception as error:  # noqa: BLE001
            self._lost(task, error, batch)
        return len(task.what.ask.given) if isinstance(task.what, Decide) else 0

    def _look(self, look: Any) -> Any:
        if not self.session.alive:
            raise Problem(404, "unknown-agent", f"there is no agent {self.name!r}")
        try:
            return look(self.session)
        except TaciturnError:
            raise
        except Exception as error:
            raise problem_of(error) from error

    def _lost(self, task: Task, error: Exception, batch: Batch) -> None:
        """Something failed that nobody foresaw, and the session may have half changed: it must be made anew."""
        self.broken = True
        batch.answers.append((task.waiter, None, problem_of(error)))

    def _perform(self, op: Op, raw: bytes | None, batch: Batch, waiting: int) -> Any:
        """Apply what changes something, and write it down; what is known already is answered as it was."""
        session = self.session
        if not session.alive and not isinstance(op, Create | Import):
            raise Problem(404, "unknown-agent", f"there is no agent {self.name!r}")
        answer: Any = None
        if isinstance(op, Decide):
            known = session.answers.get(op.ask.request_id) if op.ask.request_id is not None else None
            if known is not None:
                return known.encode()
            self._owner.limits.check_room(session.agent, op.ask, waiting)
            if session.timed:
                op = Decide(op.ask, self._now())
            answer = wire.answer_of(session.apply(op), alone=op.ask.alone)
            self.counts["decisions"] += len(op.ask.given)
        elif isinstance(op, Reward):
            news = session.news(op)
            self.counts[news] += 1
            if news != "same":
                session.apply(op)
            answer = wire.encode({"id": op.id, "reward": op.reward, "outcome": news})
            if news == "same":
                return answer
        else:
            if isinstance(op, RetireArm):
                op = RetireArm(wire.arm_called(str(op.arm), session.agent.arm_names))  # type: ignore[arg-type]
            answer = self._change(op)
        self._write(op, raw, batch)
        batch.last = isinstance(op, Delete)
        return answer

    def _write(self, op: Op, raw: bytes | None, batch: Batch) -> None:
        batch.entries.append(wire.entry_of(self.name, op, raw))
        self.since += 1
        self._due += 1

    def _change(self, op: Op) -> Any:
        if isinstance(op, AddArm):
            self._owner.limits.check_arm(self.session.agent, op)
        if isinstance(op, RetireArm) and op.arm not in (known := self.session.agent.arm_names):
            raise Problem(404, "unknown-arm", f"there is no arm {op.arm!r} among the {len(known)} of this agent")
        self.session.apply(op)
        return None if isinstance(op, Delete) or not self.session.alive else wire.encode(self.session.about(self.name))

    def _now(self) -> float:
        """The time. It is written down, and never runs backwards in one life of the service."""
        self._latest = max(self._latest, self._owner.clock())
        return self._latest

    # To the disk, and back to those who wait.

    def _send(self, batch: Batch) -> None:
        if not batch.answers and not batch.entries:
            return
        with self._ready:
            if self._cut:
                batch = Batch([], refused(batch.answers))
            elif batch.entries:
                self._flying.append(batch)
            elif self._flying:
                self._flying[-1].answers.extend(batch.answers)
                return
        if not batch.entries:
            deliver(batch.answers)
            return
        while True:
            try:
                self._commit.submit(batch.entries, partial(self._appended, batch))
            except Busy:
                with self._ready:
                    self._ready.wait(0.01)  # others fill the queue; it empties as fast as the disk can write
            else:
                return

    def _appended(self, batch: Batch, error: Exception | None, position: int) -> None:
        """On the thread of the group commit: the batch is durable, or lost with everything behind it."""
        with self._ready:
            self._flying.remove(batch)
            self._cut |= error is not None
            self.broken |= self._cut
            self.position = max(position, self.position)
            self.shown |= error is None
            answers = batch.answers
            self._ready.notify_all()
        if error is None:
            self._owner.appended(self, position)
            if batch.last:
                self._owner.gone(self)
            deliver(answers)
        else:
            self._owner.in_trouble()
            deliver(refused(answers))

    def _keep(self) -> None:
        """Make a snapshot of all that is durable, which is everything once nothing is on its way."""
        with self._ready:
            self._land()
            self._nudged = False
        self._due = 0
        if not self.broken and self.session.alive:
            self._owner.keep(self)
