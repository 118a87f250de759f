"""Files and frames of words, blanks, flags, dates and numbers: every cell is what it looks like."""

import csv
import datetime as dt
import gzip
import io
import re
import subprocess
import sys
import tracemalloc
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

import taciturn
from taciturn.datasets import delimited
from taciturn.datasets.files import MISSING
from taciturn.errors import InvalidData, TaciturnError

when = dt.datetime.fromisoformat
HEADER = ["age", "country", "vip", "since", "note", "best"]
ROWS = [
    {"age": 41.5, "country": "DE", "vip": True, "since": when("2024-02-29 00:00:00"), "note": "parcel, late; again"},
    {"age": None, "country": "Ö|2", "vip": False, "since": None, "note": 'he said "no"\nand left'},
    {"age": -3.0, "country": None, "vip": None, "since": when("2025-01-02 03:04:05"), "note": None},
]
LABELS = ["refund", "human", "refund"]


def cells_of(row, missing, decimal="."):
    texts = ["" if value is None else str(value) for value in row.values()]
    texts[0] = texts[0].replace(".", decimal)
    return [missing if value is None else text for text, value in zip(texts, row.values(), strict=True)]


def text_of(rows, labels, separator=",", quoting=csv.QUOTE_MINIMAL, missing="", decimal="."):
    """Return a table as the text of a file."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=separator, quoting=quoting)
    writer.writerow(HEADER)
    writer.writerows([*cells_of(row, missing, decimal), label] for row, label in zip(rows, labels, strict=True))
    return file.getvalue()


def save(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


DIALECTS = [
    *product([",", ";", "\t", "|"], [csv.QUOTE_MINIMAL, csv.QUOTE_ALL], ["mine.csv", "mine.tsv.gz"], ["", "NA", "?"]),
    *product([";"], [csv.QUOTE_MINIMAL], ["mine.txt"], sorted(MISSING)),
]


@pytest.mark.parametrize(("separator", "quoting", "name", "missing"), DIALECTS)
def test_every_dialect_gives_the_same_contexts(tmp_path, separator, quoting, name, missing):
    for decimal in ".," if separator == ";" else ".":
        text = text_of(ROWS, LABELS, separator, quoting, missing, decimal)
        data = taciturn.load_dataset(save(tmp_path / name, text.encode()), label="best")
        assert list(data.contexts) == ROWS
        assert [data.arms[k] for k in data.y] == LABELS
        assert (data.name, data.source, data.features) == ("mine", name, HEADER[:-1])


def test_the_documentation_lists_the_cells_that_are_missing():
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| missing, in a column of any kind \|(.*)", page, re.MULTILINE)
    assert {"", *re.findall(r"`([^`]+)`", row)} == MISSING


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_that_spreadsheets_write_are_read(tmp_path, encoding):
    path = save(tmp_path / "mine.csv", text_of(ROWS, LABELS, ";").encode(encoding))
    assert list(taciturn.load_dataset(path, label="best").contexts) == ROWS


def test_spaces_after_separators_and_lines_of_old_computers_are_read(tmp_path):
    text = 'note, amount, best\r"late, again", 2, x\rno, 3, y\r'
    data = taciturn.load_dataset(save(tmp_path / "mine.csv", text.encode()), label="best")
    assert list(data.contexts) == [{"note": "late, again", "amount": 2.0}, {"note": "no", "amount": 3.0}]


def test_a_text_with_more_of_another_separator_is_split_where_its_label_is(tmp_path):
    text = "note;best\nwell, yes, no, maybe;x\na, b, c, d;y\n"
    data = taciturn.load_dataset(save(tmp_path / "mine.csv", text.encode()), label="best")
    assert data.contexts == ["well, yes, no, maybe", "a, b, c, d"]
    both = taciturn.load_dataset(save(tmp_path / "both.csv", b"x,y;best\n1,5;u\n2,5;v\n"), label="best")
    assert (both.features, both.contexts.tolist(), both.arms) == (["x,y"], [[1.5], [2.5]], ["u", "v"])


def test_a_text_in_no_known_encoding_is_refused_in_one_line(tmp_path):
    path = save(tmp_path / "mine.csv", b"a,best\n\x81,x\n2,y\n")
    with pytest.raises(InvalidData, match="mine.csv: the text is neither UTF-8 nor Windows-1252; save it as UTF-8"):
        taciturn.load_dataset(path, label="best")


COLUMNS = {
    "whole numbers": (["1", "-2", "+3"], [1.0, -2.0, 3.0]),
    "an id": (["1001", "1002", "1003"], [1001.0, 1002.0, 1003.0]),
    "an id of 18 digits": (["100000000000000001", "1", "2"], ["100000000000000001", "1", "2"]),
    "numbers and a word": (["1", "two", "3"], ["1", "two", "3"]),
    "leading zeros and a word": (["007", "x", "1.50"], ["007", "x", "1.50"]),
    "underscores": (["1_000", "2", "3"], ["1_000", "2", "3"]),
    "a quoted decimal comma": (['"1,5"', "2", "3"], ["1,5", "2", "3"]),
    "flags": (["True", "false", "TRUE"], [True, False, True]),
    "flags and a number": (["True", "0", "1"], ["True", "0", "1"]),
    "days": (["2024-01-31", "2023-12-01", "NaN"], [when("2024-01-31 00:00:00"), when("2023-12-01 00:00:00"), None]),
    "moments": (
        ["2024-01-31T10:30", "2023-12-01 00:00:01", ""],
        [when("2024-01-31 10:30:00"), when("2023-12-01 00:00:01"), None],
    ),
    "a day that is none": (["2024-02-30", "2023-12-01", ""], ["2024-02-30", "2023-12-01", None]),
    "spaces around": (["  1", "2 ", " ? "], [1.0, 2.0, None]),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_is_of_the_kind_that_all_its_cells_are(tmp_path, case):
    cells, values = COLUMNS[case]
    rows = "".join(f"{cell},w,{label}\n" for cell, label in zip(cells, "xyx", strict=True))
    data = taciturn.load_dataset(save(tmp_path / "d.csv", f"a,word,best\n{rows}".encode()), label="best")
    got = [context["a"] for context in data.contexts]
    assert got == values
    assert list(map(type, got)) == list(map(type, values))


def test_numbers_alone_are_an_array_and_a_text_alone_is_text(tmp_path):
    numbers = taciturn.load_dataset(save(tmp_path / "n.csv", b"a;b;best\n1,5;2;x\n3;4;y\n"), label="best")
    assert isinstance(numbers.contexts, np.ndarray)
    np.testing.assert_array_equal(numbers.contexts, [[1.5, 2], [3, 4]])
    texts = taciturn.load_dataset(save(tmp_path / "t.csv", b'note,best\n"late, again",x\nno parcel,y\n'), label="best")
    assert texts.contexts == ["late, again", "no parcel"]


def test_a_column_without_any_value_is_left_out(tmp_path):
    data = taciturn.load_dataset(save(tmp_path / "d.csv", b"a,,best\nu,,x\nv,NA,y\n"), label="best")
    assert list(data.contexts) == [{"a": "u"}, {"a": "v"}]


def test_a_kind_is_decided_over_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "PIECE_CELLS", 14)
    cells = ["1"] * 20
    cells[-1] = "one"
    rows = "".join(f"{cell},{'xy'[i % 2]}\n" for i, cell in enumerate(cells))
    data = taciturn.load_dataset(save(tmp_path / "d.csv", f"a,best\n{rows}".encode()), label="best")
    assert (data.contexts[0], data.contexts[len(cells) - 1]) == ({"a": "1"}, {"a": "one"})


numbers = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.6g}")))
words = st.sampled_from(["DE", "a b", "Ü", 'x"y', "p,q", "r;s", "t|u", "line\nbreak", "NAN1", "1x"])
flags = st.booleans()


@settings(max_examples=60)
@given(
    columns=st.lists(st.sampled_from([numbers, words, flags]), min_size=1, max_size=4).flatmap(
        lambda kinds: st.tuples(*(st.lists(st.none() | kind, min_size=6, max_size=6) for kind in kinds))
    ),
    separator=st.sampled_from(",;\t|"),
    missing=st.sampled_from(["", "NA", "null", "?"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_a_generated_table_reads_as_pandas_reads_it(tmp_path_factory, columns, separator, missing, quoting):
    names = [f"c{i}" for i in range(len(columns))]
    path = tmp_path_factory.mktemp("generated") / "d.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, quoting=quoting)
        writer.writerow([*names, "best"])
        for i, cells in enumerate(zip(*columns, strict=True)):
            writer.writerow([*(missing if cell is None else cell for cell in cells), "xy"[i % 2]])
    data = taciturn.load_dataset(path, label="best")
    frame = pd.read_csv(path, sep=separator, na_values=sorted(MISSING), keep_default_na=False)
    expected = taciturn.load_dataset(frame, label="best")
    assert type(data.contexts) is type(expected.contexts)
    if isinstance(data.contexts, np.ndarray):
        np.testing.assert_array_equal(data.contexts, expected.contexts)
    else:
        assert list(data.contexts) == list(expected.contexts)
    assert [data.arms[k] for k in data.y] == ["x", "y"] * 3


FRAME = {
    "age": [41.5, None, -3.0],
    "count": [1, 2, 3],
    "country": ["DE", None, "FR"],
    "vip": [True, False, None],
    "since": [when("2024-02-29 00:00:00"), None, when("2025-01-02 03:04:05")],
    "waited": [dt.timedelta(minutes=1), None, dt.timedelta(days=1)],
    "tags": [["web", "new"], ["app"], []],
    "place": [[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]],
    "best": LABELS,
}
FRAMES = {
    "pandas": pd.DataFrame,
    "pandas with NA": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("package", FRAMES)
def test_frames_of_every_package_give_the_same_contexts(package):
    columns = FRAME | {"waited": [60.0, None, 86400.0]}
    expected = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    data = taciturn.load_dataset(FRAMES[package](FRAME), label="best")
    assert list(data.contexts) == [{name: row[name] for name in row if name != "best"} for row in expected]
    assert [data.arms[k] for k in data.y] == LABELS
    assert data.name == "frame"
    assert data.source.startswith(package[:6])


@pytest.mark.parametrize("labels", [LABELS, np.array(LABELS), pd.Series(LABELS), pl.Series(LABELS), pa.array(LABELS)])
def test_labels_of_a_frame_may_be_given_beside_it(labels):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})
    data = taciturn.load_dataset(frame, label=labels, name="mine", scaling="l2")
    np.testing.assert_allclose((data.contexts**2).sum(axis=1), 1.0)
    assert ([data.arms[k] for k in data.y], data.name, data.scaling) == (LABELS, "mine", "l2")


def test_a_parquet_file_is_its_table(tmp_path):
    pq.write_table(pa.table(FRAME), tmp_path / "mine.parquet")
    data = taciturn.load_dataset(tmp_path / "mine.parquet", label="best")
    assert data.fingerprint == taciturn.load_dataset(pa.table(FRAME), label="best").fingerprint
    assert (data.name, data.source) == ("mine", "mine.parquet")
    whole = (tmp_path / "mine.parquet").read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.parquet").write_bytes(whole[:length])
        with pytest.raises(InvalidData, match="cut.parquet: damaged") as error:
            taciturn.load_dataset(tmp_path / "cut.parquet", label="best")
        assert "\n" not in str(error.value)


def test_without_pyarrow_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "mine.parquet").touch()
    with pytest.raises(TaciturnError, match=r"pyarrow; pip install '.\[parquet\]'"):
        taciturn.load_dataset(tmp_path / "mine.parquet", label="best")


BAD_FRAMES = {
    "no label said": (pd.DataFrame(FRAME), {}, "frame: give the column that holds the label"),
    "no such column": (pl.DataFrame(FRAME), {"label": "y"}, "frame: no column 'y' .*age, count"),
    "a missing label": (pd.DataFrame({"a": [1, 2], "y": ["x", None]}), {"label": "y"}, "label of row 1 is"),
    "too few labels": (pd.DataFrame({"a": [1, 2]}), {"label": ["x"]}, "frame: .*2 rows of features|at least 2 arms"),
    "equal names": (pd.DataFrame([[1, 2, 3]], columns=["a", "a", "y"]), {"label": "y"}, "two columns are called 'a'"),
    "bytes": (pd.DataFrame({"a": [b"x", b"y"], "y": [0, 1]}), {"label": "y"}, "row 0, column 'a' holds a bytes"),
    "infinity": (pl.DataFrame({"a": [1.0, float("inf")], "y": [0, 1]}), {"label": "y"}, "row 1, column 'a' holds inf"),
    "mixed lists": (pd.DataFrame({"a": [["x", 1], [2]], "y": [0, 1]}), {"label": "y"}, "lists of words or of numbers"),
    "no rows": (pa.table({"a": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}), {"label": "y"}, "no rows"),
    "not collected": (pl.LazyFrame({"a": [1], "y": [0]}), {"label": "y"}, "collect it first"),
    "another type": (3.5, {"label": "y"}, "a name, a file or a frame of pandas, polars or pyarrow, not 3.5"),
    "rows of words": (
        pd.DataFrame({"a": ["u", "v"], "y": [0, 1]}),
        {"label": "y", "scaling": "l1"},
        "column 'a' of kind",
    ),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_bad_frames_are_refused_in_one_line(case):
    frame, options, message = BAD_FRAMES[case]
    with pytest.raises(TaciturnError, match=message) as error:
        taciturn.load_dataset(frame, **options)
    assert "\n" not in str(error.value)


def test_reading_a_file_imports_no_package_for_frames(tmp_path):
    save(tmp_path / "mine.csv", text_of(ROWS, LABELS).encode())
    code = "import sys, taciturn; taciturn.load_dataset('mine.csv', label='best'); "
    code += "print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("ending", ["svm", "svm.gz"])
def test_svmlight_indices_from_0_and_from_1_are_told_apart(tmp_path, zero_based, ending):
    X = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.5]])
    file = io.BytesIO()
    dump_svmlight_file(X, [1, 2], file, zero_based=zero_based)
    data = taciturn.load_dataset(save(tmp_path / f"d.{ending}", file.getvalue()), scaling="none")
    np.testing.assert_array_equal(data.X.toarray(), X)
    assert sp.issparse(data.contexts)


REWARDS = np.array([[0.2, 0.9], [1.0, 0.0], [0.5, 0.4]])


def test_an_archive_of_rewards_needs_no_labels(tmp_path):
    arrays = {"X": np.eye(3, 2), "rewards": REWARDS, "costs": 10 * REWARDS}
    np.savez(tmp_path / "d.npz", **arrays)
    data = taciturn.load_dataset(tmp_path / "d.npz")
    assert (data.arms, data.y.tolist()) == ([0, 1], [1, 0, 0])
    np.testing.assert_array_equal(data.rewards, REWARDS)
    np.testing.assert_array_equal(data.costs, 10 * REWARDS)
    for y in (["b", "a", "a"], [1, 0, 0]):
        np.savez(tmp_path / "named.npz", **arrays, arms=["a", "b"], y=y)
        named = taciturn.load_dataset(tmp_path / "named.npz")
        assert (named.arms, named.y.tolist()) == (["a", "b"], [1, 0, 0])
    np.savez(tmp_path / "other.npz", **arrays | {"rewards": REWARDS / 2})
    assert taciturn.load_dataset(tmp_path / "other.npz").fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": REWARDS * 2}, "rewards of row 0, arm 1 are 1.8; from 0 to 1"),
        ({"rewards": REWARDS[:2]}, "rows of features and labels|rewards have shape"),
        ({"rewards": REWARDS[:, 0]}, "rewards have shape"),
        ({"costs": REWARDS * np.nan}, "costs of row 0, arm 0 are nan"),
        ({"costs": REWARDS[:, :1]}, r"costs have shape \(3, 1\)"),
        ({"arms": ["a"]}, "at least 2 arms"),
        ({"arms": ["a", "b"], "y": ["a", "b", "c"]}, "'c' is not one of the arms a, b"),
    ],
)
def test_rewards_that_do_not_fit_are_refused(tmp_path, changes, message):
    np.savez(tmp_path / "d.npz", **{"X": np.eye(3, 2), "rewards": REWARDS} | changes)
    with pytest.raises(InvalidData, match=message):
        taciturn.load_dataset(tmp_path / "d.npz")


def test_the_fingerprint_covers_every_cell_and_the_columns_names(tmp_path):
    text = text_of(ROWS, LABELS)
    variants = [text, text.replace("41.5", "41.6"), text.replace("True", "False"), text.replace("vip", "member")]
    prints = [
        taciturn.load_dataset(save(tmp_path / "d.csv", variant.encode()), label="best").fingerprint
        for variant in [*variants, text_of(ROWS, LABELS, ";", missing="NA")]
    ]
    assert len(set(prints)) == len(variants)
    assert prints[-1] == prints[0], "the dialect does not matter"


def test_a_large_file_is_never_held_as_text(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "PIECE_CELLS", 3500)
    monkeypatch.setattr(delimited, "SAMPLE_SIZE", 2**16)
    rng = np.random.default_rng(0)
    rows = 12_000
    lines = [
        f"{','.join(f'{value:.12f}' for value in row)},{'xy'[i % 2]}\n" for i, row in enumerate(rng.random((rows, 6)))
    ]
    save(tmp_path / "d.csv", ("a,b,c,d,e,f,best\n" + "".join(lines)).encode())
    del lines
    tracemalloc.start()
    try:
        data = taciturn.load_dataset(tmp_path / "d.csv", label="best")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data.contexts.shape == (rows, 6)
    as_text = rows * 6 * sys.getsizeof("0.123456789012")
    assert peak < 0.7 * as_text, f"{peak} bytes at the peak; the cells as text alone are {as_text}"


def test_a_header_of_many_columns_is_read_whole(tmp_path):
    names = [f"a column with the number {i}" for i in range(3000)]
    rows = "".join(",".join([str(i)] * 3000) + f",{'xy'[i % 2]}\n" for i in range(3))
    data = taciturn.load_dataset(save(tmp_path / "d.csv", f"{','.join(names)},best\n{rows}".encode()), label="best")
    assert (data.contexts.shape, data.features) == ((3, 3000), names)
