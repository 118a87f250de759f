"""Axes of an experiment that are about the agent's life: a restart on the way, and bounded memory."""

import tempfile
from pathlib import Path
from typing import Any

from taciturn.agents.storage import load
from taciturn.contracts import Agent
from taciturn.errors import TaciturnError
from taciturn.validate import MANY, check_number

NONE = "none"


def parse_restart(restart: Any) -> float | None:
    """Parse ``0.5`` or ``".5"``, the share of rounds before the restart, or ``"none"``."""
    if restart is None or restart == NONE:
        return None
    share = _number(restart, float)
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0.0 <= share <= 1.0:
        raise TaciturnError(f"restart={restart!r} is not allowed; a share of the rounds from 0 to 1 is, or 'none'")
    return float(share)


def parse_max_nodes(max_nodes: Any) -> int | None:
    """Parse ``500`` or ``"500"``, the number of contexts that agents hold at most, or ``"none"``."""
    if max_nodes is None or max_nodes == NONE:
        return None
    count = _number(max_nodes, int)
    check_number("max_nodes", count, 1, MANY, whole=True)
    return int(count)


def _number(given: Any, kind: type[int | float]) -> Any:
    """Return a number for a word that is one, and anything else as it is."""
    try:
        return kind(given) if isinstance(given, str) else given
    except ValueError:
        return given


def reloaded(agent: Agent) -> Agent | None:
    """Save an agent to a file and return what the file holds; None for an agent that has no `save`.

    Agents on `BaseAgent` are read as `taciturn.load` does, others by a class method `load(path)`.
    """
    if not hasattr(agent, "save"):
        return None
    read: Any = getattr(type(agent), "load", load)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agent.taciturn"
        agent.save(file)
        resumed: Agent = read(file)
    return resumed
