"""What becomes of each value of a context: the kinds of columns, said by `Features` or inferred."""

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np

from taciturn.errors import InvalidContext, TaciturnError
from taciturn.features.embed import embedder
from taciturn.validate import check_number, shown

NUMBER, CATEGORY, TEXT, TAGS, DATE, VECTOR, IGNORED = KINDS = (
    "number",
    "category",
    "text",
    "tags",
    "date",
    "vector",
    "ignored",
)

MAX_NAMED = 2**18
"""How many features have names of their own; later ones share columns."""

ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII)

MISSING = frozenset(["", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "None"])
"""Words that say that there is no value: in cells of a file, in labels, and in place of a number."""

TAKEN = "a number, a word, text, a truth value, a date, a list of words or numbers, or None"
"""What a value of a context can be, for errors."""


@dataclass(frozen=True, kw_only=True)
class Features:
    """What the columns of contexts are; what is not named is inferred from the first value of each column.

    A number is a column of its own; a word is a category (`country=DE`); several words are text, of which each word and
    each pair of neighboring words is a feature; a list of words are tags; a date is split into day, weekday, time of
    the day and of the year; a list of numbers is a vector.

    Arguments:
        numeric: columns that are numbers; words that spell numbers are read as such.
        categorical: columns whose values are names, also where they are numbers (a postal code).
        text: columns that are text, also where a value has one word.
        ignore: columns that are left out.
        embed: what turns text into vectors in place of words: "wordllama", "openai:MODEL@URL", or a function from a
            list of texts to an array (n, d). None hashes words.
        max_features: how many features have columns of their own; the names of later ones are hashed onto these.
    """

    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    text: Sequence[str] = ()
    ignore: Sequence[str] = ()
    embed: str | Callable[[list[str]], Any] | None = None
    max_features: int = MAX_NAMED
    kinds: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that each column is named once."""
        check_number("max_features", self.max_features, 1, MAX_NAMED * 64, whole=True)
        if self.embed is not None and not isinstance(self.embed, str) and not callable(self.embed):
            raise TaciturnError(f"embed={shown(self.embed)} is not allowed; the name of an embedding or a function is")
        kinds: dict[str, str] = {}
        sides = (("numeric", NUMBER), ("categorical", CATEGORY), ("text", TEXT), ("ignore", IGNORED))
        for side, kind in sides:
            names = getattr(self, side)
            if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
                raise TaciturnError(f"{side}={shown(names)} is not allowed; a list of names of columns is")
            for name in names:
                if name in kinds:
                    raise TaciturnError(f"column {name!r} is named twice, as {kinds[name]} and {kind}; once is right")
                kinds[name] = kind
            object.__setattr__(self, side, tuple(names))
        object.__setattr__(self, "kinds", kinds)

    @classmethod
    def of(cls, given: Any) -> Self:
        """What was given as `features=`: these, a mapping of their arguments, or None."""
        if isinstance(given, cls):
            return given
        if given is None:
            return cls()
        names = [entry.name for entry in fields(cls) if entry.init]
        if not isinstance(given, Mapping) or not all(name in names for name in given):
            raise TaciturnError(f"features={shown(given)} is not allowed; taciturn.Features({', '.join(names)}) is")
        return cls(**given)

    def as_dict(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        default = type(self)()
        given = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value != getattr(default, name)
        }

    def saved(self) -> dict[str, Any] | None:
        """The same as files hold it: a function that embeds text by the name that it can be imported by."""
        given = self.as_dict()
        if callable(self.embed):
            name = embedder(self.embed).name
            if name is None:
                raise TaciturnError(f"{shown(self.embed)} embeds text, and cannot be saved; a function of a module can")
            given["embed"] = name
        return given or None


def is_missing(value: object) -> bool:
    """Whether a value says that there is none: None, NaN, an empty string, pandas' NA and NaT, NaN of Decimal."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, float | np.floating):
        return bool(math.isnan(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def is_empty(value: object) -> bool:
    """Whether a value is a list of nothing."""
    return isinstance(value, list | tuple | set | frozenset | np.ndarray) and not len(value)


def plain_value(name: object, value: object) -> object:
    """The value; of an array of no axes its number, of one of a single row that row, and of more axes an error."""
    if not isinstance(value, np.ndarray) or value.ndim == 1:
        return value
    if value.ndim == 0:
        return value.item()
    if value.ndim == 2 and len(value) == 1:
        return value[0]
    raise InvalidContext(f"feature {name!r} is an array of shape {value.shape}; a list of numbers is needed")


def _is_date(text: str) -> bool:
    """Whether a text of the form of a date is one."""
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def kind_of(name: object, value: object) -> str:
    """The kind that a value, which is not missing, is taken for."""
    if isinstance(value, str):
        if ISO_DATE.fullmatch(value) and _is_date(value):
            return DATE
        return TEXT if len(value.split()) > 1 else CATEGORY
    if isinstance(value, Real | np.bool_ | np.number) or type(value).__name__ == "Decimal":
        return NUMBER
    if isinstance(value, dt.timedelta | np.timedelta64):
        return NUMBER
    if isinstance(value, dt.date | np.datetime64):
        return DATE
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        items = [item for item in value if isinstance(item, str) or not is_missing(item)]
        if items and all(isinstance(item, Real | np.number) for item in items):
            return VECTOR
        if all(isinstance(item, str | Real | np.bool_ | np.number | dt.date) for item in items):
            return TAGS
        raise InvalidContext(f"feature {name!r} is {shown(value)}; a list of words or of numbers is needed")
    raise InvalidContext(f"feature {name!r} is {shown(value)} ({type(value).__name__}); {TAKEN} is needed")


def date_of(name: object, value: object) -> dt.datetime:
    """A date as a point in time; without a time it is midnight."""
    try:
        if isinstance(value, str):
            return dt.datetime.fromisoformat(value)
        if isinstance(value, np.datetime64):
            return dt.datetime.fromisoformat(str(value.astype("datetime64[us]")))
        if isinstance(value, dt.datetime):
            return value
        if isinstance(value, dt.date):
            return dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a day has no time zone
    except (ValueError, OverflowError):
        pass
    raise InvalidContext(f"feature {name!r} is {shown(value)}; a date is needed, as 2026-11-16 or 2026-11-16T09:30")
