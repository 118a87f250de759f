"""With many arms, or contexts, ViewUCB keeps features rather than scores; it decides as it would otherwise.

With many arms it also solves less often.
"""

import numpy as np
import pytest
import scipy.sparse as sp

import taciturn
from oracles import views as oracle
from taciturn.agents import viewucb
from taciturn.agents.parts import cg_solver
from taciturn.kernels import views

K, D = 40, 20


def contexts(count, seed=0):
    rng = np.random.default_rng(seed)
    arms = rng.integers(K, size=count)
    return np.random.default_rng(1).normal(size=(K, D))[arms] + 0.3 * rng.normal(size=(count, D)), arms


def run(agent, count, seed=0):
    X, arms = contexts(count, seed)
    decisions = []
    for i, (x, arm) in enumerate(zip(X, arms, strict=True)):
        decisions.append(agent.decide(x))
        agent.feedback(decisions[-1].id, None if i % 3 == 2 else float(decisions[-1].arm == arm))
    return decisions


def start():
    agent = taciturn.ViewUCB(arms=K, scaling="none")
    agent.warm_start(*contexts(K))
    return agent


def test_scores_by_features_are_those_of_projections(monkeypatch):
    monkeypatch.setattr(cg_solver, "MANY_ARMS", 2)
    found = run(agent := start(), 60)
    assert agent._solver.by_features
    monkeypatch.setattr(cg_solver.CGSolver, "_has_many_arms", lambda _: False)
    expected = run(agent := start(), 60)
    assert not agent._solver.by_features
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, two.scores, atol=2e-3)


@pytest.mark.parametrize("params", [{}, {"one_right_arm": False}, {"hops": 0}, {"max_nodes": 70}], ids=str)
def test_many_arms_are_solved_exactly(monkeypatch, params):
    monkeypatch.setattr(cg_solver, "MANY_ARMS", 2)
    agent = taciturn.ViewUCB(arms=K, scaling="none", **params)
    agent.warm_start(*contexts(K))
    run(agent, 60)
    agent.add_arm("a copy", like=3)
    agent.add_arm("new")
    run(agent, 30, seed=5)
    solver, count = agent._solver, agent._unit.count
    solver.solve()
    assert solver.n_used == solver.projected.data.shape[1]
    X = views.dense_rows(agent._unit.singles, np.arange(count), D)
    A_hat = sp.csr_matrix(tuple(agent._graph.adjacency)[::-1], shape=(count, count)).toarray()
    weights, targets = agent._weights.data[:count], agent._targets.data[:count]
    if agent._answers is not None and not agent.one_right_arm:
        targets = targets - agent._answers.means.data
    features = [F * solver.scales.data[:count, v, None] for v, F in enumerate(unscaled(A_hat, X, solver.n_used))]
    expected = oracle.solutions(features, weights, targets, agent.ridge)
    np.testing.assert_allclose(solver._theta.data.reshape(expected.shape), expected, atol=1e-4)
    of_distances = [agent._fourier._features.data[:count].astype(float)]
    expected = oracle.solutions(of_distances, weights, targets, agent.ridge)
    np.testing.assert_allclose(agent._fourier._theta.data, expected, atol=1e-4)


def unscaled(A_hat, X, n_views):
    return [np.linalg.matrix_power(A_hat, v) @ X for v in range(n_views)]


def test_arms_whose_weights_differ_everywhere_are_solved_by_conjugate_gradients(monkeypatch):
    monkeypatch.setattr(cg_solver, "MANY_ARMS", 2)
    agent = start()
    run(agent, 20)
    assert agent._solver._solve_directly()
    count = agent._unit.count
    agent._weights.data[:count] = np.random.default_rng(0).random((count, K))
    monkeypatch.setattr(cg_solver, "CG_STEPS", 0)  # as if these took next to nothing
    assert not agent._solver._solve_directly()


@pytest.mark.parametrize("params", [{}, {"one_right_arm": False}, {"max_nodes": 70}, {"scaling": "auto"}], ids=str)
def test_many_contexts_are_solved_by_features_that_are_made_once(monkeypatch, params):
    made, stored = [], views.stored
    monkeypatch.setattr(views, "stored", lambda *of: made.append(agent._solver._stage) or stored(*of))

    def agent_of(beyond_caches):
        monkeypatch.setattr(cg_solver, "BEYOND_CACHES", beyond_caches)
        agent = taciturn.ViewUCB(arms=K, **{"scaling": "none"} | params)
        agent.warm_start(*contexts(K))
        return agent

    agent = agent_of(np.inf)
    expected = run(agent, 60)
    assert not made
    agent = agent_of(0)
    made.clear()
    found = run(agent, 60)
    for one, two in zip(found, expected, strict=True):
        assert one.arm == two.arm
        np.testing.assert_allclose(one.scores, two.scores, atol=2e-3)
    made.clear()
    agent._solver.solve()
    assert len(made) == 1
    assert agent._solver._stored is None, "they are not held"
    agent.defer_training()
    run(agent, 20, seed=2)
    agent.train_pending(100)
    assert len(made) == 1, "contexts come between the pieces of a deferred solve"


