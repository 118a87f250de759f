"""The containers that contexts come in: arrays, tensors, sparse rows, frames and tables of other packages.

None of these packages is imported: what is given is known by the methods that it has.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from taciturn.errors import InvalidContext

ALLOWED = "a mapping of names to values, an array or list of numbers, a sparse row, a row of a frame or a text is"

TEXT_COLUMN = "text"
"""The name of the one column of contexts that are plain text."""


def one_context(given: Any) -> Any:
    """One context as a mapping, a sparse matrix of one row, or a 1-d array of numbers; else `InvalidContext`."""
    if isinstance(given, np.ndarray):
        return _array_row(given)
    if sp.issparse(given):
        return _sparse_row(given)
    if isinstance(given, Mapping):
        return given
    if isinstance(given, str):
        return {TEXT_COLUMN: given}
    if hasattr(given, "_asdict"):
        return given._asdict()
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return dataclasses.asdict(given)
    if hasattr(given, "detach") or hasattr(given, "__array_interface__") or hasattr(given, "__cuda_array_interface__"):
        return _array_row(_tensor(given))
    if _is_frame(given):
        rows = frame_rows(given)
        if len(rows) != 1:
            raise InvalidContext(f"one context is one row; this {type(given).__name__} has {len(rows)}")
        return one_context(rows[0])
    if hasattr(given, "index") and hasattr(given, "to_dict"):  # a row of a pandas frame
        return _named(given.index, given.tolist())
    if hasattr(given, "to_list"):  # polars
        return _list_row(given.to_list(), given)
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return _list_row(list(given), given)
    if hasattr(given, "__array__"):
        return _array_row(np.asarray(given))
    raise InvalidContext(f"a context cannot be of type {type(given).__name__}; {ALLOWED}")


def all_contexts(given: Any) -> Sequence[Any]:
    """The contexts of a batch, each for `one_context`: the rows of a matrix, frame or table, or the items of a list."""
    if sp.issparse(given) and given.ndim == 2:
        matrix = sp.csr_matrix(given)
        return [matrix[i] for i in range(matrix.shape[0])]
    if isinstance(given, np.ndarray):
        return _rows_of_array(given)
    if hasattr(given, "detach"):
        return _rows_of_array(_tensor(given))
    if isinstance(given, Mapping) and not sp.issparse(given):
        return _rows_of_columns(given)
    if _is_frame(given):
        return frame_rows(given)
    if hasattr(given, "to_pylist"):  # a column of an Arrow table
        return list(given.to_pylist())
    listed = given
    if hasattr(given, "tolist") or hasattr(given, "to_list"):  # a column of a frame, or a scalar of NumPy
        listed = given.tolist() if hasattr(given, "tolist") else given.to_list()
    if not isinstance(listed, Iterable) or isinstance(listed, str | bytes):
        raise InvalidContext(f"contexts are a matrix, a frame or a list of contexts, not {type(given).__name__}")
    return list(listed)


def frame_rows(frame: Any) -> Sequence[Any]:
    """The rows of a frame of pandas or polars, or of an Arrow table: mappings, or arrays without names."""
    if hasattr(frame, "to_pylist"):  # Arrow
        return list(frame.to_pylist())
    if hasattr(frame, "collect") and not hasattr(frame, "rows"):  # a lazy frame of polars
        frame = frame.collect()
    if hasattr(frame, "to_dicts"):  # polars
        return list(frame.to_dicts())
    if hasattr(frame, "iloc"):
        names = list(frame.columns)
        if not any(isinstance(name, str) for name in names):
            return _rows_of_array(frame.to_numpy())
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise InvalidContext(f"the columns of the frame are {names[:9]!r}; names that differ are needed")
        columns = [frame[name].tolist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    raise InvalidContext(f"a context cannot be of type {type(frame).__name__}; {ALLOWED}")


def _is_frame(given: Any) -> bool:
    """Whether something has named columns; a lazy frame is not asked for them, since that can take long."""
    return hasattr(given, "collect_schema") or hasattr(given, "columns") or hasattr(given, "schema")


def _named(names: Any, values: list[Any]) -> Any:
    """A row with its names, or by position where the names are not words."""
    names = list(names)
    if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return dict(zip(names, values, strict=True))
    return _list_row(values, values)


def _array_row(array: Any) -> Any:
    if array.ndim == 2 and array.shape[0] == 1:
        array = np.asarray(array)[0]
    if array.ndim != 1:
        raise InvalidContext(f"a context is one row; this array has shape {array.shape}")
    if array.dtype.names:  # a row of a structured array
        raise InvalidContext(f"a context is one row; this structured array has {len(array)}")
    return array if array.dtype.kind in "biuf" else _list_row(array.tolist(), array)


def _rows_of_array(array: Any) -> Sequence[Any]:
    if array.dtype.names:
        return [dict(zip(array.dtype.names, row, strict=True)) for row in array.tolist()]
    if array.ndim == 0:
        raise InvalidContext("contexts are a matrix, a frame or a list of contexts, not a single value")
    if array.ndim == 1 and array.dtype.kind in "biuf":
        raise InvalidContext("contexts are a matrix or a list of contexts; this array is one row: give it as [row]")
    return list(array)


def _rows_of_columns(columns: Mapping[Any, Any]) -> Sequence[Any]:
    """The rows of {column: values}."""
    lists = {name: list(values) for name, values in columns.items() if isinstance(values, Iterable)}
    if len(lists) < len(columns) or any(isinstance(values, str) for values in columns.values()) or not lists:
        raise InvalidContext(
            "contexts are a matrix, a frame or a list; this mapping is one context: give it as [context]"
        )
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidContext(f"the columns have different lengths: {lengths!r:.100}")
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _sparse_row(matrix: Any) -> Any:
    if matrix.ndim == 2 and matrix.shape[0] != 1:
        raise InvalidContext(f"one context is one row; this sparse matrix has {matrix.shape[0]}")
    matrix = matrix if matrix.format == "csr" else matrix.tocsr()
    if len(matrix.indptr) < 2:
        raise InvalidContext("the sparse context is broken: it has no row")
    if not len(matrix.indices) == len(matrix.data) == matrix.indptr[-1]:  # there is room for more behind its entries
        try:
            matrix = matrix.copy()
            matrix.prune()
        except (ValueError, RuntimeError):
            raise InvalidContext("the sparse context is broken: it has fewer entries than it says") from None
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _list_row(values: list[Any], given: Any) -> Any:
    """A list of numbers as an array; one that holds words too as a mapping of their positions."""
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        array = np.asarray(None)
    if array.dtype.kind in "biuf":
        return _array_row(array)
    if not values:
        raise InvalidContext("the context is empty: it has no features")
    if all(isinstance(value, str) for value in values):
        raise InvalidContext("a list of words can be tags or columns; give {'tags': words} or {column: word}")
    if not all(map(_is_single, values)):
        kind = type(given).__name__
        raise InvalidContext(
            f"a context is one row of values, not this {kind} of {type(values[0]).__name__}; {ALLOWED}"
        )
    if all(value is None or isinstance(value, float | int) for value in values):
        try:
            return np.array([np.nan if value is None else value for value in values], float)
        except OverflowError:
            raise InvalidContext(
                "the context holds a whole number that is too large; a finite number is needed"
            ) from None
    return {str(position): value for position, value in enumerate(values)}


def _is_single(value: Any) -> bool:
    """Whether an item of a list is no list itself."""
    try:
        return value is None or np.ndim(value) == 0
    except ValueError:  # ragged, or within itself
        return False


def _tensor(tensor: Any) -> Any:
    """A tensor of torch, or of what behaves alike, as an array."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        if "bfloat16" in str(tensor.dtype):
            tensor = tensor.float()
        if getattr(tensor, "is_sparse", False):
            tensor = tensor.to_dense()
    return np.asarray(tensor)
