"""Reading what users give as a context into sparse rows."""

from collections.abc import Hashable, Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import SparseRow
from taciturn.errors import InvalidContext
from taciturn.kernels.select import first_invalid, nonzeros
from taciturn.validate import LARGEST

MAX_FEATURES = np.iinfo(np.int32).max
NEEDED = f"a finite number is needed, of at most {LARGEST:g}"


class Reading(NamedTuple):
    """A context as read: its row, the number of features it knows of, and those that it is the first to name."""

    row: SparseRow
    n_features: int
    new_names: list[Hashable] | None  # None where features go by position


class ContextReader:
    """Turns arrays, sparse rows and {feature: value} into sparse rows, and refuses what cannot be one.

    The first context settles whether features go by position, with a fixed number of them, or by name, where
    every new name opens a column. Reading changes nothing until `accept`.
    """

    def __init__(self) -> None:
        self.n_features: int | None = None
        self.names: dict[Hashable, int] | None = None

    def load(self, n_features: int | None, names: list[Hashable] | None) -> None:
        """Take over what a file says of the features."""
        self.n_features = n_features
        self.names = None if names is None else {name: i for i, name in enumerate(names)}
        if names is not None and not len(names) == len(self.names or ()) == n_features:
            raise ValueError("the names of the features do not fit")

    def read(self, context: Any) -> Reading:
        """Read one context, without remembering anything yet."""
        if isinstance(context, Mapping) and not sp.issparse(context):  # some sparse formats are mappings too
            return self._read_named(context)
        if self.names is not None:
            raise InvalidContext("this agent's features have names; give the context as {feature: value}")
        row, n_features = _read_sparse(context) if sp.issparse(context) else _read_dense(context)
        if self.n_features is not None and n_features != self.n_features:
            raise InvalidContext(f"the context has {n_features} features; this agent's contexts have {self.n_features}")
        return Reading(row, n_features, None)

    def accept(self, reading: Reading) -> None:
        """Remember what a reading settles: the number of features, or their names."""
        self.n_features = reading.n_features
        if reading.new_names is not None:
            self.names = {} if self.names is None else self.names
            self.names |= {name: len(self.names) + i for i, name in enumerate(reading.new_names)}

    def read_all(self, contexts: Any) -> tuple[list[SparseRow], "ContextReader"]:
        """Read the rows of a matrix or the items of a list, and return them with the reader that has accepted them."""
        reader = ContextReader()
        reader.n_features, reader.names = self.n_features, None if self.names is None else dict(self.names)
        if sp.issparse(contexts) and contexts.ndim == 2:
            matrix = sp.csr_matrix(contexts)
            contexts = [matrix[i] for i in range(matrix.shape[0])]
        if not isinstance(contexts, Iterable) or isinstance(contexts, str | Mapping):
            raise InvalidContext(f"contexts are a matrix or a list of contexts, not {type(contexts).__name__}")
        rows = []
        for i, context in enumerate(contexts):
            try:
                reading = reader.read(context)
            except InvalidContext as error:
                raise InvalidContext(f"row {i}: {error}") from None
            reader.accept(reading)
            rows.append(reading.row)
        if not rows:
            raise InvalidContext("there are no contexts")
        return rows, reader

    def _read_named(self, context: Mapping[Hashable, float]) -> Reading:
        if self.names is None and self.n_features is not None:
            raise InvalidContext(f"this agent's contexts are arrays of {self.n_features} features, not {{name: value}}")
        if not context:
            raise InvalidContext("the context is empty: it names no feature")
        for name, given in context.items():
            value: Any = given
            if not isinstance(value, Real | np.bool_) or not abs(value) <= LARGEST:  # type: ignore[operator]
                raise InvalidContext(f"feature {name!r} is {value!r}; {NEEDED}")
        names = self.names or {}
        new = [name for name in context if name not in names]
        if any(name != name for name in new):  # noqa: PLR0124 - NaN
            raise InvalidContext("a feature is named NaN, which is not equal to itself; give it another name")
        opened = {name: len(names) + i for i, name in enumerate(new)}
        columns = np.array([names[name] if name in names else opened[name] for name in context], np.int32)
        values = np.fromiter(context.values(), float, len(context))
        order = np.argsort(columns)
        return Reading(SparseRow(columns[order], values[order]), len(names) + len(new), new)


def _read_sparse(context: Any) -> tuple[SparseRow, int]:
    if context.ndim == 2 and context.shape[0] != 1:
        raise InvalidContext(f"one context is one row; this sparse matrix has {context.shape[0]}")
    matrix = context if context.format == "csr" else context.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    columns, n_features = matrix.indices, int(matrix.shape[-1])
    if len(columns) and not (columns.min() >= 0 and columns.max() < n_features):
        raise InvalidContext(f"the sparse context names a column that does not exist; there are {n_features}")
    return _checked(columns.astype(np.int32), matrix.data, n_features)


def _read_dense(context: Any) -> tuple[SparseRow, int]:
    try:
        array = np.asarray(context)
    except ValueError:  # ragged
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        kind = type(context).__name__
        raise InvalidContext(f"a context is an array of numbers, a sparse row or {{feature: value}}, not this {kind}")
    if array.ndim != 1:
        raise InvalidContext(f"a context is a 1-d array; this one has shape {array.shape}")
    return _checked(*nonzeros(np.ascontiguousarray(array, dtype=float)), len(array))  # NaN stays, and is caught there


def _checked(columns: NDArray[np.int32], values: NDArray[Any], n_features: int) -> tuple[SparseRow, int]:
    if n_features == 0:
        raise InvalidContext("the context is empty: it has no features")
    if n_features > MAX_FEATURES:
        raise InvalidContext(f"the context has {n_features} features; at most {MAX_FEATURES} can be told apart")
    if values.dtype.kind not in "biuf":
        raise InvalidContext(f"the context holds {values.dtype} values; numbers are needed")
    floats = np.asarray(values, dtype=float)
    at = first_invalid(floats, LARGEST)
    if at >= 0:
        raise InvalidContext(f"the context holds {floats[at]} at feature {columns[at]}; {NEEDED}")
    return SparseRow(columns, floats), n_features
