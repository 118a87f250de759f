"""What holds of every peer: it learns, keeps the promises of the two verbs, and leaves silence alone."""

import importlib
import pickle
import sys
from functools import partial

import numpy as np
import pytest

import taciturn
from taciturn.errors import AlreadyAnswered, TaciturnError, UnknownDecision
from taciturn.experiments.checks import ARMS, check_agent, toy_data
from taciturn.registry import METHODS, PEERS, library_version, method_named

NAMES = [name for name in PEERS if not name.endswith("-zero")]
SMALL = {"samples": 3, "growth": 0.5}  # of bootstrapped logistic regressions, which take long
DATA = toy_data(120)
ROWS = list(DATA.X.toarray())


def started(name, **params):
    """An agent of a peer with a labelled start, whose seed is one that libraries must be given otherwise."""
    agent = taciturn.make(name, arms=ARMS, **small(name) | {"seed": 2**70} | params)
    agent.warm_start(ROWS[:9], [ARMS[k] for k in DATA.y[:9]])
    return agent


def small(name):
    return SMALL if name.startswith("cb-bootstrapped") else {}


def run(agent, first, last, reward):
    """Decide on some rows, with feedback at once; returns the arms."""
    arms = []
    for i in range(first, last):
        decision = agent.decide(ROWS[i])
        agent.feedback(decision.id, reward(i, decision.arm))
        arms.append(decision.arm)
    return arms


def truth(i, arm):
    return float(arm == ARMS[DATA.y[i]])


@pytest.mark.parametrize("name", NAMES)
def test_it_is_clearly_better_than_any_constant_arm_on_digits(name):
    data = taciturn.load_dataset("digits")
    stream = taciturn.Stream(data, missing=0, seed=1, steps=400)
    trace = taciturn.evaluate(taciturn.make(name, arms=data.arms, seed=1, **small(name)), stream, progress=False)
    assert trace.correct[-150:].mean() > stream.best_constant_arm[1] + 0.4


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("one_right_arm", [True, False])
def test_it_passes_check_agent(name, one_right_arm):
    check_agent(partial(taciturn.make, name, one_right_arm=one_right_arm, **small(name)))


def contents(agent, folder):
    """All that a library holds, as bytes, and what is still to be learned."""
    held = agent._held
    if agent.package != "vowpalwabbit":
        return pickle.dumps(held.library), len(held.waiting), held.learned
    held.library._workspace.save(str(folder / "model"))
    return (folder / "model").read_bytes(), len(held.waiting), held.learned


@pytest.mark.parametrize("name", NAMES)
def test_silence_leaves_it_as_it_was_to_the_last_bit(name, tmp_path):
    agent = started(name)
    run(agent, 9, 20, truth)
    decisions = [agent.decide(row) for row in ROWS[20:25]]
    before = contents(agent, tmp_path)
    for decision in decisions:
        agent.feedback(decision.id, None)
    assert contents(agent, tmp_path) == before


@pytest.mark.parametrize("name", NAMES)
def test_zero_filling_is_feedback_of_zero(name):
    def silent(i, arm):
        return None if i % 3 else truth(i, arm)

    def filled(i, arm):
        return 0.0 if i % 3 else truth(i, arm)

    skipped, zeros, told = started(name), started(f"{name}-zero"), started(name)
    assert run(zeros, 9, 60, silent) == run(told, 9, 60, filled)
    assert zeros._held.learned == told._held.learned == 60
    run(skipped, 9, 60, silent)
    assert skipped._held.learned == 26


@pytest.mark.parametrize("name", NAMES)
def test_late_rewards_by_id_are_learned_once_and_are_final(name):
    agent = started(name)
    decisions = [agent.decide(row) for row in ROWS[9:25]]
    for decision in decisions[::-1]:
        agent.feedback(decision.id, 1)
        agent.feedback(decision.id, 1)
    with pytest.raises(AlreadyAnswered, match="cannot take it back"):
        agent.feedback(decisions[3].id, 0)
    with pytest.raises(UnknownDecision):
        agent.feedback(999, 1)
    assert agent._held.learned == 9 + len(decisions)
    agent.decide(ROWS[30])
    assert not agent._held.waiting or agent.refitted


CONTEXTS = [
    {"country": "DE", "age": 41, "income": 52000.0, "vip": True, "note": "the parcel is late", "tags": ["web"]},
    {"country": None, "age": 23, "income": None, "vip": False, "note": "", "tags": []},
    {"country": "FR", "income": 1e6, "note": "where is my refund", "first time": "here"},
    {"age": 77, "vip": True, "weight": -3e-6, "tags": ["web", "phone"]},
]


