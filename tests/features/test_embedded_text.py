"""An embedding whose columns are known is read at once, and as number by number."""

import pytest

from embed_kit import letter_counts
from taciturn import Features
from taciturn.errors import InvalidContext
from taciturn.features.encode import ContextReader
from taciturn.features.named import NamedReading

CONTEXTS = [
    {"note": "the parcel is late", "note[3]=x": "a"},
    {"note": "where is my parcel", "other": "another text of some words"},
    {"other": "only the other text", "note": "lost card"},
    {"note[2]": 5.0, "note": "a number has the name of an entry"},
    {"note": "a number has the name of an entry", "note[2]": 5.0},
    {"note": "parcel", "age": 3},
    {"note": ""},
    {"note": "the parcel is late"},
]


def readings(max_features):
    """What becomes of each context, one after the other: its row, its new names, or the error."""
    reader = ContextReader(Features(text=["note"], embed=letter_counts, max_features=max_features))
    found = []
    for context in CONTEXTS:
        try:
            reading = reader.read(context)
        except InvalidContext as error:
            found.append(str(error))
            continue
        reader.accept(reading)
        row, news = reading
        found.append((row.columns.tobytes(), row.values.tobytes(), news))
    return found


@pytest.mark.parametrize("max_features", [1000, 40, 20])
def test_an_embedding_is_read_as_number_by_number(max_features, monkeypatch):
    at_once = readings(max_features)
    monkeypatch.setattr(NamedReading, "_add_known_embedding", lambda *_: False)
    assert at_once == readings(max_features)


def test_an_embedding_of_another_length_is_refused():
    lengths = iter([3, 2, 4])
    reader = ContextReader(Features(text=["note"], embed=letter_counts))
    reader.embed = lambda _: letter_counts(["abcd"])[:, : next(lengths)]
    reader.accept(reader.read({"note": "first"}))
    for _ in range(2):
        with pytest.raises(InvalidContext, match="those before had another number"):
            reader.read({"note": "next"})


def test_known_columns_are_not_looked_up_one_by_one(monkeypatch):
    reader = ContextReader(Features(text=["note"], embed=letter_counts))
    reader.accept(reader.read({"note": "the parcel is late"}))
    monkeypatch.setattr(NamedReading, "_add_vector", lambda *_: pytest.fail("number by number"))
    row, _ = reader.read({"note": "where is my parcel"})
    assert len(row.columns) == 26
