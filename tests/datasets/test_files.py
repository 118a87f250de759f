"""Users' own files: formats, labels, scaling and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

import taciturn
from taciturn.datasets.files import arms_of, scale_rows
from taciturn.errors import InvalidData, TaciturnError, UnknownName

X = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [4.0, -4.0, 1.0]])
Y = np.array([5, 7, 5, 7])


def write(path, **arrays):
    np.savez(path, **arrays)
    return path


def write_text(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def csv_of(rows):
    return "a,b,c,label\n" + "\n".join(",".join(map(str, [*row, label])) for row, label in rows) + "\n"


def test_all_formats_give_the_same_data(tmp_path):
    csr = sp.csr_matrix(X)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": np.array(csr.shape)}
    dump_svmlight_file(X, Y, str(tmp_path / "d.svm"), zero_based=False)
    loaded = [
        taciturn.load_dataset(write(tmp_path / "dense.npz", X=X, y=Y), scaling="none"),
        taciturn.load_dataset(write(tmp_path / "parts.npz", y=Y, **parts), scaling="none"),
        taciturn.load_dataset(
            write_text(tmp_path / "d.csv", csv_of(zip(X, Y, strict=True))), scaling="none", label="label"
        ),
        taciturn.load_dataset(tmp_path / "d.svm", scaling="none"),
    ]
    for data in loaded:
        np.testing.assert_array_equal(data.X.toarray(), X)
        assert (data.arms, data.y.tolist(), data.edges) == (["5", "7"], [0, 1, 0, 1], None)
    assert len({data.fingerprint for data in loaded}) == 1
    assert loaded[2].features == ["a", "b", "c"]


def test_the_fingerprint_changes_with_features_labels_arms_and_edges(tmp_path):
    def fingerprint(**arrays):
        return taciturn.load_dataset(write(tmp_path / "d.npz", **arrays)).fingerprint

    other = X.copy()
    other[0, 0] = 1.5
    variants = [
        {"X": X, "y": Y},
        {"X": other, "y": Y},
        {"X": X, "y": Y[::-1]},
        {"X": X, "y": Y + 1},
        {"X": X, "y": Y, "edges": np.array([[0, 1]])},
    ]
    prints = [fingerprint(**arrays) for arrays in variants]
    assert len(set(prints)) == len(variants)
    assert prints[0] == fingerprint(X=X, y=Y)


def test_edges_are_undirected_unique_and_without_loops(tmp_path):
    edges = np.array([[0, 1], [1, 0], [2, 2], [3, 1]])
    from_npz = taciturn.load_dataset(write(tmp_path / "d.npz", X=X, y=Y, edges=edges))
    write_text(tmp_path / "edges.csv", "source,target\n0,1\n1 0\n2,2\n\n3,1\n")
    write_text(tmp_path / "d.csv", csv_of(zip(X, Y, strict=True)))
    from_csv = taciturn.load_dataset(tmp_path / "d.csv", label="label", edges=tmp_path / "edges.csv")
    for data in (from_npz, from_csv):
        assert data.edges.tolist() == [[0, 1], [1, 3]]


@pytest.mark.parametrize("scaling", ["l1", "l2"])
def test_rows_have_unit_norm_and_rows_of_zeros_stay_zero(scaling):
    norms = np.linalg.norm(scale_rows(sp.csr_matrix(X), scaling).toarray(), ord=int(scaling[1]), axis=1)
    np.testing.assert_allclose(norms, [1, 1, 0, 1])
    tiny = scale_rows(sp.csr_matrix([[1e-310, 1e-310], [1e14, 0.0]]), scaling).toarray()
    np.testing.assert_allclose(np.linalg.norm(tiny, ord=int(scaling[1]), axis=1), 1.0)


def test_unknown_scaling_is_refused():
    with pytest.raises(TaciturnError, match="'l1', 'l2' or 'none'"):
        scale_rows(sp.csr_matrix(X), "l3")


@given(st.lists(st.one_of(st.integers(-3, 12), st.sampled_from(["a", "b", "0", "01", "²", "--5"])), min_size=1))
def test_arms_are_the_labels_and_whole_numbers_only_where_they_are_indices(labels):
    arms, y = arms_of(labels)
    assert [str(arms[k]) for k in y] == [str(label) for label in labels]
    if all(isinstance(arm, int) for arm in arms):
        assert arms == list(range(len(arms))), "whole numbers are used only where they equal the index"


GOOD = csv_of(zip(X, Y, strict=True))
BAD_FILES = {
    "no label column": ("d.csv", GOOD, {"label": "target"}, "no column 'target' .*a, b, c, label"),
    "label not said": ("d.csv", GOOD, {}, "give the column that holds the label"),
    "infinite cell": ("d.csv", GOOD.replace("2.0", "inf"), {"label": "label"}, "d.csv: row 1, column 'b' holds inf"),
    "huge cell": ("d.csv", GOOD.replace("2.0", "-1e16"), {"label": "label"}, "row 1, column 'b' holds -1e.16"),
    "ragged": ("d.csv", GOOD + "1,2\n", {"label": "label"}, "row 4 has 2 cells; the header has 4"),
    "only a header": ("d.csv", "a,label\n", {"label": "label"}, "no rows"),
    "nothing": ("d.csv", "", {"label": "label"}, "no rows"),
    "only a label": ("d.csv", "label\nx\ny\n", {"label": "label"}, "no column beside the label"),
    "equal names": ("d.csv", "a,a,label\n1,2,x\n3,4,y\n", {"label": "label"}, "two columns are called 'a'"),
    "zero bytes": ("d.csv", "a,label\n1,x\0\n", {"label": "label"}, "zero bytes"),
    "no label in svmlight": ("d.svm", "# made\n1:0.5 2:1\n", {}, "begins with '1:0.5'; a label must come before"),
    "gzipped archive": ("d.npz.gz", "hello", {}, "unknown file ending '.npz.gz'"),
    "not gzipped": ("d.csv.gz", GOOD, {"label": "label"}, "damaged or truncated"),
    "row scaling of words": ("d.csv", GOOD.replace("2.0", "two"), {"label": "label", "scaling": "l1"}, "column 'b' of"),
    "row scaling of blanks": ("d.csv", GOOD.replace("2.0", ""), {"label": "label", "scaling": "l2"}, "missing values"),
    "label of a list": ("d.csv", GOOD, {"label": ["x", "y"]}, "the name of a column is"),
    "two missing labels": ("d.csv", "a,label\n1,x\n2,NA\n3,?\n4,y\n", {"label": "label"}, "row 1 is 'NA', and 1 more"),
    "one label": ("d.csv", "a,label\n1,x\n2,x\n", {"label": "label"}, "at least 2 arms"),
    "not svmlight": ("d.svm", "hello\n", {}, "svmlight"),
    "not an archive": ("d.npz", "hello", {}, "d.npz: damaged"),
    "empty label": ("d.csv", "a,label\n1,x\n2,\n3,y\n", {"label": "label"}, "label of row 1 is ''"),
    "label for svmlight": ("d.svm", "1 1:1\n", {"label": "y"}, "label first in every line"),
    "unknown ending": ("d.xlsx", "hello", {}, "unknown file ending '.xlsx'"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_text_files_are_refused_with_row_and_column(tmp_path, case):
    name, text, options, message = BAD_FILES[case]
    with pytest.raises(TaciturnError, match=message) as error:
        taciturn.load_dataset(write_text(tmp_path / name, text), **options)
    assert "\n" not in str(error.value)


BAD_ARRAYS = {
    "objects": ({"X": X, "y": np.array([1, "a", None, 2], dtype=object)}, "Python objects"),
    "NaN label": ({"X": X, "y": np.array([1.0, np.nan, 1.0, 2.0])}, "label of row 1 is 'nan'"),
    "labels in a column": ({"X": X, "y": Y[:, None]}, "labels have shape"),
    "one number for labels": ({"X": X, "y": np.array(1)}, "labels have shape"),
    "too large": ({"X": X * 1e16, "y": Y}, "at most 1e"),
    "no X": ({"y": Y}, "neither an array 'X' nor the CSR parts"),
    "no y": ({"X": X}, "no array 'y'"),
    "lengths differ": ({"X": X, "y": Y[:3]}, "4 rows of features and labels of shape"),
    "NaN": ({"X": np.array([[1.0, np.nan], [0.0, 1.0]]), "y": Y[:2]}, "row 0, column 1 holds nan"),
    "infinity": ({"X": np.array([[1.0, 0.0], [-np.inf, 1.0]]), "y": Y[:2]}, "row 1, column 0 holds -inf"),
    "text": ({"X": np.array([["a"], ["b"]]), "y": Y[:2]}, "numbers are needed"),
    "one dimension": ({"X": np.ones(4), "y": Y}, "shape"),
    "empty": ({"X": np.ones((0, 3)), "y": Y[:0]}, "at least one row and one column"),
    "edge to nowhere": (
        {"X": X, "y": Y, "edges": np.array([[0, 1], [1, 4]])},
        r"edge \[1, 4\] names a row that does not",
    ),
    "negative edge": ({"X": X, "y": Y, "edges": np.array([[-1, 1]])}, r"edge \[-1, 1\]"),
    "edges of another shape": ({"X": X, "y": Y, "edges": np.ones((2, 3), int)}, "pairs of row indices"),
    "broken CSR": (
        {
            "data": np.ones(2),
            "indices": np.array([0, 9]),
            "indptr": np.array([0, 1, 2]),
            "shape": np.array([2, 3]),
            "y": Y[:2],
        },
        "do not fit together",
    ),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays_are_refused(tmp_path, case):
    arrays, message = BAD_ARRAYS[case]
    with pytest.raises(InvalidData, match=message) as error:
        taciturn.load_dataset(write(tmp_path / "d.npz", **arrays))
    assert "\n" not in str(error.value)


def test_an_archive_truncated_anywhere_is_refused(tmp_path):
    whole = write(tmp_path / "d.npz", X=X, y=Y).read_bytes()
    for length in range(0, len(whole), 37):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        with pytest.raises(InvalidData):
            taciturn.load_dataset(tmp_path / "cut.npz")


def test_the_error_for_an_unknown_data_set_lists_the_known_ones(tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'cora'.*cnae9, cora, covertype, credit-g, digits, "):
        taciturn.load_dataset("corra")
    with pytest.raises(InvalidData, match="no file"):
        taciturn.load_dataset(tmp_path / "absent.npz")


def test_an_edge_list_with_text_is_refused_with_the_line(tmp_path):
    write_text(tmp_path / "d.csv", GOOD)
    write_text(tmp_path / "edges.txt", "0 1\n1 two\n")
    with pytest.raises(InvalidData, match="line 2"):
        taciturn.load_dataset(tmp_path / "d.csv", label="label", edges=tmp_path / "edges.txt")


@pytest.mark.parametrize("text", ["0 5.0\n", "0 1 7\n", "² 1\n", "--2 1\n", "0 " + "9" * 30 + "\n"])
def test_a_first_line_with_digits_is_not_taken_for_a_header(tmp_path, text):
    write_text(tmp_path / "d.csv", GOOD)
    write_text(tmp_path / "edges.txt", text)
    with pytest.raises(InvalidData, match="line 1"):
        taciturn.load_dataset(tmp_path / "d.csv", label="label", edges=tmp_path / "edges.txt")


def test_a_binary_or_missing_edge_file_is_refused(tmp_path):
    write_text(tmp_path / "d.csv", GOOD)
    (tmp_path / "edges.bin").write_bytes(b"\xff\xfe\x00\x80")
    for name in ("edges.bin", "absent.txt"):
        with pytest.raises(InvalidData, match="cannot be read as a list of edges"):
            taciturn.load_dataset(tmp_path / "d.csv", label="label", edges=tmp_path / name)


def test_label_and_edges_are_refused_for_a_named_data_set():
    with pytest.raises(InvalidData, match="for your own files"):
        taciturn.load_dataset("digits", label="y")


def test_file_endings_are_case_insensitive(tmp_path):
    assert taciturn.load_dataset(write_text(tmp_path / "D.CSV", GOOD), label="label").name == "D"


def test_rewards_of_no_arm_are_refused(tmp_path):
    np.savez(tmp_path / "none.npz", X=np.ones((6, 2)), rewards=np.ones((6, 0)))
    with pytest.raises(InvalidData, match="one for each row and arm is needed"):
        taciturn.load_dataset(tmp_path / "none.npz")
