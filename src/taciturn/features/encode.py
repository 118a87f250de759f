"""Reading what users give as a context into sparse rows."""

import math
import zlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import SparseRow
from taciturn.errors import InvalidContext
from taciturn.features.containers import all_contexts, one_context
from taciturn.features.embed import Embedder, embedder
from taciturn.features.schema import (
    CATEGORY,
    IGNORED,
    KINDS,
    NUMBER,
    TAGS,
    TEXT,
    VECTOR,
    Features,
    date_of,
    is_missing,
    kind_of,
)
from taciturn.features.text import terms_of
from taciturn.kernels.select import first_invalid, nonzeros
from taciturn.validate import LARGEST, LARGEST_SCALED, shown

MAX_FEATURES = np.iinfo(np.int32).max

MAX_DEPTH = 8
"""How deep mappings can be nested."""

MAX_VALUES = 100_000
"""How many values a context of names can have, nested ones and items of lists included."""

NOTHING_KNOWN = "?"
"""The feature of a first context without any value: there must be one column."""

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Reading(NamedTuple):
    """A context as read: its row, the number of columns with it, and what it is the first to have."""

    row: SparseRow
    n_features: int
    new_names: dict[Hashable, bool]  # features, and whether each is a number
    new_kinds: dict[Hashable, str]  # of columns of the context
    terms: tuple[int, ...]  # the columns of words in its texts
    n_inputs: int | None  # the length of a context without names


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
        given: Any = context if type(context) is dict else one_context(context)
        if isinstance(given, Mapping) and not sp.issparse(given):  # some sparse formats are mappings too
            return self._read_named(given)
        if self.names is not None:
            given = self._by_position(given)
            return self._read_named(given)
        columns, values, n_inputs = _sparse_entries(given) if sp.issparse(given) else _dense_entries(given)
        row = SparseRow(columns, self._checked(columns, values, n_inputs))
        if self.n_inputs is not None and n_inputs != self.n_inputs:
            raise InvalidContext(f"the context has {n_inputs} features; this agent's contexts have {self.n_inputs}")
        return Reading(row, n_inputs, {}, {}, (), n_inputs)

    def _by_position(self, array: Any) -> Mapping[Hashable, Any]:
        """A row of numbers for contexts that began as a list with words in it."""
        names = [str(position) for position in range(array.shape[-1])]
        if not all(name in self.kinds for name in names) or sp.issparse(array):
            raise InvalidContext("this agent's features have names; give the context as {feature: value}")
        return dict(zip(names, array.tolist(), strict=True))

    def accept(self, reading: Reading) -> None:
        """Remember what a reading settles: the number of features, or their names and kinds."""
        if reading.n_inputs is not None:
            self.n_inputs = reading.n_inputs
            return
        self.names = {} if self.names is None else self.names
        for name, is_number in reading.new_names.items():
            self.names[name] = len(self.names)
            self.is_number.append(is_number)
            self.frequency.append(0)
        self.kinds |= reading.new_kinds
        for column in reading.terms:
            self.frequency[column] += 1
        self.n_texts += bool(reading.terms)

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
            rows.append(reading.row)
        if not rows:
            raise InvalidContext("there are no contexts")
        return rows, reader

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """The vectors of some texts (n, d)."""
        if self._embedder is None:
            self._embedder = embedder(self.features.embed or "", allow_import=True)
        return self._embedder.embed(texts) if texts else np.zeros((0, 0), np.float32)

    def _read_named(self, context: Mapping[Hashable, Any]) -> Reading:
        if self.n_inputs is not None:
            raise InvalidContext(f"this agent's contexts are arrays of {self.n_inputs} features, not {{name: value}}")
        if not context:
            raise InvalidContext("the context is empty: it names no feature")
        return _NamedReading(self).of(context)

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


