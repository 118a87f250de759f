"""What the routes and the page of a front do: ask the shard of an agent, or all shards."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import Problem
from taciturn.service.api.schemas import decode_create
from taciturn.service.cluster.merge import merged_metrics
from taciturn.service.cluster.messages import Answer
from taciturn.service.cluster.router import Router
from taciturn.service.core.encoding import encode
from taciturn.service.core.errors import Unavailable
from taciturn.service.journal.directory import Directory
from taciturn.service.web.rendering import Parts, list_of_agents

Handle = Callable[["RemoteHandlers", dict[str, str], bytes], Awaitable[bytes]]


def _forwarded(name: str) -> Handle:
    """A handler that sends a call to the shard of its agent, which decodes and checks the body."""

    async def handle(self: "RemoteHandlers", path: dict[str, str], body: bytes) -> bytes:
        return await self.forward(name, path, body)

    return handle


class RemoteHandlers:
    """The handlers of the routes (`taciturn.service.api.routes.Handlers`) over shards.

    Arguments:
        router: finds the shards.
        directory: says which agents there are.
        metrics: of the requests to this front.
    """

    def __init__(self, router: Router, directory: Directory, metrics: Metrics) -> None:
        self._router, self._directory, self._metrics = router, directory, metrics

    decide = _forwarded("decide")
    reward = _forwarded("reward")
    rewards = _forwarded("rewards")
    withdraw = _forwarded("withdraw")
    explain = _forwarded("explain")
    agent = _forwarded("agent")
    delete = _forwarded("delete")
    add_arm = _forwarded("add_arm")
    retire_arm = _forwarded("retire_arm")
    health = _forwarded("health")
    save = _forwarded("save")
    load = _forwarded("load")

    async def forward(self, name: str, path: dict[str, str], body: bytes) -> bytes:
        """The answer of the shard of the agent `path["agent"]` to a call."""
        return await self._router.ask_agent(path["agent"], "call", name, path, body)  # type: ignore[no-any-return]

    async def create(self, _: dict[str, str], body: bytes) -> bytes:
        """Create an agent where its name says."""
        return await self.forward("create", {"agent": decode_create(body).name}, body)

    async def agents(self, _: dict[str, str], __: bytes) -> bytes:
        """The names of all agents."""
        names = await asyncio.to_thread(self._directory.names)
        return encode({"agents": [{"name": name} for name in names]})

    async def alive(self, _: dict[str, str], __: bytes) -> bytes:
        """Answer without doing anything."""
        return encode({"status": "alive"})

    async def ready(self, _: dict[str, str], __: bytes) -> bytes:
        """Whether all shards serve."""
        found = await self.statuses()
        waiting = {shard: status for shard, status in found.items() if status != "ready"}
        if waiting or not found:
            said = "; ".join(f"shard {shard}: {status}" for shard, status in waiting.items())
            raise Unavailable(said or "no shard has been started yet")
        return encode({"status": "ready", "shards": len(found)})

    async def ready_shard(self, path: dict[str, str], _: bytes) -> bytes:
        """Whether one shard serves."""
        found = await self.statuses()
        shard = int(path["shard"]) if path["shard"].isdecimal() and len(path["shard"]) < 6 else -1
        if shard not in found:
            raise Problem(404, "unknown-route", f"there is no shard {path['shard'][:6]}")
        if found[shard] != "ready":
            raise Unavailable(found[shard])
        return encode({"status": "ready"})

    async def statuses(self) -> dict[int, str]:
        """What each shard says that it is doing."""
        return {shard: str(status) for shard, status in (await self._router.ask_all("status")).items()}

    async def metrics(self, _: dict[str, str], __: bytes) -> bytes:
        """Metrics of this front and of all shards that answer."""
        found = await self._router.ask_all("metrics")
        return merged_metrics(self._metrics.text(), {n: text for n, text in found.items() if isinstance(text, bytes)})


class RemoteViews:
    """The views of the page (`taciturn.service.web.pages.PageViews`) over shards."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def agents(self) -> Parts:
        """A card for each agent of the shards that answer."""
        found = await self._router.ask_all("cards")
        return list_of_agents(answer.value for answer in found.values() if _is_done(answer))

    async def agent(self, name: str) -> Parts:
        """One agent."""
        return await self._router.ask_agent(name, "view", name)  # type: ignore[no-any-return]

    async def decision(self, name: str, id: int) -> Parts:
        """One decision and its explanation."""
        return await self._router.ask_agent(name, "view", name, id)  # type: ignore[no-any-return]


def _is_done(answer: Any) -> bool:
    return isinstance(answer, Answer) and answer.kind == "done"
