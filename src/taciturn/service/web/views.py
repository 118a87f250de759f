"""The views of the page, rendered: the parts of each view as HTML, by name.

A view is rendered from a copy of the agent on a thread of its own, and again only after new entries of that agent.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from taciturn.service.core.errors import UnknownAgent
from taciturn.service.core.service import Service
from taciturn.service.core.session import SERVED_METHODS
from taciturn.service.web import agent_view, decision_view, overview, svg
from taciturn.service.web.agent_view import AgentView
from taciturn.service.web.latency import Latencies, Latency
from taciturn.system import format_bytes

Parts = dict[str, str]
JOINED = re.compile(r"(?<=[_/.:@=&|+])(?=\w)")
"""Places in a name where a line may end."""

CARD_TIMEOUT = 3.0
"""Seconds that the list of agents waits for one of them."""

MAX_ROWS = 24
"""The most rows of the table below the curves."""

LISTED_ARMS = 100
"""The most arms that are listed with a button to retire them, or to bring them back."""


def percent(share: float | None) -> str:
    """A share in per cent, or a dash for none."""
    return "–" if share is None or np.isnan(share) else f"{100 * share:.0f} %"


def number(value: float | None) -> str:
    """A number with three digits, or a dash for none."""
    return "–" if value is None or np.isnan(value) else f"{value:.3g}"


def breakable(text: object) -> Markup:
    """Text that may be broken into lines behind signs that join words, as in `send_mail` or `shop/returns`."""
    return Markup("<wbr>").join(JOINED.split(str(text)))  # join escapes the parts


def iso(seconds: float) -> str:
    """A time in seconds since 1970, for machines: "2026-11-16T09:30:00Z"; empty if it is none."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


def when(seconds: float) -> str:
    """A time in seconds since 1970, for people: "2026-11-16 09:30:00 UTC"; a dash if it is none."""
    return iso(seconds).replace("T", " ").replace("Z", " UTC") or "–"


def environment() -> Environment:
    """The templates; all of them escape what users have entered."""
    templates = Environment(
        loader=PackageLoader("taciturn.service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "percent": percent,
        "number": number,
        "size": format_bytes,
        "breakable": breakable,
        "iso": iso,
        "when": when,
    }
    templates.globals |= {"line": svg.line, "stack": svg.stack, "bars": svg.bars}
    return templates


class Views:
    """The views of a service."""

    def __init__(self, service: Service, latencies: Latencies) -> None:
        self._service, self._latencies = service, latencies
        self._templates = environment()
        self._rendered: dict[tuple[str, str], tuple[int, Parts]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def render(self, template: str, **given: Any) -> str:
        """Render one template."""
        return self._templates.get_template(template).render(**given)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """The kinds of agents that can be created, and a line about each."""
        return [(name, method.about) for name, method in SERVED_METHODS.items()]

    async def agents(self) -> Parts:
        """A card for each agent."""
        names = self._service.names()
        self._clear(names)
        cards = await asyncio.gather(*map(self._card, names))
        return {"agents": self.render("cards.html", cards=[card for card in cards if card is not None])}

    async def agent(self, name: str) -> Parts:
        """One agent: facts, arms, curves, recent decisions, map, calibration and latency."""

        async def make() -> Parts:
            view = await self._service.call_async(name, lambda session: agent_view.capture(name, session))
            return await asyncio.to_thread(self._agent, view, self._latencies.of(name))

        return await self._once("agent", name, make)

    async def decision(self, name: str, id: int) -> Parts:
        """One decision and its explanation."""
        found = await self._service.call_async(name, lambda session: decision_view.capture(session, id))
        return {"decision": self.render("decision.html", name=name, **found)}

    async def _card(self, name: str) -> str | None:
        """The card of an agent; None if it was deleted meanwhile, and a note if it takes too long."""

        async def make() -> Parts:
            view = await self._service.call_async(name, lambda session: agent_view.capture(name, session))
            return await asyncio.to_thread(self._render_card, view)

        try:
            async with asyncio.timeout(CARD_TIMEOUT):
                return (await self._once("card", name, make))["card"]
        except TimeoutError:
            return self.render("card.html", name=name, view=None)
        except UnknownAgent:
            return None

    def _render_card(self, view: AgentView) -> Parts:
        curves = overview.curves(view, overview.groups(view))
        silence = overview.silence_rate(view.health)
        return {"card": self.render("card.html", name=view.name, view=view, curves=curves, silence=silence)}

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
        return {part: self.render(f"{part}.html", view=view, health=health, **more) for part, more in given.items()}

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