class _NamedReading:
    """The reading of one context of names: its entries so far, and what it is the first to name."""

    def __init__(self, reader: ContextReader) -> None:
        self._names: dict[Hashable, int] = reader.names or {}
        self._kinds, self._reader = reader.kinds, reader
        self._max = reader.features.max_features
        self._entries: dict[int, float] = {}
        self._new_names: dict[Hashable, bool] = {}
        self._opened: dict[Hashable, int] = {}
        self._new_kinds: dict[Hashable, str] = {}
        self._terms: set[int] = set()
        self._count = 0

    def of(self, context: Mapping[Hashable, Any]) -> Reading:
        """Read all values."""
        self._read_items(context, "", 1)
        if not self._names and not self._new_names:
            self._add(NOTHING_KNOWN, 1.0)
        entries = sorted(self._entries.items())
        columns, values = [column for column, _ in entries], [value for _, value in entries]
        row = SparseRow(np.array(columns, np.int32), np.array(values, float))
        n_features = len(self._names) + len(self._new_names)
        return Reading(row, n_features, self._new_names, self._new_kinds, tuple(self._terms), None)

    def _read_items(self, context: Mapping[Hashable, Any], prefix: str, depth: int) -> None:
        """Read the values of a mapping; those of a nested one as `outer.inner`."""
        kinds, names, entries, largest = self._kinds, self._names, self._entries, self._reader.largest
        for given, value in context.items():
            name = f"{prefix}{given}" if prefix else given
            kind, of = kinds.get(name), type(value)
            if kind == NUMBER and (of is float or of is int or of is bool):  # what most values are
                column = names.get(name)
                if column is not None and -largest <= value <= largest:
                    entries[column] = float(value)
                    continue
            elif kind == CATEGORY and of is str:
                column = names.get(f"{name}={value}")
                if column is not None:
                    entries[column] = entries.get(column, 0.0) + 1.0
                    continue
            if of is not str and isinstance(value, Mapping):
                if depth >= MAX_DEPTH:
                    message = f"feature {shown(name)} is nested more than {MAX_DEPTH} deep; less is needed"
                    raise InvalidContext(message, feature=str(name))
                self._read_items(value, f"{name}.", depth + 1)
            else:
                self._read_one(name, value, kind)

    def _read_one(self, name: Hashable, value: Any, known: str | None) -> None:
        """Read a value; an error says of which feature."""
        try:
            self._read_value(name, value, known)
        except InvalidContext as error:
            error.feature = error.feature or str(name)
            raise

    def _read_value(self, name: Hashable, value: Any, known: str | None) -> None:
        self._count += 1
        if known == IGNORED:
            return
        if value is None or is_missing(value):
            if known is not None and not (known == NUMBER and self._reader.scaled):
                self._add(f"{name}?", 1.0)
            return
        kind = self._kind(name, value, known)
        match kind:
            case "number":
                self._add(name, _number(name, value, self._reader.largest), is_number=True)
            case "category":
                self._add(f"{name}={_word(value)}", 1.0)
            case "text":
                self._add_text(name, value)
            case "tags":
                for tag in sorted(value, key=str) if isinstance(value, set | frozenset) else value:
                    if not is_missing(tag):
                        self._add(f"{name}={_word(tag)}", 1.0)
                        self._check_count()
            case "date":
                self._add_date(name, value)
            case "vector":
                self._add_vector(name, value)
        self._check_count()

    def _check_count(self) -> None:
        if self._count > MAX_VALUES:
            raise InvalidContext(f"the context has more than {MAX_VALUES} values; fewer are needed")

    def _kind(self, name: Hashable, value: Any, known: str | None) -> str:
        """The kind of a column: as it is known, or as its first value says."""
        if type(value) is str and known == TEXT:
            return TEXT
        if known == CATEGORY and name in self._reader.features.kinds:
            return CATEGORY
        found = kind_of(name, value)
        if known is None:
            if name != name:  # noqa: PLR0124 - NaN
                raise InvalidContext("a feature is named NaN, which is not equal to itself; give it another name")
            if len(self._kinds) < self._max:
                self._new_kinds[name] = found
            return found
        if known == found or (known == NUMBER and name in self._reader.features.kinds and isinstance(value, str)):
            return known
        if isinstance(value, str):  # a text can be short, a name can have several words, a date is a word too
            if known in (CATEGORY, TEXT):
                if known == CATEGORY and found == TEXT and name not in self._reader.features.kinds:
                    self._new_kinds[name] = TEXT
                    return TEXT
                return known
            if known == TAGS:
                self._add(f"{name}={value}", 1.0)
                return IGNORED
        if known == TAGS and found == VECTOR and not len(value):
            return known
        raise InvalidContext(
            f"feature {name!r} is {shown(value)}, a {found}; it was a {known} so far, and a {known} is needed"
        )

    def _add(self, feature: Hashable, value: float, *, is_number: bool = False) -> None:
        """Add to the entry of a feature."""
        column = self._column(feature, is_number=is_number)
        self._entries[column] = self._entries.get(column, 0.0) + value
        self._count += 1

    def _column(self, feature: Hashable, *, is_number: bool = False) -> int:
        """The column of a feature: one of its own or, beyond `max_features`, a shared one."""
        column = self._names.get(feature)
        if column is None:
            column = self._opened.get(feature)
        if column is None:
            column = len(self._names) + len(self._opened)
            if column >= self._max:
                column = self._shared_column(feature)
            else:
                self._opened[feature] = column
                self._new_names[feature] = is_number
        return column

    def _shared_column(self, feature: Hashable) -> int:
        """The column of a feature that has none of its own, chosen by a hash of its name; numbers share none."""
        column, is_number = zlib.crc32(repr(feature).encode()) % self._max, self._reader.is_number
        for step in range(self._max):
            at = (column + step) % self._max
            if at >= len(is_number) or not is_number[at]:
                return at
        raise InvalidContext(f"feature {feature!r} is one too many: max_features={self._max} numbers have columns")

    def _add_text(self, name: Hashable, value: Any) -> None:
        """Words, pairs and stems, each weighted by how rare it was in the texts so far; of unit length together.

        With an embedding, its vector.
        """
        if self._reader.features.embed is not None:
            self._add_vector(name, self._reader.embed([str(value)])[0].tolist())
            return
        weights: dict[int, float] = {}
        n_texts, frequency = self._reader.n_texts, self._reader.frequency
        for term, weight in terms_of(value if isinstance(value, str) else str(value)).items():
            column = self._column(f"{name}:{term}")
            known = frequency[column] if column < len(frequency) else 0
            rarity = 1.0 + math.log((1 + n_texts) / (1 + known))
            weights[column] = weights.get(column, 0.0) + weight * rarity
        length = math.sqrt(sum(weight * weight for weight in weights.values()))
        for column, weight in weights.items():
            self._entries[column] = self._entries.get(column, 0.0) + weight / length
        self._terms.update(weights)
        self._count += len(weights)

    def _add_date(self, name: Hashable, value: Any) -> None:
        """Days since 1970 as a number, the weekday, and the times of the day and of the year as points on a circle."""
        moment = date_of(name, value)
        hours = moment.hour + moment.minute / 60 + moment.second / 3600
        self._add(f"{name}.day", moment.toordinal() - 719_163 + hours / 24, is_number=True)
        self._add(f"{name}.weekday={WEEKDAYS[moment.weekday()]}", 1.0)
        for part, share in (("hour", hours / 24), ("year", moment.timetuple().tm_yday / 365.25)):
            self._add(f"{name}.{part}.cos", math.cos(2 * math.pi * share))
            self._add(f"{name}.{part}.sin", math.sin(2 * math.pi * share))

    def _add_vector(self, name: Hashable, value: Any) -> None:
        for position, item in enumerate(value):
            self._add(f"{name}[{position}]", _number(f"{name}[{position}]", item, LARGEST))
            self._check_count()


