"""Scaled rows against a slow oracle that computes each from all contexts so far, and what was learned from them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import taciturn
from taciturn.agents.rows import WIDE, RawRows
from taciturn.contracts import SparseRow
from taciturn.features.encode import ContextReader
from taciturn.features.scale import OUTLIER, Scaler
from taciturn.kernels import ridge

AGENTS = ("linucb", "viewucb", "gcnucb", "rogcn", "bilinucb-kmeans")
MAGNITUDES = (1.0, 1e-160, 1e15, 1e60, 5e-324)


def table(seed, steps):
    """Contexts of six columns in very different units, and the right one of three arms."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(steps, 6))
    X[:, 3] = X[:, 3] > 0.8  # mostly zero
    X[:, 4] = np.where(X[:, 4] > 0, X[:, 4], -1.5)  # half of it one value
    X[:, 5] = 7.0  # says nothing
    right = np.argmax(np.c_[X[:, 0], X[:, 1] + X[:, 3], X[:, 2]], axis=1)
    return X * [1, 1e4, 1e-3, 1, 100, 1], right


def contexts(X, form):
    """The rows as arrays, as mappings, or as mappings that lack some of their values."""
    if form == "array":
        return list(X)
    named = [{f"c{j}": value for j, value in enumerate(row.tolist())} for row in X]
    if form == "missing":
        for i, context in enumerate(named):
            context.pop(f"c{i % 11}", None)
            if i % 5 == 0:
                context["c2"] = None
    return named


def run(agent, rows, right, seed=3):
    """The arms that an agent chooses, with a third of all rewards silent."""
    rng, chosen = np.random.default_rng(seed), []
    for x, arm in zip(rows, right, strict=True):
        decision = agent.decide(x)
        agent.feedback(decision.id, None if rng.random() < 0.3 else float(decision.arm == arm))
        chosen.append(decision.arm)
    return np.array(chosen)


@pytest.mark.parametrize("form", ["array", "mapping", "missing"])
@pytest.mark.parametrize("name", ["linucb", "viewucb"])
def test_units_change_no_decision(name, form):
    X, right = table(1, 300)
    first = run(taciturn.make(name, arms=3), contexts(X, form), right)
    for column in range(6):
        other = X.copy()
        other[:, column] = 1000 * other[:, column] + 5
        np.testing.assert_array_equal(run(taciturn.make(name, arms=3), contexts(other, form), right), first)
    every = X * np.array([1e-9, 1e9, 3, 1e3, 7, 1e30]) + [0, 5e9, 1, -1, 1e3, 1e30]
    assert (run(taciturn.make(name, arms=3), contexts(every, form), right) == first).mean() > 0.99


@pytest.mark.parametrize("name", ["gcnucb", "rogcn", "bilinucb-kmeans"])
def test_units_change_almost_no_decision_of_networks(name):
    """The weights of networks are single precision, and training enlarges what differs in the last digit."""
    X, right = table(1, 200)
    settings = {"warmup": 60} if name == "gcnucb" else {}
    first, other = (run(taciturn.make(name, arms=3, **settings), rows, right) for rows in (X, 1000 * X + 5))
    assert (first == other).mean() > 0.9


def dense(row, width):
    """A sparse row with its zeros."""
    full = np.zeros(width)
    full[row.columns] = row.values
    return full


