"""Axes of an experiment that are about the agent's life: a restart on the way, and bounded memory."""

import gc
import tempfile
from collections.abc import Callable
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


def restarted(agents: list[Agent], anew: Callable[[], Agent] | None) -> tuple[Agent, bool]:
    """Return the agent that goes on for the only one in a list, which is saved and dropped, and whether it resumes it.

    Agents on `BaseAgent` are read from the file as `taciturn.load` does, others by a class method `load(path)`. For an
    agent that has no `save`, or whose `can_be_saved` is False, `anew` makes a fresh one. Memory never holds both,
    unless somebody else holds the old one.
    """
    kind: Any = type(agents[0])
    if not hasattr(kind, "save") or not getattr(agents[0], "can_be_saved", True):  # as of most peers
        if anew is None:
            raise TaciturnError(f"a {kind.__name__} cannot be saved; for a restart, anew=… has to make a fresh one")
        agents.clear()
        return anew(), False
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agent.taciturn"
        kind.save(agents.pop(), file)
        gc.collect()  # an agent and its lifecycle refer to each other
        return getattr(kind, "load", load)(file), True
