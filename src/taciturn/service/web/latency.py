"""Latency of the last requests to decide of each agent, measured around the whole application."""

import time
from collections import deque
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.service.api.asgi import Scope, Send
from taciturn.service.api.bodies import Receive

MAX_DURATIONS = 1000
"""The most durations that are kept of each agent."""

BARS = 24
"""Bars of the histogram."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds, and a histogram: `heights` (n,) between logarithmic `edges` (n + 1,)."""

    count: int
    p50: float
    p90: float
    p99: float
    longest: float
    edges: list[float]
    heights: list[int]


class Latencies:
    """The last durations of each agent, in seconds; used on the event loop only."""

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}

    def note(self, agent: str, seconds: float) -> None:
        """Add the duration of a request to decide."""
        durations = self._seconds.get(agent)
        if durations is None:
            durations = self._seconds[agent] = deque(maxlen=MAX_DURATIONS)
        durations.append(seconds)

    def keep(self, agents: Iterable[str]) -> None:
        """Drop all other agents."""
        names = set(agents)
        self._seconds = {name: durations for name, durations in self._seconds.items() if name in names}

    def of(self, agent: str) -> Latency | None:
        """The latency of an agent; None before its first request."""
        durations = self._seconds.get(agent)
        if not durations:
            return None
        times = np.maximum(1000.0 * np.array(durations), 1e-3)
        p50, p90, p99 = np.percentile(times, [50, 90, 99]).tolist()
        edges = np.geomspace(0.9 * times.min(), 1.1 * times.max(), BARS + 1)
        heights, _ = np.histogram(times, edges)
        return Latency(len(times), p50, p90, p99, float(times.max()), edges.tolist(), heights.tolist())


class Stopwatch:
    """Middleware that measures requests to decide until the answer starts."""

    def __init__(self, inner: Any, latencies: Latencies) -> None:
        self._inner, self._latencies = inner, latencies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the inner application."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith("/decisions"):
            await self._inner(scope, receive, send)
            return
        started = time.perf_counter()

        async def send_measured(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                self._latencies.note(scope["path"].split("/")[3], time.perf_counter() - started)
            await send(message)

        await self._inner(scope, receive, send_measured)
