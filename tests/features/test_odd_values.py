"""Values that a new user gives by accident or by guess: read as they look, or refused in a line, and always alike."""

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import taciturn
from taciturn.errors import InvalidContext, TaciturnError
from taciturn.features.embed import embedder
from taciturn.features.encode import ContextReader
from taciturn.features.schema import Features


def named(context, features=None, times=2):
    """The entries of a context by the names of features; the same however often it comes."""
    reader, found = ContextReader(features), []
    for _ in range(times):
        reading = reader.read(context)
        reader.accept(reading)
        names = list(reader.names)
        found.append({names[column]: value for column, value in zip(*reading[0], strict=True)})
    assert all(entries == found[0] for entries in found)
    return found[0]


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        (np.array(3.0), {"x": 3.0}),
        (np.array([[1.0, 2.0]]), {"x[0]": 1.0, "x[1]": 2.0}),
        ([1.0, None, 2.5], {"x[0]": 1.0, "x[1]": 0.0, "x[2]": 2.5}),
        ([1.0, float("nan")], {"x[0]": 1.0, "x[1]": 0.0}),
        (["web", "web"], {"x=web": 2.0}),
        ("2024-13-45", {"x=2024-13-45": 1.0}),
        (["a", 3], {"x=a": 1.0, "x=3": 1.0}),
    ],
)
def test_a_value_is_what_it_looks_like(value, entries):
    assert named({"x": value}) == entries


@pytest.mark.parametrize(
    "value", [None, [], (), np.zeros(0), np.timedelta64("NaT", "s"), Decimal("NaN"), "", float("nan")]
)
@pytest.mark.parametrize("first", [[1.0, 2.0], ["a"], 5, "word", "two words", dt.date(2024, 5, 1)])
def test_what_is_missing_settles_nothing_and_breaks_nothing(value, first):
    reader = ContextReader(scaled=True)
    for context in ({"x": value, "n": 1}, {"x": first, "n": 1}, {"x": value, "n": 1}, {"x": first, "n": 1}):
        reader.accept(reader.read(context))
    assert reader.kinds.keys() == {"x", "n"}


@pytest.mark.parametrize(
    "context",
    [
        {"x": np.zeros((2, 3))},
        {"x": [[1, 2], [3]]},
        {"a.b": 1, "a": {"b": 2}},
        {"a": {"b": 2}, "a.b": 1},
        {"a": "x", "a=x": 5},
        {"a=x": 5, "a": "x"},
        {"x": {1: 1, "1": 2}},
        {"d": "2024-01-01", "d.day": 3},
    ],
)
def test_what_cannot_be_told_apart_is_refused_each_time(context):
    reader = ContextReader()
    for _ in range(2):
        with pytest.raises(InvalidContext):
            reader.read(context)
    reader.accept(reader.read({"a": "x", "other": 1}))
    with pytest.raises(InvalidContext):
        reader.read(context)


def test_a_number_and_a_category_never_share_a_column():
    reader = ContextReader()
    reader.accept(reader.read({"a=x": 5}))
    reader.accept(reader.read({"a": "y"}))
    with pytest.raises(InvalidContext, match="a=x"):
        reader.read({"a": "x"})
    with pytest.raises(InvalidContext, match="a=y"):
        reader.read({"a=y": 1})


def test_full_columns_are_not_shared_with_a_number_of_the_same_context():
    for _ in range(2):
        with pytest.raises(InvalidContext, match="one too many"):
            ContextReader(Features(max_features=2)).read({"a": 5, "b": 7, "c": "x"})


def test_vectors_of_another_length_are_refused():
    reader = ContextReader()
    reader.accept(reader.read({"v": [1, 2, 3]}))
    for other in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(InvalidContext, match="another number"):
            reader.read({"v": other})


def test_what_is_ignored_is_ignored_however_it_comes():
    features = Features(ignore=["customer"])
    assert named({"customer": {"email": "a@b.c"}, "n": 1}, features) == {"n": 1.0}
    assert named({"customer": "a@b.c", "n": 1}, features) == {"n": 1.0}
    with pytest.raises(InvalidContext, match="mapping"):
        named({"t": {"a": 5}}, Features(categorical=["t"]))


def test_what_is_said_of_a_column_holds_for_what_can_be_it():
    assert named({"t": 1984}, Features(text=["t"])) == {"t:1984": 1.0}
    assert named({"n": "NA", "m": 1}, Features(numeric=["n"])) == {"n?": 1.0, "m": 1.0}
    for other in (object(), b"x", ["a"]):
        with pytest.raises(InvalidContext):
            named({"t": other}, Features(categorical=["t"]))


@pytest.mark.parametrize("row", [(3, "y"), [3, "y"]])
def test_a_row_without_names_is_refused_where_there_are_names(row):
    reader = ContextReader()
    reader.accept(reader.read({"age": 1, "c": "x"}))
    with pytest.raises(InvalidContext, match="have names"):
        reader.read(row)


def test_a_frame_whose_columns_are_numbered_has_its_label_by_number():
    data = taciturn.load_dataset(pd.DataFrame([[1, "p"], [2, "q"], [3, "p"]]), label=1)
    assert sorted(data.arms) == ["p", "q"]


def test_a_file_from_somebody_else_imports_and_calls_nothing(tmp_path):
    agent = taciturn.LinUCB(arms=2, features=Features(embed="subprocess:getoutput", text=["t"]))
    agent.save(tmp_path / "evil")
    script = (
        "import sys, taciturn\n"
        "agent = taciturn.load(sys.argv[1])\n"
        "try:\n"
        "    agent.decide({'t': f'touch {sys.argv[2]}'})\n"
        "except taciturn.TaciturnError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", script, tmp_path / "evil", tmp_path / "called"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "would be imported" in done.stdout
    assert not (tmp_path / "called").exists()


def test_a_function_that_was_given_or_allowed_once_is_used_by_its_name():
    name = f"{length_and_one.__module__}:{length_and_one.__qualname__}"
    with pytest.raises(TaciturnError, match="would be imported"):
        embedder(name)
    embedder(length_and_one)
    assert embedder(name).embed(["abc"]).shape == (1, 2)


def length_and_one(texts):
    return [[len(text), 1.0] for text in texts]


def test_the_client_refuses_half_a_character_in_one_line():
    from taciturn.client.connection import encode

    with pytest.raises(InvalidContext, match="half a character"):
        encode({"context": {"c": "\ud800"}})


@pytest.mark.parametrize("context", [{"n": 10**400}, {"n": [10**5000]}, {"n": {"m": 10**5000}}, [10**400, 1.0]])
def test_a_whole_number_beyond_a_float_is_refused_in_one_line(context):
    with pytest.raises(InvalidContext) as error:
        taciturn.make("linucb", arms=2).decide(context)
    assert "\n" not in str(error.value)
