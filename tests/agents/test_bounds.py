"""Every number that an agent takes has bounds, and within them all scores are finite."""

from dataclasses import fields

import numpy as np
import pytest

import taciturn
from oracles.zoo import few_trees
from taciturn.agents.parts.imputers import NAMED
from taciturn.errors import InvalidContext, TaciturnError
from taciturn.registry import METHODS

WRONG = [1e308, 1.7e308, -1, -5e-324, 5e-324, 2**31, float("nan"), float("inf"), 10**400, -(10**5000), True, "x", None]
WRONG += [1j, [1], np.float64("nan"), np.float32(3e38), b"1", {}]
SMALL = {"hidden": 2, "start_epochs": 2}


def numeric(kind):
    """The names of a dataclass's numbers: those with a default that is one, or whose type says so."""
    return [
        field.name
        for field in fields(kind)
        if (type(field.default) in (int, float) or "float" in str(field.type) or "int" in str(field.type))
    ]


def cases():
    """All methods with each of their numbers, and their imputers' numbers."""
    for name in METHODS:
        agent = taciturn.make(name, arms=2)
        for parameter in numeric(type(agent)):
            yield name, parameter, None
        if name.startswith("bilinucb"):
            for parameter in numeric(NAMED[agent.imputer]):
                yield name, parameter, agent.imputer


def small(agent):
    """Whether a few decisions of it are quick and take little memory."""
    sizes = (("hidden", 64), ("start_epochs", 200), ("steps_per_arrival", 5), ("arms", 1000), ("clusters", 1000))
    settings = agent.params | agent.params.get("imputer_params", {})
    return all(settings.get(name, 0) <= most for name, most in sizes if not isinstance(settings.get(name), list))


@pytest.mark.parametrize(("name", "parameter", "imputer"), list(cases()))
def test_a_number_out_of_bounds_is_refused_in_one_line_that_names_it(name, parameter, imputer):
    """An alpha of 1.7e308 once made an agent whose first decision failed halfway."""
    made = 0
    for value in WRONG:
        params = {"imputer_params": {parameter: value}} if imputer else {parameter: value}
        try:
            agent = taciturn.make(name, **{"arms": 3} | few_trees(name) | params)
        except TaciturnError as error:
            assert parameter in str(error)
            assert "\n" not in str(error)
            assert len(str(error)) < 300
            continue
        made += 1
        if small(agent) and parameter != "memory_limit":
            works(agent)
    assert made < len(WRONG) - 10


def works(agent):
    """Decide and learn with the largest contexts, and with the smallest."""
    for x in ([1e15, -1e15, 0.0], [5e-324, 0.0, 1e-160], [1.0, 1e15, 5e-324]):
        for reward in (1, 0, None, 1):
            decision = agent.decide(x)
            assert np.isfinite(decision.scores).all()
            agent.feedback(decision.id, reward)
    agent.feedback(decision.id, 0)
    agent.withdraw(decision.id - 1)
    assert agent.health().remembered == 11


LARGE = {"alpha": 1e6, "ridge": 1e-6, "learning_rate": 100, "weight_decay": 100, "temperature": 1e6, "epsilon": 0.5}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("extreme", ["default", "largest", "smallest"])
def test_the_largest_contexts_with_the_largest_parameters_stay_finite(name, extreme):
    known = {field.name for field in fields(type(taciturn.make(name, arms=2)))}
    values = {"default": {}, "largest": LARGE, "smallest": {"alpha": 5e-324, "ridge": 1e9, "temperature": 5e-324}}
    agent = taciturn.make(name, arms=3, **few_trees(name), **{k: v for k, v in values[extreme].items() if k in known})
    works(agent)
    agent.add_arm("copied", like=0)
    rng = np.random.default_rng(0)
    for step in range(80):
        exponent = rng.choice([-323, -160, 0, 7, 15])
        decision = agent.decide(rng.uniform(-1, 1, 3) * 10.0**exponent)
        assert np.isfinite(decision.scores).all()
        agent.feedback(decision.id, (1, 0, None)[step % 3])
        if step % 5 == 0:
            agent.feedback(decision.id, (0, 1)[step % 2])  # unlearns
    floats = [array for array in arrays(agent.state_dict()["parts"]) if array.dtype.kind == "f"]
    assert not any(np.isnan(array).any() for array in floats)


