"""Eviction under `max_nodes`: which contexts are evicted, and what stays correct afterwards."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import taciturn
from oracles.evidence import check_evidence
from oracles.zoo import AGENTS, ARMS, contexts
from taciturn.agents.lifecycle import lowest
from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.errors import ForgottenDecision, TaciturnError


def graph_of(X, neighbors, k=3):
    """The rows of X and their graph, with the given neighbors or the k nearest where None."""
    rows = RowStore()
    rows.n_features = X.shape[1]
    graph = NodeGraph(rows, k)
    for node, x in enumerate(X):
        columns = np.flatnonzero(x).astype(np.int32)
        rows.append(SparseRow(columns, x[columns]))
        graph.add(node, neighbors[node])
    return rows, graph


@settings(max_examples=80, deadline=None)
@given(st.data(), st.integers(1, 40), st.sampled_from([0.2, 1.0]), st.integers(0, 10**6))
def test_the_graph_after_eviction_is_the_graph_of_the_remaining_rows(data, count, density, seed):
    """Some rows are equal: ties are broken as in a graph that never had the evicted rows."""
    rng = np.random.default_rng(seed)
    X = sp.random(count, 6, density, random_state=rng).toarray().round(1)
    given_edges = [
        sorted(set(rng.integers(0, node, 2).tolist())) if node and rng.random() < 0.3 else None for node in range(count)
    ]
    kept = np.flatnonzero(np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count))))
    rows, graph = graph_of(X, given_edges)
    if data.draw(st.booleans()):
        assert len(graph.adjacency.indptr) == count + 1
    rows.keep(kept)
    graph.keep(kept)
    index = {int(node): i for i, node in enumerate(kept)}
    left = [
        None if given_edges[node] is None else [index[other] for other in given_edges[node] if other in index]
        for node in kept
    ]
    fresh_rows, fresh = graph_of(X[kept], left)
    for mine, theirs in zip(rows.rows, fresh_rows.rows, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for x in rng.random((3, 6)):  # both grow alike from here
        for store, grown in ((rows, graph), (fresh_rows, fresh)):
            store.append(SparseRow(np.arange(6, dtype=np.int32), x))
            grown.add(store.count - 1, None)
    for mine, theirs in zip(graph.adjacency, fresh.adjacency, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("forget", ["oldest", "reservoir"])
@pytest.mark.parametrize("name", AGENTS)
def test_a_bounded_agent_keeps_size_and_evidence_over_a_long_run(name, forget, tmp_path):
    agent = AGENTS[name](arms=ARMS, max_nodes=20, forget=forget, seed=3)
    agent.warm_start(contexts(3), ARMS)
    sizes, waiting = set(), []
    for step, x in enumerate(contexts(90, 1)):
        decision = agent.decide(x, neighbors=waiting[-1:] if step % 5 == 0 else None)
        waiting.append(decision.id)
        if step % 3:
            id = waiting.pop(0)
            if id in agent.decisions:
                agent.feedback(id, (1, 0, None)[step % 3])
        assert agent.health().remembered <= 20
        if step > 60:
            sizes.add(agent.health().memory)
        if step == 70:
            agent.save(tmp_path / "agent")
            other = taciturn.load(tmp_path / "agent")
    assert max(sizes) <= 1.5 * min(sizes)
    assert len(agent.state_dict()["intake"]["contexts"]["indptr"]) == len(agent.decisions) + 1
    check_evidence(agent)
    again = [other.decide(x, neighbors=[]).scores for x in contexts(5, 2)]
    assert all(np.isfinite(scores).all() for scores in again)


def test_the_oldest_are_evicted_first_and_pending_decisions_stay():
    agent = taciturn.LinUCB(arms=2, max_nodes=64)
    for id in range(100):
        agent.decide([1.0, id % 7])
        if id != 5:
            agent.feedback(id, 1)
    ids = agent.log()["ids"]
    assert ids[0] == 5
    assert ids[1:].tolist() == list(range(100 - len(ids) + 1, 100))
    with pytest.raises(ForgottenDecision, match="withdrawn, or more than max_nodes=64 ago"):
        agent.feedback(4, 1)
    agent.feedback(5, 1)
    assert (agent.health().forgotten, agent.health().evicted_pending) == (100 - len(ids), 0)
    all_pending = taciturn.LinUCB(arms=2, max_nodes=64)
    for id in range(200):
        all_pending.decide([1.0, id % 7])
    assert all_pending.log()["ids"].tolist() == list(range(200 - len(all_pending.log()["ids"]), 200))
    assert all_pending.health().evicted_pending == all_pending.health().forgotten


def test_reservoir_eviction_keeps_an_even_sample():
    kept = []
    for seed in range(25):
        agent = taciturn.make("majority", arms=2, max_nodes=40, forget="reservoir", seed=seed)
        for _ in range(400):
            agent.feedback(agent.decide([1.0]).id, None)
        kept += agent.log()["ids"].tolist()
    counts = np.histogram(kept, bins=8, range=(0, 400))[0]
    expected = len(kept) / 8
    assert (np.abs(counts - expected) < 4 * np.sqrt(expected)).all(), counts


def test_more_labelled_rows_than_max_nodes_are_refused():
    agent = taciturn.GCNUCB(arms=2, max_nodes=16)
    with pytest.raises(TaciturnError, match="17 labelled rows do not fit into max_nodes=16"):
        agent.warm_start(np.ones((17, 2)), [0] * 17)
    for _ in range(3):
        ids = agent.warm_start(np.random.default_rng(0).random((12, 2)), [0, 1] * 6)
    assert ids == list(range(24, 36))
    assert agent.health().labelled == 16


def test_linucb_keeps_what_evicted_contexts_taught():
    bounded, unbounded = (taciturn.LinUCB(arms=3, max_nodes=most, scaling="none") for most in (16, None))
    for step, x in enumerate(contexts(60)):
        one, two = bounded.decide(x), unbounded.decide(x)
        np.testing.assert_array_equal(one.scores, two.scores)
        bounded.feedback(one.id, step % 2)
        unbounded.feedback(two.id, step % 2)


@given(st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, 7.0, np.inf]), min_size=1), st.data())
def test_the_lowest_are_those_of_a_stable_sort(values, data):
    count = data.draw(st.integers(1, len(values) + 1))
    found = lowest(np.array(values), count)
    assert sorted(found.tolist()) == sorted(np.argsort(values, kind="stable")[:count].tolist())