@pytest.mark.parametrize("name", NAMES)
def test_mixed_contexts_blanks_and_features_and_arms_that_come_later(name):
    agent = taciturn.make(name, arms=["refund", "order"], **small(name))
    for step in range(24):
        decision = agent.decide(CONTEXTS[step % 4] | {f"word {step // 8}": "yes", "size": step * 1e5})
        agent.feedback(decision.id, (1, 0, None)[step % 3])
        if step == 12:
            agent.add_arm("human")
        if step == 16:
            agent.add_arm("copy", like="refund")
        if step == 20:
            agent.retire_arm("order")
    allowed = [agent.decide(CONTEXTS[0], allowed=["human"]) for _ in range(3)]
    assert {decision.arm for decision in allowed} == {"human"}
    assert len(agent.decide(CONTEXTS[1]).scores) == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_blank_is_a_context_and_an_infinite_number_is_refused(name):
    agent = started(name)
    assert agent.decide([np.nan, *ROWS[9][1:]]).arm in ARMS
    with pytest.raises(TaciturnError, match="inf"):
        agent.decide([np.inf, *ROWS[9][1:]])
    assert agent.decide(ROWS[9]).arm in ARMS


@pytest.mark.parametrize("name", NAMES)
def test_contexts_of_zeros_are_learned(name):
    """River failed where the first context that an arm learned had no entries."""
    agent = taciturn.make(name, arms=ARMS, scaling="none", **small(name))
    for step in range(6):
        agent.feedback(agent.decide(np.zeros(len(ROWS[0]))).id, step % 2)
    assert agent.decide(ROWS[9]).arm in ARMS


def test_a_library_that_fails_is_one_line_and_what_it_was_to_learn_is_kept():
    """Of numbers that are too large MABWiser raises a LinAlgError; what waited to be learned was lost."""
    agent = started("mabwiser-lints", scaling="none")
    agent.feedback(agent.decide(ROWS[9]).id, 1)
    agent._held.library.learn = None  # cannot be called
    with pytest.raises(TaciturnError, match=r"^mabwiser cannot learn \(TypeError: [^\n]*$"):
        agent.decide(ROWS[10])
    assert agent.next_id == 11, "the decision was not made, but its id is used up"
    agent.decide(ROWS[10])
    assert agent._held.library._learned == len(agent._events(agent._all_examples()).arms)
    large = started("mabwiser-lints", scaling="none")
    with pytest.raises(TaciturnError, match=r"^mabwiser cannot .* \(LinAlgError"):
        for row in np.random.default_rng(0).normal(0, 1e10, (20, len(ROWS[0]))):
            large.feedback(large.decide(row).id, 1)


def test_a_copied_arm_is_told_what_the_other_was_and_no_more():
    agent = started("mabwiser-linucb", all_arms=False)
    agent.add_arm("twin", like="left")
    left, *_, twin = agent.decide(ROWS[40]).scores
    assert left == twin
    decision = agent.decide(ROWS[DATA.y.tolist().index(0, 9)], allowed=["left"])
    agent.feedback(decision.id, 1)
    left, *_, twin = agent.decide(ROWS[40]).scores
    assert left != twin


@pytest.mark.parametrize("name", NAMES)
def test_it_is_saved_exactly_or_refuses_to_be(name, tmp_path):
    """`check_agent` compares those that are saved with an agent that goes on."""
    agent = started(name)
    if agent.resumes:
        agent.save(tmp_path / "agent")
        copies = taciturn.load(tmp_path / "agent"), agent.fork()
        going_on = run(agent, 9, 40, truth)
        assert all(run(copy, 9, 40, truth) == going_on for copy in copies)
        return
    for attempt in (partial(agent.save, tmp_path / "agent"), agent.fork):
        with pytest.raises(TaciturnError, match=f"{agent.package} does not resume exactly"):
            attempt()


def test_what_was_evicted_cannot_be_saved(tmp_path):
    agent = taciturn.make("vw-squarecb", arms=ARMS, max_nodes=16)
    run(agent, 0, 40, truth)
    with pytest.raises(TaciturnError, match="max_nodes has evicted what it learned"):
        agent.save(tmp_path / "agent")


def test_a_missing_package_is_one_line(monkeypatch):
    target = method_named("vw-bag").target.partition(":")[0]
    monkeypatch.setitem(sys.modules, "vowpalwabbit", None)
    monkeypatch.delitem(sys.modules, target, raising=False)
    with pytest.raises(TaciturnError, match=r"^vw-bag needs vowpalwabbit: pip install '\.\[peers\]'.*$"):
        taciturn.make("vw-bag", arms=2)
    monkeypatch.undo()
    importlib.import_module(target)


def test_names_versions_and_the_rest_of_the_library():
    assert not set(PEERS) & set(METHODS)
    assert library_version("vw-bag").keys() == {"vowpalwabbit"}
    assert library_version("viewucb") == {}
    assert PEERS["cb-linucb-zero"].params == PEERS["cb-linucb"].params | {"silence": 0.0}
