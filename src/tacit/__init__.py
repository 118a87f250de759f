"""tacit: decisions that learn from silence.

Online partially rewarded learning: for every arriving context choose one of K arms at once; the world answers right,
wrong or nothing at all, and tacit learns from all three.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tacit import ope
    from tacit.agents.bilinucb import BILinUCB
    from tacit.agents.gcnucb import GCNUCB
    from tacit.agents.graphucb import GraphUCB
    from tacit.agents.linucb import LinUCB
    from tacit.agents.rogcn import ROGCN
    from tacit.agents.storage import load
    from tacit.client import Client
    from tacit.contracts import Dataset, Decision, Feedback, Round, Trace
    from tacit.datasets.catalog import load_dataset
    from tacit.errors import TacitError
    from tacit.experiments.checks import check_agent
    from tacit.experiments.evaluate import evaluate
    from tacit.registry import make
    from tacit.streams.stream import Stream

# Names and where they live. They are imported when first used: `import tacit` stays quick.
_HOMES = {
    "LinUCB": "tacit.agents.linucb",
    "ROGCN": "tacit.agents.rogcn",
    "BILinUCB": "tacit.agents.bilinucb",
    "GCNUCB": "tacit.agents.gcnucb",
    "GraphUCB": "tacit.agents.graphucb",
    "load": "tacit.agents.storage",
    "Client": "tacit.client",
    "make": "tacit.registry",
    "load_dataset": "tacit.datasets.catalog",
    "Stream": "tacit.streams.stream",
    "evaluate": "tacit.experiments.evaluate",
    "check_agent": "tacit.experiments.checks",
    "Dataset": "tacit.contracts",
    "Decision": "tacit.contracts",
    "Feedback": "tacit.contracts",
    "Round": "tacit.contracts",
    "Trace": "tacit.contracts",
    "TacitError": "tacit.errors",
}

__all__ = [
    "GCNUCB",
    "ROGCN",
    "BILinUCB",
    "Client",
    "Dataset",
    "Decision",
    "Feedback",
    "GraphUCB",
    "LinUCB",
    "Round",
    "Stream",
    "TacitError",
    "Trace",
    "check_agent",
    "evaluate",
    "load",
    "load_dataset",
    "make",
    "ope",
]


def __getattr__(name: str) -> Any:
    if name == "ope":
        return importlib.import_module("tacit.ope")
    if name not in _HOMES:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
