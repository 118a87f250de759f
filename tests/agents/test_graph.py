"""The graph after any arrivals and evictions is the one made from scratch of the contexts held, bit for bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import taciturn
from oracles import knn as oracle
from taciturn.agents.parts import cg_solver
from taciturn.agents.parts import graph as graph_module
from taciturn.agents.parts import neighbor_lists as module
from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.errors import TaciturnError
from taciturn.features.scale import Change
from taciturn.kernels import adjacency, views
from taciturn.kernels.adjacency import heaviest
from taciturn.kernels.csr import CSR

K = 3
FEATURES = 6
POOLS = {  # what rows are made of
    "many equal rows": lambda rng: rng.integers(0, 2, FEATURES) * (rng.random(FEATURES) < 0.4),
    "one row": lambda _: np.ones(FEATURES),
    "zeros": lambda _: np.zeros(FEATURES),
    "sparse": lambda rng: rng.random(FEATURES) * (rng.random(FEATURES) < 0.3),
    "dense": lambda rng: rng.random(FEATURES),
    "all magnitudes": lambda rng: rng.choice([0.0, 5e-324, 1e-160, -2e-160, 1e-155, 1.0, 1e15], FEATURES),
}


class Held:
    """A graph beside the rows and given neighbors of its nodes, as plain lists."""

    def __init__(self, spare):
        module.SPARE = spare
        self.store = RowStore()
        self.store.n_features = FEATURES
        self.graph = NodeGraph(self.store, K)
        self.rows, self.given = [], []

    def add(self, row, given):
        columns = np.flatnonzero(row).astype(np.int32)
        self.store.append(SparseRow(columns, row[columns].astype(float)))
        self.graph.add(len(self.rows), given)
        self.rows.append(row)
        self.given.append(given)

    def keep(self, kept):
        self.store.keep(kept)
        self.graph.keep(kept)
        index = {int(node): i for i, node in enumerate(kept)}
        self.rows = [self.rows[node] for node in kept]
        given = [self.given[node] for node in kept]
        self.given = [None if near is None else [index[n] for n in near if n in index] for near in given]

    def reload(self):
        state = self.graph.state_dict()
        self.graph = NodeGraph(self.store, K)
        self.graph.load_state_dict(state, 2, FEATURES, len(self.rows))

    def from_scratch(self):
        fresh = Held(module.SPARE)
        for row, near in zip(self.rows, self.given, strict=True):
            fresh.add(row, near)
        return fresh.graph


@pytest.fixture(autouse=True)
def spare_as_it_was(monkeypatch):
    monkeypatch.setattr(module, "SPARE", module.SPARE)


def row_of(csr, i):
    return csr.columns[csr.indptr[i] : csr.indptr[i + 1]], csr.values[csr.indptr[i] : csr.indptr[i + 1]]


def steps_from(csr, node, steps):
    """The nodes that are up to so many steps from one."""
    reached = {node}
    for _ in range(steps):
        reached |= {int(other) for i in reached for other in row_of(csr, i)[0]}
    return reached


def check_around(graph, node, steps):
    """The rows around a node are those of Â, in the same order with the same bits."""
    whole, (members, part) = graph.adjacency, graph.around(node, steps)
    assert members[0] == node
    assert len(set(members.tolist())) == len(members)
    assert set(members.tolist()) == steps_from(whole, node, steps)
    inner = steps_from(whole, node, steps - 1) if steps else set()
    for m, member in enumerate(members):
        columns, values = row_of(part, m)
        if member in inner:
            np.testing.assert_array_equal(members[columns], row_of(whole, member)[0])
            np.testing.assert_array_equal(values.view(np.int32), row_of(whole, member)[1].view(np.int32))
        else:
            assert len(columns) == 0


def check(held):
    mine, fresh = held.graph, held.from_scratch()
    saved, expected = mine.state_dict(), fresh.state_dict()
    np.testing.assert_array_equal(saved["slots"]["nodes"], expected["slots"]["nodes"])
    np.testing.assert_array_equal(saved["slots"]["lists"][:, :K], expected["slots"]["lists"][:, :K])  # others are spare
    for one, other in zip(mine.adjacency, fresh.adjacency, strict=True):
        np.testing.assert_array_equal(one, other)
    unlinked = np.array([row for row, near in zip(held.rows, held.given, strict=True) if near is None], float)
    if len(unlinked) > 1:
        listed = min(K, len(unlinked) - 1)
        order, distances = oracle.nearest(unlinked, listed)
        np.testing.assert_array_equal(saved["slots"]["lists"][:, :listed], order)
        np.testing.assert_array_equal(mine._near.lists.distances[: len(unlinked), :listed], distances)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(POOLS)), st.sampled_from([0, 4]), st.integers(0, 10**6))
def test_edges_that_follow_every_arrival_are_those_made_at_once(pool, spare, seed):
    rng, held, made = np.random.default_rng(seed), Held(spare), []
    evictions = sorted(rng.choice(np.arange(8, 24), 2, replace=False).tolist())
    with pytest.MonkeyPatch.context() as patch:
        make = module.ListedEdges._make
        patch.setattr(module.ListedEdges, "_make", lambda *given: (made.append(given[2]), make(*given)))
        for step in range(24):
            held.add(POOLS[pool](rng), [int(rng.integers(len(held.rows)))] if step % 6 == 5 else None)
            if step in evictions:
                held.keep(np.flatnonzero(rng.random(len(held.rows)) < 0.7))
            followed, now = held.graph.adjacency, len(made)
            for one, other in zip(followed, held.from_scratch().adjacency, strict=True):
                np.testing.assert_array_equal(one, other)
            del made[now:]
        assert len(made) <= 1 + len(evictions), "edges are made anew after an eviction, and else follow"


def test_lists_of_all_others_stay_open_when_rows_move(monkeypatch):
    """Rows that came later and were farther away were never listed, so that lists stayed shorter than k."""
    monkeypatch.setattr(module, "MAX_REBUILT", 0)
    rng, held = np.random.default_rng(0), Held(4)
    for scale in (1.0, 1.0, 10.0, 100.0, 1000.0, 1.0):
        held.add(scale * rng.random(FEATURES), None)
        check(held)
        held.graph.rescale(Change(np.arange(0), sp.identity(0)))


def test_lists_that_could_not_be_reversed_are_refused_before_anything_changes(monkeypatch):
    monkeypatch.setattr(module, "MOST_LISTED", 5 * K)
    rng, held = np.random.default_rng(0), Held(4)
    for _ in range(5):
        held.add(POOLS["dense"](rng), None)
    with pytest.raises(TaciturnError, match="lists of 3 neighbors for 5 contexts are more than can be reversed"):
        held.graph._near.insert(5)
    assert held.graph._near.count == 5
    check(held)


def test_edges_do_not_follow_where_they_are_not_asked_for():
    rng, held = np.random.default_rng(0), Held(4)
    for step in range(9):
        held.add(POOLS["dense"](rng), None)
        if step == 5:
            assert len(held.graph.adjacency.indptr) == 7
    assert held.graph._near._edges.table.count == 0
    check(held)


def test_lists_are_reversed_while_that_is_asked_for():
    rng, held = np.random.default_rng(0), Held(4)

    def reversed_after(insertions):
        for _ in range(insertions):
            held.add(POOLS["dense"](rng), None)
        return held.graph._near._nearest_reversed.table.count

    assert reversed_after(9) == 0
    held.graph.around(3, 2)
    assert reversed_after(4) == 13, "a few insertions are followed unasked"
    held.graph.around(3, 2)
    assert reversed_after(13) == 26, "as many as there were"
    assert reversed_after(1) == 0
    check(held)
    check_around(held.graph, 3, 2)


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(sorted(POOLS)), st.sampled_from([0, 1, 4, 16]), st.integers(0, 10**6))
def test_the_graph_after_any_arrivals_and_evictions_is_that_of_the_rows_held(data, pool, spare, seed):
    rng, held = np.random.default_rng(seed), Held(spare)
    linked = data.draw(st.sampled_from([0.0, 0.3]))
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.sampled_from([1, 3, 12, 40]))):
            count = len(held.rows)
            near = sorted(set(rng.integers(0, count, 2).tolist())) if count and rng.random() < linked else None
            held.add(POOLS[pool](rng), near)
        match data.draw(st.sampled_from(["oldest", "any", "one", "reload", "nothing"])):
            case "oldest":
                held.keep(np.arange(data.draw(st.integers(0, len(held.rows))), len(held.rows)))
            case "any":
                held.keep(np.flatnonzero(rng.random(len(held.rows)) < 0.6))
            case "one":
                held.keep(np.delete(np.arange(len(held.rows)), rng.integers(len(held.rows))))
            case "reload":
                held.reload()
        check(held)
        if held.rows:
            check_around(held.graph, int(rng.integers(len(held.rows))), data.draw(st.integers(0, 4)))


@pytest.mark.parametrize("spare", [0, 1, 16])
def test_a_graph_that_shrank_below_k_rows_grows_again(spare):
    """A list of all others must take in whatever comes next, however far."""
    rng, held = np.random.default_rng(3), Held(spare)
    for left in (4, 1, 2, 0, 3):
        for _ in range(2 * K + spare):
            held.add(rng.random(FEATURES), None)
        held.keep(np.arange(len(held.rows) - left, len(held.rows)))
        for distance in (1.0, 10.0, 100.0):
            held.add(distance * rng.random(FEATURES), None)
            check(held)


def test_the_bandwidth_is_the_mean_distance_to_the_kth_neighbor_after_arrivals_and_evictions(monkeypatch):
    monkeypatch.setattr(adjacency, "BLOCK", 8)  # several blocks, of which arrivals change some
    held, rng = Held(16), np.random.default_rng(5)

    def add(count):
        for row in rng.random((count, FEATURES)):
            held.add(row, None)
            distances = held.graph._near.lists.distances[: len(held.rows), min(K, max(len(held.rows) - 1, 1)) - 1]
            expected = np.sqrt(distances).mean() if len(held.rows) > 1 else 0.0
            assert held.graph._edges_of_all().sigma == pytest.approx(expected, rel=1e-12)

    add(60)
    held.keep(np.arange(0, 60, 2))
    add(20)


def test_a_list_with_neighbors_to_spare_outlasts_evictions(monkeypatch):
    """Lists that lost one were all filled anew; now those that have fewer than k left."""
    refilled, refill = [], module.knn.refill
    monkeypatch.setattr(module.knn, "refill", lambda *given: (refilled.extend(given[-1]), refill(*given)))
    rng, held = np.random.default_rng(0), Held(6)
    for _ in range(300):
        held.add(rng.random(FEATURES), None)
    for _ in range(600):  # each evicted row is in about K lists
        held.keep(np.arange(1, 300))
        held.add(rng.random(FEATURES), None)
    check(held)
    assert 0 < len(refilled) < 600 * K / 10


@pytest.mark.parametrize("sparse", [False, True])
def test_scores_over_the_neighborhood_are_those_over_the_whole_graph(sparse):
    rng, held = np.random.default_rng(1), Held(16)
    for _ in range(80):
        held.add(POOLS["sparse" if sparse else "dense"](rng), None)
    projected = rng.random((80, 4, 2)).astype(np.float32)
    rows, everything = held.store.rows, np.arange(held.store.count)
    for node in (0, 40, 79):
        near = held.graph.around(node, 3)
        part = views.walk(near.adjacency, rows, near.members, 0, 3, 4, FEATURES)
        whole = views.walk(held.graph.adjacency, rows, everything, node, 3, 4, FEATURES)
        np.testing.assert_array_equal(part.scales, whole.scales)
        np.testing.assert_array_equal(part.weights, whole.weights[:, near.members])
        assert (np.count_nonzero(whole.weights, axis=1) == np.count_nonzero(part.weights, axis=1)).all()
        scores = views.project(part.weights, projected, near.members)
        np.testing.assert_allclose(scores, views.project(whole.weights, projected, everything), rtol=1e-5)


def test_one_eviction_takes_few_contexts_however_many_are_held():
    """A 64th of them was evicted at once, and thousands of lists were filled anew in one decision."""
    agent, counts = taciturn.make("majority", arms=2, max_nodes=4096), []
    for _ in range(4200):
        agent.feedback(agent.decide([1.0]).id, None)
        counts.append(len(agent.state_dict()["table"]["columns"]["id"]))
    assert max(counts) == 4096
    assert np.diff(counts).min() >= -15


@pytest.mark.parametrize("forget", ["oldest", "reservoir"])
def test_an_agent_that_evicts_decides_as_its_file_does(forget, tmp_path):
    """What a file leaves out (neighbors to spare, the index) changes no decision."""
    rng = np.random.default_rng(2)
    agent = taciturn.ViewUCB(arms=3, max_nodes=40, forget=forget)
    for step in range(120):
        decision = agent.decide(rng.random(4).round(1))
        agent.feedback(decision.id, float(rng.random() < 0.4) if step % 3 else None)
    agent.save(tmp_path / "agent")
    other = taciturn.load(tmp_path / "agent")
    for step in range(60):
        one, two = (held.decide(np.linspace(0, step / 9, 4).round(1)) for held in (agent, other))
        assert (one.arm, one.scores.tolist(), one.widths.tolist()) == (
            two.arm,
            two.scores.tolist(),
            two.widths.tolist(),
        )
        for held in (agent, other):
            held.feedback(one.id, step % 2)


def hub(monkeypatch, others=40):
    """A graph of rows that all have the first one among their nearest, and hardly another in common."""
    monkeypatch.setattr(graph_module, "MANY", 8)
    held = Held(16)
    held.store.n_features = others
    held.add(np.zeros(others), None)
    rng = np.random.default_rng(0)
    for i in range(others):  # orthogonal, but for a little
        held.add(np.eye(others)[i] + 0.01 * rng.random(others), None)
    assert len(row_of(held.graph.adjacency, 0)[0]) > others // 2
    return held


def test_edges_that_are_all_followed_are_those_of_the_whole_graph(monkeypatch):
    held = hub(monkeypatch)
    exact = held.graph.around(7, 3)
    held.graph.measure_degrees()
    found = held.graph.around(7, 3, 40)
    np.testing.assert_array_equal(found.members, exact.members)
    np.testing.assert_array_equal(found.adjacency.columns, exact.adjacency.columns)
    np.testing.assert_allclose(found.adjacency.values, exact.adjacency.values, rtol=1e-6)


def test_few_edges_of_a_row_that_is_near_to_all_are_followed(monkeypatch):
    held = hub(monkeypatch)
    whole = held.graph.adjacency
    held.graph.measure_degrees()
    near = held.graph.around(0, 2, 5)
    assert len(row_of(near.adjacency, 0)[0]) <= 1 + K + 5
    assert len(near.members) < 40
    for m, member in enumerate(near.members[: 1 + K + 5]):
        columns, values = row_of(near.adjacency, m)
        known = dict(zip(*row_of(whole, member), strict=True))
        assert near.members[columns][0] == member
        assert len(columns) > K - 1, "its own nearest are followed, unless these list it"
        for column, value in zip(near.members[columns], values, strict=True):
            np.testing.assert_allclose(value, known[column], rtol=1e-6)
    np.testing.assert_array_equal(held.graph.around(0, 2).members, steps_in_order(whole, 0, 2))


def steps_in_order(csr, node, steps):
    """The nodes up to so many steps from one, in the order in which they are reached."""
    reached, first = [node], 0
    for _ in range(steps):
        last = len(reached)
        for i in reached[first:last]:
            reached += [int(other) for other in row_of(csr, i)[0] if other not in reached]
        first = last
    return reached


def test_kept_degrees_follow_evictions_and_files(monkeypatch):
    held = hub(monkeypatch)
    held.graph.measure_degrees()
    held.add(np.ones(40), None)  # its degree is made
    before = held.graph.around(41, 3, 5)
    held.reload()
    for one, other in zip(before.adjacency, held.graph.around(41, 3, 5).adjacency, strict=True):
        np.testing.assert_array_equal(one, other)
    degrees = held.graph._degrees
    held.keep(np.arange(2, 42))
    np.testing.assert_array_equal(held.graph._degrees, degrees[2:])
    held.keep(np.arange(35, 40))
    held.graph.measure_degrees()
    assert len(held.graph._degrees) == 0, "few rows are followed all"


def test_decisions_among_many_contexts_follow_few_edges_and_resume(monkeypatch, tmp_path):
    monkeypatch.setattr(graph_module, "MANY", 64)
    rng, agent = np.random.default_rng(0), taciturn.ViewUCB(arms=3, seed=1)
    for step in range(200):
        decision = agent.decide(rng.normal(size=30))
        agent.feedback(decision.id, None if step % 3 else float(step % 2))
    assert len(agent._graph._degrees) > 150
    whole, few = agent._graph.around(199, 3), agent._graph.around(199, 3, 1)
    assert len(few.adjacency.columns) < len(whole.adjacency.columns)
    agent.save(tmp_path / "agent")
    other = taciturn.load(tmp_path / "agent")
    for x in rng.normal(size=(20, 30)):
        np.testing.assert_array_equal(agent.decide(x).scores, other.decide(x).scores)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), most=st.integers(1, 12))
def test_the_heaviest_entries_of_each_row_are_kept(seed, most):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 10, rng.integers(1, 20))
    indptr, size = np.concatenate([[0], np.cumsum(lengths)]), int(lengths.sum())
    values = rng.choice([0.0, 1e-40, 0.25, 0.5, 1.0], size).astype(np.float32)
    whole = CSR(indptr, rng.integers(0, 99, size).astype(np.int32), values)
    found = heaviest(whole, most)
    for i in range(len(lengths)):
        columns, values = row_of(whole, i)
        kept = sorted(sorted(range(len(values)), key=lambda a, row=values: (-row[a], a))[:most])
        np.testing.assert_array_equal(row_of(found, i)[0], columns[kept])
        np.testing.assert_array_equal(row_of(found, i)[1], values[kept])


def test_scales_of_many_contexts_are_near_those_over_all_edges(monkeypatch):
    monkeypatch.setattr(graph_module, "MANY", 64)
    rng, agent = np.random.default_rng(0), taciturn.ViewUCB(arms=3, seed=1)
    for x in rng.random((300, 40)) * (rng.random((300, 40)) < 0.1):
        agent.decide(x)
    solver, whole = agent._solver, agent._graph.adjacency
    agent._graph.measure_degrees()
    monkeypatch.setattr(cg_solver, "FOLLOWED", 4)
    assert len(agent._graph.shortened(4).columns) < len(whole.columns)
    solver.after_warm_start()
    everything = np.arange(300)
    exact = views.unit_scales(whole, agent._unit.rows, everything, everything, 4, agent._unit.n_features)
    used = slice(solver.n_used)
    ratios = solver.scales.data[:300, used] / exact[:, used]
    assert (ratios[:, 0] == 1).all()
    assert 1.0 <= np.median(ratios[:, 1:]) < 1.2
    assert (ratios >= 1 - 1e-5).all(), "fewer entries are shorter"


def test_a_file_in_which_a_context_is_its_own_neighbor_is_refused():
    """Agents cannot make such an edge, of which one entry of Â would be whatever was in memory before."""
    agent = taciturn.ROGCN(arms=2)
    agent.warm_start(np.eye(4), [0, 1, 0, 1], edges=[(0, 1), (1, 2), (2, 3)])
    state = agent.state_dict()
    edges = state["parts"]["encoder"]["graph"]["edges"]
    taciturn.ROGCN.from_state_dict(state)
    edges["targets"] = edges["targets"].copy()
    edges["targets"][1] = edges["sources"][1]
    with pytest.raises(ValueError, match="its own neighbor"):
        taciturn.ROGCN.from_state_dict(state)