def needed(largest: float) -> str:
    """What would be right where a number is not."""
    return f"a finite number is needed, of at most {largest:g}"


def _texts_of(contexts: Sequence[Any]) -> list[str]:
    """All texts in a batch that may be embedded: plain ones, and values of several words."""
    found: dict[str, None] = {}
    for context in contexts:
        values = context.values() if isinstance(context, Mapping) else (context,)
        found |= {value: None for value in values if isinstance(value, str) and not is_missing(value)}
    return list(found)


def _word(value: Any) -> str:
    """The name of a category: 3 and 3.0 are one."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value).strip()


def _number(name: Hashable, value: Any, largest: float) -> float:
    """A number of at most `largest`, or `InvalidContext`."""
    try:
        if isinstance(value, np.timedelta64):
            value = value / np.timedelta64(1, "s")
        number = float(value.total_seconds()) if hasattr(value, "total_seconds") else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if not -largest <= number <= largest:
        raise InvalidContext(f"feature {name!r} is {shown(value)}; {needed(largest)}")
    return number


def _sparse_entries(matrix: Any) -> tuple[NDArray[np.int32], NDArray[Any], int]:
    columns, n_inputs = matrix.indices, int(matrix.shape[-1])
    if len(columns) and not (columns.min() >= 0 and columns.max() < n_inputs):
        raise InvalidContext(f"the sparse context names a column that does not exist; there are {n_inputs}")
    return columns.astype(np.int32), matrix.data, n_inputs


def _dense_entries(array: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[Any], int]:
    return *nonzeros(np.ascontiguousarray(array, dtype=float)), len(array)  # NaN stays