@pytest.mark.parametrize("form", ["array", "mapping", "missing"])
@pytest.mark.parametrize("name", ["linucb", "viewucb", "bilinucb-kmeans"])
@pytest.mark.parametrize("max_nodes", [None, 40])
def test_regressions_are_those_of_the_scaled_contexts_of_now(name, form, max_nodes):
    """`A_k = λI + Σ xxᵀ` holds for rows that have moved many times, and for those that are gone (without eviction)."""
    X, _ = table(2, 150)
    agent = taciturn.make(name, arms=3, max_nodes=max_nodes)
    for step, x in enumerate(contexts(X, form)):
        decision = agent.decide(x)
        reward = (1.0, 0.0, None, 0.5)[step % 4]
        agent.feedback(decision.id, reward)
        if step % 7 == 0:
            agent.feedback(decision.id, 0.25)  # a correction
        if step % 10 == 9:
            agent.withdraw(decision.id)
    width, regressions = agent._contexts.n_features, agent._ridge
    state = (regressions if name == "viewucb" else regressions._form).state
    if max_nodes is not None:
        assert np.isfinite(state.theta).all() and np.linalg.eigvalsh(ridge.whole_inverse(state, 0)).min() > 0
        return
    rows = agent._unit if name == "viewucb" else agent._contexts
    for k in range(3):
        A, b = np.eye(width) * agent.ridge, np.zeros(width)
        for example in agent._lifecycle.examples():
            if example.mask[k] and not (example.imputed and name == "viewucb"):
                x = dense(rows[example.node], width)
                A += np.outer(x, x)
                b += example.targets[k] * x
        inverse = ridge.whole_inverse(state, k)[:width, :width]
        if name != "viewucb":  # whose unit lengths do not move linearly
            np.testing.assert_allclose(inverse, np.linalg.inv(A), atol=1e-9)
            np.testing.assert_allclose(state.theta[k, :width], np.linalg.solve(A, b), atol=1e-9)


def moments_by_hand(values):
    """The center and the unit of one column's values (n,)."""
    usual, counts = np.unique(values, return_counts=True)
    if 2 * counts.max() > len(values):
        center = usual[counts.argmax()]
        away = values[values != center] - center
        return center, np.sqrt((away**2).mean()) if len(away) else 0.0
    return values.mean(), values.std()


@given(st.integers(0, 2**32 - 1), st.sampled_from(MAGNITUDES), st.booleans(), st.integers(2, 60))
def test_renewed_scales_are_those_of_all_rows(seed, magnitude, named, steps):
    rng = np.random.default_rng(seed)
    X = rng.choice([-2.0, -1.0, 0.0, 1.0, 3.5], size=(steps, 4)) * magnitude
    X[:, 1] = np.where(rng.random(steps) < 0.8, 5.0, X[:, 1])
    X[:, 2] = rng.normal(size=steps) * magnitude + 3 * magnitude
    reader, scaler = ContextReader(scaled=True), Scaler()
    rows, reader = reader.read_all([dict(enumerate(row)) for row in X] if named else X)
    is_number = np.ones(4, np.bool_)
    scaler.begin(by_position=not named, is_number=is_number)
    scaler.add_columns(is_number)
    raw = []
    for row in rows:
        bounded, scaled = scaler.take(row)
        if scaled is None:
            scaler.open(scaler.openings(bounded))
            scaled = scaler.scaled(bounded)
            again, at_once = scaler.take(row)
            assert np.array_equal(again.values, bounded.values, equal_nan=True)
            assert at_once is None or np.array_equal(at_once.values, scaled.values)
        assert np.isfinite(scaled.values).all()
        assert (np.abs(scaled.values) <= OUTLIER * (1 + 1e-9)).all()
        scaler.observe(bounded)
        raw.append(bounded)
    held = RawRows()
    for row in raw:
        held.append(row)
    before = scaler.scaled_rows(held.rows, np.arange(steps))
    change = scaler.renew(held)
    after = scaler.scaled_rows(held.rows, np.arange(steps))
    old, new = (np.zeros((steps, scaler.n_slots)) for _ in range(2))
    for matrix, found in ((old, before), (new, after)):
        for i in range(steps):
            entries = slice(found.indptr[i], found.indptr[i + 1])
            matrix[i, found.columns[entries]] = found.values[entries]
    if change is not None:
        old[:, change.slots] = old[:, change.slots] @ change.block.T
    np.testing.assert_allclose(new, old, atol=1e-6)
    state = scaler._state
    for j in range(4):
        values = np.array([dense(row, 4)[j] for row in raw])
        center, unit = moments_by_hand(values)
        if state.inverse[j] > 0 and unit > 1e-150:  # the squares of smaller ones vanish
            assert abs(state.inverse[j] * unit - 1) < 0.06
            assert abs(state.mean[j] - center) < 0.06 * unit + 1e-9 * abs(center)


