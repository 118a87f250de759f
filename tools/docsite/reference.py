"""The pages of the API: every public name with its docstring."""

import importlib
import inspect
from dataclasses import fields, is_dataclass
from pathlib import PurePosixPath
from typing import Any

from sphinx.ext.autodoc.mock import mock

import taciturn

MOCKED = ["river", "gymnasium", "obp"]
"""Packages that adapters import, which the site does not need."""
INTERNAL = {"taciturn.errors.how_to_install"}

# Pages by their names, each with a title, a sentence, and what it documents, in order.
PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "agents": (
        "Agents",
        "What decides and learns. The methods of `BaseAgent` are those of every agent.",
        (
            *("taciturn.ViewUCB", "taciturn.LinUCB", "taciturn.GCNUCB", "taciturn.BILinUCB", "taciturn.ROGCN"),
            *("taciturn.make", "taciturn.load", "taciturn.BaseAgent", "taciturn.Part", "taciturn.check_agent"),
        ),
    ),
    "answers": (
        "What agents return",
        "Decisions, and what agents say about them and about themselves.",
        (
            *("taciturn.Decision", "taciturn.Feedback", "taciturn.Explanation", "taciturn.introspection.Neighbor"),
            *("taciturn.Health", "taciturn.introspection.Calibration", "taciturn.introspection.AnswerRates"),
            "taciturn.introspection.Covariance",
        ),
    ),
    "data": (
        "Contexts, data and experiments",
        "What contexts are, data sets, streams with silence, and runs over them.",
        (
            *("taciturn.Features", "taciturn.features.embed.embedder", "taciturn.Dataset", "taciturn.load_dataset"),
            *("taciturn.Stream", "taciturn.Round", "taciturn.evaluate", "taciturn.Trace", "taciturn.plot"),
        ),
    ),
    "client": (
        "Client",
        "Agents of a service, with the methods of agents in this process.",
        ("taciturn.Client", "taciturn.client.RemoteAgent", "taciturn.client.ServiceUnavailable"),
    ),
    "ope": ("Off-policy evaluation", "[The page on it](../off-policy.md) says what it assumes.", ("taciturn.ope",)),
    "adapters": (
        "Adapters",
        "Agents and logs in the forms that other libraries take.",
        (
            *("taciturn.adapters.river", "taciturn.adapters.obp", "taciturn.adapters.gymnasium"),
            "taciturn.adapters.sklearn",
        ),
    ),
    "errors": (
        "Errors",
        "Every message is one line that says what would be right.",
        ("taciturn.TaciturnError", "taciturn.errors"),
    ),
}


class Undocumented(Exception):
    """A public name that is on no page."""


def pages() -> dict[PurePosixPath, str]:
    """The text of each page by its place; a public name that is on none is an error."""
    named = {name for _, _, names in PAGES.values() for name in names}
    missing = [name for name in taciturn.__all__ if f"taciturn.{name}" not in named]
    if missing:
        raise Undocumented(
            f"PAGES in tools/docsite/reference.py has no place for taciturn.{', taciturn.'.join(missing)}"
        )
    with mock(MOCKED):
        return {
            PurePosixPath("api", f"{page}.md"): f"# {title}\n\n{sentence}\n\n" + "\n".join(map(_entry, names))
            for page, (title, sentence, names) in PAGES.items()
        }


def _entry(name: str) -> str:
    """The directives of a name; of a module, those of all that it defines."""
    thing = _find(name)
    if inspect.ismodule(thing):
        module = f"## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n"
        return "\n".join(
            [module, *(_entry(f"{name}.{one}") for one in own_names(thing) if f"{name}.{one}" not in INTERNAL)]
        )
    if not inspect.isclass(thing):
        return f"```{{eval-rst}}\n.. autofunction:: {name}\n```\n"
    directive = "autoexception" if issubclass(thing, Exception) else "autoclass"
    options = "".join(f"   :{option}\n" for option in _options(thing))
    return f"```{{eval-rst}}\n.. {directive}:: {name}\n{options}```\n"


def _options(kind: type) -> list[str]:
    """Which members of a class are shown: its own, and those that it inherits from what has no page."""
    if issubclass(kind, Exception):
        return []
    hidden = {name for name, member in vars(kind).items() if getattr(member, "__module__", "").startswith("sklearn")}
    if issubclass(kind, taciturn.BaseAgent):  # parameters are in the docstring of the class
        hidden |= {field.name for field in fields(kind)}
        hidden |= set() if kind is taciturn.BaseAgent else set(dir(taciturn.BaseAgent))
    options = ["members:", f"exclude-members: {', '.join(sorted(hidden))}"]
    if issubclass(kind, taciturn.BaseAgent):
        options.append("inherited-members:" if kind is taciturn.BaseAgent else "inherited-members: BaseAgent")
    if is_dataclass(kind) or issubclass(kind, tuple):
        options.append("undoc-members:")
    return options


def own_names(module: Any) -> list[str]:
    """The public functions and classes that a module defines, in its order."""
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__ and callable(thing)
    ]


def _find(name: str) -> Any:
    """The object of a full name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        module, _, last = name.rpartition(".")
        return getattr(_find(module), last)
