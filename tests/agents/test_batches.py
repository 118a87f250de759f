"""Networks that train in batches, and embeddings that are made again in turn."""

from itertools import islice, pairwise

import numpy as np
import pytest

import taciturn
from oracles import minibatch as oracle
from taciturn.agents import storage
from taciturn.agents.parts import embedded_ridge, encoder, snapshot
from taciturn.errors import TaciturnError
from taciturn.experiments.checks import toy_data
from taciturn.kernels import gcn
from taciturn.streams.stream import Stream


def run(agent, count, seed=0, feedback=True):
    """Let an agent decide on random contexts, of which every third stays silent."""
    rng = np.random.default_rng(seed)
    for step in range(count):
        decision = agent.decide(np.abs(rng.normal(size=5)))
        if feedback:
            agent.feedback(decision.id, None if step % 3 == 2 else float(rng.random() < 0.4))
    return agent


@pytest.mark.parametrize("name", ["gcnucb", "rogcn", "bilinucb-gcn"])
@pytest.mark.parametrize("edges", [False, True])
def test_a_batch_that_all_contexts_fit_into_decides_as_all_do(name, edges):
    data = toy_data(rows=80, seed=1, edges=edges)
    runs = []
    for batch_size in (None, 80):
        settings = {"imputer_params": {"batch_size": batch_size}} if "bilin" in name else {"batch_size": batch_size}
        settings |= {} if name == "rogcn" else {"warmup": 10}
        agent = taciturn.make(name, arms=data.arms, seed=3, **settings)
        result = taciturn.evaluate(agent, Stream(data, missing=0.3, seed=2))
        runs.append((result.choices.tolist(), [agent.decision(id).scores for id in range(40, 60)]))
    assert runs[0][0] == runs[1][0]
    np.testing.assert_allclose(runs[0][1], runs[1][1], atol=2e-3)


@pytest.mark.parametrize("kind", [taciturn.GCNUCB, taciturn.ROGCN])
@pytest.mark.parametrize("edges", [False, True])
def test_batches_learn(kind, edges):
    data = toy_data(rows=300, seed=0, edges=edges)
    agent = kind(arms=data.arms, batch_size=64, **({"warmup": 20} if kind is taciturn.GCNUCB else {}))
    assert taciturn.evaluate(agent, Stream(data, missing=0.25, seed=0)).accuracy > 0.7


def test_a_new_context_has_the_embedding_that_all_weights_of_now_give_it():
    agent = run(taciturn.GCNUCB(arms=3, batch_size=8, warmup=0), 60)
    state = agent.state_dict()["table"]["columns"]["embeddings"]
    now = agent._encoder.embeddings()
    np.testing.assert_allclose(state[-1], now[-1], atol=1e-5)
    assert np.abs(state - now).max() > 1e-3, "others are as they were when their turn came"
    rogcn = run(taciturn.ROGCN(arms=3, batch_size=8), 60)
    for node in (0, 30, 59):
        np.testing.assert_allclose(rogcn._encoder.embedding(node), rogcn._encoder.embeddings()[node], atol=1e-5)


