"""How agents show themselves, and docstrings that list the inherited parameters too."""

import inspect
import re
from collections import Counter
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any

from taciturn.display import Summary, brief, counted, counts
from taciturn.features.schema import CATEGORY, DATE, NUMBER, TEXT, VECTOR
from taciturn.introspection import covariance_text
from taciturn.validate import shown

if TYPE_CHECKING:
    from taciturn.agents.base import BaseAgent

PLURALS = {NUMBER: "numbers", CATEGORY: "categories", TEXT: "texts", DATE: "dates", VECTOR: "vectors"}

MAX_SETTINGS = 12
"""How many parameters that differ from their defaults are shown."""


def summary(agent: "BaseAgent") -> Summary:
    """Arms, parameters that differ from their defaults, features, and decisions by state."""
    retired = len(agent.arm_names) - len(agent.active_arms)
    facts = {
        "arms": counted(agent.arm_names) + (f" ({retired} retired)" if retired else ""),
        "settings": _settings(agent) or "defaults",
        "features": describe_features(agent),
        "decisions": counts(agent.decisions.counts()),
    }
    if covariance := agent.approximations().get("covariance"):
        facts["covariance"] = covariance_text(covariance)
    return Summary(type(agent).__name__, facts)


def describe_features(agent: "BaseAgent") -> str:
    """How many features the contexts have, and of which kinds their named columns are."""
    if not agent.n_features:
        return "none yet"
    if agent.feature_names is None:
        return f"{agent.n_features} by position"
    kinds = Counter(agent.feature_kinds.values())
    named = ", ".join(f"{count} {kind if count == 1 else PLURALS.get(kind, kind)}" for kind, count in kinds.items())
    return f"{agent.n_features} of {named}"


def _settings(agent: "BaseAgent") -> str:
    """The parameters but `arms` that differ from their defaults, as "alpha=2.0, seed=1"."""
    changed = [
        f"{field.name}={brief(value)}"
        for field in fields(agent)
        if field.name != "arms" and shown(value := getattr(agent, field.name)) != shown(_default(field))
    ]
    return ", ".join([*changed[:MAX_SETTINGS], "…"] if len(changed) > MAX_SETTINGS else changed)


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def keep_repr(cls: type) -> None:
    """Keep `dataclass`, which runs later, from replacing the agents' repr by one of all parameters."""
    if "__repr__" not in vars(cls):
        setattr(cls, "__repr__", next(base for base in cls.__mro__[1:] if hasattr(base, "decide")).__repr__)  # noqa: B010


ARGUMENTS = re.compile(r"^Arguments\b.*\n?((?:(?: {4}.*)?(?:\n|\Z))*)", re.MULTILINE)
"""The section of a docstring on arguments: its first line, and the lines that are indented under it."""


def document_arguments(cls: type) -> None:
    """Complete the docstring of a class by the arguments of its base classes, each group under the class's name.

    What a class documents itself is not repeated. The own section stays where it is, and the others follow it.
    """
    text = inspect.cleandoc(vars(cls).get("__doc__") or f"{cls.__name__}, a kind of {cls.__mro__[1].__name__}.")
    own = _own_arguments(text)
    sections = ["Arguments:\n" + own] if own else []
    seen = _names(own)
    for base in cls.__mro__[1:]:
        inherited = _own_arguments(inspect.cleandoc(vars(base).get("__doc__") or ""))
        entries = [entry for entry in _entries(inherited) if not _names(entry) <= seen]
        if entries:
            sections.append(f"Arguments of `{base.__name__}`:\n" + "\n".join(entries))
            seen |= _names(inherited)
    before, after = _around_arguments(text)
    cls.__doc__ = "\n\n".join(part for part in (before, *sections, after) if part) + "\n"


def _own_arguments(text: str) -> str:
    """The indented lines of the first section on arguments; empty where there is none."""
    found = ARGUMENTS.search(text)
    return found[1].rstrip() if found else ""


def _around_arguments(text: str) -> tuple[str, str]:
    """What stands before the section on arguments, and what after it."""
    found = ARGUMENTS.search(text)
    return (text[: found.start()].rstrip(), text[found.end() :].strip("\n")) if found else (text.rstrip(), "")


def _entries(section: str) -> list[str]:
    """The entries of a section, "    names: text" with the further lines of the text."""
    return [entry.rstrip() for entry in re.split(r"^(?= {4}\w)", section, flags=re.MULTILINE) if entry.strip()]


def _names(section: str) -> set[str]:
    """The arguments that a section is about."""
    return {name for names in re.findall(r"^ {4}(\w[\w, ]*):", section, re.MULTILINE) for name in names.split(", ")}
