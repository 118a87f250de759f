"""The table of contexts and the arrays of parts, against lists of lists that do the same one entry at a time."""

import copy
import weakref
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.agents.parts.part import Part, Sizes, with_spare
from taciturn.agents.rows import RowStore
from taciturn.agents.table import NodeTable, Table
from taciturn.contracts import STATES, SparseRow
from taciturn.errors import TaciturnError
from taciturn.kernels.csr import CSR

COLUMNS = {
    "plain": {"dtype": np.int32, "fill": -1},
    "wide": {"dtype": np.float64, "fill": np.inf, "axes": (2,)},
    "per arm": {"dtype": np.float32, "fill": 0.5, "axes": ("arm",)},
    "wide, per arm": {"dtype": np.float32, "fill": 0, "axes": (3, "arm")},
    "fixed for new arms": {"dtype": np.float64, "fill": np.nan, "axes": ("arm",), "new_arm": -7.0},
    "wide, fixed for new arms": {"dtype": np.float64, "fill": np.nan, "axes": (2, "arm"), "new_arm": -7.0},
}


class ListTable:
    """A table as a list of rows; a row has for each column a list (width, K) of entries."""

    def __init__(self, n_arms):
        self.n_arms, self.rows = n_arms, []

    def extend(self, count):
        for _ in range(count):
            row = {
                name: [[options["fill"]] * (self.n_arms if per_arm(options) else 1) for _ in range(width(options))]
                for name, options in COLUMNS.items()
            }
            self.rows.append(row)

    def write(self, index, name, values):
        for entries in self.rows[index][name]:
            for k in range(len(entries)):
                entries[k] = next(values)

    def keep(self, rows):
        self.rows = [self.rows[i] for i in rows]

    def add_arm(self, like):
        self.n_arms += 1
        for row in self.rows:
            for name, options in COLUMNS.items():
                for entries in row[name] if per_arm(options) else ():
                    copied = options["fill"] if like is None else entries[like]
                    entries.append(options.get("new_arm", copied))

    def array(self, name):
        """The column as an array (T, …) with the axes of a row."""
        options = COLUMNS[name]
        inner = [self.n_arms if axis == "arm" else axis for axis in options.get("axes", ())]
        entries = [value for row in self.rows for line in row[name] for value in line]
        return np.array(entries, options["dtype"]).reshape(len(self.rows), *inner)


def width(options):
    return next((axis for axis in options.get("axes", ()) if axis != "arm"), 1)


def per_arm(options):
    return "arm" in options.get("axes", ())


def columns_of(table):
    found = {}
    for name, options in COLUMNS.items():
        rest = {key: value for key, value in options.items() if key not in ("dtype", "axes")}
        found[name] = table.column(name, options["dtype"], *options.get("axes", ()), **rest)
    return found