def test_all_embeddings_are_made_again_in_turn():
    agent = taciturn.GCNUCB(arms=2, batch_size=16, warmup=0, steps_per_arrival=0, scaling="none")
    rng = np.random.default_rng(0)
    for _ in range(64):
        agent.decide(rng.random(4), neighbors=[])
    agent._encoder._w1.data *= 2.0
    turn = 16 // embedded_ridge.TURN
    for _ in range(64 // turn + 4):
        agent.decide(rng.random(4), neighbors=[])
    found, wanted = agent._running.embeddings, agent._encoder.embeddings()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_embeddings_of_a_labelled_start_are_all_made():
    agent = taciturn.GCNUCB(arms=2, batch_size=16, warmup=0)
    X = np.random.default_rng(0).random((600, 4))
    agent.warm_start(X, np.arange(600) % 2)
    np.testing.assert_allclose(agent._running.embeddings, agent._encoder.embeddings(), rtol=1e-4, atol=1e-5)


def test_the_gradients_of_batches_are_those_of_all_labels_on_average(monkeypatch):
    """Also of a head that few contexts have a label of."""
    monkeypatch.setattr(encoder, "FANS", (40, 40))
    agent = run(taciturn.GCNUCB(arms=3, batch_size=41 * 8, dropout=0.0, warmup=0, steps_per_arrival=0), 40)
    networks, count = agent._encoder, 40
    labels = networks.labels.data[:count]
    assert (labels >= 0).sum(axis=0).min() < (labels >= 0).sum(axis=0).max()
    rows, (w1, w2) = agent._contexts.rows, (networks.first_layer, networks._w2.data)
    work = gcn.new_workspace(count, len(rows.columns), w1, w2)
    keys = np.zeros(2, np.uint64)
    wanted = gcn.gradients(networks.graph.adjacency, rows, labels, w1, w2, 5e-4, 0.0, keys, work)
    draws = [[grad.copy() for grad in grads] for grads in islice(networks._batch_gradients(), 800)]
    for part, full in zip(zip(*draws, strict=True), wanted, strict=True):
        np.testing.assert_allclose(np.mean(part, axis=0), full, atol=0.12 * np.abs(full).max())


def test_counts_of_labels_are_those_of_the_table():
    agent = run(taciturn.GCNUCB(arms=3, batch_size=8, warmup=0, max_nodes=40), 60)
    agent.add_arm("copy", like=0)
    agent.add_arm("new")
    run(agent, 30, 1)
    agent.feedback(agent.next_id - 2, 1)
    agent.feedback(agent.next_id - 2, 0)
    agent.withdraw(agent.next_id - 4)
    agent.decide(np.ones(5))
    labels = agent.state_dict()["table"]["columns"]["labels"]
    assert agent._encoder._counts().tolist() == [*(labels >= 0).sum(axis=0), (labels >= 0).any(axis=1).sum()]


@pytest.mark.parametrize(("kind", "settings"), [(taciturn.GCNUCB, {"warmup": 0}), (taciturn.ROGCN, {})])
def test_a_loaded_agent_goes_on_with_the_adjacency_and_the_turn_of_the_running_one(kind, settings, monkeypatch):
    monkeypatch.setattr(snapshot, "SHARE", 3)  # so that it is long in use
    agent = run(kind(arms=3, batch_size=16, **settings), 70)
    loaded = storage.loads(storage.dumps(agent), "agent")
    assert len(agent._encoder.snapshot().indptr) < agent.next_id, "it is one of before"
    run(agent, 20, 2)
    run(loaded, 20, 2)
    for id in range(agent.next_id - 20, agent.next_id):
        np.testing.assert_array_equal(agent.decision(id).scores, loaded.decision(id).scores)
    assert storage.dumps(agent) == storage.dumps(loaded)


def test_the_sums_of_a_loaded_agent_are_those_of_the_running_one(tmp_path):
    """They are not in the file, and have no rounding error that would depend on the order of events."""
    agent = run(taciturn.GCNUCB(arms=3, batch_size=8, warmup=0, max_nodes=40), 90)
    agent.save(tmp_path / "agent")
    loaded = taciturn.load(tmp_path / "agent")
    for found, wanted in zip(loaded._running.sums, agent._running.sums, strict=True):
        np.testing.assert_array_equal(found, wanted)
    columns = agent.state_dict()["table"]["columns"]
    squares, products = oracle.sums(columns["embeddings"], columns["arm_rewards"])
    assert (agent._running.sums[0].tolist(), agent._running.sums[1].tolist()) == (squares, products)
    run(agent, 40, 2)
    run(loaded, 40, 2)
    for id in range(agent.next_id - 40, agent.next_id):
        np.testing.assert_array_equal(agent.decision(id).scores, loaded.decision(id).scores)


def test_scores_are_those_of_regressions_over_the_embeddings_held():
    agent = run(taciturn.GCNUCB(arms=3, batch_size=8, warmup=0), 80)
    decision = agent.decide(np.ones(5))
    columns = agent.state_dict()["table"]["columns"]
    g = columns["embeddings"].astype(float)
    g /= np.maximum(np.linalg.norm(g, axis=2, keepdims=True), 1e-30)
    for k in range(3):
        known = ~np.isnan(columns["arm_rewards"][:, k])
        A = np.eye(16) + g[known, k].T @ g[known, k]
        theta = np.linalg.solve(A, g[known, k].T @ columns["arm_rewards"][known, k])
        theta /= np.linalg.norm(theta) or 1.0
        assert decision.scores[k] == pytest.approx(theta @ g[-1, k], abs=1e-3)
        assert decision.widths[k] == pytest.approx(0.25 * np.sqrt(g[-1, k] @ np.linalg.solve(A, g[-1, k])), abs=1e-4)


def test_the_adjacency_is_seldom_made():
    agent = taciturn.GCNUCB(arms=2, batch_size=16, warmup=0)
    agent.warm_start(np.random.default_rng(0).random((2560, 4)), np.arange(2560) % 2)
    used = []
    for x in np.random.default_rng(1).random((60, 4)):
        agent.feedback(agent.decide(x).id, 1)
        used.append(agent._encoder.snapshot())
    made = 1 + sum(one is not other for one, other in pairwise(used))
    assert made <= 1 + 60 // (2560 // snapshot.SHARE)
    assert len(used[-1].indptr) - 1 >= 2620 - 2620 // snapshot.SHARE


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "many"])
def test_a_batch_has_a_size(batch_size):
    with pytest.raises(TaciturnError, match="batch_size"):
        taciturn.GCNUCB(arms=2, batch_size=batch_size)
