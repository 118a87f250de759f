"""Drift: from some round on other arms are right, or contexts are shifted; all else stays as it is."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import taciturn
from taciturn.contracts import Dataset
from taciturn.errors import InvalidData, TaciturnError
from taciturn.streams.shift import shift_of
from taciturn.streams.stream import Stream

ROWS = 40
SHARES = st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])
SEEDS = st.integers(0, 99)


def data_with(contexts, *, graded=False, arms=3):
    rng = np.random.default_rng(1)
    y = np.concatenate([np.arange(arms), rng.integers(0, arms, ROWS - arms)])
    rewards = rng.integers(0, 4, (ROWS, arms)) / 3 if graded else None
    costs = rng.uniform(0.1, 9.0, (ROWS, arms)) if graded else None
    return Dataset("d", contexts, y, [f"arm {k}" for k in range(arms)], rewards=rewards, costs=costs)


def rewards_of(stream):
    return np.array([[stream.reward_of(round, arm) for arm in stream.arms] for round in stream])


@given(seed=SEEDS, share=SHARES, graded=st.booleans(), arms=st.integers(2, 5), delay=st.sampled_from([0, "uniform:3"]))
def test_drifted_labels_permute_what_every_arm_earns_and_nothing_else(seed, share, graded, arms, delay):
    data = data_with(np.eye(ROWS), graded=graded, arms=arms)
    options = {"missing": "mcar:0.4", "seed": seed, "delay": delay, "cost_weight": 0.2 * graded}
    still, drifted = Stream(data, **options), Stream(data, **options, drift=f"labels:{share}")
    first = drifted.drift_step
    assert first == round(share * len(still))
    before, after = rewards_of(still), rewards_of(drifted)
    np.testing.assert_array_equal(after[:first], before[:first])
    if first < len(still):
        fits = [[j for j in range(arms) if np.array_equal(after[first:, j], before[first:, k])] for k in range(arms)]
        assert all(set(places) - {k} for k, places in enumerate(fits)), "every arm's rewards are another arm's now"
    np.testing.assert_array_equal(drifted.best_rewards, after.max(axis=1) if graded else 1.0)
    arm, mean = drifted.best_constant_arm
    assert mean == pytest.approx(after.mean(axis=0).max())
    assert after.mean(axis=0)[data.arms.index(arm)] == pytest.approx(mean)
    for step, (one, two) in enumerate(zip(still, drifted, strict=True)):
        assert (one.position, still.delay(one)) == (two.position, drifted.delay(two))
        np.testing.assert_array_equal(one.context, two.context)
        assert drifted.truth[two.position] == after[step].argmax()
        right = [drifted.is_right(two, arm) for arm in data.arms]
        assert right == list(after[step] == after[step].max())
        for arm in data.arms:
            assert (still.respond(one, arm) is None) == (drifted.respond(two, arm) is None), "who is silent stays"
    assert drifted.start.arms == still.start.arms


RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(3.0, [1.0, 10.0, 0.1], (ROWS, 3))
COUNTS = sp.random(ROWS, 9, 0.4, format="csr", random_state=0)
WORDS = ["parcel", "is", "Late", "broken", "where", "it", "came"]
TEXTS = [" ".join(RNG.choice(WORDS, 4)) + "!" for _ in range(ROWS)]
MAPPINGS = [
    {
        "amount": float(NUMBERS[i, 1]),
        "country": ["DE", "FR", "US", None][i % 4],
        "vip": bool(i % 3),
        "note": TEXTS[i],
        "tags": WORDS[i % 4 : i % 7],
        "vector": NUMBERS[i].tolist(),
        "since": dt.date(2026, 1, 1 + i % 28),
    }
    for i in range(ROWS)
]


def text_of(context):
    return repr(context.toarray().tolist() if sp.issparse(context) else context)


@given(seed=SEEDS, share=SHARES)
@pytest.mark.parametrize("contexts", [NUMBERS, COUNTS, TEXTS, MAPPINGS], ids=["array", "csr", "text", "mapping"])
def test_drifted_features_shift_contexts_of_every_kind_by_one_rule_and_nothing_else(contexts, seed, share):
    data = data_with(contexts)
    still, drifted = Stream(data, 0.5, seed), Stream(data, 0.5, seed, drift=f"features:{share}")
    early = Stream(data, 0.5, seed, drift="features:0")
    pairs = list(zip(still, drifted, early, strict=True))
    for step, (one, two, always) in enumerate(pairs):
        expected = always if step >= drifted.drift_step else one
        assert type(two.context) is type(one.context)
        assert text_of(two.context) == text_of(expected.context), "the rule does not depend on when it begins"
    assert any(text_of(one.context) != text_of(always.context) for one, _, always in pairs)
    np.testing.assert_array_equal(rewards_of(drifted), rewards_of(still))
    assert text_of(drifted.start.contexts) == text_of(still.start.contexts)
    shown = {text_of(one.context): text_of(always.context) for one, _, always in pairs}
    assert len(set(shown.values())) == len(shown), "what was different stays different"


def shifted(contexts, seed=0):
    data = data_with(contexts)
    still, drifted = Stream(data, seed=seed), Stream(data, seed=seed, drift="features:0")
    return [(one.context, two.context) for one, two in zip(still, drifted, strict=True)]


def standardized(rows):
    return (rows - rows.mean(axis=0)) / rows.std(axis=0)


@given(seed=SEEDS, columns=st.integers(2, 9))
def test_half_of_the_columns_of_numbers_trade_places_on_the_scale_of_the_new_place(seed, columns):
    rows = np.random.default_rng(seed).normal(3.0, np.logspace(-3, 3, columns), (ROWS, columns))
    rows[:, 0] += 1e6
    data = data_with(rows)
    drifted = {round.position: round.context for round in Stream(data, drift="features:0", seed=seed)}
    order = Stream(data, seed=seed).order
    change = shift_of(data, np.random.default_rng([seed, 9]))
    after = np.array([change(row) for row in rows])
    assert all(np.array_equal(context, after[order[position]]) for position, context in drifted.items())
    found = [[i for i in range(columns) if same(rows[:, i], after[:, j])] for j in range(columns)]
    moved = [j for j in range(columns) if found[j] != [j]]
    assert sorted(i for places in found for i in places) == list(range(columns)), "each column stands in one place"
    assert len(moved) == max(2, columns // 2)
    assert (np.abs(after.mean(axis=0) - rows.mean(axis=0)) < 1e-5 * rows.std(axis=0)).all()
    np.testing.assert_allclose(after.std(axis=0), rows.std(axis=0), rtol=1e-5)
    still = [j for j in range(columns) if j not in moved]
    np.testing.assert_array_equal(after[:, still], rows[:, still])


def same(one, two):
    """Whether two columns are equal up to their scales."""
    return np.allclose(standardized(one), standardized(two), atol=1e-5)


def test_one_column_of_numbers_is_mirrored_and_constants_stay():
    rows = np.stack([np.full(ROWS, 0.1), NUMBERS[:, 0]], axis=1)
    for one, two in shifted(rows):
        np.testing.assert_allclose(two, [0.1, 2 * NUMBERS[:, 0].mean() - one[1]])
    amounts = [{"amount": value, "country": "DE"} for value in NUMBERS[:, 0].tolist()]
    assert [two["amount"] for _, two in shifted(amounts)] == pytest.approx([two[1] for _, two in shifted(rows)])


def test_named_numbers_trade_places_and_so_do_missing_ones():
    """Of a column that also holds words the numbers trade with no other."""
    contexts = [
        {"big": None if i % 5 == 0 else 1e6 + 1e3 * i, "small": 1e-3 * (i * 7 % ROWS), "both": i if i % 2 else "few"}
        for i in range(ROWS)
    ]
    del contexts[7]["big"]
    pairs = shifted(contexts)
    big = np.array([one.get("big") or np.nan for one in contexts])
    small = np.array([one["small"] for one in contexts])
    for one, two in pairs:
        x = one.get("big")
        wanted = None if x is None else small.mean() + (x - np.nanmean(big)) / np.nanstd(big) * small.std()
        assert two["small"] == pytest.approx(wanted)
        assert two["big"] == pytest.approx(
            np.nanmean(big) + (one["small"] - small.mean()) / small.std() * np.nanstd(big)
        )
        assert (two["both"] == "few") == (one["both"] == "few")


def test_drifted_numbers_are_a_drift_to_what_was_learned():
    """When all numbers moved by about a standard deviation, regressions lost next to nothing."""
    data = taciturn.load_dataset("digits")
    stream = Stream(data, seed=0, steps=700, drift="features")
    right = taciturn.evaluate(taciturn.make("linucb", arms=data.arms, seed=0), stream, progress=False).correct
    assert right[250:350].mean() > 0.85
    assert right[350:400].mean() < 0.6
    assert right[-100:].mean() > 0.7


def test_half_of_the_columns_of_a_sparse_matrix_trade_places():
    before, after = (sp.vstack(rows).toarray() for rows in zip(*shifted(COUNTS), strict=True))
    moved = [k for k in range(9) if not np.array_equal(before[:, k], after[:, k])]
    assert len(moved) == 4
    assert sorted(map(tuple, before.T)) == sorted(map(tuple, after.T))
    assert all(row.has_sorted_indices for _, row in shifted(COUNTS))


def test_words_flags_tags_and_categories_trade_places_and_dates_stay():
    for seed in range(20):
        for name in ("country", "vip", "tags", "note"):
            spoken = {}
            for one, two in shifted(MAPPINGS, seed):
                assert one["since"] == two["since"]
                assert (two["country"] is None) == (one["country"] is None)
                pairs = {"note": zip(*(re.findall(r"\w+", c["note"].casefold()) for c in (one, two)), strict=True)}
                pairs |= {"tags": zip(one["tags"], two["tags"], strict=True)}
                for a, b in pairs.get(name, [(one[name], two[name])]):
                    assert spoken.setdefault(a, b) == b, "one word stands for another throughout"
            assert sorted(map(str, spoken)) == sorted(map(str, spoken.values()))
            moved = sum(a != b for a, b in spoken.items())
            assert moved == {"country": 2, "vip": 2, "tags": 3, "note": 3}[name]


def test_a_table_with_missing_values_drifts_and_agents_decide_on_it():
    frame = pd.DataFrame(MAPPINGS).drop(columns=["tags", "vector"]).assign(best=["a", "b"] * 20)
    frame.loc[3, "amount"] = None
    data = taciturn.load_dataset(frame, label="best")
    for drift in ("labels", "features:.3"):
        trace = taciturn.evaluate(taciturn.LinUCB(arms=data.arms, seed=0), Stream(data, 0.5, drift=drift))
        assert trace.drift_step == round((0.5 if drift == "labels" else 0.3) * 38)


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ([{"a": 1.0, "deep": {"b": 2}}] * ROWS, "d: drift='features' cannot shift row 0, column 'deep', .* a dict"),
        ([{"a": 1.0}] * ROWS, "d: drift='features' needs a column of two different values"),
        (np.ones((ROWS, 2)), "two different values"),
        (sp.csr_matrix(np.eye(ROWS, 1)), "two different values"),
        (["late"] * ROWS, "two different values"),
    ],
)
def test_contexts_that_cannot_shift_are_refused(contexts, message):
    with pytest.raises(InvalidData, match=message):
        Stream(data_with(contexts), drift="features")
    Stream(data_with(contexts), drift="labels")


@pytest.mark.parametrize("drift", [0.5, None, "0.5", "label", "labels:2", "labels:x", "labels:nan", ""])
def test_wrong_settings_are_refused_in_a_line_that_says_what_is_right(drift):
    with pytest.raises(TaciturnError, match="labels"):
        Stream(data_with(NUMBERS), drift=drift)


def test_a_stream_shows_its_drift():
    assert "labels, from round 18 on" in repr(Stream(data_with(NUMBERS), drift="labels"))
    assert "drift" not in repr(Stream(data_with(NUMBERS)))
    assert Stream(data_with(NUMBERS)).drift_step is None
