"""The features and the scale in a forged file: kernels trust them, so whatever they would read wrongly is refused."""

import copy

import numpy as np
import pytest

import taciturn
from oracles.histories import by_position, named
from taciturn.agents import storage
from taciturn.features.scale import MAX_ROWS


@pytest.fixture(scope="module")
def states():
    """The states of an agent of named and of one of positional contexts, both with flags and bins."""
    found = {}
    for name, make in {"named": named, "by position": by_position}.items():
        agent, rng = taciturn.make("majority", arms=2), np.random.default_rng(0)
        for step in range(60):
            agent.feedback(agent.decide(make(rng, step)).id, step % 2)
        found[name] = agent.state_dict()
        scale = found[name]["intake"]["scale"]
        assert (scale["flag"] >= 0).any()
        assert len(scale["bins"]["columns"])
    return found


def whole(value):
    """Put a value in place of what is there."""
    return lambda _: value


def entry(value, at=0):
    """Put a value in place of one entry of an array."""

    def forged(array):
        array = array.copy()
        array[at] = value
        return array

    return forged


def everywhere(value):
    return lambda array: np.full_like(array, value)


SCALE = ("intake", "scale")
BINS = (*SCALE, "bins")
FORGERIES = {
    "a row names a column that is not there": (("intake", "contexts", "columns"), entry(10**6)),
    "a row names a column before the first": (("intake", "contexts", "columns"), entry(-1)),
    "a number beyond all bounds": (("intake", "contexts", "values"), entry(1e300)),
    "an infinite number": (("intake", "contexts", "values"), entry(np.inf)),
    "fewer columns": ((*SCALE, "slot"), lambda array: array[:-1]),
    "wider integers": ((*SCALE, "slot"), lambda array: array.astype(np.int64)),
    "a slot that is not there": ((*SCALE, "slot"), entry(10**6)),
    "a slot before the first": ((*SCALE, "slot"), entry(-2)),
    "the slot of the constant": ((*SCALE, "slot"), entry(0)),
    "a slot used twice": ((*SCALE, "slot"), lambda array: entry(array.max())(array)),
    "no slots at all": ((*SCALE, "slot"), everywhere(-1)),
    "a flag that is not there": ((*SCALE, "flag"), entry(2**31 - 1)),
    "a flag at the slot of another": ((*SCALE, "flag"), everywhere(2)),
    "so many slots that they take all memory": ((*SCALE, "n_slots"), whole(10**9)),
    "more slots than integers": ((*SCALE, "n_slots"), whole(MAX_ROWS)),
    "no slots": ((*SCALE, "n_slots"), whole(0)),
    "a count that is none": ((*SCALE, "n_slots"), whole(7.0)),
    "fewer rows than are held": ((*SCALE, "n_rows"), whole(1)),
    "fewer rows than nothing": ((*SCALE, "n_rows"), whole(-1)),
    "more values than rows": ((*SCALE, "present"), everywhere(10**6)),
    "fewer values than none": ((*SCALE, "present"), entry(-1)),
    "fewer missing than none": ((*SCALE, "missing"), entry(-1)),
    "so many missing that counts overflow": ((*SCALE, "missing"), everywhere(2**63 - 1)),
    "a center that is NaN": ((*SCALE, "mean"), entry(np.nan)),
    "a center beyond all numbers": ((*SCALE, "mean"), everywhere(1e300)),
    "an origin beyond all numbers": ((*SCALE, "origin"), everywhere(-1e300)),
    "a sum beyond all numbers": ((*SCALE, "total"), everywhere(1e300)),
    "squares beyond all numbers": ((*SCALE, "squares"), everywhere(1e300)),
    "a unit below zero": ((*SCALE, "inverse"), everywhere(-1.0)),
    "a unit so small that rows are infinite": ((*SCALE, "inverse"), everywhere(1e308)),
    "a unit so large that its square is infinite": ((*SCALE, "inverse"), everywhere(5e-324)),
    "rows far beyond all numbers": ((*SCALE, "inverse"), everywhere(1e200)),
    "all words are numbers, or numbers words": ((*SCALE, "is_number"), lambda array: ~array),
    "another way to find columns": ((*SCALE, "by_position"), lambda flag: not flag),
    "a setting that is no truth value": ((*SCALE, "constant"), whole(1)),
    "bins of a column that is not there": ((*BINS, "columns"), entry(10**6, -1)),
    "bins of a column before the first": ((*BINS, "columns"), entry(-1)),
    "bins of a column twice": ((*BINS, "columns"), everywhere(0)),
    "bins in the slots of others": ((*BINS, "slots"), everywhere(1)),
    "bins in slots that are not there": ((*BINS, "slots"), entry(2**31 - 1)),
    "bins before the first slot": ((*BINS, "slots"), entry(-1)),
    "edges that are NaN": ((*BINS, "edges"), entry(np.nan)),
    "edges that fall": ((*BINS, "edges"), lambda edges: -edges),
    "edges below all numbers": ((*BINS, "edges"), everywhere(-np.inf)),
    "fewer edges": ((*BINS, "edges"), lambda edges: edges[:, :-1].copy()),
    "no scale": (SCALE, whole(None)),
    "features that are no numbers": (
        ("intake", "reader", "is_number"),
        lambda array: array[:-1] if len(array) else None,
    ),
    "another number of features": (("intake", "reader", "n_inputs"), whole(10**9)),
    "kinds that are none": (("intake", "reader", "kinds"), whole({"age": "nonsense"})),
}


