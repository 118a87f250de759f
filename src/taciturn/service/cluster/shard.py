"""A shard: the process that owns some of the agents.

It answers calls for agents that it has. One that it has not restored yet is restored first; for one that another shard
has it says which. Agents that belong on another shard, since the number of shards has changed, are handed over one by
one. All of it runs on one event loop; what takes long, on threads.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from taciturn.errors import TaciturnError
from taciturn.service.api.local import Api
from taciturn.service.api.metrics import service_metrics
from taciturn.service.api.problems import Problem, problem_of
from taciturn.service.cluster.lease import Lease
from taciturn.service.cluster.messages import Answer, problem_answer
from taciturn.service.cluster.ring import ring
from taciturn.service.core.errors import NotQueued, Unavailable, UnknownAgent
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import NAME
from taciturn.service.core.shard_service import ShardService
from taciturn.service.journal.base import Fenced, JournalInUse
from taciturn.service.journal.directory import Directory
from taciturn.service.journal.shared import SharedJournal
from taciturn.service.journal.snapshots import open_snapshots
from taciturn.service.web.latency import Latencies
from taciturn.service.web.views import Views

log = logging.getLogger("taciturn.service")
NEW = ("create", "load")
"""Calls that make an agent."""

CALLS = frozenset({
    *NEW, "decide", "reward", "rewards", "withdraw", "explain", "agent", "delete", "add_arm", "retire_arm", "health",
    "save",
})  # fmt: skip
"""The calls for one agent, by the names of their handlers."""

SETTLE_SECONDS = 0.5
"""Pause between two looks at whether agents belong elsewhere."""


class ShardSettings(NamedTuple):
    """What a shard is started with: for the arguments see `taciturn.service.config.Settings`."""

    postgres: str
    snapshots: str
    limits: Limits
    lease_seconds: float = 5.0
    learn_budget_ms: float = 10.0
    snapshot_every: int = 20_000
    snapshot_seconds: float = 5.0


class Shard:
    """One shard; `start` it on an event loop, and `close` it there.

    Arguments:
        number: which shard.
        place: the name of this process, by which fronts find it.
        settings: how it serves.
        on_fenced: called, on any thread, once another process is this shard.
    """

    def __init__(
        self, number: int, place: str, settings: ShardSettings, on_fenced: Callable[[Fenced], object] = lambda _: None
    ) -> None:
        self.number = number
        self._directory = Directory(settings.postgres)
        taken, epoch = _take(self._directory, number, place, settings.lease_seconds)
        self._journal = SharedJournal(settings.postgres, shard=number, epoch=epoch)
        self._snapshots = open_snapshots(settings.snapshots, history=self._journal.digest_at)
        self.service = ShardService(
            self._journal,
            self._snapshots,
            limits=settings.limits,
            learn_budget_ms=settings.learn_budget_ms,
            snapshot_every=settings.snapshot_every,
            snapshot_seconds=settings.snapshot_seconds,
        )

        def fenced(error: Fenced) -> None:
            self.service.stop_for_good(error)
            on_fenced(error)

        self.lease = Lease(
            Directory(settings.postgres),
            shard=number,
            epoch=epoch,
            seconds=settings.lease_seconds,
            taken=taken,
            on_fenced=fenced,
        )
        self._metrics = service_metrics(self.service)
        self._api = Api(self.service, settings.limits, self._metrics)
        self._latencies = Latencies()
        self._views = Views(self.service, self._latencies)
        self._busy: dict[str, asyncio.Task[None]] = {}  # agents that are being restored or handed over
        self._settling: asyncio.Task[None] | None = None
        self._shards, self._others = 1, set[int]()  # how many are wanted, and which others are there
        self._waiting = 0  # agents that are not restored yet
        self._storage_fails = False  # snapshots of deleted agents cannot be removed

    def start(self) -> None:
        """Restore all agents, and hand over those that belong elsewhere, in the background."""
        self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def close(self) -> None:
        """Finish what is queued, write snapshots, and give the lease back."""
        if self._settling is not None:
            self._settling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._settling
        await asyncio.gather(*self._busy.values(), return_exceptions=True)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self.service.close()
        self.lease.close()
        self._journal.close()
        self._directory.close()

    # Called by fronts.

    async def call(self, name: str, path: dict[str, str], body: bytes) -> Answer:
        """Run a call of the API for the agent `path["agent"]`."""
        if name not in CALLS:
            return problem_answer(Problem(404, "unknown-route", "there is no such call"))
        started = time.perf_counter()
        answer = await self._for_agent(path["agent"], lambda: getattr(self._api, name)(path, body), new=name in NEW)
        if name == "decide" and answer.kind == "done":
            self._latencies.note(path["agent"], time.perf_counter() - started)
        return answer

    async def view(self, name: str, id: int | None = None) -> Answer:
        """The parts of the page of an agent, or of one of its decisions."""
        return await self._for_agent(
            name, lambda: self._views.agent(name) if id is None else self._views.decision(name, id)
        )

    async def cards(self) -> Answer:
        """The cards of all agents that are served here."""
        return await self._answered(self._views.cards)

    async def metrics(self) -> bytes:
        """Metrics in the format of Prometheus."""
        return self._metrics.text()

    async def status(self) -> str:
        """In a few words, what this shard is doing."""
        if not self.service.ready:
            return self.service.status
        if not self.lease.valid:
            return "waiting for PostgreSQL, to renew its lease"
        return f"restoring: {self._waiting} agents are left" if self._waiting else "ready"

    async def _for_agent(self, name: str, run: Callable[[], Awaitable[Any]], *, new: bool = False) -> Answer:
        async def work() -> Any:
            while True:
                elsewhere = await self._elsewhere(name, new=new)
                if elsewhere is not None:
                    return Answer("moved", elsewhere)
                try:
                    return await run()
                except UnknownAgent:  # or handed over before its request was queued, so that nothing was done
                    if not NAME.fullmatch(name) or await asyncio.to_thread(self._directory.owner, name) is None:
                        raise
                except NotQueued:
                    if name not in self._busy and self.service.serves(name):  # not it alone is being stopped
                        raise

        return await self._answered(work)

    async def _answered(self, run: Callable[[], Awaitable[Any]]) -> Answer:
        """What a call returns, as an answer; a refusal if another process may be this shard by now."""
        try:
            value = await run()
            answer = value if isinstance(value, Answer) else Answer("done", value)
        except Exception as error:  # noqa: BLE001 - every error becomes a problem
            answer = problem_answer(problem_of(error))
        if not self.lease.valid:
            return problem_answer(problem_of(Unavailable(await self.status())))
        return answer

    # Where agents are.

    async def _elsewhere(self, name: str, *, new: bool) -> int | None:
        """The shard that has an agent, if it is another; an agent of this shard is served afterwards."""
        while NAME.fullmatch(name):
            if (task := self._busy.get(name)) is not None:
                await asyncio.shield(task)
                continue
            if self.service.serves(name):
                return None
            owner = await asyncio.to_thread(self._directory.owner, name)
            if name in self._busy or self.service.serves(name):
                continue
            if owner is None:
                best = ring(self._shards).owner(name)
                return best if new and best in self._others else None
            if owner != self.number:
                return owner
            await self._exclusively(name, asyncio.to_thread(self.service.adopt, name))
        return None  # no agent has such a name

    async def _exclusively(self, name: str, work: Awaitable[None]) -> None:
        """Do something with an agent for which calls wait."""
        task = self._busy[name] = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._busy.pop(name, None))  # before those who wait for it go on
        await asyncio.shield(task)

    async def _settle(self) -> None:
        """Restore agents, and hand over those that belong elsewhere, until this is cancelled."""
        while True:
            try:
                mine = list(await asyncio.to_thread(self._journal.agents))
                await self._restore_all(mine)
                await self._hand_over_all(mine)
                await asyncio.to_thread(self._remove_deleted)
            except TaciturnError as error:
                log.warning("shard %d: %s", self.number, error)
            except Exception:  # whatever it is, it is tried again
                log.exception("shard %d cannot look after its agents now", self.number)
            await asyncio.sleep(SETTLE_SECONDS)

    async def _restore_all(self, mine: list[str]) -> None:
        left = [name for name in mine if not self.service.serves(name)]
        for i, name in enumerate(left):
            self._waiting = len(left) - i
            await self._elsewhere(name, new=False)
        self._waiting = 0

    async def _hand_over_all(self, mine: list[str]) -> None:
        self._shards, self._others = await asyncio.to_thread(self._read_directory)
        best = ring(self._shards).owner
        for name in mine:
            if (to := best(name)) in self._others and name not in self._busy:
                await self._exclusively(name, asyncio.to_thread(self._hand_over, name, to))

    def _read_directory(self) -> tuple[int, set[int]]:
        live = {row.shard for row in self._directory.shards() if row.live}
        return self._directory.wanted(), live - {self.number}

    def _hand_over(self, name: str, to: int) -> None:
        self.service.release(name)
        self._journal.hand_over(name, to)
        log.info("shard %d: agent %s is on shard %d now", self.number, name, to)

    def _remove_deleted(self) -> None:
        """Remove snapshots and entries of deleted agents; where snapshots cannot be removed now, both later."""
        for agent, until in self._journal.deleted():
            try:
                self._snapshots.remove(agent, until)
            except OSError as error:
                if not self._storage_fails:  # once, not twice a second
                    log.warning("shard %d: snapshots of %s were not removed: %s", self.number, agent, error)
                self._storage_fails = True
                return
            self._storage_fails = False
            self._journal.remove_entries(agent, until)


def _take(directory: Directory, number: int, place: str, seconds: float) -> tuple[float, int]:
    """Become the process of a shard once the lease before has run out; returns the time just before, and the epoch."""
    while True:
        asked = time.monotonic()
        try:
            return asked, directory.take(number, place, seconds)
        except JournalInUse:
            time.sleep(seconds / 20.0)