def changes_of(seed, magnitude, named):
    """How the scale of an agent moves while some values are missing, seldom at first and mostly later."""
    rng, agent, changes = np.random.default_rng(seed), taciturn.LinUCB(arms=2), []
    for step in range(60):
        x = magnitude * rng.normal(step % 7, 1 + step, size=5)
        x[rng.random(5) < (0.1 if step < 20 else 0.9)] = np.nan
        agent.decide(dict(enumerate(x)) if named else x)
        renewed = agent._intake.renewed()
        if renewed is not None:
            changes.append(renewed)
    return changes


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e-100, 1e15]), st.booleans())
def test_weights_say_of_moved_rows_what_they_said_before(seed, magnitude, named):
    for change in changes_of(seed, magnitude, named):
        weights = np.random.default_rng(seed).normal(size=(len(change.slots), 2, 3))
        expected = np.linalg.solve(change.block.T.toarray(), weights.reshape(len(weights), -1))
        found = change.of_weights(weights).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("named", [False, True])
def test_flags_are_turned_round_in_some_of_these_changes(named):
    changes = [change for seed in range(5) for change in changes_of(seed, 1.0, named)]
    assert any(-1.0 in change.block.diagonal() for change in changes)


@given(st.integers(0, 2**32 - 1), st.sampled_from(MAGNITUDES), st.booleans(), st.sampled_from([3, 60]))
def test_many_rows_are_taken_as_one_by_one(seed, magnitude, named, seen):
    """With outliers, rows with nothing, missing values, and bins after 40 contexts."""
    rng = np.random.default_rng(seed)
    agent = taciturn.LinUCB(arms=2)

    def drawn(count):
        X = rng.normal(size=(count, 4)) * magnitude * rng.choice([1, 1, 1, 1e6], (count, 4))
        X[rng.random((count, 4)) < 0.2] = np.nan if named else 0.0
        return [dict(enumerate(row)) for row in X] if named else X

    agent.decide_batch(drawn(seen))
    rows, reader = agent._intake.read_all(drawn(rng.integers(1, 9)))
    agent._intake.accept_all(rows, reader)  # they may have columns that were missing so far
    scaler = agent._intake.scaler
    one_by_one, at_once = [scaler.take(row) for row in rows], scaler.take_all(rows)
    if any(scaled is None for _, scaled in one_by_one):
        assert at_once is None
    else:
        for expected, made in zip(one_by_one, at_once, strict=True):
            for row, other in zip(expected, made, strict=True):
                assert np.array_equal(row.columns, other.columns)
                assert np.array_equal(row.values, other.values, equal_nan=True)
                assert (np.diff(row.columns) > 0).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
