"""The methods by name: one table, read by the command line, the experiments and `taciturn.make`."""

import difflib
import importlib
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from taciturn.contracts import Agent, Arm
from taciturn.errors import UnknownName


class Method(NamedTuple):
    """Where an agent's class lives (``module:Class``), the parameters its name stands for, and a line about it.

    A `reference` is only there to compare with: it cannot be served.
    """

    target: str
    params: dict[str, Any]
    about: str
    reference: bool = False


def _bilinucb(imputer: str, about: str, *, bounded: bool = True) -> Method:
    return Method("taciturn.agents.bilinucb:BILinUCB", {"imputer": imputer, "bounded": bounded}, about)


METHODS: dict[str, Method] = {
    "viewucb": Method(
        "taciturn.agents.viewucb:ViewUCB", {}, "views of a context over the graph, each trusted as it proves right"
    ),
    "linucb": Method("taciturn.agents.linucb:LinUCB", {}, "one ridge regression an arm; silence teaches nothing"),
    "rogcn": Method(
        "taciturn.agents.rogcn:ROGCN", {}, "one graph network over all contexts; learns from right answers"
    ),
    "bilinucb-gcn": _bilinucb("gcn", "linucb; silence imputed by a graph network, bounded"),
    "bilinucb-kmeans": _bilinucb("kmeans", "linucb; silence imputed by the cluster's mean reward, bounded"),
    "bilinucb-random": _bilinucb("random", "linucb; silence imputed at random, bounded"),
    "ilinucb-gcn": _bilinucb("gcn", "bilinucb-gcn without the bound", bounded=False),
    "ilinucb-kmeans": _bilinucb("kmeans", "bilinucb-kmeans without the bound", bounded=False),
    "ilinucb-random": _bilinucb("random", "bilinucb-random without the bound", bounded=False),
    "gcnucb": Method("taciturn.agents.gcnucb:GCNUCB", {}, "a graph network an arm, a ridge regression on what it sees"),
    "majority": Method(
        "taciturn.agents.references:Majority", {}, "reference: the arm rewarded most so far", reference=True
    ),
    "oracle-full": Method(
        "taciturn.agents.references:OracleFull",
        {},
        "reference: viewucb told the right arm after every decision",
        reference=True,
    ),
    "labelspreading": Method(
        "taciturn.agents.references:LabelSpreader",
        {},
        "reference: scikit-learn's label spreading, refit every 50 steps",
        reference=True,
    ),
}

PRESETS = {"paper": "opr2020.toml"}


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """The error for a name that is not in a table: what there is, and the nearest to what was meant."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UnknownName(f"unknown {kind} {name!r}{hint} (there are: {', '.join(names)})")


@cache
def preset_file(preset: str) -> dict[str, Any]:
    """All of a preset's file: the settings, the printed results and where they were printed."""
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    return tomllib.loads(files("taciturn.papers").joinpath(PRESETS[preset]).read_text(encoding="utf-8"))


def method_params(name: str, preset: str | None = None) -> dict[str, Any]:
    """The parameters that a method's name and a preset stand for; a preset leaves methods of others as they are."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    params = dict(METHODS[name].params)
    if preset is not None:
        settings = preset_file(preset)
        family = name.partition("-")[0]
        if family in settings["agents"]:
            params |= settings["agents"]["all"] | settings["agents"][family]
        if "imputer" in params:
            params["imputer_params"] = dict(settings["imputers"][params["imputer"]])
    return params


def make(name: str, *, arms: Sequence[Arm] | int, preset: str | None = None, **overrides: Any) -> Agent:
    """Build an agent by its name, with a preset's settings and then your own on top."""
    if is_own(name):
        own: Agent = own_class(name)(arms=arms, **overrides)
        return own
    params = method_params(name, preset) | overrides
    module, _, attribute = METHODS[name].target.partition(":")
    factory = getattr(importlib.import_module(module), attribute)
    check_keywords(name, factory, params)
    agent: Agent = factory(arms=arms, **params)
    return agent


def is_own(name: str) -> bool:
    """Whether a method's name is the path of an agent that is not ours: ``package.module:Class``."""
    return ":" in name


def own_class(name: str) -> Any:
    """The class, or any function that makes an agent, at ``package.module:Class``."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownName(f"no agent at {name!r} ({error}); give it as package.module:Class") from None


def check_keywords(name: str, factory: Any, params: dict[str, Any]) -> None:
    """Raise where a dataclass has no parameter of a name given."""
    for key in params:
        if key not in factory.__dataclass_fields__:
            raise unknown_name(f"parameter of {name}", key, factory.__dataclass_fields__)
