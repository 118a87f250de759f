"""Wide contexts without zeros: columns and double precision are not held, and nothing that is computed changes."""

import copy

import numpy as np
import pytest

import taciturn
from taciturn.agents import rows as row_stores
from taciturn.agents import scaled_rows
from taciturn.agents.parts import unit_rows, wide_neighbors
from taciturn.agents.parts.neighbor_lists import NeighborLists
from taciturn.agents.parts.unit_rows import UnitRows
from taciturn.agents.rows import WIDE, RowStore
from taciturn.contracts import SparseRow
from taciturn.kernels import knn, views


def full_row(values):
    return SparseRow(np.arange(len(values), dtype=np.int32), np.asarray(values, float))


def extremes(rng, count, width):
    """Rows of all sizes: usual ones, equal and nearly equal ones, zeros, the smallest numbers and large ones."""
    X = rng.normal(size=(count, width))
    X[1::7] = X[0]
    X[2::7] = X[0] * (1 + 1e-9 * rng.normal(size=(len(X[2::7]), width)))
    X[3::11] = 0.0
    X[4::11] *= 1e-160
    X[5::11] *= 1e10
    X[6::11] *= 5e-324
    return X


def both(rng, count, width=WIDE, first=0.7):
    """The same rows in a store that makes unit rows, and in one that holds them."""
    X, stores = extremes(rng, count, width), []
    for spare in (True, False):
        contexts = RowStore()
        contexts.spare_columns = spare
        contexts.allocate(2, width)
        unit = UnitRows(contexts, first)
        unit.allocate(2, width)
        stores.append((contexts, unit))
    return X, stores


def check_alike(made, held):
    (contexts, unit), (others, other) = made, held
    assert unit.dense_singles is not None
    assert other.dense_singles is None
    assert contexts.dense is not None
    assert (unit.count, unit.n_entries) == (other.count, other.n_entries)
    np.testing.assert_array_equal(unit.dense_singles.ravel(), other.singles.values)
    for one, another in ((contexts, others), (unit, other)):
        for node in range(one.count):
            for part, wanted in zip(one[node], another[node], strict=True):
                np.testing.assert_array_equal(part, wanted)
    np.testing.assert_array_equal(
        contexts.matrix(0, contexts.count).toarray(), others.matrix(0, others.count).toarray()
    )
    for part, wanted in zip(contexts.rows, others.rows, strict=True):
        np.testing.assert_array_equal(part, wanted)
    nodes = np.flatnonzero(np.arange(unit.count) % 3 > 0)
    (rows, at), (all_rows, nodes) = unit.at(nodes), other.at(nodes)
    dimension = contexts.n_features
    for part, wanted in zip(
        (views.dense_rows(rows, at, dimension), contexts.some(nodes).values),
        (views.dense_rows(all_rows, nodes, dimension), others.some(nodes).values),
        strict=True,
    ):
        np.testing.assert_array_equal(part, wanted)


@pytest.mark.parametrize("width", [WIDE, WIDE + 71])
def test_rows_that_are_made_are_those_that_would_be_held(width, monkeypatch):
    monkeypatch.setattr(row_stores, "PIECE", 5 * width)
    rng = np.random.default_rng(0)
    X, stores = both(rng, 60, width)
    for contexts, unit in stores:
        for node, x in enumerate(X):
            contexts.append(full_row(x))
            unit.add(node)
    check_alike(*stores)
    for kept in (np.arange(40) + 13, np.r_[0:5, 9:40], np.arange(2, 30)):
        for contexts, unit in stores:
            contexts.keep(kept)
            unit.keep(kept)
        check_alike(*stores)
    for contexts, unit in stores:
        pieces = [copy.deepcopy(rows) for _, rows in contexts.pieces()]
        contexts.clear()
        for rows in pieces:
            contexts.extend(rows._replace(values=2.5 * rows.values))
        unit.rescale(None)
    check_alike(*stores)
    for contexts, unit in stores:
        state = copy.deepcopy(contexts.state_dict())
        contexts.load_state_dict(state, 2, width, contexts.count)
        unit.load_state_dict({}, 2, width, contexts.count)
    check_alike(*stores)


def test_a_row_that_has_a_zero_makes_all_rows_held_and_its_eviction_makes_them_spared_again():
    rng = np.random.default_rng(1)
    X, stores = both(rng, 12)
    odd = SparseRow(np.arange(1, WIDE, dtype=np.int32), np.ones(WIDE - 1))
    for row in [full_row(X[0]), full_row(X[1]), odd, full_row(X[2])]:
        for contexts, unit in stores:
            unit.add(contexts.append(row))
    made, held = stores
    assert made[0].dense is None
    assert made[1].dense_singles is None
    for one, another in zip(made, held, strict=True):
        for part, wanted in zip(one.rows, another.rows, strict=True):
            np.testing.assert_array_equal(part, wanted)
    for contexts, unit in stores:
        contexts.keep(np.array([0, 1, 3]))
        unit.keep(np.array([0, 1, 3]))
        unit.add(contexts.append(full_row(X[3])))
    assert made[0].dense is None, "who holds double precision holds columns"
    loaded = RowStore()
    loaded.spare_columns = True
    loaded.load_state_dict(made[0].state_dict(), 2, WIDE, 4)
    assert loaded.dense is not None


