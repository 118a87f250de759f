"""How a front finds the shard of an agent, and what it does when that shard does not answer."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from taciturn.service.api.problems import Problem
from taciturn.service.cluster.messages import Answer
from taciturn.service.cluster.ring import ring
from taciturn.service.core.errors import Unavailable
from taciturn.service.journal.directory import ShardRow

log = logging.getLogger("taciturn.service")
Found = TypeVar("Found")
MAX_HOPS = 4
"""Shards that one request may be sent to, since an agent may move again meanwhile."""

PATIENCE, PAUSE = 2.0, 0.05
"""Seconds that a request waits for a shard that is being started, and between two attempts to reach it."""

MAX_MOVED = 10_000
"""Agents that are remembered because they are not where the ring says."""


class Process(Protocol):
    """The process of a shard, from afar."""

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of its `Shard`; raises any error if it does not answer."""


class _Link:
    """The process that is a shard now; `gone` is done once another is."""

    def __init__(self, place: str, process: Process) -> None:
        self.place, self.process = place, process
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Router:
    """Sends calls to shards; used on one event loop.

    Arguments:
        connect: returns the process of a name; raises any error if there is none.
        seconds: how long a shard may take to answer.
        patience: how long a request waits for a shard that is being started.
        refresh: called when a shard does not answer, so that `update` comes soon.
    """

    def __init__(
        self,
        connect: Callable[[str], Process],
        *,
        seconds: float,
        patience: float = PATIENCE,
        refresh: Callable[[], object] = lambda: None,
    ) -> None:
        self._connect, self._seconds, self._patience, self._refresh = connect, seconds, patience, refresh
        self._links: dict[int, _Link] = {}
        self._places: dict[int, str] = {}
        self._moved: OrderedDict[str, int] = OrderedDict()
        self.shards = 0

    def update(self, wanted: int, rows: Iterable[ShardRow]) -> None:
        """Take note of how many shards there should be, and where they are."""
        if wanted != self.shards:
            self._moved.clear()
        self.shards = wanted
        self._places = {row.shard: row.place for row in rows if row.live}
        for shard, link in list(self._links.items()):
            if self._places.get(shard) != link.place:
                self._forget(shard, link)

    @property
    def numbers(self) -> list[int]:
        """The shards that there are or should be."""
        return sorted(self._places.keys() | set(range(self.shards)))

    async def ask_agent(self, name: str, method: str, *arguments: Any) -> Any:
        """Call a method of the shard that has an agent; raises the problem that it answers with."""
        await self._wait(lambda: self.shards > 0)
        if not self.shards:
            raise Unavailable("no shard has been started yet")
        shard = self._moved.get(name, ring(self.shards).owner(name))
        if shard not in self._places and self._places:  # any other knows where the agent is
            shard = min(self._places)
        for _ in range(MAX_HOPS):
            answer = await self._ask(shard, method, *arguments)
            if answer.kind != "moved":
                return self._value(answer)
            shard = answer.value
            self._remember(name, shard)
        raise Unavailable(f"agent {name!r} is moving from shard to shard")

    async def ask_all(self, method: str, *arguments: Any) -> dict[int, Any]:
        """Call a method of all shards; the value or the error of each."""
        numbers = self.numbers
        answers = await asyncio.gather(
            *(self._ask(shard, method, *arguments) for shard in numbers), return_exceptions=True
        )
        return dict(zip(numbers, answers, strict=True))

    def _value(self, answer: Answer) -> Any:
        if answer.kind == "problem":
            raise Problem(*answer.value)
        return answer.value

    def _remember(self, name: str, shard: int) -> None:
        self._moved[name] = shard
        self._moved.move_to_end(name)
        if len(self._moved) > MAX_MOVED:
            self._moved.popitem(last=False)

    async def _ask(self, shard: int, method: str, *arguments: Any) -> Any:
        """The answer of a shard; `Unavailable` if it does not answer, or if its process is another meanwhile."""
        link = await self._link(shard)
        call = asyncio.ensure_future(link.process.ask(method, *arguments))
        await asyncio.wait((call, link.gone), timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        if not call.done():
            call.cancel()
            self._forget(shard, link)
            raise Unavailable(f"shard {shard} does not answer; the request may still be carried out")
        try:
            return call.result()
        except Exception as error:  # noqa: BLE001 - of whatever kind: its process is gone, or cannot be reached
            log.debug("shard %d: %s", shard, error)
            self._forget(shard, link)
            raise Unavailable(f"shard {shard} is being restarted; the request may have been carried out") from None

    async def _link(self, shard: int) -> _Link:
        """The process that is a shard now, once there is one."""
        found = await self._wait(lambda: self._links.get(shard) or self._connected(shard))
        if found is None:
            raise Unavailable(f"shard {shard} is being restarted")
        return found

    def _connected(self, shard: int) -> _Link | None:
        place = self._places.get(shard)
        try:
            if place is not None:
                self._links[shard] = _Link(place, self._connect(place))
        except Exception as error:  # noqa: BLE001 - its process is gone, and known to be soon
            log.debug("shard %d: %s", shard, error)
        return self._links.get(shard)

    async def _wait(self, condition: Callable[[], Found]) -> Found:
        """Wait until a condition is true, for as long as requests are patient; returns what it is at the end."""
        deadline = asyncio.get_running_loop().time() + self._patience
        while not (found := condition()) and asyncio.get_running_loop().time() < deadline:
            self._refresh()
            await asyncio.sleep(PAUSE)
        return found

    def _forget(self, shard: int, link: _Link) -> None:
        """Connect to a shard again before the next call; those that wait for an answer wait no longer."""
        if self._links.get(shard) is link:
            del self._links[shard]
        if not link.gone.done():
            link.gone.set_result(None)
        self._refresh()
