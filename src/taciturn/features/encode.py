"""Reading what users give as a context into sparse rows."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import SparseRow
from taciturn.errors import InvalidContext
from taciturn.features.containers import all_contexts, one_context
from taciturn.features.embed import Embedder, embedder
from taciturn.features.named import NamedReading, Reading, by_position, needed
from taciturn.features.schema import (
    KINDS,
    Features,
    is_missing,
)
from taciturn.kernels.select import first_invalid, is_sound_row, nonzeros
from taciturn.validate import LARGEST, LARGEST_SCALED

MAX_FEATURES = np.iinfo(np.int32).max

SPARSE_ROWS = (sp.csr_matrix, sp.csr_array)

INT32, FLOAT64 = np.dtype(np.int32), np.dtype(np.float64)  # which compare in a tenth of the time of the types


class ContextReader:
    """Turns any context into a sparse row, and refuses what cannot be one.

    The first context settles whether features go by position, with a fixed number of them, or by name, where every new
    name opens a column. Reading changes nothing until `accept`.

    Arguments:
        features: what the columns are, where that is said.
        scaled: whether a `Scaler` takes the rows: it takes larger numbers, NaN for a missing one in an array, and has
            its own flags for missing numbers, which otherwise have a feature each (`age?`).
    """

    def __init__(self, features: Features | None = None, *, scaled: bool = False) -> None:
        self.features = Features() if features is None else features
        self.scaled = scaled
        self.largest = LARGEST_SCALED if scaled else LARGEST
        self.n_inputs: int | None = None  # of contexts that go by position; None where they have names
        self.names: dict[Hashable, int] | None = None  # the column of each feature, where they have names
        self.is_number: list[bool] = []  # for each feature that has a name
        self.frequency: list[int] = []  # how many texts had it, for each
        self.n_texts = 0
        self.kinds: dict[Hashable, str] = dict(self.features.kinds.items())
        self._embedder: Embedder | None = None

    @property
    def n_features(self) -> int | None:
        """How many columns there are; None before the first context."""
        return self.n_inputs if self.names is None else len(self.names)

    def copy(self) -> "ContextReader":
        """A reader that has accepted the same, and goes on independently."""
        other = ContextReader(self.features, scaled=self.scaled)
        other.n_inputs, other.is_number, other.kinds = self.n_inputs, list(self.is_number), dict(self.kinds)
        other.names = None if self.names is None else dict(self.names)
        other.frequency, other.n_texts = list(self.frequency), self.n_texts
        other._embedder = self._embedder
        return other

    def read(self, context: Any) -> Reading:
        """Read one context, without remembering anything yet."""
        if self.n_inputs is not None and type(context) in SPARSE_ROWS and self._is_sound(context, self.n_inputs):
            return SparseRow(context.indices, context.data), by_position(self.n_inputs)
        given: Any = context if type(context) is dict else one_context(context)
        if type(context) in (list, tuple) and isinstance(given, Mapping) and self.kinds and "0" not in self.kinds:
            raise InvalidContext("this agent's features have names; give the context as {feature: value}")
        if isinstance(given, Mapping) and not sp.issparse(given):  # some sparse formats are mappings too
            return self._read_named(given)
        if self.names is not None:
            given = self._by_position(given)
            return self._read_named(given)
        columns, values, n_inputs = _sparse_entries(given) if sp.issparse(given) else _dense_entries(given)
        row = SparseRow(columns, self._checked(columns, values, n_inputs))
        if self.n_inputs is not None and n_inputs != self.n_inputs:
            raise InvalidContext(f"the context has {n_inputs} features; this agent's contexts have {self.n_inputs}")
        return row, by_position(n_inputs)

    def _is_sound(self, row: Any, n_inputs: int) -> bool:
        """Whether a sparse matrix is a row as all others were, which needs no more checks."""
        columns, values, ends = row.indices, row.data, row.indptr
        if not type(columns) is type(values) is type(ends) is np.ndarray:  # somebody has put others in their place
            return False
        if row.shape != (1, n_inputs) or len(ends) != 2 or not len(columns) == len(values) == ends.item(1):
            return False
        if columns.dtype != INT32 or values.dtype != FLOAT64:
            return False
        return is_sound_row(columns, values, n_inputs, self.largest, self.scaled)

    def _by_position(self, array: Any) -> Mapping[Hashable, Any]:
        """A row of numbers for contexts that began as a list with words in it."""
        names = [str(position) for position in range(array.shape[-1])]
        if not all(name in self.kinds for name in names) or sp.issparse(array):
            raise InvalidContext("this agent's features have names; give the context as {feature: value}")
        return dict(zip(names, array.tolist(), strict=True))

    def accept(self, reading: Reading) -> None:
        """Remember what a reading settles: the number of features, or their names and kinds."""
        _, news = reading
        if news.n_inputs is not None:
            self.n_inputs = news.n_inputs
            return
        self.names = {} if self.names is None else self.names
        for name, is_number in news.new_names.items():
            self.names[name] = len(self.names)
            self.is_number.append(is_number)
            self.frequency.append(0)
        self.kinds |= news.new_kinds
        for column in news.terms:
            self.frequency[column] += 1
        self.n_texts += bool(news.terms)

    def read_all(self, contexts: Any) -> tuple[list[SparseRow], "ContextReader"]:
        """Read the rows of a batch, and return them with the reader that has accepted them."""
        reader, rows, given = self.copy(), [], all_contexts(contexts)
        if self.features.embed is not None:
            self.embed(_texts_of(given))  # in one call; what is read below is held then
        for i, context in enumerate(given):
            try:
                reading = reader.read(context)
            except InvalidContext as error:
                raise InvalidContext(f"row {i}: {error}", feature=error.feature, row=i) from None
            reader.accept(reading)
            rows.append(reading[0])
        if not rows:
            raise InvalidContext("there are no contexts")
        return rows, reader

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """The vectors of some texts (n, d)."""
        if self._embedder is None:
            self._embedder = embedder(self.features.embed or "")
        return self._embedder.embed(texts) if texts else np.zeros((0, 0), np.float32)

    def _read_named(self, context: Mapping[Hashable, Any]) -> Reading:
        if self.n_inputs is not None:
            raise InvalidContext(f"this agent's contexts are arrays of {self.n_inputs} features, not {{name: value}}")
        if not context:
            raise InvalidContext("the context is empty: it names no feature")
        return NamedReading(self).of(context)

    def _checked(self, columns: NDArray[np.int32], values: NDArray[Any], n_inputs: int) -> NDArray[np.float64]:
        """The values of a row by position, or `InvalidContext`."""
        if n_inputs == 0:
            raise InvalidContext("the context is empty: it has no features")
        if n_inputs > MAX_FEATURES:
            raise InvalidContext(f"the context has {n_inputs} features; at most {MAX_FEATURES} can be told apart")
        if values.dtype.kind not in "biuf":
            raise InvalidContext(f"the context holds {values.dtype} values; numbers are needed")
        floats = np.asarray(values, dtype=float)
        at = first_invalid(floats, self.largest, self.scaled)
        if at >= 0:
            raise InvalidContext(f"the context holds {floats[at]} at feature {columns[at]}; {needed(self.largest)}")
        return floats

    # Files.

    def state_dict(self) -> dict[str, Any]:
        """What a file holds of the features."""
        return {
            "n_inputs": self.n_inputs,
            "names": None if self.names is None else list(self.names),
            "is_number": np.array(self.is_number, np.bool_),
            "frequency": np.array(self.frequency, np.int64),
            "n_texts": self.n_texts,
            "kinds": dict(self.kinds),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what a file says of the features; `ValueError` where it does not fit together."""
        names, numbers, kinds, n_inputs = (state[key] for key in ("names", "is_number", "kinds", "n_inputs"))
        if n_inputs is not None and not (type(n_inputs) is int and 0 < n_inputs <= MAX_FEATURES):
            raise ValueError("the number of features is not one")
        if not isinstance(numbers, np.ndarray) or numbers.dtype != np.bool_ or len(numbers) != len(names or ()):
            raise ValueError("the names of the features do not fit")
        if names is not None and (n_inputs is not None or len(dict.fromkeys(names)) != len(names)):
            raise ValueError("the names of the features do not fit")
        frequency, n_texts = state["frequency"], state["n_texts"]
        if not isinstance(frequency, np.ndarray) or frequency.dtype != np.int64 or frequency.shape != numbers.shape:
            raise ValueError("the frequencies of the features do not fit")
        if type(n_texts) is not int or not (0 <= n_texts < 2**62 and ((frequency >= 0) & (frequency <= n_texts)).all()):
            raise ValueError("the frequencies of the features are not counts")
        if not isinstance(kinds, dict) or not all(kind in KINDS for kind in kinds.values()):
            raise ValueError("the kinds of the features are not known")
        self.n_inputs, self.is_number, self.kinds = n_inputs, numbers.tolist(), dict(kinds)
        self.frequency, self.n_texts = frequency.tolist(), n_texts
        self.names = None if names is None else {name: column for column, name in enumerate(names)}


def _texts_of(contexts: Sequence[Any]) -> list[str]:
    """All texts in a batch that may be embedded: plain ones, and values of several words."""
    found: dict[str, None] = {}
    for context in contexts:
        values = context.values() if isinstance(context, Mapping) else (context,)
        found |= {value: None for value in values if isinstance(value, str) and not is_missing(value)}
    return list(found)


def _sparse_entries(matrix: Any) -> tuple[NDArray[np.int32], NDArray[Any], int]:
    columns, n_inputs = np.asarray(matrix.indices), int(matrix.shape[-1])
    if len(columns) and not (columns.min() >= 0 and columns.max() < n_inputs):
        raise InvalidContext(f"the sparse context names a column that does not exist; there are {n_inputs}")
    return columns.astype(np.int32), np.asarray(matrix.data), n_inputs


def _dense_entries(array: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[Any], int]:
    return *nonzeros(np.ascontiguousarray(array, dtype=float)), len(array)  # NaN stays