def test_features_that_are_many_are_not_stored(monkeypatch):
    monkeypatch.setattr(cg_solver, "BEYOND_CACHES", 0)
    monkeypatch.setattr(cg_solver, "WIDER", 0.01)
    monkeypatch.setattr(views, "stored", None)
    run(start(), 5)


def test_a_context_with_zeros_is_scored_by_features_too(monkeypatch):
    monkeypatch.setattr(cg_solver, "MANY_ARMS", 2)
    agent = start()
    monkeypatch.setattr(cg_solver.CGSolver, "_has_many_arms", lambda _: False)
    other = start()
    assert (agent._solver.by_features, other._solver.by_features) == (True, False)
    x = np.zeros(D)
    x[3] = 1.0
    np.testing.assert_allclose(agent.decide(x).scores, other.decide(x).scores, atol=2e-3)


@pytest.mark.parametrize("deferred", [False, True])
def test_a_file_resumes_bit_for_bit(monkeypatch, tmp_path, deferred):
    monkeypatch.setattr(cg_solver, "MANY_ARMS", 2)
    run(agent := start(), 30)
    if deferred:
        agent.defer_training()
        run(agent, 5, seed=3)
        agent.train_pending(5)
    agent.save(tmp_path / "agent")
    other = taciturn.load(tmp_path / "agent")
    for one, two in zip(run(agent, 20, seed=4), run(other, 20, seed=4), strict=True):
        np.testing.assert_array_equal(one.scores, two.scores)


def test_arms_that_make_the_features_the_larger_part_are_projected_again(monkeypatch):
    monkeypatch.setattr(cg_solver, "MANY_ARMS", K + 1)
    agent = start()
    agent.add_arm("one more")
    run(agent, 4)
    assert agent._solver.by_features
    monkeypatch.setattr(cg_solver, "MANY_ARMS", K + 2)
    run(agent, 4, seed=2)
    assert not agent._solver.by_features
    rows, solver = agent._unit.singles, agent._solver
    expected = views.spmm(rows, solver.unit_theta.data.reshape(D, -1))
    np.testing.assert_allclose(solver.projected.data[: agent._unit.count].reshape(expected.shape), expected, atol=1e-5)


def test_solves_are_rarer_the_more_a_score_costs(monkeypatch):
    solves = []
    for most in (2**19, 4 * D * K // 5):
        monkeypatch.setattr(viewucb, "MANY_PRODUCTS", most)
        agent, times = start(), 0
        for _ in range(60):
            before = agent._solver.solved_at
            run(agent, 1, seed=agent.next_id)
            times += agent._solver.solved_at != before
        solves.append(times)
    assert solves[0] >= 30
    assert 5 <= solves[1] <= solves[0] / 2


def test_pieces_of_arms_are_solved_as_all_at_once(monkeypatch):
    expected = run(start(), 40)
    monkeypatch.setattr(views, "PIECE", 2**9)
    agent = start()
    assert len(agent._solver._pieces()) > 2
    for one, two in zip(run(agent, 40), expected, strict=True):
        np.testing.assert_allclose(one.scores, two.scores, atol=2e-3)


@pytest.mark.parametrize("params", [{}, {"hops": 0}, {"one_right_arm": False}, {"scaling": "none"}], ids=str)
def test_many_arms_are_decided_on_before_the_first_feedback(params):
    """Regressions of 256 arms or more once failed where no context had a target."""
    agent, rng = taciturn.ViewUCB(arms=300, **params), np.random.default_rng(0)
    decisions = [agent.decide(rng.normal(size=5)) for _ in range(6)]
    assert len({decision.arm for decision in decisions}) == 6, "ties are spread over the arms"
    agent.feedback(decisions[0].id, 1)
    agent.withdraw(decisions[0].id)
    agent.defer_training()
    assert np.isfinite(agent.decide(rng.normal(size=5)).scores).all()
    agent.train_pending(50)
