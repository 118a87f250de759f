"""Reading a user's own file: .npz, .csv or .svm, with an optional list of edges."""

import csv
import hashlib
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tacit.contracts import Arm, Dataset, InvalidData, TacitError
from tacit.registry import unknown_name


class Raw(NamedTuple):
    """What a file holds, before it is checked and scaled: features, labels as they stand there, edges or None."""

    X: Any
    labels: Any
    edges: Any = None
    features: list[str] | None = None


def read_npz(path: Path, label: str | None) -> Raw:
    """Arrays `X` (or CSR parts `data`, `indices`, `indptr`, `shape`), `y` (or `label`) and optionally `edges`."""
    target = label or "y"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise InvalidData(f"{path.name}: holds arrays of Python objects; only numbers and text are read") from None
        raise InvalidData(f"{path.name}: {error}") from None
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidData(f"{path.name}: damaged or truncated archive ({error})") from None
    if target not in arrays:
        raise InvalidData(f"{path.name}: no array {target!r} with the labels (there are: {', '.join(sorted(arrays))})")
    parts = ("data", "indices", "indptr", "shape")
    if "X" in arrays:
        X = arrays["X"]
    elif all(part in arrays for part in parts):
        data, indices, indptr, shape = (arrays[part] for part in parts)
        try:
            X = sp.csr_matrix((data, indices, indptr), shape=tuple(int(size) for size in shape))
            X.check_format(full_check=True)
        except ValueError as error:
            raise InvalidData(f"{path.name}: the CSR parts do not fit together ({error})") from None
    else:
        raise InvalidData(f"{path.name}: neither an array 'X' nor the CSR parts {', '.join(parts)}")
    return Raw(X, arrays[target], arrays.get("edges"))


def read_csv(path: Path, label: str | None) -> Raw:
    """A header, one row an observation, numbers in every column but the label's."""
    if label is None:
        raise InvalidData(f"{path.name}: say which column holds the label (label=… or --label)")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidData(f"{path.name}: not a text file of comma-separated values ({error})") from None
    if len(rows) < 2:
        raise InvalidData(f"{path.name}: no rows below the header")
    header = [name.strip() for name in rows[0]]
    if label not in header:
        raise InvalidData(f"{path.name}: no column {label!r} (there are: {', '.join(header[:20])})")
    at = header.index(label)
    values = np.empty((len(rows) - 1, len(header) - 1))
    for i, row in enumerate(rows[1:]):
        if len(row) != len(header):
            raise InvalidData(f"{path.name}: row {i + 1} has {len(row)} cells; the header has {len(header)}")
        values[i] = [_number(path, cell, i + 1, header[c]) for c, cell in enumerate(row) if c != at]
    return Raw(values, [row[at].strip() for row in rows[1:]], None, header[:at] + header[at + 1 :])