def test_moving_a_regression_is_learning_from_the_moved_contexts(seed, moved, many):
    """Both ways of `ridge.rescale` against normal equations of the moved rows."""
    rng = np.random.default_rng(seed)
    width = 60 if many else 15
    columns = np.sort(rng.choice(width, min(moved, width), replace=False))
    block = np.eye(len(columns)) * rng.uniform(0.02, 50, len(columns)) + 0.1 * rng.normal(size=(len(columns),) * 2)
    X, targets = rng.normal(size=(90, width)), rng.normal(size=90)
    state = ridge.new_state(2, width, 0.7)
    for x, target in zip(X, targets, strict=True):
        ridge.update(state, np.arange(width, dtype=np.int32), x, np.array([target, 0]), np.array([True, False]), 1.0)
    after = state
    ridge.rescale(after, columns, sp.csr_matrix(block))
    X[:, columns] = X[:, columns] @ block.T
    A = 0.7 * np.eye(width) + X.T @ X
    np.testing.assert_allclose(ridge.whole_inverse(after, 0), np.linalg.inv(A), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(after.theta[0], np.linalg.solve(A, X.T @ targets), rtol=1e-5, atol=1e-7)
    assert after.folds[1] == 0 and not after.theta[1].any()


@pytest.mark.parametrize("name", AGENTS)
def test_a_saved_agent_goes_on_bit_for_bit_whenever_it_is_saved(name, tmp_path):
    X, right = table(4, 90)
    agent = taciturn.make(
        name,
        arms=3,
        max_nodes=50,
        **({"warmup": 20} if "ucb" in name and name != "linucb" else {})
        if name in ("gcnucb", "bilinucb-kmeans")
        else {},
    )
    rows = contexts(X, "missing")
    for step, (x, arm) in enumerate(zip(rows, right, strict=True)):
        if step in (1, 2, 3, 13, 39, 41, 42, 61):
            agent.save(tmp_path / "a")
            copy = taciturn.load(tmp_path / "a")
            for one in (agent, copy):
                ahead = one.fork()
                first = [ahead.decide(row) for row in rows[step : step + 9]]
                if one is agent:
                    wanted = first
            for d, w in zip(first, wanted, strict=True):
                assert d.arm == w.arm
                np.testing.assert_array_equal(d.scores, w.scores)
                np.testing.assert_array_equal(d.widths, w.widths)
        decision = agent.decide(x)
        agent.feedback(decision.id, (float(decision.arm == arm), None)[step % 3 == 0])


@given(
    st.lists(st.sampled_from([0.0, 1.0, -1.0, 1e-160, 5e-324, 1e15, 1e99, -1e99, np.nan, 3.0]), min_size=3, max_size=90)
)
def test_any_numbers_in_any_order_give_finite_scores(values):
    agent = taciturn.LinUCB(arms=2)
    for step in range(0, len(values) - 2, 3):
        decision = agent.decide(values[step : step + 3])
        assert np.isfinite(decision.scores).all() and np.isfinite(decision.widths).all()
        agent.feedback(decision.id, step % 2)


def test_an_outlier_leaves_the_others_apart():
    X, right = table(5, 600)
    X[50, 0] = 1e90
    X[51, 2] = -1e90
    plain = run(taciturn.LinUCB(arms=3), table(5, 600)[0], right)
    hit = run(taciturn.LinUCB(arms=3), X, right)
    assert (hit[300:] == right[300:]).mean() > (plain[300:] == right[300:]).mean() - 0.1


class Sums(taciturn.BaseAgent):
    """An agent of somebody's own: sums of rewarded contexts, without a word about scales."""

    def _build(self):
        part = taciturn.Part()
        self._sums = part.array("sums", float, "arm", "feature")
        return {"sums": part}

    def _score(self, node):
        columns, values = self._contexts[node]
        return self._sums.data[:, columns] @ values, np.zeros(len(self.arm_names))

    def _learn(self, example, sign=1):
        columns, values = self._contexts[example.node]
        self._sums.data[example.arm, columns] += sign * example.reward * values

    def _unlearn(self, example):
        self._learn(example, sign=-1)


def test_sums_of_an_agent_of_ones_own_move_with_the_contexts():
    X, right = table(6, 120)
    agent = Sums(arms=3)
    for step, (x, arm) in enumerate(zip(contexts(X, "missing"), right, strict=True)):
        decision = agent.decide(x)
        agent.feedback(decision.id, float(decision.arm == arm))
        if step % 9 == 0:
            agent.feedback(decision.id, None)
    width, expected = agent._contexts.n_features, np.zeros((3, agent._contexts.n_features))
    for example in agent._lifecycle.examples():
        expected[example.arm] += example.reward * dense(agent._contexts[example.node], width)
    np.testing.assert_allclose(agent._sums.data, expected, atol=1e-9)


def test_a_sample_of_wide_rows_is_read_where_they_are():
    """Copied they would be the most that a renewal takes; the scale is the same."""
    rng, changes = np.random.default_rng(0), []
    rows = [rng.integers(-3, 4, WIDE) * 10.0 ** rng.integers(-5, 6, WIDE) + 0.5 for _ in range(300)]
    for holds_columns in (False, True):
        scaler, held = Scaler(), RawRows()
        scaler.begin(by_position=True, is_number=np.ones(WIDE, np.bool_))
        scaler.add_columns(np.ones(WIDE, np.bool_))
        for values in rows:
            row = SparseRow(np.arange(WIDE, dtype=np.int32), values)
            scaler.open(scaler.openings(row))
            scaler.observe(row)
            held.append(row)
        if holds_columns:
            held.hold_columns()
        assert (held.dense is None) == holds_columns
        changes.append(scaler.renew(held))
    np.testing.assert_array_equal(changes[0].slots, changes[1].slots)
    np.testing.assert_array_equal(changes[0].block.toarray(), changes[1].block.toarray())
