"""Learning that waits: decisions leave it behind, and somebody does it in pieces when there is time."""

from functools import partial

import numpy as np
import pytest

import taciturn
from oracles.zoo import AGENTS, ARMS, contexts
from taciturn.experiments.checks import toy_data

PUTS_OFF = {
    "rogcn": partial(taciturn.ROGCN),
    "gcnucb": partial(taciturn.GCNUCB, warmup=10),
    "bilinucb-gcn": partial(taciturn.BILinUCB, warmup=10),
    "viewucb": taciturn.ViewUCB,
}


def run(agent, pieces, rows=240):
    """The share of right arms in the second half, with so many pieces of learning after each decision."""
    data, right = toy_data(rows), []
    agent.warm_start(data.X[[int(np.flatnonzero(data.y == k)[0]) for k in range(3)]], ARMS)
    for i in range(3, rows):
        decision = agent.decide(data.X[i])
        right.append(decision.arm == ARMS[data.y[i]])
        agent.feedback(decision.id, None if i % 4 == 0 else float(right[-1]))
        agent.train_pending(pieces)
    return np.mean(right[rows // 2 :])


@pytest.mark.parametrize("name", PUTS_OFF)
def test_what_is_put_off_is_learned_in_the_end(name):
    agent = PUTS_OFF[name](arms=ARMS, seed=1)
    agent.defer_training()
    assert run(agent, pieces=1) > 0.8
    while agent.train_pending():
        pass
    assert agent.train_pending(1000) == 0


@pytest.mark.parametrize("name", PUTS_OFF)
def test_deciding_leaves_what_takes_long_to_others(name):
    agent = PUTS_OFF[name](arms=ARMS, seed=1)
    run(agent, pieces=0, rows=60)
    agent.defer_training()

    def learned():
        held = agent._imputer if name.startswith("bilinucb") else agent
        return agent._theta.copy() if name == "viewucb" else held._encoder._w1.copy()

    before = learned()
    for x in toy_data(60, seed=9).X:
        agent.decide(x)
    np.testing.assert_array_equal(learned(), before)
    assert agent.train_pending(3) == 3
    agent.train_pending(1000)
    assert (learned() != before).any()


@pytest.mark.parametrize("name", AGENTS)
def test_a_file_in_the_middle_of_a_study_goes_on_to_the_last_bit(name, tmp_path):
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


def test_viewucb_solves_in_pieces_what_it_solves_at_once():
    at_once, in_pieces = taciturn.ViewUCB(arms=ARMS), taciturn.ViewUCB(arms=ARMS)
    for agent in (at_once, in_pieces):
        run(agent, pieces=0, rows=100)
        agent._solved = 0
        agent._scaled = 0
    at_once._solve()
    pieces = in_pieces.train_pending(1000)
    assert pieces >= 9
    np.testing.assert_array_equal(at_once._theta, in_pieces._theta)
    np.testing.assert_array_equal(at_once._projected, in_pieces._projected)
