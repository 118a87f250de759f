"""Deferred training: `decide` leaves training to `train_pending`, which runs it in bounded pieces."""

import copy
from functools import partial

import numpy as np
import pytest

import taciturn
from oracles.zoo import AGENTS, ARMS, contexts
from taciturn.experiments.checks import toy_data

TRAINED = {
    "rogcn": partial(taciturn.ROGCN),
    "gcnucb": partial(taciturn.GCNUCB, warmup=10),
    "bilinucb-gcn": partial(taciturn.BILinUCB, warmup=10),
    "viewucb": taciturn.ViewUCB,
}

WEIGHTS = {
    "rogcn": ("encoder", "w1"),
    "gcnucb": ("encoder", "w1"),
    "bilinucb-gcn": ("imputer", "w1"),
    "viewucb": ("solver", "theta"),
}


def run(agent, pieces, rows=240):
    """Return the share of right arms in the second half, with `pieces` of training after each decision."""
    data, right = toy_data(rows), []
    agent.warm_start(data.X[[int(np.flatnonzero(data.y == k)[0]) for k in range(3)]], ARMS)
    for i in range(3, rows):
        decision = agent.decide(data.X[i])
        right.append(decision.arm == ARMS[data.y[i]])
        agent.feedback(decision.id, None if i % 4 == 0 else float(right[-1]))
        agent.train_pending(pieces)
    return np.mean(right[rows // 2 :])


@pytest.mark.parametrize("name", TRAINED)
def test_deferred_training_reaches_accuracy_and_ends(name):
    agent = TRAINED[name](arms=ARMS, seed=1)
    agent.defer_training()
    assert run(agent, pieces=1) > 0.8
    while agent.train_pending():
        pass
    assert agent.train_pending(1000) == 0


@pytest.mark.parametrize("name", TRAINED)
def test_decide_does_not_train_while_training_is_deferred(name):
    """Contexts are taken as they are: a scale that is renewed moves the weights, so that they say the same."""
    agent = TRAINED[name](arms=ARMS, seed=1, scaling="none")
    run(agent, pieces=0, rows=60)
    agent.defer_training()

    def learned():
        parts = agent.state_dict()["parts"]
        part, array = WEIGHTS[name]
        return parts[part][array].copy()

    before = learned()
    for x in toy_data(60, seed=9).X:
        agent.decide(x)
    np.testing.assert_array_equal(learned(), before)
    assert agent.train_pending(3) == 3
    agent.train_pending(1000)
    assert (learned() != before).any()


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_saved_during_deferred_training_resumes_bit_for_bit(name, tmp_path):
    agent = AGENTS[name](arms=ARMS, seed=1, max_nodes=40)
    agent.defer_training()
    agent.warm_start(contexts(3), ARMS)
    for step, x in enumerate(contexts(60, 1)):
        decision = agent.decide(x)
        agent.feedback(decision.id, (1, 0, None)[step % 3])
        agent.train_pending(step % 4)
        if step % 9 == 0:
            agent.save(tmp_path / "agent")
            other = taciturn.load(tmp_path / "agent")
            assert other.train_pending(2) == agent.train_pending(2)
            mine, theirs = (one.decide(contexts(1, step)[0]) for one in (agent, other))
            np.testing.assert_array_equal(mine.scores, theirs.scores)
            assert mine.arm == theirs.arm


def test_viewucb_solves_in_pieces_as_it_solves_at_once():
    trained = taciturn.ViewUCB(arms=ARMS)
    run(trained, pieces=0, rows=100)
    state = trained.state_dict()
    state["parts"]["solver"] |= {"solved_at": 0, "scaled_at": 0}  # so that a solve is due, and rescales all contexts
    at_once, in_pieces = (taciturn.ViewUCB.from_state_dict(copy.deepcopy(state)) for _ in range(2))
    in_pieces.defer_training()
    before = state["parts"]["solver"]["theta"].copy()
    for agent in (at_once, in_pieces):
        agent.decide(toy_data(2, seed=9).X[0])
    np.testing.assert_array_equal(in_pieces.state_dict()["parts"]["solver"]["theta"], before)
    assert in_pieces.train_pending(1000) >= 9
    one, other = (agent.state_dict() for agent in (at_once, in_pieces))
    assert (one["parts"]["solver"]["theta"] != before).any()
    np.testing.assert_array_equal(one["parts"]["solver"]["theta"], other["parts"]["solver"]["theta"])
    np.testing.assert_array_equal(one["table"]["columns"]["projected"], other["table"]["columns"]["projected"])
