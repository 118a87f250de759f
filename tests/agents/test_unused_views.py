"""Views over the graph that have proved useless are left out, and come back."""

import numpy as np
import pytest

import taciturn
from taciturn.agents import viewucb
from taciturn.kernels import views

V = 4


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(viewucb, "PROVED", 20)


def decide(agent, rng):
    """A decision about a context whose right arm its neighbors know nothing of, and its answer."""
    x = rng.normal(size=6)
    decision = agent.decide(x)
    agent.feedback(decision.id, float(decision.arm == int(x[0] * x[1] > 0)) if rng.random() < 0.8 else None)
    return decision


def used_after(steps, **params):
    """How many views were used at each of some decisions, and the agent."""
    rng, agent = np.random.default_rng(3), taciturn.ViewUCB(arms=2, seed=3, **params)
    used = []
    for _ in range(steps):
        decide(agent, rng)
        used.append(agent.state_dict()["parts"]["solver"]["n_used"])
    return np.array(used), agent


def test_they_score_nothing_until_they_are_tried_again():
    used, agent = used_after(300)
    scores = agent.state_dict()["table"]["columns"]["view_scores"]
    assert (used[200:256] < V).any()
    for node, n_used in enumerate(used):
        assert (scores[node, n_used:V] == 0).all()
    tried = used[260:280]  # 256 decisions to a tenth more, and a solve later
    assert (tried == V).all()
    assert scores[270, V - 1].any()


def test_what_comes_back_has_the_scales_of_now():
    _, agent = used_after(255)
    solver, graph, contexts, rng = agent._solver, agent._graph, agent._unit, np.random.default_rng(4)
    assert solver.n_used < V
    while solver.n_used < V:
        decide(agent, rng)
    nodes = np.arange(contexts.count)
    expected = views.unit_scales(graph.adjacency, contexts.rows, nodes, nodes, V, contexts.n_features)
    np.testing.assert_allclose(solver.scales.data[: contexts.count], expected, rtol=1e-6)


@pytest.mark.parametrize("steps", [230, 258, 270])
@pytest.mark.parametrize("deferred", [False, True])
def test_a_file_resumes_bit_for_bit(steps, deferred, tmp_path):
    _, agent = used_after(steps)
    if deferred:
        agent.defer_training()
        decide(agent, np.random.default_rng(8))
        agent.train_pending(3)
    agent.save(tmp_path / "agent")
    other = taciturn.load(tmp_path / "agent")
    for one, two in zip(*([decide(each, rng) for _ in range(60)] for each, rng in both(agent, other)), strict=True):
        np.testing.assert_array_equal(one.scores, two.scores)


def both(*agents):
    return [(agent, np.random.default_rng(5)) for agent in agents]


def test_agents_of_before_use_all_views():
    assert (used_after(250, calibrated=False)[0] == V).all()


@pytest.mark.parametrize("forged", [0, -1, V + 1, 2.0, None])
def test_a_forged_number_of_views_is_refused(forged):
    state = used_after(5)[1].state_dict()
    state["parts"]["solver"]["n_used"] = forged
    with pytest.raises(ValueError, match="n_used|number of views"):
        taciturn.ViewUCB.from_state_dict(state)
