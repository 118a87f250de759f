"""taciturn: contextual bandits whose reward often never comes.

For every context an agent chooses one of K arms. Its reward comes at once, late or never; agents learn from observed
rewards and from silence.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from taciturn import errors, ope
    from taciturn.agents.base import BaseAgent
    from taciturn.agents.bilinucb import BILinUCB
    from taciturn.agents.gcnucb import GCNUCB
    from taciturn.agents.linucb import LinUCB
    from taciturn.agents.parts.part import Part
    from taciturn.agents.rogcn import ROGCN
    from taciturn.agents.storage import load
    from taciturn.agents.viewucb import ViewUCB
    from taciturn.client import Client
    from taciturn.contracts import Dataset, Decision, Feedback, Round, Trace
    from taciturn.datasets.catalog import load_dataset
    from taciturn.errors import TaciturnError
    from taciturn.experiments.checks import check_agent
    from taciturn.experiments.evaluate import evaluate
    from taciturn.features.schema import Features
    from taciturn.introspection import Explanation, Health
    from taciturn.plotting import plot
    from taciturn.registry import make
    from taciturn.streams.stream import Stream

# The module of each public name. They are imported on first use, so that `import taciturn` is fast.
_MODULES = {
    "LinUCB": "taciturn.agents.linucb",
    "ROGCN": "taciturn.agents.rogcn",
    "BILinUCB": "taciturn.agents.bilinucb",
    "GCNUCB": "taciturn.agents.gcnucb",
    "ViewUCB": "taciturn.agents.viewucb",
    "BaseAgent": "taciturn.agents.base",
    "Part": "taciturn.agents.parts.part",
    "load": "taciturn.agents.storage",
    "Client": "taciturn.client",
    "make": "taciturn.registry",
    "load_dataset": "taciturn.datasets.catalog",
    "Stream": "taciturn.streams.stream",
    "evaluate": "taciturn.experiments.evaluate",
    "plot": "taciturn.plotting",
    "check_agent": "taciturn.experiments.checks",
    "Dataset": "taciturn.contracts",
    "Decision": "taciturn.contracts",
    "Explanation": "taciturn.introspection",
    "Feedback": "taciturn.contracts",
    "Health": "taciturn.introspection",
    "Round": "taciturn.contracts",
    "Trace": "taciturn.contracts",
    "TaciturnError": "taciturn.errors",
    "Features": "taciturn.features.schema",
}

__all__ = [
    "GCNUCB",
    "ROGCN",
    "BILinUCB",
    "BaseAgent",
    "Client",
    "Dataset",
    "Decision",
    "Explanation",
    "Features",
    "Feedback",
    "Health",
    "LinUCB",
    "Part",
    "Round",
    "Stream",
    "TaciturnError",
    "Trace",
    "ViewUCB",
    "check_agent",
    "errors",
    "evaluate",
    "load",
    "load_dataset",
    "make",
    "ope",
    "plot",
]


def __getattr__(name: str) -> Any:
    if name in {"errors", "ope"}:
        return importlib.import_module(f"taciturn.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'taciturn' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
