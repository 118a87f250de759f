"""From the contents of a file to a data set: labels become arms, features are validated and rows scaled."""

import gzip
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import Arm, Contexts, Dataset, EncodedContexts
from taciturn.datasets.table import Table
from taciturn.errors import InvalidData, TaciturnError
from taciturn.features.schema import MISSING, is_missing
from taciturn.validate import LARGEST

MAX_FEATURES = 10_000_000


class RawData(NamedTuple):
    """The contents of a file before validation and scaling.

    `X` are an (N, D) array or sparse matrix, a table or a list of texts; `labels` (N,) are as written, or None where
    `rewards` (N, K) say which arm is best; `features` are the names of columns; `arms` are names for labels that are
    indices, and for the columns of `rewards` and `costs`.
    """

    X: Any
    labels: Any
    edges: Any = None
    features: list[str] | None = None
    arms: Sequence[Arm] | None = None
    rewards: Any = None
    costs: Any = None


def damaged_file(path: Path, reason: object) -> InvalidData:
    """Return the error for an incomplete file, with its full path: the user has to replace it."""
    return InvalidData(f"{path}: damaged or truncated ({reason})")


def label_column(names: Sequence[str], label: str | None) -> int:
    """Return the position of the column that holds the label; raise where it is not one of several distinct columns."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InvalidData(f"two columns are called {name!r}; each needs a name of its own")
    there_are = f"(there are: {', '.join(names[:20])})"
    if label is None:
        raise InvalidData(f"give the column that holds the label (label=… or --label) {there_are}")
    if label not in names:
        raise InvalidData(f"no column {label!r} {there_are}")
    if len(names) == 1:
        raise InvalidData(f"there is no column beside the label {label!r}")
    return names.index(label)


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading bytes, decompressed where it ends in .gz."""
    return cast("BinaryIO", gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def to_dataset(name: str, raw: RawData, *, scaling: str, source: str) -> Dataset:
    """Validate and scale raw data."""
    try:
        contexts = scale(validate_contexts(raw.X), scaling)
        names, y = _right_arms(raw)
        if len(names) < 2:
            raise InvalidData(f"all rows have the label {names[0]!r}; there must be at least 2 arms")  # noqa: TRY301
    except InvalidData as error:
        raise InvalidData(f"{name}: {error}") from None
    return Dataset(
        name,
        contexts,
        y,
        names,
        raw.edges,
        raw.features,
        source,
        scaling=scaling,
        rewards=raw.rewards,
        costs=raw.costs,
        encode=encode,
    )


def encode(contexts: Any) -> EncodedContexts:
    """Return mappings or texts as the matrix that an agent makes of them, and the names of its columns."""
    from taciturn.features.encode import ContextReader  # noqa: PLC0415 - loads numba, and few need this matrix

    rows, reader = ContextReader().read_all(list(contexts))
    indptr = np.cumsum([0, *(len(row.columns) for row in rows)])
    parts = (np.concatenate([row.values for row in rows]), np.concatenate([row.columns for row in rows]), indptr)
    matrix = sp.csr_matrix(parts, shape=(len(rows), reader.n_features))
    return EncodedContexts(matrix, None if reader.names is None else list(map(str, reader.names)))


def scale(contexts: Contexts, scaling: str) -> Contexts:
    """Return contexts with rows of unit l1 or l2 norm, or unchanged for "none"; tables with words have no norm."""
    _check_scaling(scaling)
    if scaling == "none":
        return contexts
    if sp.issparse(contexts):
        return scale_rows(contexts, scaling)
    if isinstance(contexts, np.ndarray):
        return np.asarray(scale_rows(sp.csr_matrix(contexts), scaling).toarray())
    raise InvalidData(f"scaling={scaling!r} is for rows of numbers, not for {_not_numbers(contexts)}; use 'none'")


def _check_scaling(scaling: str) -> None:
    if scaling not in ("l1", "l2", "none"):
        raise TaciturnError(f"scaling={scaling!r} is not allowed; 'l1', 'l2' or 'none' is")


def _not_numbers(contexts: Any) -> str:
    if not isinstance(contexts, Table):
        return "texts"
    column = next((column for column in contexts.columns if column.kind != "number"), None)
    if column is None:
        column = next(column for column in contexts.columns if column.missing)
        return f"column {column.name!r} with missing values"
    return f"column {column.name!r} of kind {column.kind!r}"


def scale_rows(X: sp.csr_matrix, scaling: str) -> sp.csr_matrix:
    """Return X with rows of unit l1 or l2 norm, or unchanged for "none"; rows of zeros stay zero."""
    _check_scaling(scaling)
    if scaling == "none":
        return X
    # Divide by the largest entry first: sums of very large or very small numbers overflow or underflow.
    X = _divide_rows(X, abs(X).max(axis=1).toarray().ravel())
    powers = abs(X) if scaling == "l1" else X.multiply(X)
    sizes = np.asarray(powers.sum(axis=1)).ravel()
    return _divide_rows(X, sizes if scaling == "l1" else np.sqrt(sizes))


def _divide_rows(X: sp.csr_matrix, sizes: NDArray[np.float64]) -> sp.csr_matrix:
    per_entry = np.repeat(np.where(sizes > 0, sizes, 1.0), np.diff(X.indptr))
    return sp.csr_matrix((X.data / per_entry, X.indices, X.indptr), shape=X.shape)


def _right_arms(raw: RawData) -> tuple[list[Arm], Any]:
    """Return the arms and the index of each row's right arm (N,)."""
    if raw.labels is None:
        rewards = np.asarray(raw.rewards)
        if rewards.ndim != 2 or not rewards.shape[1]:
            raise InvalidData(f"rewards have shape {rewards.shape}; one for each row and arm is needed")
        return list(range(rewards.shape[1]) if raw.arms is None else raw.arms), np.argmax(rewards, axis=1)
    if raw.arms is None:
        return arms_of(raw.labels)
    labels = np.asarray(raw.labels)
    if labels.ndim == 1 and labels.dtype.kind in "US":
        index = {str(arm): k for k, arm in enumerate(raw.arms)}
        unknown = [label for label in labels.tolist() if label not in index]
        if unknown:
            raise InvalidData(f"the label {unknown[0]!r} is not one of the arms {', '.join(map(str, raw.arms))}")
        labels = np.array([index[label] for label in labels.tolist()], dtype=np.int64)
    return list(raw.arms), labels


def arms_of(labels: Any) -> tuple[list[Arm], NDArray[np.int64]]:
    """Return the distinct labels as arms, and the index of each row's arm (N,).

    Labels 0 … K−1, as numbers or text, become whole numbers; all others become text, so that an arm's name is never
    mistaken for an index.
    """
    if np.ndim(labels) != 1:
        raise InvalidData(f"labels have shape {np.shape(labels)}; one per row is needed")
    texts = [_label_text(label) for label in labels]
    absent = [row for row, text in enumerate(texts) if text in MISSING]
    if absent:
        others = f", and {len(absent) - 1} more rows have none" if len(absent) > 1 else ""
        raise InvalidData(f"the label of row {absent[0]} is {texts[absent[0]]!r}{others}; every row needs one")
    distinct = sorted(set(texts))
    whole = sorted(map(int, distinct)) if all(re.fullmatch("0|[1-9][0-9]*", text) for text in distinct) else None
    names: list[Any] = distinct if whole is None else list(map(str, whole))
    index = {name: k for k, name in enumerate(names)}
    y = np.array([index[text] for text in texts], dtype=np.int64)
    return (list(range(len(names))) if whole == list(range(len(names))) else names), y


def _label_text(label: Any) -> str:
    if not isinstance(label, str) and is_missing(label):
        return "nan" if isinstance(label, float | np.floating) else "None"
    if isinstance(label, bytes):
        label = label.decode("utf-8", errors="replace")
    if isinstance(label, float | np.floating) and float(label).is_integer():
        label = int(label)
    return str(label).strip()


def validate_contexts(given: Any) -> Contexts:
    """Return a float array or CSR matrix after its shape and values were validated; tables and texts as they are."""
    if isinstance(given, Table | list):
        return given
    if not sp.issparse(given) and np.ndim(given) != 2:
        raise InvalidData(f"X has shape {np.shape(given)}; a matrix with one row per observation is needed")
    if given.dtype.kind not in "biuf":
        raise InvalidData(f"X holds {given.dtype} values; numbers are needed")
    if given.shape[0] == 0 or given.shape[1] == 0:
        raise InvalidData(f"X has shape {given.shape}; at least one row and one column are needed")
    if given.shape[1] > MAX_FEATURES:
        raise InvalidData(f"X has {given.shape[1]} features; at most {MAX_FEATURES} are allowed")
    return _validate_sparse(given) if sp.issparse(given) else _validate_dense(given)


def _validate_dense(given: Any) -> NDArray[np.float64]:
    X = np.ascontiguousarray(given, dtype=np.float64)
    bad = np.argwhere(~(np.abs(X) <= LARGEST))
    if len(bad):
        row, column = bad[0].tolist()
        raise _bad_value(row, column, X[row, column])
    return X


def _validate_sparse(given: Any) -> sp.csr_matrix:
    X = sp.csr_matrix(given, dtype=float)
    X.sum_duplicates()
    X.eliminate_zeros()
    bad = np.flatnonzero(~(np.abs(X.data) <= LARGEST))
    if bad.size:
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        raise _bad_value(row, int(X.indices[bad[0]]), X.data[bad[0]])
    return X


def _bad_value(row: int, column: int, value: float) -> InvalidData:
    return InvalidData(f"row {row}, column {column} holds {value}; a finite number is needed, of at most {LARGEST:g}")