@pytest.mark.parametrize("seed", range(6))
def test_lists_of_neighbors_are_bit_for_bit_those_of_rows_that_are_held(seed, monkeypatch):
    monkeypatch.setattr(wide_neighbors, "TOO_MANY", 1000)
    rng = np.random.default_rng(seed)
    X, stores = both(rng, 90)
    lists = [NeighborLists(unit, 3) for _, unit in stores]
    skipped = rng.random(len(X)) < 0.2  # rows that came with neighbors, and are in no list
    for node, x in enumerate(X):
        changed = []
        for (contexts, unit), near in zip(stores, lists, strict=True):
            contexts.append(full_row(x))
            unit.add(node)
            if not skipped[node]:
                changed.append(near.insert(node).tolist())
        assert len(set(map(tuple, changed))) <= 1
    check_lists(*lists)
    kept = np.flatnonzero(rng.random(len(X)) < 0.6)
    node_now = np.full(len(X), -1, np.int32)
    node_now[kept] = np.arange(len(kept))
    for (contexts, unit), near in zip(stores, lists, strict=True):
        contexts.keep(kept)
        unit.keep(kept)
        near.refill(near.keep(node_now))
        near.refill(np.arange(near.count))
    check_lists(*lists)
    for (contexts, unit), near in zip(stores, lists, strict=True):
        rows = copy.deepcopy(contexts.rows)
        contexts.clear()
        contexts.extend(rows._replace(values=rows.values + 0.1))
        unit.rescale(None)
        near.rescale()
    check_lists(*lists)
    assert stores[0][1].dense_singles is not None


def check_lists(made, held):
    assert made.count == held.count
    for name, part, wanted in zip(knn.Lists._fields, made.lists, held.lists, strict=True):
        np.testing.assert_array_equal(part[: made.count], wanted[: held.count], err_msg=name)


def test_rows_that_single_precision_cannot_tell_apart_are_held(monkeypatch):
    monkeypatch.setattr(wide_neighbors, "TOO_MANY", 30)
    rng = np.random.default_rng(0)
    _, stores = both(rng, 1)
    lists = [NeighborLists(unit, 3) for _, unit in stores]
    center = rng.normal(size=WIDE)
    for _ in range(60):
        row = full_row(center + 1e-6 * rng.normal(size=WIDE))
        for (contexts, unit), near in zip(stores, lists, strict=True):
            unit.add(contexts.append(row))
            near.insert(contexts.count - 1)
    assert stores[0][1].dense_singles is None
    check_lists(*lists)


def decided(agent, X, rewards):
    found = []
    for x, reward in zip(X, rewards, strict=True):
        decision = agent.decide(x)
        agent.feedback(decision.id, reward)
        found.append(np.concatenate([decision.scores, decision.widths]))
    return np.array(found)


@pytest.mark.parametrize(
    "params", [{}, {"scaling": "none"}, {"max_nodes": 40}, {"max_nodes": 40, "forget": "reservoir"}]
)
@pytest.mark.parametrize("name", ["linucb", "viewucb"])
def test_an_agent_decides_as_if_all_were_held_and_a_file_resumes_bit_for_bit(name, params, monkeypatch, tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(70, WIDE)) + rng.normal(size=(4, WIDE))[rng.integers(4, size=70)]
    X[50, :9] = 0.0  # which is a row with zeros where contexts are as they are given
    rewards = rng.choice([1, 0, None], size=70).tolist()
    agents = [taciturn.make(name, arms=3, **params) for _ in range(2)]
    found = decided(agents[0], X[:30], rewards[:30])
    agents[0].save(tmp_path / "agent")
    loaded = taciturn.load(tmp_path / "agent")
    rest = decided(agents[0], X[30:], rewards[30:])
    np.testing.assert_array_equal(decided(loaded, X[30:], rewards[30:]), rest)
    monkeypatch.setattr(row_stores, "WIDE", 10**6)
    held = decided(agents[1], X, rewards)
    assert agents[1]._contexts.dense is None
    np.testing.assert_allclose(np.concatenate([found, rest]), held, rtol=1e-6, atol=1e-7)


def test_more_rows_than_are_made_are_held(monkeypatch):
    monkeypatch.setattr(unit_rows, "MOST_MADE", 20)
    rng = np.random.default_rng(3)
    X, stores = both(rng, 30)
    for contexts, unit in stores:
        for x in X:
            unit.add(contexts.append(full_row(x)))
    (contexts, unit), (_, other) = stores
    assert unit.dense_singles is None
    assert contexts.dense is None
    for part, wanted in zip(unit.rows, other.rows, strict=True):
        np.testing.assert_array_equal(part, wanted)


