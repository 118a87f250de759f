"""The answer to a context: what can be done with it, and that it stays as it was."""

import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pytest

import taciturn
from taciturn import Decision


def made():
    """A decision between two arms."""
    return Decision(7, "right", np.array([0.25, 0.5]), np.array([0.1, 0.2]), 1.0)


def pickled(decision):
    """The decision as another process would get it."""
    return pickle.loads(pickle.dumps(decision))  # noqa: S301 - what was pickled here


def parts(decision):
    """All of it as plain values."""
    return decision.id, decision.arm, decision.scores.tolist(), decision.widths.tolist(), decision.propensity


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, dataclasses.replace, pickled])
def test_copies_are_of_the_same_parts(copied):
    decision = made()
    assert parts(copied(decision)) == parts(decision) == (7, "right", [0.25, 0.5], [0.1, 0.2], 1.0)
    assert decision != copied(decision)  # two are equal only if they are one: parts are arrays


def test_it_is_made_by_position_or_by_name():
    names = [field.name for field in dataclasses.fields(Decision)]
    assert names == ["id", "arm", "scores", "widths", "propensity"] == list(inspect.signature(Decision).parameters)
    decision = made()
    assert parts(Decision(**{name: getattr(decision, name) for name in names})) == parts(decision)
    with pytest.raises(TypeError):
        Decision(7, "right")


@pytest.mark.parametrize("name", ["id", "arm", "scores", "widths", "propensity", "other"])
def test_nothing_can_be_set_or_deleted(name):
    decision = made()
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        setattr(decision, name, 1)
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        delattr(decision, name)
    assert parts(decision) == parts(made())
    assert not hasattr(decision, "__dict__")


def test_linucb_has_few_attributes():
    """CPython looks methods of an object up faster while it has fewer than thirty attributes."""
    agent = taciturn.make("linucb", arms=3)
    agent.decide([1.0, 2.0])
    assert len(vars(agent)) < 30
