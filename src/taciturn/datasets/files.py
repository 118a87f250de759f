"""Read data sets from .npz, .csv or .svm files, with an optional list of edges."""

import csv
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import Arm, Dataset
from taciturn.errors import InvalidData, TaciturnError
from taciturn.registry import unknown_name
from taciturn.validate import LARGEST

MAX_FEATURES = 10_000_000


class RawData(NamedTuple):
    """The contents of a file before validation and scaling: features (N, D), labels (N,) as written, edges or None."""

    X: Any
    labels: Any
    edges: Any = None
    features: list[str] | None = None


def damaged_file(path: Path, reason: object) -> InvalidData:
    """Return the error for an incomplete file, with its full path: the user has to replace it."""
    return InvalidData(f"{path}: damaged or truncated ({reason})")


def read_npz(path: Path, label: str | None) -> RawData:
    """Read the arrays `X` (or CSR parts `data`, `indices`, `indptr`, `shape`), `y` (or `label`) and any `edges`."""
    target = label or "y"
    arrays = _npz_arrays(path)
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
        except (TypeError, ValueError) as error:
            raise InvalidData(f"{path.name}: the CSR parts do not fit together ({error})") from None
    else:
        raise InvalidData(f"{path.name}: neither an array 'X' nor the CSR parts {', '.join(parts)}")
    return RawData(X, arrays[target], arrays.get("edges"))


def _npz_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, zipfile.ZipFile(file), np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise InvalidData(f"{path.name}: holds arrays of Python objects; only numbers and text are read") from None
        raise damaged_file(path, error) from None
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged_file(path, error) from None


def read_csv(path: Path, label: str | None) -> RawData:
    """Read a header and one observation per row, with numbers in every column but the label's."""
    if label is None:
        raise InvalidData(f"{path.name}: give the column that holds the label (label=… or --label)")
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
    column = header.index(label)
    values = np.empty((len(rows) - 1, len(header) - 1))
    for i, row in enumerate(rows[1:]):
        if len(row) != len(header):
            raise InvalidData(f"{path.name}: row {i + 1} has {len(row)} cells; the header has {len(header)}")
        values[i] = [_number(path, cell, i + 1, header[c]) for c, cell in enumerate(row) if c != column]
    return RawData(values, [row[column].strip() for row in rows[1:]], None, header[:column] + header[column + 1 :])


def _number(path: Path, cell: str, row: int, column: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise InvalidData(f"{path.name}: row {row}, column {column!r} holds {cell!r}; a finite number is needed")
    return value


def read_svm(path: Path, label: str | None) -> RawData:
    """Read the svmlight format: lines of ``label index:value …``, indices from 1."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - slow to import, and only this format needs it

    if label is not None:
        raise InvalidData(f"{path.name}: an .svm file has its label first in every line, not in a column {label!r}")
    try:
        X, y = load_svmlight_file(str(path), zero_based=False)
    except (ValueError, OSError, OverflowError) as error:
        raise InvalidData(f"{path.name}: not in the svmlight format ({error})") from None
    return RawData(X, y)


READERS = {".npz": read_npz, ".csv": read_csv, ".svm": read_svm}


def read_file(path: Path, label: str | None = None) -> RawData:
    """Read a file in the format that its ending names."""
    ending = path.suffix.lower()
    if ending not in READERS:
        raise unknown_name("file ending", path.suffix, READERS)
    return READERS[ending](path, label)


def read_edges(path: Path) -> NDArray[np.int64]:
    """Read pairs of row indices (E, 2), from 0, one pair per line, split by comma or white space.

    The first line may be a header.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path}: cannot be read as a list of edges ({error})") from None
    pairs = []
    for number, line in enumerate(lines, start=1):
        cells = line.replace(",", " ").split()
        if len(cells) == 2 and all(re.fullmatch(r"-?[0-9]{1,15}", cell) for cell in cells):
            pairs.append([int(cell) for cell in cells])
        elif cells and (number > 1 or re.search(r"[0-9]", line)):
            raise InvalidData(f"{path.name}: line {number} is {line!r}; two row numbers are needed")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def scale_rows(X: sp.csr_matrix, scaling: str) -> sp.csr_matrix:
    """Return X with rows of unit l1 or l2 norm, or unchanged for "none"; rows of zeros stay zero."""
    if scaling == "none":
        return X
    if scaling not in ("l1", "l2"):
        raise TaciturnError(f"scaling={scaling!r} is not allowed; 'l1', 'l2' or 'none' is")
    # Divide by the largest entry first: sums of very large or very small numbers overflow or underflow.
    X = _divide_rows(X, abs(X).max(axis=1).toarray().ravel())
    powers = abs(X) if scaling == "l1" else X.multiply(X)
    sizes = np.asarray(powers.sum(axis=1)).ravel()
    return _divide_rows(X, sizes if scaling == "l1" else np.sqrt(sizes))