def arrays(state):
    """All arrays in a state."""
    if isinstance(state, np.ndarray):
        yield state
    for part in state.values() if isinstance(state, dict) else ():
        yield from arrays(part)


TOO_LARGE = [1.01e100, 1e200, 1e308, -1e308, np.inf, 10**400]


@pytest.mark.parametrize(
    ("scaling", "most", "value"),
    [("auto", "1e.100", value) for value in TOO_LARGE]
    + [(scaling, "1e.15", value) for scaling in ("none", "l1", "l2") for value in (1.01e15, 1e100, *TOO_LARGE)],
)
def test_a_context_that_could_overflow_is_refused_and_says_so(scaling, most, value):
    agent = taciturn.LinUCB(arms=2, scaling=scaling)
    for context in ({"a": value, "b": 1.0}, [1.0, float(value) if value != 10**400 else np.inf]):
        with pytest.raises(InvalidContext, match=f"a finite number is needed, of at most {most}") as error:
            agent.decide(context)
        assert ("'a'" if isinstance(context, dict) else "feature 1") in str(error.value)
    assert agent.n_features == 0


@pytest.mark.parametrize("scaling", ["none", "l1", "l2"])
def test_a_missing_number_in_an_array_needs_the_flags_of_the_scale(scaling):
    agent = taciturn.LinUCB(arms=2, scaling=scaling)
    with pytest.raises(InvalidContext, match="holds nan at feature 1; a finite number is needed, of at most 1e.15"):
        agent.decide([1.0, np.nan])
    assert agent.decide({"a": np.nan, "b": 1.0}).id == 0
    assert taciturn.LinUCB(arms=2).decide([1.0, np.nan]).id == 0


@pytest.mark.parametrize("name", METHODS)
def test_numbers_up_to_the_largest_are_taken_where_they_are_scaled(name):
    agent, rng = taciturn.make(name, arms=3, **few_trees(name)), np.random.default_rng(0)
    for step in range(30):
        exponent = rng.choice([-323, -160, 0, 15, 100])
        decision = agent.decide(rng.uniform(-1, 1, 3) * 10.0**exponent)
        assert np.isfinite(decision.scores).all()
        agent.feedback(decision.id, (1, 0, None)[step % 3])
    assert max(np.abs(agent._contexts[node].values).max() for node in range(30)) < 1e3


@pytest.mark.parametrize("arms", [10**400, 10**9, range(10**30), range(10**9), 1, [], range(1), [("a", []), "b"]])
def test_too_many_or_too_few_arms_are_refused_at_once(arms):
    with pytest.raises(TaciturnError, match="arms=.* is not allowed") as error:
        taciturn.LinUCB(arms=arms)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("params", [None, 5, [], "x", {5: 5}, {"clusters": {}}])
def test_settings_of_an_imputer_that_are_none_are_refused(params):
    with pytest.raises(TaciturnError):
        taciturn.BILinUCB(arms=2, imputer="kmeans", imputer_params=params)


class Overflows(taciturn.LinUCB):
    tag = "test/overflows"
    scores = (0.0, 0.0)

    def _score(self, node):
        return np.array(self.scores), np.zeros(2)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("params", [{}, {"epsilon": 0.5}, {"temperature": 1.0}])
def test_scores_that_are_not_finite_are_a_context_that_overflows(wrong, params):
    agent = Overflows(arms=["a", "b"], **params)
    for scores in ((wrong, 0.0), (0.0, wrong), (wrong, wrong)):
        agent.scores = scores
        with pytest.raises(InvalidContext, match="the context overflows: an arm was scored NaN or infinite"):
            agent.decide([1.0])
    agent.scores = (0.0, 1.0)
    assert agent.decide([1.0]).arm == "b"
    assert agent.health().remembered == 1
