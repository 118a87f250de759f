"""Contexts with many neighbors: what is refused, and how much work the others cause."""

import numpy as np
import pytest

import taciturn
from taciturn.agents.parts import cg_solver
from taciturn.agents.validation import MAX_NEIGHBORS
from taciturn.errors import TaciturnError
from taciturn.kernels import views
from taciturn.service.core.errors import ValidationError
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import DecideRequest


def edges(agent):
    return len(agent.state_dict()["parts"]["graph"]["edges"]["sources"])


def test_more_neighbors_than_allowed_are_refused_before_anything_is_done():
    agent = taciturn.ViewUCB(arms=2, hops=1)
    agent.warm_start(np.random.default_rng(0).random((MAX_NEIGHBORS + 1, 3)), [0] * (MAX_NEIGHBORS + 1), edges=[])
    too_many = range(MAX_NEIGHBORS + 1)
    with pytest.raises(TaciturnError, match="a context with 1001 neighbors; at most 1000 are allowed"):
        agent.decide([1.0, 0.0, 0.0], too_many)
    with pytest.raises(TaciturnError, match="a context with 1001 neighbors; at most 1000 are allowed"):
        agent.decide_batch(np.eye(3), [[0], too_many, [1]])
    assert (edges(agent), agent.next_id) == (0, MAX_NEIGHBORS + 1)
    agent.decide([1.0, 0.0, 0.0], [*range(MAX_NEIGHBORS), 0, 1])
    assert edges(agent) == MAX_NEIGHBORS


@pytest.mark.parametrize(
    ("contexts", "neighbors", "message"),
    [
        (1, 1000, None),
        (1, 1001, "1001 neighbors of a context; 1000 are allowed"),
        (10, 1000, None),
        (11, 1000, "11000 neighbors in one request; 10000 are allowed for all contexts together"),
        (800, 1900, "1900 neighbors of a context; 1000 are allowed"),
    ],
)
def test_all_neighbors_of_a_request_count(contexts, neighbors, message):
    ids = list(range(neighbors))
    requests = [DecideRequest(contexts=[[1.0]] * contexts, neighbors=[ids] * contexts)]
    requests += [DecideRequest(context=[1.0], neighbors=ids)] if contexts == 1 else []
    for request in requests:
        if message is None:
            Limits().check_request(request)
        else:
            with pytest.raises(ValidationError, match=message):
                Limits().check_request(request)


def test_a_deferred_step_follows_few_edges_however_dense_the_graph_is(monkeypatch):
    monkeypatch.setattr(cg_solver, "EDGES_PER_STEP", 50_000)
    agent = taciturn.ViewUCB(arms=2)
    agent.defer_training()
    for node, x in enumerate(np.random.default_rng(0).random((300, 4))):
        agent.decide(x, range(max(0, node - 100), node))
    chunks, unit_scales = [], views.unit_scales

    def counted(adjacency, contexts, members, nodes, n_views, dimension):
        chunks.append((len(nodes), len(adjacency.columns)))
        return unit_scales(adjacency, contexts, members, nodes, n_views, dimension)

    monkeypatch.setattr(views, "unit_scales", counted)
    while agent.train_pending(100):
        pass
    assert sum(nodes for nodes, _ in chunks) == 300, "every context is rescaled"
    for nodes, n_edges in chunks:
        assert nodes == 1 or nodes * n_edges <= 50_000
