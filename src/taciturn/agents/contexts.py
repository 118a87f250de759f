"""Reading what users call a context, and keeping the rows that were read."""

from collections.abc import Hashable, Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.storage import fits, storable, within
from taciturn.contracts import SparseRow
from taciturn.errors import InvalidContext
from taciturn.kernels.csr import CSR
from taciturn.kernels.select import first_invalid, nonzeros
from taciturn.validate import LARGEST

NEEDED = f"a finite number is needed, of at most {LARGEST:g}"


def room_for(array: NDArray[Any], length: int, fill: float) -> NDArray[Any]:
    """The array itself if it has `length` rows, else a copy at least twice as long, with `fill` in the new rows."""
    if len(array) >= length:
        return array
    longer = np.full((max(length, 2 * len(array), 16), *array.shape[1:]), fill, array.dtype)
    longer[: len(array)] = array
    return longer


def keep_rows(array: NDArray[Any], kept: NDArray[np.int64], fill: float) -> None:
    """Move the rows that are kept to the front, in their order, and put `fill` into all behind them."""
    array[: len(kept)] = array[_span(kept)]
    array[len(kept) :] = fill


def _span(kept: NDArray[np.int64]) -> Any:
    """The same places as a slice where they are side by side: mostly the oldest are forgotten, and that is fast."""
    if len(kept) and kept[-1] - kept[0] + 1 == len(kept):
        return slice(int(kept[0]), int(kept[-1]) + 1)
    return kept


@storable
class RowStore:
    """All contexts an agent has seen, as compressed sparse rows that grow at the end."""

    def __init__(self) -> None:
        self.count = 0
        self.dimension = 0
        self._indptr = np.zeros(16, np.int64)
        self._columns = np.zeros(256, np.int32)
        self._values = np.zeros(256)

    def _sound(self) -> bool:
        ends, stop = self._indptr, int(self._indptr[self.count])
        return (
            fits(ends, np.int64, self.count + 1)
            and ends[0] == 0
            and bool((np.diff(ends[: self.count + 1]) >= 0).all())
            and fits(self._columns, np.int32, stop)
            and fits(self._values, np.float64, stop)
            and within(self._columns[:stop], 0, self.dimension)
        )

    def append(self, row: SparseRow) -> int:
        """Add a row at the end and return its number."""
        start = int(self._indptr[self.count])
        stop = start + len(row.columns)
        self._columns = room_for(self._columns, stop, 0)
        self._values = room_for(self._values, stop, 0.0)
        self._indptr = room_for(self._indptr, self.count + 2, 0)
        self._columns[start:stop] = row.columns
        self._values[start:stop] = row.values
        self._indptr[self.count + 1] = stop
        self.count += 1
        return self.count - 1

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Forget all rows but these, which are renumbered in their order."""
        lengths = (self._indptr[1:] - self._indptr[:-1])[kept]
        starts = np.cumsum(lengths) - lengths
        entries: Any
        if isinstance(span := _span(kept), slice):
            entries = slice(self._indptr[span.start], self._indptr[span.stop])
        else:
            entries = np.repeat(self._indptr[kept] - starts, lengths) + np.arange(lengths.sum())
        size = int(lengths.sum())
        self._columns[:size] = self._columns[entries]
        self._values[:size] = self._values[entries]
        self.count = len(kept)
        self._indptr[1 : self.count + 1] = starts + lengths

    def __getitem__(self, node: int) -> SparseRow:
        """One row, as a view."""
        span = slice(self._indptr[node], self._indptr[node + 1])
        return SparseRow(self._columns[span], self._values[span])

    @property
    def rows(self) -> CSR:
        """All rows, as a view for kernels."""
        stop = self._indptr[self.count]
        return CSR(self._indptr[: self.count + 1], self._columns[:stop], self._values[:stop])

    def entries_a_row(self, dimension: int) -> float:
        """How many entries a row has on average; all features before there is any."""
        return float(self._indptr[self.count] / self.count) if self.count else float(dimension)

    def matrix(self, start: int, stop: int) -> sp.csr_matrix:
        """Some of the rows as a copied CSR matrix, for scikit-learn."""
        indptr = self._indptr[start : stop + 1]
        span = slice(indptr[0], indptr[-1])
        parts = (self._values[span].copy(), self._columns[span].copy(), (indptr - indptr[0]).astype(np.int32))
        return sp.csr_matrix(parts, shape=(stop - start, self.dimension))


class Reading(NamedTuple):
    """A context as read: its row, the number of features it knows of, and those that it is the first to name."""

    row: SparseRow
    dimension: int
    new_names: list[Hashable] | None  # None where features go by position


@storable
class ContextReader:
    """Turns arrays, sparse rows and {feature: value} into sparse rows, and refuses what cannot be one.

    The first context settles whether features go by position, with a fixed number of them, or by name, where
    every new name opens a column. Reading changes nothing until `accept`.
    """

    def __init__(self) -> None:
        self.dimension: int | None = None
        self.names: dict[Hashable, int] | None = None

    def read(self, context: Any) -> Reading:
        """Read one context, without remembering anything yet."""
        if isinstance(context, Mapping) and not sp.issparse(context):  # some sparse formats are mappings too
            return self._read_named(context)
        if self.names is not None:
            raise InvalidContext("this agent's features have names; give the context as {feature: value}")
        row, dimension = _read_sparse(context) if sp.issparse(context) else _read_dense(context)
        if self.dimension is not None and dimension != self.dimension:
            raise InvalidContext(f"the context has {dimension} features; this agent's contexts have {self.dimension}")
        return Reading(row, dimension, None)

    def accept(self, reading: Reading) -> None:
        """Remember what a reading settles: the number of features, or their names."""
        self.dimension = reading.dimension
        if reading.new_names is not None:
            self.names = {} if self.names is None else self.names
            self.names |= {name: len(self.names) + i for i, name in enumerate(reading.new_names)}

    def read_all(self, contexts: Any) -> tuple[list[SparseRow], "ContextReader"]:
        """Read the rows of a matrix or the items of a list, and return them with the reader that has accepted them."""
        reader = ContextReader()
        reader.dimension, reader.names = self.dimension, None if self.names is None else dict(self.names)
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
        if self.names is None and self.dimension is not None:
            raise InvalidContext(f"this agent's contexts are arrays of {self.dimension} features, not {{name: value}}")
        if not context:
            raise InvalidContext("the context is empty: it names no feature")
        for name, given in context.items():
            value: Any = given
            if not isinstance(value, Real | np.bool_) or not abs(value) <= LARGEST:  # type: ignore[operator]
                raise InvalidContext(f"feature {name!r} is {value!r}; {NEEDED}")
        names = self.names or {}
        new = [name for name in context if name not in names]
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
    return _checked(matrix.indices.astype(np.int32), matrix.data, int(matrix.shape[-1]))


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


def _checked(columns: NDArray[np.int32], values: NDArray[Any], dimension: int) -> tuple[SparseRow, int]:
    if dimension == 0:
        raise InvalidContext("the context is empty: it has no features")
    if values.dtype.kind not in "biuf":
        raise InvalidContext(f"the context holds {values.dtype} values; numbers are needed")
    floats = np.asarray(values, dtype=float)
    at = first_invalid(floats, LARGEST)
    if at >= 0:
        raise InvalidContext(f"the context holds {floats[at]} at feature {columns[at]}; {NEEDED}")
    return SparseRow(columns, floats), dimension
