"""Read data sets from files: which reader an ending names, .npz archives, .svm files and lists of edges."""

import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.datasets.delimited import read_delimited
from taciturn.datasets.files import RawData, damaged_file, open_binary
from taciturn.datasets.frames import read_parquet
from taciturn.errors import InvalidData
from taciturn.registry import unknown_name

CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_npz(path: Path, label: str | None) -> RawData:
    """Read the arrays `X` (or CSR parts `data`, `indices`, `indptr`, `shape`) and `y` (or `label`).

    Optional are `edges`, `arms`, `rewards` and `costs`; with `rewards` for every arm there need not be labels.
    """
    target = label or "y"
    arrays = npz_arrays(path)
    if target not in arrays and (label is not None or "rewards" not in arrays):
        raise InvalidData(f"{path.name}: no array {target!r} with the labels (there are: {', '.join(sorted(arrays))})")
    arms = arrays["arms"].tolist() if "arms" in arrays else None
    if arms is None and "rewards" in arrays and arrays["rewards"].ndim == 2:
        arms = list(range(arrays["rewards"].shape[1]))  # the columns of rewards are the arms
    return RawData(
        _npz_features(path, arrays),
        arrays.get(target),
        arrays.get("edges"),
        arms=arms,
        rewards=arrays.get("rewards"),
        costs=arrays.get("costs"),
    )


def _npz_features(path: Path, arrays: dict[str, NDArray[Any]]) -> Any:
    if "X" in arrays:
        return arrays["X"]
    if not all(part in arrays for part in CSR_PARTS):
        raise InvalidData(f"{path.name}: neither an array 'X' nor the CSR parts {', '.join(CSR_PARTS)}")
    data, indices, indptr, shape = (arrays[part] for part in CSR_PARTS)
    try:
        X = sp.csr_matrix((data, indices, indptr), shape=tuple(int(size) for size in shape))
        X.check_format(full_check=True)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"{path.name}: the CSR parts do not fit together ({error})") from None
    return X


def npz_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file by name; those of Python objects are refused."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file), np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise InvalidData(f"{path.name}: holds arrays of Python objects; only numbers and text are read") from None
        raise damaged_file(path, error) from None
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged_file(path, error) from None


def read_svm(path: Path, label: str | None) -> RawData:
    """Read the svmlight format: lines of ``label index:value …``; indices start from 1 unless there is an index 0."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - slow to import, and only this format needs it

    if label is not None:
        raise InvalidData(f"{path.name}: an .svm file has its label first in every line, not in a column {label!r}")
    try:
        _check_first_label(path)
        X, y = load_svmlight_file(str(path), zero_based="auto")
    except (ValueError, OSError, OverflowError, EOFError, zlib.error) as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData(f"{path.name}: not in the svmlight format ({error})") from None
    return RawData(X, y)


def _check_first_label(path: Path) -> None:
    with open_binary(path) as file:
        lines = (line.partition(b"#")[0].split() for line in file)
        first = next((line[0] for line in lines if line), b"")
    if b":" in first:
        where = f"{path.name}: the first line begins with {first.decode('latin-1')!r}"
        raise InvalidData(f"{where}; a label must come before the first index:value")


READERS: dict[str, Callable[[Path, str | None], RawData]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".txt": read_delimited,
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".svm": read_svm,
}
GZIPPED = (".csv", ".tsv", ".txt", ".svm")


def read_file(path: Path, label: str | None = None) -> RawData:
    """Read a file in the format that its ending names; text files may be gzipped."""
    ending = path.suffix.lower()
    inner = Path(path.stem).suffix.lower() if ending == ".gz" else ending
    allowed = GZIPPED if ending == ".gz" else READERS
    if inner not in allowed:
        raise unknown_name("file ending", path.suffix if ending != ".gz" else inner + ending, READERS)
    return READERS[inner](path, label)


def data_name(path: Path) -> str:
    """Return the name of a file's data set: that of the file without its endings."""
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


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
