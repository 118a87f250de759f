"""Processes jobs on one agent's session: checks limits, applies operations, and collects entries and results."""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from taciturn.errors import TaciturnError
from taciturn.service.core.encoding import answer_of, encode
from taciturn.service.core.errors import HalfDone, Unavailable, UnknownAgent, ValidationError, internal_error
from taciturn.service.core.jobs import Batch, Job, Query, Refusal, Result, RewardBatchResult
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import (
    AddArm,
    Create,
    Decide,
    Delete,
    Import,
    Op,
    RetireArm,
    Reward,
    RewardBatch,
    TrainPending,
    decide_entry,
    entry_of,
)
from taciturn.service.core.session import Session
from taciturn.system import format_bytes

log = logging.getLogger("taciturn.service")
MEASURE_EVERY = 64
"""Decisions between two measurements of an agent's memory."""

READ_ONLY = "the journal cannot be written now"


class Settings(Protocol):
    """What a processor reads of its service, for each job."""

    limits: Limits
    clock: Callable[[], float]
    writable: threading.Event

    def memory_in_use(self) -> float:
        """Bytes that all agents hold together."""


class Processor:
    """The session of one agent, used by the agent's thread only.

    After an error that was not foreseen the session may be half changed: the processor is `broken` and refuses
    everything until it gets another session, restored from the journal.
    """

    def __init__(self, name: str, session: Session, settings: Settings) -> None:
        self.name, self.session = name, session
        self.broken = False
        self.generation = 0  # number of times that the session was replaced
        self.counts: Counter[str] = Counter()  # decisions, and rewards by their outcome
        self._settings = settings
        self._latest = 0.0
        self.memory = 0  # bytes that the agent held when that was last measured
        self._measured_at = (-1, -1)
        if session.alive:
            self._measure()

    def replace_session(self, session: Session) -> None:
        """Continue with another session."""
        self.session, self.broken = session, False
        if session.alive:
            self._measure()
        self.generation += 1

    def decide(self, jobs: Collection[Job]) -> Batch:
        """Process jobs that decide, in order."""
        batch = Batch()
        pending = self.session.pending(self._now()) if jobs and self.session.alive else 0
        before = self.counts["decisions"]
        for job in jobs:
            self.process(job, batch)
        if self.session.alive and not self.broken:
            self._silence_oldest(pending + self.counts["decisions"] - before, batch)
        return batch

    def _measure(self) -> None:
        """Measure the agent's memory, after some decisions or new features."""
        agent = self.session.agent
        if (now := (agent.next_id // MEASURE_EVERY, agent.n_features)) != self._measured_at:
            self._measured_at, self.memory = now, agent.memory_in_use() + self.session.remembered.nbytes

    def process(self, job: Job, batch: Batch) -> None:
        """Process one job; anything but a batch of rewards. A job that its caller has cancelled is not tried."""
        if self.broken or job.future.cancelled():
            batch.fail(job.future, Unavailable("the agent is being restored"))
            return
        if isinstance(job.what, msgspec.Struct) and not self._settings.writable.is_set():
            batch.fail(job.future, Unavailable(READ_ONLY))
            return
        try:
            if isinstance(job.what, msgspec.Struct):
                value = self._run_operation(job.what, job.raw, batch)
            else:
                value = self._run_query(job.what)
            batch.results.append(Result(job.future, value))
        except TaciturnError as error:
            batch.fail(job.future, error)
        except HalfDone as error:
            log.warning("agent %s refused a request after it had changed, and is restored: %s", self.name, error)
            self.broken = True
            batch.fail(job.future, error.reason)
        except Exception as error:  # noqa: BLE001 - the session must be restored, whatever it is
            self._break(job, error, batch)

    def process_rewards(self, job: Job, rewards: list[Reward], batch: Batch, until: float) -> bool:
        """Process the rewards of a batch until the time is up; returns whether the job is finished.

        A session that was replaced meanwhile gets all of them again: those that are in the journal change nothing.
        """
        if not self._settings.writable.is_set():
            batch.fail(job.future, Unavailable(READ_ONLY))
            return True
        if job.generation != self.generation:
            job.generation, job.done, job.refused = self.generation, 0, []
        if not self.session.alive:
            batch.fail(job.future, UnknownAgent(self.name))
            return True
        changed: list[Reward] = []
        try:
            while job.done < len(rewards):
                self._learn_reward(rewards[job.done], changed, job)
                job.done += 1
                if time.perf_counter() >= until:
                    break
        except Exception as error:  # noqa: BLE001 - the session must be restored, whatever it is
            self._break(job, error, batch)
            return True
        if changed:
            self._record(RewardBatch(changed), batch)
        if job.done < len(rewards):
            return False
        result = RewardBatchResult(len(rewards) - len(job.refused), job.refused)
        batch.results.append(Result(job.future, result))
        return True

    def train(self, until: float, interrupted: Callable[[], bool]) -> tuple[Batch, bool]:
        """Run deferred training: one step, and more until the time is up or decisions wait.

        Returns the batch, and whether training was stopped early.
        """
        batch, steps, stopped = Batch(), 0, False
        try:
            while not stopped and self.session.agent.train_pending():
                steps += 1
                stopped = interrupted() or time.perf_counter() >= until
        except Exception:
            self.broken = True
            log.exception("agent %s cannot run its pending training", self.name)
            return batch, False
        if steps:
            self._record(TrainPending(steps), batch)
        return batch, stopped

    def _learn_reward(self, reward: Reward, changed: list[Reward], job: Job) -> None:
        try:
            outcome = self.session.classify_feedback(reward)
            self.counts[outcome] += 1
            if outcome != "same":
                self.session.apply(reward)
                changed.append(reward)
        except TaciturnError as error:
            job.refused.append(Refusal(reward.id, error))

    def _run_query(self, query: Query) -> Any:
        if not self.session.alive:
            raise UnknownAgent(self.name)
        try:
            return query(self.session)
        except TaciturnError:
            raise
        except Exception as error:
            raise internal_error(error) from error

    def _run_operation(self, op: Op, raw: bytes | None, batch: Batch) -> Any:
        """Apply an operation and record it for the journal; returns the answer."""
        if not self.session.alive and not isinstance(op, Create | Import):
            raise UnknownAgent(self.name)
        if isinstance(op, Decide):
            return self._decide(op, raw, batch)
        if isinstance(op, Reward):
            return self._reward(op, batch)
        return self._change(op, batch)

    def _decide(self, op: Decide, raw: bytes | None, batch: Batch) -> bytes:
        request, session = op.request, self.session
        known = session.known_decisions(request)
        if known is not None:  # a retry
            return answer_of(encode(known), single=request.single)
        self._settings.limits.check_capacity(session.agent, request)
        self._settings.limits.check_total(session.agent, request, self._settings.memory_in_use())
        op = Decide(request, self._now())
        decisions = encode(session.apply(op))
        self.counts["decisions"] += len(request.all_contexts)
        self._measure()
        batch.entries.append(decide_entry(self.name, op, decisions, raw))
        return answer_of(decisions, single=request.single)

    def _silence_oldest(self, pending: int, batch: Batch) -> None:
        """Make the oldest decisions silent where more are pending than the limit allows."""
        excess = pending - self._settings.limits.max_pending(self.session.agent)
        if excess <= 0:
            return
        silenced = [Reward(id, None) for id in self.session.oldest_pending(excess)]
        try:
            for reward in silenced:
                self.session.apply(reward)
        except Exception:
            self.broken = True
            log.exception("agent %s cannot make its oldest decisions silent", self.name)
            return
        if not self.counts["silenced"]:
            log.warning("agent %s: too many decisions wait for feedback, so the oldest become silent", self.name)
        self.counts["silenced"] += len(silenced)
        self._record(RewardBatch(silenced), batch)

    def _reward(self, op: Reward, batch: Batch) -> bytes:
        outcome = self.session.classify_feedback(op)
        self.counts[outcome] += 1
        if outcome != "same":
            self.session.apply(op)
            self._record(op, batch)
        return encode({"id": op.id, "reward": op.reward, "outcome": outcome})

    def _change(self, op: Op, batch: Batch) -> bytes | None:
        if isinstance(op, AddArm):
            self._settings.limits.check_arm(self.session.agent, op)
        if isinstance(op, RetireArm):
            op = RetireArm(self.session.arm_named(str(op.arm)))  # type: ignore[arg-type]
        if isinstance(op, Create | Import):
            self._settings.limits.check_memory(self._settings.memory_in_use())
        self.session.apply(op)
        if isinstance(op, Create):
            self._check_memory_of_new()
            op = self.session.resolved(op)
        answer = encode(self.session.about(self.name)) if self.session.alive else None
        self._record(op, batch)
        batch.deletes_agent |= isinstance(op, Delete)
        return answer

    def _check_memory_of_new(self) -> None:
        """Raise, without the agent, where it could not even decide on a context of one feature."""
        agent = self.session.agent
        limit = min(agent.memory_limit or math.inf, self._settings.limits.allowed_memory)
        if (needed := agent.memory_estimate(1)) > limit:
            self.session = Session()
            message = f"this agent takes about {format_bytes(needed)}; {format_bytes(limit)} are allowed"
            raise ValidationError(message, "params")

    def _record(self, op: Op, batch: Batch) -> None:
        batch.entries.append(entry_of(self.name, op))

    def _break(self, job: Job, error: Exception, batch: Batch) -> None:
        self.broken = True
        batch.fail(job.future, internal_error(error))

    def _now(self) -> float:
        """The time in seconds; it is written to the journal, and never runs backwards while the service runs."""
        self._latest = max(self._latest, self._settings.clock())
        return self._latest