def odd_contexts(rng, count):
    """Wide contexts on scales of their own, of which later ones have what makes rows unlike the others."""
    X = rng.normal(size=(count, WIDE)) + rng.normal(size=(4, WIDE))[rng.integers(4, size=count)]
    X *= 10.0 ** rng.integers(-100, 15, size=WIDE)
    X[:, 7] = 1e9 + rng.normal(size=count)
    X[9::9] = X[1]
    X[40:, 13] = X[39, 13]  # which does not vary any longer
    X[44, 3] = 1e15
    X[52, 5] = np.nan
    X[58, :9] = 0.0
    return X


def lived(agent, X, rewards, folder):
    """All that an agent says while it learns, corrects, forgets, forks and is saved; and whether rows were made."""
    said, were_made = [], []

    def note(decision):
        said.append(np.concatenate([decision.scores, decision.widths]))
        were_made.append(agent._contexts._is_made)

    for x, reward in zip(X[:30], rewards, strict=False):
        note(agent.decide(x))
        agent.feedback(agent.next_id - 1, reward)
    agent.feedback(agent.next_id - 4, 1)
    agent.withdraw(agent.next_id - 2)
    for decision in agent.decide_batch(X[30:36]):
        note(decision)
    agent.warm_start(X[36:40], [0, 1, 2, 0])
    agent.save(folder / "agent")
    agent = taciturn.load(folder / "agent").fork()
    for x, reward in zip(X[40:], rewards[40:], strict=True):
        note(agent.decide(x))
        agent.feedback(agent.next_id - 1, reward)
    count = agent._contexts.count
    said += [
        agent._contexts.matrix(0, count).toarray().ravel(),
        agent._contexts.some(np.arange(count)[::-3]).values,
        agent.decisions.recent_contexts(5, 10**6).toarray().ravel(),
        np.array([neighbor.closeness for neighbor in agent.explain(agent.next_id - 1).supporting]),
    ]
    return said, were_made


@pytest.mark.parametrize("params", [{}, {"max_nodes": 40}, {"max_nodes": 40, "forget": "reservoir"}])
@pytest.mark.parametrize("is_odd", [False, True])
def test_scaled_rows_that_are_made_are_bit_for_bit_those_that_would_be_held(params, is_odd, monkeypatch, tmp_path):
    monkeypatch.setattr(scaled_rows, "PIECE", 5 * WIDE)
    rng = np.random.default_rng(4)
    X = odd_contexts(rng, 70) if is_odd else rng.normal(size=(70, WIDE))
    rewards = rng.choice([1, 0, 0.5, None], size=70).tolist()
    said, were_made = lived(taciturn.ViewUCB(arms=3, **params), X, rewards, tmp_path)
    assert sum(were_made) > (20 if is_odd else 60)
    monkeypatch.setattr(scaled_rows, "MOST_MADE", 0)
    wanted, were_held = lived(taciturn.ViewUCB(arms=3, **params), X, rewards, tmp_path)
    assert not any(were_held)
    for one, another in zip(said, wanted, strict=True):
        np.testing.assert_array_equal(one, another)


def test_more_scaled_rows_than_are_made_are_held(monkeypatch):
    rng = np.random.default_rng(5)
    X, rewards = rng.normal(size=(30, WIDE)), rng.choice([1, 0, None], size=30).tolist()
    wanted = decided(taciturn.ViewUCB(arms=3), X, rewards)
    for module in (scaled_rows, unit_rows):
        monkeypatch.setattr(module, "MOST_MADE", 20)
    agent = taciturn.ViewUCB(arms=3)
    found = decided(agent, X[:20], rewards[:20])
    assert agent._contexts._is_made
    found = np.concatenate([found, decided(agent, X[20:], rewards[20:])])
    assert not agent._contexts._is_made
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_column_that_hardly_varied_and_then_does_leaves_rows_so_far_as_they_were(is_named, monkeypatch):
    """Rows were made on the scale that the column had opened, and were longer than those they stood for."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30, WIDE))
    X[:12, -1] = 1e-300 * np.arange(1, 13)
    contexts = [{"text": [*x[:-1].tolist(), 1.0], "likelihood": x[-1]} for x in X] if is_named else list(X)
    rewards, said = rng.choice([1, 0, None], size=30).tolist(), []
    for most in (scaled_rows.MOST_MADE, 0):
        monkeypatch.setattr(scaled_rows, "MOST_MADE", most)
        agent = taciturn.ViewUCB(arms=3)
        said.append([decided(agent, contexts[:12], rewards[:12])])
        assert agent._contexts._is_made == (most > 0)
        said[-1].append(decided(agent, contexts[12:], rewards[12:]))
    for one, another in zip(*said, strict=True):
        np.testing.assert_array_equal(one, another)