def check_table(table, columns, model):
    """All rows in use are those of the model, and all spare rows hold the fill."""
    assert (table.count, table.n_arms) == (len(model.rows), model.n_arms)
    state = table.state_dict()
    for name, column in columns.items():
        expected = model.array(name)
        assert (state[name].dtype, state[name].shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(state[name], expected)
        spare = column.data[table.count :]
        np.testing.assert_array_equal(spare, np.full_like(spare, COLUMNS[name]["fill"]))
    if model.rows:
        row = sum(model.array(name)[:1].nbytes for name in COLUMNS)
        assert table.nbytes(Sizes(table.n_arms, 0, table.count, 0)) == row * with_spare(table.count)


def draw_kept(data, count):
    """Rows to keep: any, adjacent ones (copied as a slice), all but one, all or none."""
    match data.draw(st.sampled_from(["any", "adjacent", "all but one"])):
        case "any":
            kept = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
            return np.flatnonzero(np.array(kept, bool))
        case "all but one" if count:
            return np.delete(np.arange(count), data.draw(st.integers(0, count - 1)))
    first, stop = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    return np.arange(first, stop)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_table_equals_a_list_of_rows(data):
    table, model = Table(2), ListTable(2)
    columns, values = columns_of(table), iter(range(1, 10**9))
    for _ in range(data.draw(st.integers(1, 15))):
        match data.draw(st.sampled_from(["extend", "extend", "write", "write", "keep", "add_arm", "reload"])):
            case "extend":
                count = data.draw(st.sampled_from([0, 1, 1, 2, 15, 16, 17, 40]))
                assert table.extend(count) == len(model.rows)
                model.extend(count)
            case "write" if model.rows:
                index = data.draw(st.integers(0, len(model.rows) - 1))
                for name, column in columns.items():
                    first = next(values)
                    model.write(index, name, iter(range(first, first + 100)))
                    size = column.data[index].size
                    column.data[index] = np.arange(first, first + size).reshape(column.data[index].shape)
            case "keep":
                kept = draw_kept(data, len(model.rows))
                table.keep(kept)
                model.keep(kept)
            case "add_arm":
                like = data.draw(st.none() | st.integers(0, model.n_arms - 1))
                table.add_arm(like)
                model.add_arm(like)
            case "reload":
                state = copy.deepcopy(table.state_dict())
                table = Table(2)
                columns = columns_of(table)
                table.load_state_dict(state, model.n_arms, len(model.rows))
        check_table(table, columns, model)


def test_a_table_refuses_columns_of_another_type_shape_or_name():
    table = Table(2)
    columns_of(table)
    table.extend(3)
    good = table.state_dict()
    bad = [
        {name: array for name, array in good.items() if name != "plain"},
        {**good, "more": good["plain"]},
        {**good, "plain": good["plain"].astype(np.int64)},
        {**good, "plain": good["plain"][:2]},
        {**good, "plain": good["plain"].tolist()},
        {**good, "per arm": good["per arm"][:, :1]},
        {**good, "wide": good["wide"][:, :1]},
        {**good, "wide, per arm": good["wide, per arm"][:, :2]},
        {**good, "wide, per arm": good["wide, per arm"][0]},
    ]
    for state in bad:
        other = Table(2)
        columns_of(other)
        with pytest.raises(ValueError, match="columns|does not fit"):
            other.load_state_dict(state, 2, 3)


def test_growth_over_many_rows_copies_few_of_them_and_spares_little():
    table = Table()
    column = table.column("number", np.int64, fill=-1)
    copied = 0
    for row in range(5000):
        before = column.data
        assert table.extend() == row
        column.data[row] = row
        copied += 0 if column.data is before else row
        assert len(column.data) <= 9 / 8 * (row + 1) + 16, "an eighth is spare"
    np.testing.assert_array_equal(table.state_dict()["number"], np.arange(5000))
    assert copied <= 10 * 5000


# Rows of contexts.


def draw_row(data, n_features):
    columns = data.draw(st.lists(st.integers(0, n_features - 1), unique=True).map(sorted)) if n_features else []
    values = data.draw(st.lists(st.floats(-9, 9), min_size=len(columns), max_size=len(columns)))
    return SparseRow(np.array(columns, np.int32), np.array(values, float))


def dense(rows, n_features):
    """Rows as lists of (column, value) to a matrix (T, n_features)."""
    matrix = np.zeros((len(rows), n_features))
    for t, row in enumerate(rows):
        for column, value in row:
            matrix[t, column] = value
    return matrix


def check_rows(store, rows):
    assert store.count == len(rows)
    for t, row in enumerate(rows):
        columns, values = store[t]
        assert list(zip(columns.tolist(), values.tolist(), strict=True)) == row
    np.testing.assert_array_equal(store.matrix(0, len(rows)).toarray(), dense(rows, store.n_features))
    indptr, columns, values = store.rows
    np.testing.assert_array_equal(indptr, np.cumsum([0, *map(len, rows)]))
    assert len(columns) == len(values) == indptr[-1]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_row_store_equals_a_list_of_rows(data):
    store, rows = RowStore(), []
    store.allocate(2, 3)
    for _ in range(data.draw(st.integers(1, 15))):
        actions = ["append", "append", "append", "keep", "add_features", "make_anew", "reload"]
        match data.draw(st.sampled_from(actions)):
            case "append":
                for _ in range(data.draw(st.sampled_from([1, 2, 20]))):
                    row = draw_row(data, store.n_features)
                    assert store.append(row) == len(rows)
                    rows.append(list(zip(row.columns.tolist(), row.values.tolist(), strict=True)))
            case "keep":
                kept = draw_kept(data, len(rows))
                store.keep(kept)
                rows = [rows[i] for i in kept]
            case "add_features":
                store.add_features(store.n_features + data.draw(st.integers(1, 4)))
            case "make_anew":
                backwards = store.some(np.arange(store.count)[::-1])
                store.clear()
                store.extend(backwards)
                rows.reverse()
            case "reload":
                state, n_features = copy.deepcopy(store.state_dict()), store.n_features
                store = RowStore()
                store.load_state_dict(state, 2, n_features, len(rows))
        check_rows(store, rows)


def test_a_row_store_grows_over_many_entries():
    store, rng, rows = RowStore(), np.random.default_rng(0), []
    store.allocate(2, 50)
    for _ in range(300):
        columns = np.flatnonzero(rng.random(50) < 0.7).astype(np.int32)
        row = SparseRow(columns, rng.random(len(columns)))
        store.append(row)
        rows.append(list(zip(columns.tolist(), row.values.tolist(), strict=True)))
    check_rows(store, rows)


def test_a_row_store_that_grows_lets_go_of_what_it_held_before():
    store = RowStore()
    store.allocate(2, 50)
    row = SparseRow(np.arange(50, dtype=np.int32), np.ones(50))
    store.append(row)
    held = [weakref.ref(array.base) for array in (store.rows.columns, store.rows.values)]
    store.extend(CSR(np.arange(0, 2050, 50), np.tile(row.columns, 40), np.tile(row.values, 40)))
    assert all(array() is None for array in held), "a view of the last row would keep them"
    store.append(row)
    held = [weakref.ref(array.base) for array in (store.rows.columns, store.rows.values)]
    store.replace(store.some(np.arange(3)))
    assert all(array() is None for array in held)


# Contexts with everything that is held for each.


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_node_table_equals_a_list_of_decisions(data):
    table, nodes, next_id, n_arms = NodeTable(2), [], 0, 2
    table.contexts.allocate(2, 4)
    table.column("own", np.float32, "arm", fill=0.25)
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["append", "append", "append", "keep", "add_arm", "reload"])):
            case "append":
                for _ in range(data.draw(st.sampled_from([1, 3, 20]))):
                    row, state = draw_row(data, 4), data.draw(st.integers(0, 3))
                    assert table.append(row, state, 2.0 * next_id, -next_id) == len(nodes)
                    if STATES[state] in ("rewarded", "labelled"):
                        table.value.data[len(nodes)], table.n_arms_known.data[len(nodes)] = 0.5, n_arms
                    context = list(zip(row.columns.tolist(), row.values.tolist(), strict=True))
                    nodes.append({"id": next_id, "state": state, "context": context, "own": [0.25] * n_arms})
                    next_id += 1
            case "keep":
                kept = draw_kept(data, len(nodes))
                table.keep(kept)
                nodes = [nodes[i] for i in kept]
            case "add_arm":
                table.add_arm(None)
                n_arms += 1
                for node in nodes:
                    node["own"].append(0.25)
            case "reload":
                columns, contexts = copy.deepcopy(table.state_dict()), copy.deepcopy(table.contexts.state_dict())
                table = NodeTable(2)
                table.column("own", np.float32, "arm", fill=0.25)
                table.contexts.load_state_dict(contexts, n_arms, 4, len(nodes))
                table.load_state_dict(columns, n_arms, len(nodes))
                table.next_id = next_id
                table.check()
        ids, held = [node["id"] for node in nodes], table.state_dict()
        assert table.next_id == next_id
        assert [table.find(id) for id in range(next_id)] == [
            ids.index(id) if id in ids else -1 for id in range(next_id)
        ]
        for state in range(4):
            assert table.nodes(state).tolist() == [i for i, node in enumerate(nodes) if node["state"] == state]
        assert held["id"].tolist() == ids
        assert held["time"].tolist() == [2.0 * id for id in ids]
        assert held["evict_order"].tolist() == [-id for id in ids]
        learned = [STATES[node["state"]] in ("rewarded", "labelled") for node in nodes]
        np.testing.assert_array_equal(held["value"], np.where(learned, 0.5, np.nan))
        assert np.isnan(held["propensity"]).all()
        assert held["scores"].shape == held["widths"].shape == (len(nodes), n_arms)
        assert np.isnan(held["scores"]).all()
        assert held["own"].tolist() == [node["own"] for node in nodes]
        check_rows(table.contexts, [node["context"] for node in nodes])


