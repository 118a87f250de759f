"""What the page shows, rendered: the parts of each view as HTML by name.

A view is made of a copy of the agent, in a thread of its own, and again only when the agent's journal has gone on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from taciturn.registry import METHODS
from taciturn.service.api.problems import Problem
from taciturn.service.core.service import Service
from taciturn.service.core.session import KINDS, Session
from taciturn.service.core.tasks import Look, Task
from taciturn.service.web import overview, svg
from taciturn.service.web.latency import Latencies, Latency

Parts = dict[str, str]
PATIENCE = 3.0
"""How many seconds the list of agents waits for one of them."""

ROWS = 24
"""The most rows of a table that stands beside a curve."""

ARMS = 12
"""The most arms whose scores are drawn."""


def percent(share: float | None) -> str:
    """A share as people write it; a dash where there is none."""
    return "–" if share is None or np.isnan(share) else f"{100 * share:.0f} %"


def number(value: float | None) -> str:
    """Three digits, or a dash."""
    return "–" if value is None or np.isnan(value) else f"{value:.3g}"


def size(count: float) -> str:
    """Bytes in a unit that fits."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def environment() -> Environment:
    """The templates. Whatever users have typed is escaped in all of them."""
    made = Environment(
        loader=PackageLoader("taciturn.service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"percent": percent, "number": number, "size": size}
    made.globals |= {"line": svg.line, "stack": svg.stack, "bars": svg.bars}
    return made


class Views:
    """All that is shown of a service."""

    def __init__(self, service: Service, latencies: Latencies) -> None:
        self._service, self._latencies = service, latencies
        self._templates = environment()
        self._made: dict[tuple[str, str], tuple[int, Parts]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def render(self, template: str, **given: Any) -> str:
        """One template."""
        return self._templates.get_template(template).render(**given)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """The kinds of agents that can be made, and a line about each."""
        return [(name, METHODS[name].about) for name in KINDS]

    async def agents(self) -> Parts:
        """All agents at a glance."""
        names = self._service.names()
        self._clear(names)
        cards = await asyncio.gather(*map(self._card, names))
        return {"agents": self.render("cards.html", cards=[card for card in cards if card is not None])}

    async def agent(self, name: str) -> Parts:
        """One agent: its figures, curves, decisions, map, calibration and latency."""

        async def make() -> Parts:
            copy = await self._look(name, lambda session: overview.take(name, session))
            return await asyncio.to_thread(self._agent, copy, self._latencies.of(name))

        return await self._once("agent", name, make)

    async def decision(self, name: str, id: int) -> Parts:
        """One decision and its explanation."""
        found = await self._look(name, lambda session: _explained(session, id))
        return {"decision": self.render("decision.html", name=name, **found)}

    async def _card(self, name: str) -> str | None:
        """An agent at a glance; None where it is gone meanwhile, and a word where it takes too long."""

        async def make() -> Parts:
            copy = await self._look(name, lambda session: overview.take(name, session))
            return await asyncio.to_thread(self._glance, copy)

        try:
            async with asyncio.timeout(PATIENCE):
                return (await self._once("card", name, make))["card"]
        except TimeoutError:
            return self.render("card.html", name=name, copy=None)
        except Problem as problem:
            if problem.status == 404:
                return None
            raise

    def _glance(self, copy: overview.Copy) -> Parts:
        curves = overview.curves(copy, overview.groups(copy))
        silence = overview.silence_rate(copy.health)
        return {"card": self.render("card.html", name=copy.name, copy=copy, curves=curves, silence=silence)}

    def _agent(self, copy: overview.Copy, latency: Latency | None) -> Parts:
        grouped = overview.groups(copy)
        curves = overview.curves(copy, grouped)
        rows = sorted({round(i) for i in np.linspace(0, len(curves.ids) - 1, min(ROWS, len(curves.ids)))})
        health = copy.health
        given: dict[str, dict[str, Any]] = {
            "facts": {"silence": overview.silence_rate(health)},
            "curves": {"curves": curves, "rows": rows, "labels": grouped.labels},
            "recent": {"recent": overview.recent(copy)},
            "map": {"map": overview.context_map(copy, grouped), "labels": grouped.labels},
            "calibration": {"calibration": health.calibration},
            "latency": {"latency": latency},
        }
        return {part: self.render(f"{part}.html", copy=copy, health=health, **more) for part, more in given.items()}

    # Asking the agents.

    async def _look(self, name: str, look: Look) -> Any:
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._service.put(name, Task(look, waiter))
        return await waiter

    async def _once(self, kind: str, name: str, make: Callable[[], Awaitable[Parts]]) -> Parts:
        """Make a view, unless it was made since the last entry of this agent: all who look at it share it."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            position = next((w.position for w in self._service.workers() if w.name == name), -1)
            known = self._made.get((kind, name))
            if known is None or known[0] != position:
                known = self._made[kind, name] = position, await make()
            return known[1]

    def _clear(self, names: list[str]) -> None:
        """Forget the views of agents that are gone."""
        self._latencies.keep(names)
        self._made = {key: made for key, made in self._made.items() if key[1] in names}
        self._locks = {name: lock for name, lock in self._locks.items() if name in names or lock.locked()}


def _explained(session: Session, id: int) -> dict[str, Any]:
    found = session.agent.explain(id)
    bounds = np.nan_to_num(found.scores + found.widths, nan=-np.inf)
    order = np.argsort(-bounds, kind="stable")
    chosen = found.arms.index(found.arm)
    first = sorted({*order[:ARMS].tolist(), chosen}, key=lambda arm: (-bounds[arm], arm))
    known = np.concatenate([found.scores - found.widths, found.scores + found.widths, [0.0, 1.0]])
    low, high = float(np.nanmin(known)), float(np.nanmax(known))

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    said = [
        {
            "arm": str(found.arms[arm]),
            "chosen": arm == chosen,
            "score": float(found.scores[arm]),
            "width": float(found.widths[arm]),
            "from": place(float(found.scores[arm] - found.widths[arm])),
            "at": place(float(found.scores[arm])),
            "to": place(float(found.scores[arm] + found.widths[arm])),
        }
        for arm in first
        if not np.isnan(found.scores[arm])
    ]
    return {"found": found, "said": said, "more": len(found.arms) - len(first), "low": low, "high": high}
