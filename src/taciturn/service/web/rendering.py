"""Rendering of templates, which needs no service: the frames of pages, and the list of agents from their cards."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from taciturn.service.core.session import SERVED_METHODS
from taciturn.service.web import svg
from taciturn.system import format_bytes

Parts = dict[str, str]
"""The parts of a view as HTML, by name."""

JOINED = re.compile(r"(?<=[_/.:@=&|+])(?=\w)")
"""Places in a name where a line may end."""

KINDS = [(name, method.about) for name, method in SERVED_METHODS.items()]
"""The kinds of agents that can be created, and a line about each."""


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


@cache
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


def render(template: str, **given: Any) -> str:
    """Render one template."""
    return environment().get_template(template).render(**given)


def list_of_agents(shards: Iterable[Mapping[str, str]]) -> Parts:
    """The view of all agents, sorted by name, from their cards: HTML by name, of one or of several services."""
    cards = {name: card for shard in shards for name, card in shard.items()}
    return {"agents": render("cards.html", cards=[cards[name] for name in sorted(cards)])}
