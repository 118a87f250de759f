"""How long decisions took: the last of each agent, measured around the whole application."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

KEPT = 1000
BARS = 24

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of the last requests to decide, and how many fell into each of equally wide (log) steps."""

    count: int
    p50: float
    p90: float
    p99: float
    longest: float
    edges: list[float]
    heights: list[int]


class Latencies:
    """The last durations of each agent, in seconds. All of it happens on the event loop."""

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}

    def note(self, agent: str, seconds: float) -> None:
        """A request to decide was answered."""
        kept = self._seconds.get(agent)
        if kept is None:
            kept = self._seconds[agent] = deque(maxlen=KEPT)
        kept.append(seconds)

    def keep(self, agents: Iterable[str]) -> None:
        """Forget all other agents."""
        here = set(agents)
        self._seconds = {name: kept for name, kept in self._seconds.items() if name in here}

    def of(self, agent: str) -> Latency | None:
        """None before the first."""
        kept = self._seconds.get(agent)
        if not kept:
            return None
        times = np.maximum(1000.0 * np.array(kept), 1e-3)
        p50, p90, p99 = np.percentile(times, [50, 90, 99]).tolist()
        edges = np.geomspace(0.9 * times.min(), 1.1 * times.max(), BARS + 1)
        heights, _ = np.histogram(times, edges)
        return Latency(len(times), p50, p90, p99, float(times.max()), edges.tolist(), heights.tolist())


class Stopwatch:
    """Middleware that notes how long decisions took until their answer began."""

    def __init__(self, app: Any, latencies: Latencies) -> None:
        self._app, self._latencies = app, latencies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith("/decisions"):
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                self._latencies.note(scope["path"].split("/")[3], time.perf_counter() - started)
            await send(message)

        await self._app(scope, receive, noted)
