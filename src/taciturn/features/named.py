"""Reading a context of named values: what becomes of each, and which columns it opens."""

import datetime as dt
import math
import zlib
from collections.abc import Hashable, Mapping
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from taciturn.contracts import SparseRow
from taciturn.errors import InvalidContext
from taciturn.features.schema import (
    CATEGORY,
    IGNORED,
    MISSING,
    NUMBER,
    TAGS,
    TEXT,
    date_of,
    is_empty,
    is_missing,
    kind_of,
    plain_value,
)
from taciturn.features.text import terms_of
from taciturn.validate import LARGEST, shown

if TYPE_CHECKING:
    from taciturn.features.encode import ContextReader

MAX_DEPTH = 8
"""How deep mappings can be nested."""

MAX_VALUES = 100_000
"""How many values a context of names can have, nested ones and items of lists included."""

NOTHING_KNOWN = "?"
"""The feature of a first context without any value: there must be one column."""

PLAIN = (str, Real, np.bool_, np.number, dt.date)
"""What can be the name of a category."""

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class News(NamedTuple):
    """What a context settles: the number of columns with it, and what it is the first to have."""

    n_features: int
    new_names: dict[Hashable, bool]  # features, and whether each is a number
    new_kinds: dict[Hashable, str]  # of columns of the context
    terms: tuple[int, ...]  # the columns of words in its texts
    n_inputs: int | None  # the length of a context without names


Reading = tuple[SparseRow, News]
"""A context as read: its row, and what it settles."""


@lru_cache(maxsize=16)
def by_position(n_inputs: int) -> News:
    """Of a context without names: its length, and nothing else. It is shared, so nobody writes to it."""
    return News(n_inputs, {}, {}, (), n_inputs)


