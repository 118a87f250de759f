"""Streams give agents the contexts as the data set has them."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import taciturn
from taciturn.contracts import Dataset
from taciturn.datasets.describe import describe
from taciturn.errors import InvalidContext, InvalidData

Y = [0, 1, 0, 1, 0, 1, 1]
MATRIX = np.arange(21.0).reshape(7, 3) % 4
MAPPINGS = [{"a": float(i), "b": f"w{i % 2}", "c": None} for i in range(7)]
TEXTS = [f"parcel {i} is late" for i in range(7)]


def same(a, b):
    return np.array_equal(a.toarray(), b.toarray()) if sp.issparse(a) else np.array_equal(a, b)


@pytest.mark.parametrize(
    ("contexts", "kind", "batch"),
    [
        (MATRIX, np.ndarray, np.ndarray),
        (sp.csr_matrix(MATRIX), sp.csr_matrix, sp.csr_matrix),
        (MAPPINGS, dict, list),
        (TEXTS, str, list),
    ],
)
def test_rounds_and_the_start_hold_the_contexts_as_given(contexts, kind, batch):
    stream = taciturn.Stream(Dataset("d", contexts, Y, ["l", "r"]), seed=3)
    for round in stream:
        assert type(round.context) is kind
        assert same(round.context, contexts[stream.order[round.position]])
    assert type(stream.start.contexts) is batch
    for k in range(2):
        assert same(stream.start.contexts[k], contexts[stream.order[k]])


def test_a_round_is_a_copy_that_the_data_set_does_not_notice():
    data = Dataset("d", MATRIX.copy(), Y, ["l", "r"])
    for round in taciturn.Stream(data):
        round.context[:] = -1
    np.testing.assert_array_equal(data.contexts, MATRIX)


def flags_and_numbers(rows=40):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    return pd.DataFrame({"amount": y + rng.random(rows), "vip": rng.random(rows) < 0.5, "best": y})


def test_the_matrix_of_a_table_has_a_named_column_for_each_feature_and_is_made_once():
    frame = flags_and_numbers()
    data = taciturn.load_dataset(frame, label="best")
    assert data.X is data.X
    assert (data.X.shape, data.feature_names) == ((40, 2), ["amount", "vip"])
    np.testing.assert_array_equal(data.X.toarray(), frame[["amount", "vip"]].to_numpy(float))


WORDS = pd.DataFrame(
    {
        "country": ["DE", "FR", None, "DE"] * 5,
        "amount": [1.5, None, 3.0, 4.0] * 5,
        "note": ["parcel is late", "no parcel", "late", "it is late"] * 5,
        "best": ["a", "b", "a", "b"] * 5,
    }
)


def test_words_become_columns_of_the_matrix_as_an_agent_reads_them():
    data = taciturn.load_dataset(WORDS, label="best")
    agent = taciturn.LinUCB(arms=data.arms, seed=0, scaling="none")
    for context in data.contexts:
        agent.decide(context)
    assert data.X.shape == (20, agent.n_features)
    assert {"country=DE", "country=FR", "amount", "note:parcel", "note:is late"} <= set(data.feature_names)
    assert len(data.feature_names) == agent.n_features
    first = dict(zip(data.feature_names, data.X[0].toarray()[0], strict=True))
    assert (first["country=DE"], first["country=FR"], first["amount"]) == (1.0, 0.0, 1.5)


@pytest.mark.parametrize("missing", ["mcar:0.5", "context:0.5", "reward:0.5"])
@pytest.mark.parametrize("columns", [["country", "amount", "note"], ["note"]])
def test_an_agent_decides_on_words_under_every_mechanism(missing, columns):
    data = taciturn.load_dataset(WORDS[[*columns, "best"]], label="best")
    stream = taciturn.Stream(data, missing=missing, seed=0)
    assert len(taciturn.evaluate(taciturn.LinUCB(arms=data.arms, seed=0), stream).correct) == 18


def test_a_column_of_dates_and_words_is_taken_where_its_kind_is_said():
    frame = pd.DataFrame({"since": ["2024-01-01", "soon", "later"] * 4, "best": ["a", "b", "b"] * 4})
    data = taciturn.load_dataset(frame, label="best")
    stream = taciturn.Stream(data, seed=0)
    (facts,) = describe(data)
    assert "features=Features(categorical=['since'])" in facts.becomes
    with pytest.raises(InvalidContext, match="'since'.*date"):
        taciturn.evaluate(taciturn.LinUCB(arms=data.arms, seed=0), stream)
    said = taciturn.LinUCB(arms=data.arms, seed=0, features=taciturn.Features(categorical=["since"]))
    assert len(taciturn.evaluate(said, stream).correct) == 10


def test_contexts_that_are_no_matrix_and_cannot_become_one_are_refused_where_one_is_needed():
    data = Dataset("d", MAPPINGS, Y, ["l", "r"])
    with pytest.raises(InvalidData, match="d: these contexts are not a matrix; load_dataset"):
        taciturn.Stream(data, missing="context:0.5")


@pytest.mark.parametrize("missing", ["mcar:0.5", "context:0.5", "reward:0.5"])
def test_an_agent_learns_from_a_table_under_every_mechanism(missing):
    data = pickle.loads(pickle.dumps(taciturn.load_dataset(flags_and_numbers(), label="best")))  # noqa: S301 - as workers get it
    agent = taciturn.LinUCB(arms=data.arms, seed=0)
    trace = taciturn.evaluate(agent, taciturn.Stream(data, missing=missing, seed=0))
    assert len(trace.correct) == 38


def test_a_dense_file_and_its_sparse_twin_are_decided_alike():
    traces = []
    for contexts in (MATRIX, sp.csr_matrix(MATRIX)):
        data = Dataset("d", contexts, Y, ["l", "r"])
        traces.append(taciturn.evaluate(taciturn.LinUCB(arms=data.arms, seed=0), taciturn.Stream(data, 0.5, seed=1)))
    np.testing.assert_array_equal(traces[0].choices, traces[1].choices)