def _divide_rows(X: sp.csr_matrix, sizes: NDArray[np.float64]) -> sp.csr_matrix:
    per_entry = np.repeat(np.where(sizes > 0, sizes, 1.0), np.diff(X.indptr))
    return sp.csr_matrix((X.data / per_entry, X.indices, X.indptr), shape=X.shape)


def arms_of(labels: Any) -> tuple[list[Arm], NDArray[np.int64]]:
    """Return the distinct labels as arms, and the index of each row's arm (N,).

    Labels 0 … K−1, as numbers or text, become whole numbers; all others become text, so that an arm's name is never
    mistaken for an index.
    """
    if np.ndim(labels) != 1:
        raise InvalidData(f"labels have shape {np.shape(labels)}; one per row is needed")
    texts = [_label_text(label, row) for row, label in enumerate(labels)]
    distinct = sorted(set(texts))
    whole = sorted(map(int, distinct)) if all(re.fullmatch("0|[1-9][0-9]*", text) for text in distinct) else None
    names: list[Any] = distinct if whole is None else list(map(str, whole))
    index = {name: k for k, name in enumerate(names)}
    y = np.array([index[text] for text in texts], dtype=np.int64)
    return (list(range(len(names))) if whole == list(range(len(names))) else names), y


def _label_text(label: Any, row: int) -> str:
    if isinstance(label, bytes):
        label = label.decode("utf-8", errors="replace")
    if isinstance(label, float | np.floating) and float(label).is_integer():
        label = int(label)
    text = str(label).strip()
    if not text or (isinstance(label, float | np.floating) and not np.isfinite(label)):
        raise InvalidData(f"the label of row {row} is {str(label)!r}; every row needs one")
    return text


def to_dataset(name: str, raw: RawData, *, scaling: str, source: str, arms: Sequence[Arm] | None = None) -> Dataset:
    """Validate and scale raw data. With `arms` given, labels are indices of arms; otherwise labels name the arms."""
    try:
        X = scale_rows(_validate_features(raw.X), scaling)
        names, y = arms_of(raw.labels) if arms is None else (list(arms), raw.labels)
        if len(names) < 2:
            raise InvalidData(f"all rows have the label {names[0]!r}; there must be at least 2 arms")  # noqa: TRY301
    except InvalidData as error:
        raise InvalidData(f"{name}: {error}") from None
    return Dataset(name, X, y, names, raw.edges, raw.features, source)


def _validate_features(given: Any) -> sp.csr_matrix:
    if not sp.issparse(given) and np.ndim(given) != 2:
        raise InvalidData(f"X has shape {np.shape(given)}; a matrix with one row per observation is needed")
    if given.dtype.kind not in "biuf":
        raise InvalidData(f"X holds {given.dtype} values; numbers are needed")
    X = sp.csr_matrix(given, dtype=float)
    X.sum_duplicates()
    X.eliminate_zeros()
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise InvalidData(f"X has shape {X.shape}; at least one row and one column are needed")
    if X.shape[1] > MAX_FEATURES:
        raise InvalidData(f"X has {X.shape[1]} features; at most {MAX_FEATURES} are allowed")
    bad = np.flatnonzero(~(np.abs(X.data) <= LARGEST))
    if bad.size:
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        value = X.data[bad[0]]
        raise InvalidData(
            f"row {row}, column {X.indices[bad[0]]} holds {value}; a finite number is needed, of at most {LARGEST:g}"
        )
    return X