class NamedReading:
    """The reading of one context of names: its entries so far, and what it is the first to name."""

    def __init__(self, reader: "ContextReader") -> None:
        self._names: dict[Hashable, int] = reader.names or {}
        self._kinds, self._reader = reader.kinds, reader
        self._max = reader.features.max_features
        self._entries: dict[int, float] = {}
        self._new_names: dict[Hashable, bool] = {}
        self._opened: dict[Hashable, int] = {}
        self._opened_numbers: list[bool] = []
        self._new_kinds: dict[Hashable, str] = {}
        self._terms: set[int] = set()
        self._count = 0

    def of(self, context: Mapping[Hashable, Any]) -> Reading:
        """Read all values."""
        self._read_items(context, "", 1)
        if not self._names and not self._new_names:
            self._add(NOTHING_KNOWN, 1.0)
        columns = sorted(self._entries)
        values = [self._entries[column] for column in columns]
        row = SparseRow(np.array(columns, np.int32), np.array(values, float))
        n_features = len(self._names) + len(self._new_names)
        return row, News(n_features, self._new_names, self._new_kinds, tuple(self._terms), None)

    def _read_items(self, context: Mapping[Hashable, Any], prefix: str, depth: int) -> None:
        """Read the values of a mapping; those of a nested one as `outer.inner`."""
        kinds, names, entries = self._kinds, self._names, self._entries
        largest, is_number = self._reader.largest, self._reader.is_number
        for given, value in context.items():
            name = f"{prefix}{given}" if prefix else given
            kind, of = kinds.get(name), type(value)
            # What most values are, known already, is read here; all else, with all checks, below.
            if kind == NUMBER and (of is float or of is int or of is bool):
                column = names.get(name)
                if column is not None and column not in entries and -largest <= value <= largest:
                    entries[column] = float(value)
                    continue
            elif kind == CATEGORY and of is str:
                column = names.get(f"{name}={value}")
                if column is not None and column not in entries and not is_number[column]:
                    entries[column] = 1.0
                    continue
            elif kind == TAGS and of is list and self._read_known_tags(name, value):
                continue
            if of is not str and isinstance(value, Mapping) and kind != IGNORED:
                if kind is not None:
                    message = f"feature {shown(name)} is {shown(value)}, a mapping; a {kind} is needed"
                    raise InvalidContext(message, feature=str(name))
                if depth >= MAX_DEPTH:
                    message = f"feature {shown(name)} is nested more than {MAX_DEPTH} deep; less is needed"
                    raise InvalidContext(message, feature=str(name))
                self._read_items(value, f"{name}.", depth + 1)
            else:
                self._read_one(name, value, kind)

    def _read_known_tags(self, name: Hashable, tags: list[Any]) -> bool:
        """Read some strings that all have their columns; otherwise nothing, and return False."""
        names, entries = self._names, self._entries
        is_number = self._reader.is_number
        columns = [names.get(f"{name}={tag}") if type(tag) is str else None for tag in tags]
        if not columns or any(column is None or is_number[column] for column in columns):
            return False
        for column in columns:
            entries[column] = entries.get(column, 0.0) + 1.0  # type: ignore[index,arg-type] # none is None
        self._count += len(columns)
        self._check_count()
        return True

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
        value = plain_value(name, value)
        if value is None or is_missing(value) or is_empty(value) or (known == NUMBER and _says_missing(value)):
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
        if known == CATEGORY and name in self._reader.features.kinds and isinstance(value, PLAIN):
            return CATEGORY
        if known == TEXT and name in self._reader.features.kinds and isinstance(value, Real | np.number):
            return TEXT  # a title can be 1984
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
        raise InvalidContext(
            f"feature {name!r} is {shown(value)}, a {found}; it was a {known} so far, and a {known} is needed"
        )

    def _add(self, feature: Hashable, value: float, *, is_number: bool = False) -> None:
        """Add to the entry of a feature; a number is named once."""
        column = self._column(feature, is_number=is_number)
        has_own = feature in self._names or feature in self._opened
        if has_own and (is_number != self._is_number(column) or (is_number and column in self._entries)):
            message = f"feature {shown(feature)} is named twice, or as a number and as a word; names must differ"
            raise InvalidContext(message, feature=str(feature))
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
                self._opened_numbers.append(is_number)
                self._new_names[feature] = is_number
        return column

    def _is_number(self, column: int) -> bool:
        """Whether a column is one of a number, also of one that this context has opened."""
        known = self._reader.is_number
        return known[column] if column < len(known) else self._opened_numbers[column - len(known)]

    def _shared_column(self, feature: Hashable) -> int:
        """The column of a feature that has none of its own, chosen by a hash of its name; numbers share none."""
        column = zlib.crc32(repr(feature).encode(errors="backslashreplace")) % self._max
        for step in range(self._max):
            at = (column + step) % self._max
            if not self._is_number(at):
                return at
        raise InvalidContext(f"feature {feature!r} is one too many: max_features={self._max} numbers have columns")

    def _add_text(self, name: Hashable, value: Any) -> None:
        """Words, pairs and stems, each weighted by how rare it was in the texts so far; of unit length together.

        With an embedding, its vector.
        """
        if self._reader.features.embed is not None:
            vector = self._reader.embed([str(value)])[0].tolist()
            if not self._add_known_embedding(name, vector):
                self._add_vector(name, vector)
            return
        weights: dict[int, float] = {}
        names, frequency, n_texts = self._names, self._reader.frequency, 1 + self._reader.n_texts
        for term, weight in terms_of(value if isinstance(value, str) else str(value)).items():
            feature = f"{name}:{term}"
            column = names.get(feature)
            if column is None:
                column = self._column(feature)
            known = frequency[column] if column < len(frequency) else 0
            weights[column] = weights.get(column, 0.0) + weight * (1.0 + math.log(n_texts / (1 + known)))
        length = math.sqrt(sum([weight * weight for weight in weights.values()]))
        entries = self._entries
        for column, weight in weights.items():
            entries[column] = entries.get(column, 0.0) + weight / length
        self._terms.update(weights)
        self._count += len(weights)

    def _add_known_embedding(self, name: Hashable, vector: list[float]) -> bool:
        """Add finite numbers that all have their columns, in a quarter of the time; or nothing, and return False."""
        names, entries, is_number = self._names, self._entries, self._reader.is_number
        features = [f"{name}[{position}]" for position in range(len(vector))]
        columns = [names[feature] for feature in features if feature in names]
        if len(columns) < len(vector) or f"{name}[{len(vector)}]" in names:
            return False
        if any(is_number[column] or column in entries for column in columns):
            return False
        entries.update((column, 0.0 + number) for column, number in zip(columns, vector, strict=True))
        self._count += len(vector)
        return True

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
        names, length = self._names, len(value)
        is_known = f"{name}[0]" in names and len(names) < self._max
        if is_known and (f"{name}[{length}]" in names or f"{name}[{length - 1}]" not in names):
            raise InvalidContext(f"feature {name!r} has {length} numbers; those before had another number of them")
        for position, item in enumerate(value):
            number = 0.0 if is_missing(item) else _number(f"{name}[{position}]", item, LARGEST)
            self._add(f"{name}[{position}]", number)
            self._check_count()


def _says_missing(value: object) -> bool:
    """Whether a word in place of a number says that there is none, as in files."""
    return isinstance(value, str) and value.strip() in MISSING


def needed(largest: float) -> str:
    """What would be right where a number is not."""
    return f"a finite number is needed, of at most {largest:g}"


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
