"""The views of the page for a service of this process, rendered: the parts of each view as HTML, by name.

A view is rendered from a copy of the agent on a thread of its own, and again only after new entries of that agent.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from taciturn.service.core.errors import UnknownAgent
from taciturn.service.core.service import Service
from taciturn.service.web import agent_view, decision_view, overview
from taciturn.service.web.agent_view import AgentView
from taciturn.service.web.latency import Latencies, Latency
from taciturn.service.web.rendering import Parts, list_of_agents, render

CARD_TIMEOUT = 3.0
"""Seconds that the list of agents waits for one of them."""

MAX_ROWS = 24
"""The most rows of the table below the curves."""

LISTED_ARMS = 100
"""The most arms that are listed with a button to retire them, or to bring them back."""


class Views:
    """The views of a service of this process.

    Arguments:
        service: its agents are shown.
        latencies: of requests to decide; whoever answers them notes their durations.
    """

    def __init__(self, service: Service, latencies: Latencies) -> None:
        self._service, self._latencies = service, latencies
        self._rendered: dict[tuple[str, str], tuple[int, Parts]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def agents(self) -> Parts:
        """A card for each agent."""
        return list_of_agents([await self.cards()])

    async def cards(self) -> dict[str, str]:
        """The card of each agent as HTML, by name."""
        names = self._service.names()
        self._clear(names)
        cards = await asyncio.gather(*map(self._card, names))
        return {name: card for name, card in zip(names, cards, strict=True) if card is not None}

    async def agent(self, name: str) -> Parts:
        """One agent: facts, arms, curves, recent decisions, map, calibration and latency."""

        async def make() -> Parts:
            view = await self._service.call_async(name, lambda session: agent_view.capture(name, session))
            return await asyncio.to_thread(self._agent, view, self._latencies.of(name))

        return await self._once("agent", name, make)

    async def decision(self, name: str, id: int) -> Parts:
        """One decision and its explanation."""
        found = await self._service.call_async(name, lambda session: decision_view.capture(session, id))
        return {"decision": render("decision.html", name=name, **found)}

    async def _card(self, name: str) -> str | None:
        """The card of an agent; None if it was deleted meanwhile, and a note if it takes too long."""

        async def make() -> Parts:
            view = await self._service.call_async(name, lambda session: agent_view.capture(name, session))
            return await asyncio.to_thread(self._render_card, view)

        try:
            async with asyncio.timeout(CARD_TIMEOUT):
                return (await self._once("card", name, make))["card"]
        except TimeoutError:
            return render("card.html", name=name, view=None)
        except UnknownAgent:
            return None

    def _render_card(self, view: AgentView) -> Parts:
        curves = overview.curves(view, overview.groups(view))
        silence = overview.silence_rate(view.health)
        return {"card": render("card.html", name=view.name, view=view, curves=curves, silence=silence)}

    def _agent(self, view: AgentView, latency: Latency | None) -> Parts:
        grouped = overview.groups(view)
        curves = overview.curves(view, grouped)
        rows = sorted({round(i) for i in np.linspace(0, len(curves.ids) - 1, min(MAX_ROWS, len(curves.ids)))})
        health = view.health
        given: dict[str, dict[str, Any]] = {
            "facts": {"silence": overview.silence_rate(health)},
            "arms": {"listed": view.arms[:LISTED_ARMS]},
            "curves": {"curves": curves, "rows": rows, "labels": grouped.labels},
            "recent": {"recent": overview.recent(view)},
            "map": {"map": overview.context_map(view, grouped), "labels": grouped.labels},
            "calibration": {"calibration": health.calibration},
            "latency": {"latency": latency},
        }
        return {part: render(f"{part}.html", view=view, health=health, **more) for part, more in given.items()}

    async def _once(self, kind: str, name: str, make: Callable[[], Awaitable[Parts]]) -> Parts:
        """Make a view, unless it was made since the last entry of this agent; concurrent requests share it."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            position = next((w.position for w in self._service.workers() if w.name == name), -1)
            known = self._rendered.get((kind, name))
            if known is None or known[0] != position:
                known = self._rendered[kind, name] = position, await make()
            return known[1]

    def _clear(self, names: list[str]) -> None:
        """Drop the views of deleted agents."""
        self._latencies.keep(names)
        self._rendered = {key: view for key, view in self._rendered.items() if key[1] in names}
        self._locks = {name: lock for name, lock in self._locks.items() if name in names or lock.locked()}
