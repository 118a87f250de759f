"""Streams: order, labelled start, missing and delayed rewards."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.contracts import Dataset
from taciturn.errors import InvalidData, TaciturnError, UnknownArm, UnknownName
from taciturn.experiments.checks import toy_data
from taciturn.streams.stream import Stream

mechanisms = st.sampled_from(["mcar", "context", "reward"])


def responses(stream, arm):
    return [stream.respond(round, arm) for round in stream]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_are_matrices_of_their_own_that_scipy_can_work_on(kind):
    data = toy_data()
    X = sp.csr_array(data.X)
    X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    stream = Stream(Dataset("wide indices", X, data.y, data.arms), missing=0.5, seed=1)
    for round in stream:
        row, expected = round.context, data.X[stream.order[round.position]].toarray()
        assert row.indices.dtype == row.indptr.dtype == np.int32
        row.data[:1] = 0.0
        row.eliminate_zeros()
        row.check_format()
        assert row.shape == expected.shape
    for round in stream:
        expected = data.X[stream.order[round.position]].toarray()
        np.testing.assert_array_equal(round.context.toarray(), expected)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), rate=st.floats(0, 1), mechanism=mechanisms, edges=st.booleans())
def test_a_stream_is_a_reproducible_permutation_of_its_data_set(seed, rate, mechanism, edges):
    data = toy_data(edges=edges)
    stream = Stream(data, missing=f"{mechanism}:{rate}", seed=seed)
    rounds = list(stream)
    assert sorted(stream.order) == list(range(len(data.y)))
    assert len(stream) == len(rounds) == len(data.y) - 3
    assert stream.start.arms == data.arms
    np.testing.assert_array_equal(data.y[stream.order[:3]], [0, 1, 2])
    for round in rounds[:5]:
        row = stream.order[round.position]
        np.testing.assert_array_equal(round.context.toarray(), data.X[row].toarray())
        assert stream.is_right(round, data.arms[data.y[row]])
        assert stream.respond(round, data.arms[data.y[row]]) in (1.0, None)
        assert stream.respond(round, data.arms[data.y[row] - 1]) in (0.0, None)
    again = Stream(data, missing=f"{mechanism}:{rate}", seed=seed)
    assert responses(stream, "left") == responses(stream, "left") == responses(again, "left")


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_every_edge_is_given_once_with_its_later_end(seed):
    data = toy_data(edges=True)
    stream = Stream(data, seed=seed)
    pairs = [(int(a), int(b)) for a, b in stream.start.edges]
    for round in stream:
        assert all(near < round.position for near in round.neighbors)
        pairs += [(near, round.position) for near in round.neighbors]
    rows = {frozenset(stream.order[list(pair)].tolist()) for pair in pairs}
    assert rows == {frozenset(edge) for edge in data.edges.tolist()}
    assert len(pairs) == len(rows)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), rate=st.floats(0, 1))
def test_mcar_has_exactly_the_rate_and_the_order_does_not_depend_on_the_mechanism(seed, rate):
    stream = Stream(toy_data(), missing=rate, seed=seed)
    assert responses(stream, "left").count(None) == round(rate * len(stream))
    np.testing.assert_array_equal(stream.order, Stream(toy_data(), missing="context:0.3", seed=seed).order)


@pytest.mark.parametrize("mechanism", ["context", "reward"])
def test_other_mechanisms_have_the_rate_and_depend_on_context_or_reward(mechanism):
    data = toy_data(3000)
    stream = Stream(data, missing=f"{mechanism}:0.5", seed=0)
    truth = data.y[stream.order[3:]]
    observed = np.array([responses(stream, arm) for arm in stream.arms], dtype=object) != None  # noqa: E711 - elementwise
    steps = np.arange(len(truth))
    right, wrong = observed[truth, steps], observed[truth - 1, steps]
    if mechanism == "reward":
        assert abs(right.mean() - 0.75) < 0.03
        assert abs(wrong.mean() - 0.25) < 0.03
    else:
        np.testing.assert_array_equal(right, wrong)
        assert abs(right.mean() - 0.5) < 0.03
        by_kind = [right[truth == k].mean() for k in range(3)]
        assert max(by_kind) - min(by_kind) > 0.1, "silence depends on the context"


@pytest.mark.parametrize("missing", [-0.1, 1.1, "mcar:2", "context:", "half", None, float("nan")])
def test_a_rate_outside_0_to_1_is_refused(missing):
    with pytest.raises(TaciturnError, match="rate from 0 to 1"):
        Stream(toy_data(), missing=missing)


def test_bad_mechanism_seed_and_arm_are_refused():
    with pytest.raises(UnknownName, match="mcar"):
        Stream(toy_data(), missing="contxt:0.5")
    with pytest.raises(TaciturnError, match="seed"):
        Stream(toy_data(), seed=-1)
    stream = Stream(toy_data())
    with pytest.raises(UnknownArm, match="left, middle, right"):
        stream.respond(next(iter(stream)), "up")


def test_an_arm_without_rows_is_refused():
    empty = Dataset("d", sp.csr_matrix(np.eye(3)), np.array([0, 0, 1]), ["a", "b", "c"])
    with pytest.raises(InvalidData, match="'c'"):
        Stream(empty)
    with pytest.raises(InvalidData, match="no rows are left"):
        Stream(Dataset("d", sp.csr_matrix(np.eye(2)), np.array([0, 1]), ["a", "b"]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ["a"]}, "at least 2 arms"),
        ({"y": [0, 1]}, "labels of shape"),
        ({"y": np.array([0, 1, 2])}, "indices of the 2 arms"),
        ({"y": ["a", "b", "a"]}, "indices"),
        ({"edges": [[0, 3]]}, "does not exist"),
    ],
)
def test_a_data_set_with_inconsistent_parts_is_refused(changes, message):
    parts = {"name": "d", "X": sp.csr_matrix(np.eye(3)), "y": [0, 1, 0], "arms": ["a", "b"]}
    with pytest.raises(InvalidData, match=message):
        Dataset(**{**parts, **changes})


def test_the_best_constant_arm_is_counted_over_rounds_only():
    data = Dataset("d", sp.csr_matrix(np.eye(5)), [0, 1, 1, 1, 0], ["a", "b"])
    arm, share = Stream(data).best_constant_arm
    assert (arm, share) == ("b", pytest.approx(2 / 3))


@pytest.mark.parametrize(("delay", "mean"), [(0, 0), (5, 5), ("geometric:20", 20), ("uniform:8", 8), ("half:20", 10)])
def test_delays_have_the_given_mean_and_are_reproducible(delay, mean):
    stream = Stream(toy_data(3000), seed=0, delay=delay)
    delays = [stream.delay(round) for round in stream]
    assert min(delays) >= 0
    assert abs(np.mean(delays) - mean) < 0.1 * mean + 1e-9
    assert delays == [stream.delay(round) for round in Stream(toy_data(3000), seed=0, delay=delay)]


@pytest.mark.parametrize("delay", [-1, "geometric:-2", "later:3", "geometric:", None, float("nan")])
def test_an_invalid_delay_is_refused(delay):
    with pytest.raises(TaciturnError, match="delay"):
        Stream(toy_data(), delay=delay)


def test_a_stream_with_fewer_steps_is_a_prefix_of_the_longer_one():
    data = toy_data(edges=True)
    long, short = Stream(data, seed=3), Stream(data, seed=3, steps=20)
    assert len(short) == 20
    np.testing.assert_array_equal(short.order, long.order[:23])
    assert [round.neighbors for round in short] == [round.neighbors for round in long][:20]


@pytest.mark.parametrize("name", ["missing", "delay"])
@pytest.mark.parametrize("truth", [True, False])
def test_a_truth_value_is_no_rate(name, truth):
    with pytest.raises(TaciturnError, match=f"{name}={truth} is not allowed"):
        Stream(toy_data(), **{name: truth})
