"""`help` and `?` list every parameter, inherited ones too, with its default."""

import inspect
import re
from dataclasses import MISSING, dataclass, fields

import pytest

import taciturn
from taciturn import ope
from taciturn.agents.base import BaseAgent
from taciturn.registry import METHODS, import_agent

AGENT_CLASSES = {import_agent(method.target) for method in METHODS.values()} | {BaseAgent}


def public_callables():
    """All functions and classes of the package and of `ope`, and the public methods of the classes, by name."""
    found = {name: getattr(taciturn, name) for name in taciturn.__all__ if name != "TaciturnError"}
    found = {name: thing for name, thing in found.items() if callable(thing)}
    found |= {kind.__name__: kind for kind in AGENT_CLASSES}
    found |= {f"ope.{name}": thing for name, thing in vars(ope).items() if _is_own(name, thing, ope.__name__)}
    for name, kind in list(found.items()):
        if inspect.isclass(kind):
            own = {method: getattr(kind, method, None) for method in vars(kind)}  # inherited ones: see there
            found |= {f"{name}.{method}": thing for method, thing in own.items() if _is_method(thing)}
    return {name: thing for name, thing in found.items() if "._" not in name}


def _is_method(thing):
    return inspect.isfunction(thing) or inspect.ismethod(thing)


def _is_own(name, thing, package):
    return not name.startswith("_") and callable(thing) and str(getattr(thing, "__module__", "")).startswith(package)


CALLABLES = public_callables()


def parameters(thing):
    return [name for name in inspect.signature(thing).parameters if name not in {"self", "cls"}]


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_every_parameter_is_named_in_the_docstring(name):
    thing = CALLABLES[name]
    text = inspect.getdoc(thing)
    assert text
    missing = [parameter for parameter in parameters(thing) if not re.search(rf"\b{parameter}\b", text)]
    assert not missing


@pytest.mark.parametrize("kind", sorted(AGENT_CLASSES, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_an_agent_documents_each_parameter_once_and_its_signature_has_the_defaults(kind):
    entries = re.findall(r"^ {4}(\w[\w, ]*): ", inspect.getdoc(kind), re.MULTILINE)
    documented = [name for entry in entries for name in entry.split(", ")]
    assert sorted(documented) == sorted(field.name for field in fields(kind))
    signature = inspect.signature(kind).parameters
    for field in fields(kind):
        if field.default is not MISSING:
            assert signature[field.name].default == field.default
    assert "beside those" not in inspect.getdoc(kind)
    assert inspect.getdoc(kind).count("\nArguments:") <= 1


def test_the_own_arguments_come_first_and_what_follows_them_stays():
    text = inspect.getdoc(taciturn.GCNUCB)
    places = [text.index(part) for part in ("Paper:", "Arguments:", "`NetworkSettings`:", "`BaseAgent`:", "Shapes:")]
    assert places == sorted(places)


def test_an_agent_of_a_user_gets_the_inherited_arguments_and_keeps_its_own():
    @dataclass(kw_only=True, eq=False)
    class Mine(taciturn.LinUCB):
        """An agent of mine.

        Arguments:
            alpha: something else here.
            gain: how much.

        It is good.
        """

        gain: float = 1.0

    class Silent(Mine):
        pass

    text = inspect.getdoc(Mine)
    assert text.startswith("An agent of mine.\n\nArguments:\n    alpha: something else here.\n    gain: how much.\n\n")
    assert text.rstrip().endswith("It is good.")
    assert "Arguments of `LinUCB`:\n    ridge: λ" in text
    assert text.count("    alpha: ") == 1
    assert "    memory_limit: " in text
    assert inspect.getdoc(Silent).startswith("Silent, a kind of Mine.")
    assert "    gain: how much." in inspect.getdoc(Silent)