# Arrays of parts.


AXES = {
    "arms": ("arm",),
    "features": ("feature",),
    "arms, features": ("arm", "feature"),
    "features, fixed, arms": ("feature", 3, "arm"),
    "fixed": (2,),
    "arms, features twice": ("arm", "feature", "feature"),
    "not copied": ("arm", "feature"),
}


class DictPart:
    """The arrays of a part as dicts from index to value, which are 0 where nothing was written."""

    def __init__(self, n_arms, n_features):
        self.n_arms, self.n_features = n_arms, n_features
        self.arrays = {name: dict.fromkeys(product(*self.ranges(axes)), 0) for name, axes in AXES.items()}

    def ranges(self, axes):
        sizes = {"arm": self.n_arms, "feature": self.n_features}
        return [range(sizes.get(axis, axis)) for axis in axes]

    def extend(self, like=None):
        """Add the indices that are missing, with the entry of the arm `like` or 0."""
        for name, axes in AXES.items():
            entries = self.arrays[name]
            for index in product(*self.ranges(axes)):
                source = tuple(like if axis == "arm" else i for axis, i in zip(axes, index, strict=True))
                copied = 0 if like is None or name == "not copied" else entries.get(source, 0)
                entries.setdefault(index, copied)

    def array(self, name):
        shape = [len(axis) for axis in self.ranges(AXES[name])]
        return np.array([self.arrays[name][index] for index in np.ndindex(*shape)], float).reshape(shape)