def forge(state, path, change):
    """A copy of a state with a change at a path."""
    forged = copy.deepcopy(state)
    inner = forged
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change(inner[path[-1]])
    return forged


@pytest.mark.parametrize("kind", ["named", "by position"])
@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_scale_is_refused(what, kind, states):
    with pytest.raises((ValueError, KeyError, TypeError)):
        taciturn.make("majority", arms=2).from_state_dict(forge(states[kind], *FORGERIES[what]))


@pytest.mark.parametrize("kind", ["named", "by position"])
def test_the_state_that_is_forged_is_accepted_as_it_is(kind, states):
    agent = taciturn.make("majority", arms=2)
    assert storage.dumps(agent.from_state_dict(copy.deepcopy(states[kind])))


def test_bins_at_no_slot_are_refused_also_without_edges(states):
    """The one bin of a column without edges began at −1, which says "none" of other slots."""
    state = forge(states["named"], (*BINS, "edges"), everywhere(np.inf))
    with pytest.raises(ValueError, match="bins"):
        taciturn.make("majority", arms=2).from_state_dict(forge(state, (*BINS, "slots"), entry(-1)))


def test_a_word_is_no_missing_number(states):
    """NaN stands for a number that is missing; as the value of a word it reached every distance."""
    contexts = states["named"]["intake"]["contexts"]
    words = np.flatnonzero(~states["named"]["intake"]["scale"]["is_number"][contexts["columns"]])
    for wrong in (np.nan, 1e99):
        state = forge(states["named"], ("intake", "contexts", "values"), entry(wrong, words[0]))
        with pytest.raises(ValueError, match="values are not allowed"):
            taciturn.make("majority", arms=2).from_state_dict(state)


def test_a_scale_that_is_due_without_contexts_is_renewed_later():
    """A sample of no rows was taken."""
    agent = taciturn.make("majority", arms=2)
    for id in [agent.decide(x).id for x in np.random.default_rng(0).random((5, 2))]:
        agent.withdraw(id)
    state = forge(agent.state_dict(), (*SCALE, "n_rows"), whole(1000))
    assert taciturn.make("majority", arms=2).from_state_dict(state).decide([1.0, 2.0]).id == 5


def test_a_regression_without_digits_is_learned_afresh_when_rows_move():
    """Its inverse of zeros has no inverse."""
    agent, rng = taciturn.LinUCB(arms=2), np.random.default_rng(0)
    for _ in range(8):
        agent.feedback(agent.decide(rng.random(2)).id, 1)
    state = copy.deepcopy(agent.state_dict())
    for name in ("inverse", "gains", "pending_updates"):
        state["parts"]["ridge"][name][...] = 0.0
    state["parts"]["ridge"]["folds"][...] = 1
    forged = taciturn.LinUCB.from_state_dict(state)
    for _ in range(3):
        assert np.isfinite(forged.decide(1e3 * rng.random(2)).scores).all()
