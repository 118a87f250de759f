"""Among many rows neighbors are found by a search: nearly all of them, whatever the rows are and happened to them."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.agents.parts import graph as graph_module
from taciturn.agents.parts import neighbor_index as module
from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.parts.neighbor_lists import NeighborLists
from taciturn.agents.parts.unit_rows import UnitRows
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels.search import BOUNDS, MET, SCALE, UNKNOWN, _between_codes, marks_of

K, COUNT = 5, 2400


def words(rng, count):
    """Twelve of 300 words, most of one topic."""
    popular = np.log(rng.dirichlet(np.full(300, 0.1), 8) * 0.9 + 0.1 / 300)
    rows = np.zeros((count, 300))
    for row, topic in zip(rows, rng.integers(0, 8, count), strict=True):
        row[np.argpartition(-(popular[topic] + rng.gumbel(size=300)), 12)[:12]] = rng.random(12)
    return rows


def clusters(rng, count, size, spread):
    """Clusters one after the other, so that a new one is far from all rows before it."""
    centers = rng.normal(size=(-(-count // size), 10))
    return np.repeat(centers, size, axis=0)[:count] + spread * rng.normal(size=(count, 10))


KINDS = {
    "uniform": lambda rng, count: rng.random((count, 30)),
    "clusters": lambda rng, count: clusters(rng, count, 200, 0.1),
    "small and tight clusters": lambda rng, count: clusters(rng, count, 30, 1e-4),
    "the same, mixed": lambda rng, count: rng.permutation(clusters(rng, count, 30, 1e-4)),
    "few rows, each many times": lambda rng, count: rng.normal(size=(7, 10))[rng.integers(0, 7, count)],
    "rows thirty times each": lambda rng, count: rng.normal(size=(count // 30, 10))[
        rng.integers(0, count // 30, count)
    ],
    "words": words,
    "on a line": lambda rng, count: np.outer(rng.random(count), rng.normal(size=10)),
    "on a line, from one end to the other": lambda _, count: np.outer(np.arange(count), np.ones(3)),
    "zeros": lambda _, count: np.zeros((count, 4)),
    "all magnitudes": lambda rng, count: rng.normal(size=(count, 10)) * 10.0 ** rng.integers(-160, 15, (count, 1)),
}


@pytest.fixture(autouse=True)
def searches_early(monkeypatch):
    """As if there were many rows: an exact search is slower than any other, from 300 rows on."""
    monkeypatch.setattr(graph_module, "MANY", 300)
    monkeypatch.setattr(module, "TOP", 64)
    monkeypatch.setattr(module, "SEARCH_WORK", 0)


class Held:
    """A graph beside its rows, which are brought to unit length if `unit` is set."""

    def __init__(self, n_features, *, unit=False):
        self.store = self.rows = RowStore()
        self.store.n_features = n_features
        if unit:
            self.rows = UnitRows(self.store)
            self.rows.allocate(2, n_features)
        self.graph = NodeGraph(self.rows, K)

    def add(self, rows):
        for row in rows:
            columns = np.flatnonzero(row).astype(np.int32)
            node = self.store.append(SparseRow(columns, row[columns]))
            if self.rows is not self.store:
                self.rows.add(node)
            self.graph.add(node, None)

    def keep(self, kept):
        self.store.keep(kept)
        if self.rows is not self.store:
            self.rows.keep(kept)
        self.graph.keep(kept)

    def move(self, factors):
        rows = self.store.rows
        self.store.replace(rows._replace(values=rows.values * factors[rows.columns]))
        change = Change(np.arange(self.store.n_features), np.diag(factors))
        self.rows.rescale(change)
        self.graph.rescale(change)

    def reloaded(self):
        """A graph from the file of this one, over the same rows."""
        sizes = 2, self.store.n_features, self.store.count
        other = Held(self.store.n_features, unit=self.rows is not self.store)
        other.store.load_state_dict(deepcopy(self.store.state_dict()), *sizes)
        if other.rows is not other.store:
            other.rows.load_state_dict({}, *sizes)
        other.graph.load_state_dict(deepcopy(self.graph.state_dict()), *sizes)
        return other

    @property
    def dense(self):
        rows = self.rows.rows
        X = np.zeros((self.store.count, self.store.n_features))
        X[np.repeat(np.arange(self.store.count), np.diff(rows.indptr)), rows.columns] = rows.values
        return X


def exact_distances(X):
    """The squared distances to the K nearest others, column by column as the kernels do."""
    nearest = np.empty((len(X), K))
    for i, x in enumerate(X):
        squared = np.zeros(len(X))
        for column, value in zip(X.T, x, strict=True):
            squared += (column - value) ** 2
        squared[i] = np.inf
        nearest[i] = np.partition(squared, K - 1)[:K]
        nearest[i].sort()
    return nearest


def recall_of(held):
    """The share of the K nearest that the lists have; of those that are as far, any will do."""
    count = held.store.count
    listed = held.graph._near.lists.distances[:count, :K]
    return (listed <= exact_distances(held.dense)[:, -1:]).mean()


def check_lists(held):
    """What is true of lists however they were filled."""
    lists, count, X = held.graph._near.lists, held.store.count, held.dense
    width = lists.neighbors.shape[1]
    neighbors, distances = lists.neighbors[:count], lists.distances[:count]
    listed = np.arange(width) < lists.known[:count, None]
    assert (lists.known[:count] >= K).all()
    assert ((neighbors >= 0) == listed).all()
    assert (neighbors < count).all()
    assert (neighbors != np.arange(count)[:, None]).all(), "none is its own neighbor"
    assert all(len(set(row[row >= 0].tolist())) == (row >= 0).sum() for row in neighbors), "none is listed twice"
    assert (distances[:, 1:] >= distances[:, :-1]).all()
    assert np.isinf(distances[~listed]).all()
    for i in range(0, count, 97):
        squared = np.zeros(lists.known[i])
        for column in X.T:
            squared += (column[neighbors[i][listed[i]]] - column[i]) ** 2
        np.testing.assert_array_equal(distances[i][listed[i]], squared)
    full = lists.known[:count] == width
    assert (lists.reach[:count][full] <= distances[full, -1]).all()
    for level in held.graph._index._levels if held.graph._index else ():
        marks = level._marks.data
        assert (marks < MET).all(), "a search leaves no node marked"
        assert (BOUNDS[marks[: level.count]] >= level.lists.lists.reach[: len(marks[: level.count])]).all()


def check_same(one, other):
    """Two graphs have the same lists, levels and counts."""
    mine, theirs = one.graph.state_dict(), other.graph.state_dict()
    for name, array in mine["slots"].items():
        np.testing.assert_array_equal(array, theirs["slots"][name])
    assert mine["index"].keys() == theirs["index"].keys()
    counted = mine["index"].keys() - {"levels", "listers"}
    assert all(mine["index"][name] == theirs["index"][name] for name in counted)
    for noted, same in zip(mine["index"]["listers"], theirs["index"]["listers"], strict=True):
        np.testing.assert_array_equal(noted["by"], same["by"])
        np.testing.assert_array_equal(noted["times"], same["times"])
    for level, same in zip(mine["index"]["levels"], theirs["index"]["levels"], strict=True):
        for name, array in level.items():
            np.testing.assert_array_equal(array, same[name])


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_all_neighbors_are_found_whatever_the_rows_and_their_order(kind):
    X = KINDS[kind](np.random.default_rng(0), COUNT)
    held = Held(X.shape[1])
    held.add(X)
    check_lists(held)
    assert recall_of(held) >= 0.98
    assert held.graph.recall >= 0.98


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "clusters", "rows thirty times each", "words"])
def test_nearly_all_are_found_after_evictions_and_moves_and_a_file_goes_on_the_same(kind, unit):
    rng = np.random.default_rng(1)
    X = KINDS[kind](rng, COUNT)
    held = Held(X.shape[1], unit=unit)
    held.add(X[:1000])
    held.keep(np.arange(100, 1000))
    held.add(X[1000:1200])
    held.keep(np.flatnonzero(rng.random(held.store.count) < 0.7))
    check_lists(held)
    assert recall_of(held) >= 0.98
    held.move(rng.uniform(0.95, 1.05, X.shape[1]))
    check_lists(held)
    other = held.reloaded()
    for part in np.array_split(X[1200:], 4):
        for one in (held, other):
            one.add(part)
            one.keep(np.delete(np.arange(one.store.count), np.arange(7) * 31))
        check_same(held, other)
    check_lists(held)
    assert recall_of(held) >= 0.97, "lists from before the move are as old as it is"
    assert held.graph.recall >= 0.98


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"on a line", "on a line, from one end to the other"}))
def test_rows_at_unit_length_are_coded_and_found_as_well(kind):
    """Not those of one direction, which differ by less than single precision can tell."""
    X = KINDS[kind](np.random.default_rng(10), COUNT)
    held = Held(X.shape[1], unit=True)
    held.add(X)
    check_lists(held)
    assert recall_of(held) >= 0.98
    codes, units = held.graph._index._rows.points.codes, held.dense
    assert (len(codes) > 0) == (kind not in ("words", "zeros"))
    if len(codes):
        np.testing.assert_array_equal(codes[:, : X.shape[1]], np.rint(units.astype(np.float32) * SCALE))
        assert not codes[:, X.shape[1] :].any()


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 70), st.floats(0, 1))
def test_distances_of_codes_are_as_near_as_the_search_believes(seed, dimension, share):
    """Also of opposite rows, and of one entry alone, which are the largest differences."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, dimension)) * (rng.random((40, dimension)) < share)
    X[1], X[2], X[3] = -X[0], 0.0, 0.0
    X[2, 0], X[3, 0] = 1.0, -1.0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    codes = np.zeros((40, -(-dimension // 32) * 32), np.int16)
    codes[:, :dimension] = np.rint(X * SCALE)
    squared = np.array([[_between_codes(one, other) for other in codes] for one in codes]) / SCALE**2
    exact = np.square(X[:, None] - X[None]).sum(axis=2)
    assert (np.abs(np.sqrt(squared) - np.sqrt(exact)) <= np.sqrt(dimension) / SCALE + 1e-7).all()


def test_bounds_of_reaches_are_the_lowest_that_are_not_below():
    reach = np.concatenate([[0.0, 5e-324, 1e-160, 4.0, 4.1, 1e308, np.inf], BOUNDS, np.nextafter(BOUNDS, 0)])
    marks = marks_of(reach)
    assert (BOUNDS[marks] >= reach).all()
    assert ((marks == 0) | (BOUNDS[np.maximum(marks, 1) - 1] < reach)).all()
    assert (marks < MET).all()


def test_most_reaches_have_a_bound_however_many_were_evicted():
    held, X = Held(10), np.random.default_rng(11).random((2000, 10))
    held.add(X[:400])
    for first in range(400, 2000, 100):
        held.keep(np.arange(100, 400))
        held.add(X[first : first + 100])
    check_lists(held)
    level = held.graph._index._levels[0]
    assert (level._marks.data[: level.count] == UNKNOWN).mean() < 0.4


def test_a_graph_is_exact_while_that_is_faster(monkeypatch):
    X = np.random.default_rng(2).random((900, 8))
    monkeypatch.setattr(module, "SEARCH_WORK", 1000 * (module.NODE_WORK + 8) / module.BEAM)
    held, exact = Held(8), NeighborLists(RowStore(), K)
    monkeypatch.setattr(module.SearchLevel, "search", None)
    held.add(X)
    exact._contexts.n_features = 8
    for node, row in enumerate(X):
        exact._contexts.append(SparseRow(np.arange(8, dtype=np.int32), row))
        exact.insert(node)
    for one, other in zip(held.graph._near.lists, exact.lists, strict=True):
        np.testing.assert_array_equal(one[:900], other[:900])
    assert held.graph.recall == 1.0


@pytest.mark.parametrize(("work", "exact"), [(30, (True, True)), (10, (False, True)), (3, (False, False))])
def test_rows_with_zeros_are_searched_later(work, exact, monkeypatch):
    """To search 100 000 rows with 20 of 1000 entries took twice as long as an exact insertion among them."""
    monkeypatch.setattr(module, "SEARCH_WORK", 600 * work / module.BEAM)
    found = []
    for entries, n_features in ((8, 8), (1, 600)):
        store, columns = RowStore(), np.arange(entries, dtype=np.int32)
        store.n_features, lists = n_features, NeighborLists(store, K)
        for node in range(600):
            store.append(SparseRow((columns + node) % n_features if entries == 1 else columns, np.ones(entries)))
            lists.insert(node)
        found.append(module.NeighborIndex(store, lists).is_exact)
    assert tuple(found) == exact


def test_a_file_of_before_has_no_listers_and_goes_on():
    X = np.random.default_rng(8).random((1500, 10))
    held = Held(10)
    held.add(X[:1000])
    state = held.graph.state_dict()
    del state["index"]["listers"]
    held.graph = NodeGraph(held.store, K)
    held.graph.load_state_dict(deepcopy(state), 2, 10, 1000)
    held.add(X[1000:])
    check_lists(held)
    assert recall_of(held) >= 0.98


def test_rows_too_close_to_tell_apart_do_not_widen_the_beam_forever(monkeypatch):
    monkeypatch.setattr(module, "MEASURED", 20)
    monkeypatch.setattr(module, "AIM", 1.0 - 1e-12)
    held = Held(3)
    held.add(np.random.default_rng(9).random((600, 3)))
    assert held.graph._index.beam == module.WIDEST


def test_the_beam_is_widened_until_enough_is_found(monkeypatch):
    monkeypatch.setattr(module, "MEASURED", 100)
    monkeypatch.setattr(module, "AIM", 0.9999)
    held = Held(30)
    held.add(np.random.default_rng(3).random((1200, 30)))
    assert held.graph._index.beam > module.BEAM, "a beam that misses any is too narrow"
    assert 0.9 < held.graph.recall <= 1.0


def test_a_beam_that_chance_made_too_wide_becomes_narrow_again_and_still_finds_enough(monkeypatch):
    monkeypatch.setattr(module, "MEASURED", 100)
    monkeypatch.setattr(module, "CHECKS", 600)
    held, X = Held(10), np.random.default_rng(4).random((2400, 10))
    held.add(X[:600])
    held.graph._index.beam = module.WIDEST
    held.add(X[600:])
    assert module.BEAM <= held.graph._index.beam < module.WIDEST / 4
    assert recall_of(held) >= 0.98


def test_the_beam_is_never_narrower_than_lists_are_long(monkeypatch):
    """It was where lists are longer than the widest beam, and the agent's file could not be loaded then."""
    monkeypatch.setattr(module, "MEASURED", 100)
    monkeypatch.setattr(module, "WIDEST", 8)
    held, X = Held(4), np.random.default_rng(10).random((600, 4))
    held.add(X)
    index = held.graph._index
    assert index.beam >= 2 * index._base.lists.neighbors.shape[1]
    NodeGraph(held.store, K).load_state_dict(held.graph.state_dict(), 2, 4, len(X))


def test_few_rows_that_are_left_have_no_index():
    held = Held(4)
    held.add(np.random.default_rng(5).random((400, 4)))
    held.keep(np.arange(300, 400))
    assert held.graph.state_dict()["index"] is None
    assert recall_of(held) >= 0.98, "lists stay as they were found"


def test_all_rows_of_a_region_lose_their_neighbors_at_once():
    """A search that begins among lists which are empty finds nothing: then all rows are compared."""
    held = Held(10)
    X = clusters(np.random.default_rng(6), 1200, 40, 1e-3)
    held.add(X)
    kept = np.flatnonzero(np.arange(1200) % 40 < np.where(np.arange(1200) < 600, 40, 2))
    held.keep(kept)
    check_lists(held)
    assert recall_of(held) >= 0.98


def forged(index, **changes):
    return {**index, **changes}


@pytest.mark.parametrize(
    "forge",
    [
        lambda index: forged(index, beam=3),
        lambda index: forged(index, beam=-1),
        lambda index: forged(index, recall=float("nan")),
        lambda index: forged(index, found=index["wanted"] + 1),
        lambda index: forged(index, found=-1),
        lambda index: forged(index, levels=[{**index["levels"][0], "nodes": index["levels"][0]["nodes"] + 1}]),
        lambda index: {name: value for name, value in index.items() if name != "levels"},
        lambda index: forged(index, listers=index["listers"][:1]),
        lambda index: forged(index, listers=[forged(noted, by=noted["by"] + 1) for noted in index["listers"]]),
        lambda index: forged(index, listers=[forged(noted, times=noted["times"] + 1) for noted in index["listers"]]),
        lambda index: forged(index, listers=[{"by": noted["by"]} for noted in index["listers"]]),
    ],
)
def test_an_index_in_a_file_that_does_not_fit_is_refused(forge):
    held = Held(4)
    held.add(np.random.default_rng(7).random((500, 4)))
    state = held.graph.state_dict()
    fresh = NodeGraph(held.store, K)
    with pytest.raises(ValueError, match=r"narrow|count|finite|below|missing|in order|listers"):
        fresh.load_state_dict({**state, "index": forge(state["index"])}, 2, 4, 500)


def test_rows_that_converge_have_few_levels():
    """Where each row's nearest came later, nearly all once joined each level, and levels had no end."""
    count = 3000
    contexts = RowStore()
    contexts.n_features = 10
    lists = NeighborLists(contexts, 5)
    for number in range(count):
        columns, values = np.array([number % 10], np.int32), np.array([2.0 ** (20 - number // 10)])
        contexts.append(SparseRow(columns, values))
        lists.insert(number)
    index = module.NeighborIndex(contexts, lists)
    index.fit_levels()
    sizes = [level.count for level in index._levels]
    assert sizes[0] == count and sizes[-1] <= 1024
    assert all(2 * above <= below for below, above in pairwise(sizes))