def nested_part():
    """A part with half of the arrays, and a child with the others; also all arrays by name."""
    part, child = Part(), Part()
    part.child("child", child)
    arrays = {}
    for number, (name, axes) in enumerate(AXES.items()):
        holder = (part, child)[number % 2]
        arrays[name] = holder.array(name, np.float64, *axes, new_arm=0 if name == "not copied" else None)
    return part, arrays


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_arrays_of_parts_equal_dicts_from_index_to_value(data):
    n_arms, n_features = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    (part, arrays), model = nested_part(), DictPart(n_arms, n_features)
    part.allocate(n_arms, n_features)
    for step in range(data.draw(st.integers(1, 10))):
        match data.draw(st.sampled_from(["write", "write", "add_arm", "add_features", "reload"])):
            case "write":
                for name, array in arrays.items():
                    for i, index in enumerate(np.ndindex(*array.data.shape)):
                        array.data[index] = model.arrays[name][index] = 1000 * step + i + 1
            case "add_arm":
                like = data.draw(st.none() | st.integers(0, model.n_arms - 1))
                part.add_arm(like)
                model.n_arms += 1
                model.extend(like)
            case "add_features":
                model.n_features += data.draw(st.integers(1, 3))
                part.add_features(model.n_features)
                model.extend()
            case "reload":
                state = copy.deepcopy(part.state_dict())
                part, arrays = nested_part()
                part.load_state_dict(state, model.n_arms, model.n_features, 0)
        for name, array in arrays.items():
            np.testing.assert_array_equal(array.data, model.array(name))
        assert part.nbytes(Sizes(model.n_arms, model.n_features, 0, 0)) == sum(
            array.data.nbytes for array in arrays.values()
        )
        for sizes in ((model.n_arms + 1, model.n_features, 0), (model.n_arms, model.n_features + 1, 0)):
            with pytest.raises(ValueError, match="does not fit"):
                nested_part()[0].load_state_dict(part.state_dict(), *sizes)


def test_a_part_refuses_a_state_that_lacks_something():
    part, _ = nested_part()
    part.allocate(2, 2)
    for key in part.state_dict():
        state = {name: value for name, value in part.state_dict().items() if name != key}
        with pytest.raises(ValueError, match="missing"):
            nested_part()[0].load_state_dict(state, 2, 2, 0)


@pytest.mark.parametrize("axes", [("arms",), ("arm", "arm"), ("Feature",), (None,)])
def test_axes_that_do_not_exist_are_refused(axes):
    with pytest.raises(TaciturnError, match="axes .* are not allowed"):
        Part().array("sums", float, *axes)


def test_a_name_in_a_file_is_used_once():
    part, table = Part(), Table(2)
    part.array("sums", float, "arm")
    table.column("labels", np.int32)
    with pytest.raises(TaciturnError, match="'sums' already"):
        part.array("sums", float, "arm")
    with pytest.raises(TaciturnError, match="'labels' already"):
        table.column("labels", np.int32)