def _number(path: Path, cell: str, row: int, column: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise InvalidData(f"{path.name}: row {row}, column {column!r} holds {cell!r}; a finite number is needed")
    return value


def read_svm(path: Path, _: str | None) -> Raw:
    """The svmlight format: ``label index:value …`` a line, indices from 1."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - slow to import, and only this format needs it

    try:
        X, y = load_svmlight_file(str(path), zero_based=False)
    except (ValueError, OSError, OverflowError) as error:
        raise InvalidData(f"{path.name}: not in the svmlight format ({error})") from None
    return Raw(X, y)


READERS = {".npz": read_npz, ".csv": read_csv, ".svm": read_svm}


def read_file(path: Path, label: str | None = None) -> Raw:
    """Read a file by its ending."""
    if path.suffix not in READERS:
        raise unknown_name("file ending", path.suffix, READERS)
    return READERS[path.suffix](path, label)


def read_edges(path: Path) -> NDArray[np.int64]:
    """Pairs of row numbers, from 0, one pair a line, separated by a comma or white space; a header may come first."""
    pairs = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        cells = line.replace(",", " ").split()
        if not cells:
            continue
        if len(cells) == 2 and all(cell.lstrip("-").isdigit() for cell in cells):
            pairs.append([int(cell) for cell in cells])
        elif number > 1:
            raise InvalidData(f"{path.name}: line {number} is {line!r}; two row numbers are needed")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def scaled(X: sp.csr_matrix, scaling: str) -> sp.csr_matrix:
    """Rows at unit l1 or l2 length, or as they are; rows of zeros stay zero."""
    if scaling == "none":
        return X
    if scaling not in ("l1", "l2"):
        raise TacitError(f"scaling={scaling!r} is not allowed; 'l1', 'l2' or 'none' is")
    powers = abs(X) if scaling == "l1" else X.multiply(X)
    sizes = np.asarray(powers.sum(axis=1)).ravel()
    sizes = sizes if scaling == "l1" else np.sqrt(sizes)
    return sp.csr_matrix(sp.diags_array(1.0 / np.where(sizes > 0, sizes, 1.0)) @ X)


def arms_of(labels: Any) -> tuple[list[Arm], NDArray[np.int64]]:
    """The arms that labels name, and each row's place among them.

    Whole numbers 0 … K−1 are their own names; all other labels become text, so that a name is never mistaken for a
    place.
    """
    texts = [_label_text(label) for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels)]
    numeric = all(text.lstrip("-").isdigit() for text in texts)
    names: list[Any] = sorted(set(map(int, texts))) if numeric else sorted(set(texts))
    index = {str(name): k for k, name in enumerate(names)}
    y = np.array([index[str(int(text)) if numeric else text] for text in texts], dtype=np.int64)
    own_names = numeric and names == list(range(len(names)))
    return (names if own_names else [str(name) for name in names]), y


def _label_text(label: object) -> str:
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def to_dataset(name: str, raw: Raw, *, scaling: str, source: str, arms: Sequence[Arm] | None = None) -> Dataset:
    """Check what was read, scale it and give it a fingerprint.

    With `arms` the labels are already their places; else the arms are what the labels name.
    """
    X = _checked_features(name, raw)
    if len(raw.labels) != X.shape[0]:
        raise InvalidData(f"{name}: {X.shape[0]} rows of features and {len(raw.labels)} labels")
    names, y = arms_of(raw.labels) if arms is None else (list(arms), np.asarray(raw.labels, dtype=np.int64))
    if len(names) < 2:
        raise InvalidData(f"{name}: all rows have the label {names[0]!r}; there must be at least 2 arms")
    X = scaled(X, scaling)
    edges = None if raw.edges is None else _checked_edges(name, raw.edges, X.shape[0])
    digest = hashlib.sha256(repr((X.shape, names)).encode())
    for part in (
        X.indptr.astype(np.int64),
        X.indices.astype(np.int64),
        X.data,
        y,
        np.zeros(0) if edges is None else edges,
    ):
        digest.update(np.ascontiguousarray(part).tobytes())
    return Dataset(name, X, y, names, edges, raw.features, source, digest.hexdigest()[:16])


def _checked_features(name: str, raw: Raw) -> sp.csr_matrix:
    if not sp.issparse(raw.X) and np.ndim(raw.X) != 2:
        raise InvalidData(f"{name}: X has shape {np.shape(raw.X)}; a matrix with a row an observation is needed")
    try:
        X = sp.csr_matrix(raw.X, dtype=float)
    except (TypeError, ValueError):
        raise InvalidData(f"{name}: X holds {np.asarray(raw.X).dtype} values; numbers are needed") from None
    X.sum_duplicates()
    X.eliminate_zeros()
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise InvalidData(f"{name}: X has shape {X.shape}; there is nothing in it")
    bad = np.flatnonzero(~np.isfinite(X.data))
    if bad.size:
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        raise InvalidData(
            f"{name}: row {row}, column {X.indices[bad[0]]} holds {X.data[bad[0]]}; a finite number is needed"
        )
    return X


def _checked_edges(name: str, edges: Any, rows: int) -> NDArray[np.int64]:
    """Undirected edges, each once, without loops."""
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InvalidData(
            f"{name}: edges have shape {pairs.shape} and type {pairs.dtype}; E×2 whole numbers are needed"
        )
    wrong = ((pairs < 0) | (pairs >= rows)).any(axis=1)
    if wrong.any():
        edge = pairs[wrong][0].tolist()
        raise InvalidData(f"{name}: edge {edge} names a row that does not exist; there are 0 to {rows - 1}")
    pairs = np.sort(pairs.astype(np.int64), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
