"""What grows with a vocabulary is copied rarely, and a deferred solve ends although every context has new words."""

import numpy as np
import pytest

import taciturn
from taciturn.agents.parts import cg_solver
from taciturn.agents.parts.part import Part


def words(step):
    """Words that come in turns, and one that no context had before."""
    return {f"{step % 3} {step % 5}": 1.0, f"{step % 2}": 1.0, f"new {step}": 1.0}


def test_a_deferred_solve_ends_although_every_context_has_new_words(monkeypatch):
    monkeypatch.setattr(cg_solver, "FEW_FEATURES", 8)
    agent = taciturn.ViewUCB(arms=3, scaling="none")
    agent.defer_training()
    solved = []
    for step in range(60):
        agent.feedback(agent.decide(words(step)).id, float(step % 2))
        agent.train_pending(1)
        solved.append(agent._solver.solved_at)
    assert len(set(solved)) > 3
    assert np.isfinite(agent.decide(words(60)).scores).all()


def test_it_solves_what_a_solve_at_once_does(monkeypatch):
    monkeypatch.setattr(cg_solver, "FEW_FEATURES", 8)
    monkeypatch.setattr(cg_solver, "CG_STEPS", 30)
    agent = taciturn.ViewUCB(arms=3, scaling="none", hops=0, fourier=False, soft_label_weight=0.0)
    agent.defer_training()
    for step in range(20):
        agent.feedback(agent.decide(words(step)).id, float(step % 2))
        agent.train_pending(1)
    other = agent.fork()
    while agent.train_pending(100):
        pass
    other._solver.solve()
    other._solver.solve()
    agent._solver.solve()
    np.testing.assert_allclose(agent._solver.unit_theta.data, other._solver.unit_theta.data, atol=1e-3)


@pytest.mark.parametrize("steps", [20, 23])
def test_a_file_of_a_solve_under_way_resumes_bit_for_bit(steps, monkeypatch, tmp_path):
    monkeypatch.setattr(cg_solver, "FEW_FEATURES", 8)
    agent = taciturn.ViewUCB(arms=3, scaling="none")
    agent.defer_training()
    for step in range(steps):
        agent.feedback(agent.decide(words(step)).id, float(step % 2))
        agent.train_pending(1)
    agent.save(tmp_path / "agent")
    other = taciturn.load(tmp_path / "agent")
    for step in range(steps, steps + 20):
        for each in (agent, other):
            each.train_pending(1)
        np.testing.assert_array_equal(agent.decide(words(step)).scores, other.decide(words(step)).scores)


def test_features_are_copied_only_where_there_is_no_room():
    part = Part()
    array = part.array("sums", np.float32, "feature", 2, "arm")
    part.allocate(3, 5)
    array.data[...] = 1.0
    copies, held = 0, array.data
    for n_features in range(6, 2000):
        part.add_features(n_features)
        array.data[-1] = n_features
        copies += not np.shares_memory(array.data, held)
        held = array.data
    assert copies < 60
    assert array.data.shape == (1999, 2, 3)
    np.testing.assert_array_equal(array.data[5:, 0, 0], np.arange(6, 2000))
    assert (array.data[:5] == 1.0).all()
    array.data = array.data.copy()  # as an agent that replaces what it holds
    part.add_features(2001)
    assert not array.data[1999:].any()
