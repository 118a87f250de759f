"""A context as people gave it, from the features that an agent keeps of it."""

import math
from collections.abc import Hashable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from taciturn.contracts import SparseRow

MAX_WORDS = 12
"""The most words of a text that are shown."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Shown(NamedTuple):
    """One line of a context: the name of a column, its value as a number or in words, and how large it is."""

    name: str
    value: float | str
    size: float


def in_words(row: SparseRow, names: Mapping[Hashable, int] | None, kinds: Mapping[Hashable, str]) -> list[Shown]:
    """The values of a context, largest first; each text, list of tags and date is one of them.

    Arguments:
        row: the context before it was scaled.
        names: the column of each feature; None where features go by position.
        kinds: what each column of the contexts is.
    """
    by_column = {column: name for name, column in (names or {}).items()}
    found: list[Shown] = []
    words: dict[str, list[tuple[float, str]]] = {}
    for column, value in zip(row.columns.tolist(), row.values.tolist(), strict=True):
        name = by_column.get(column, column)
        if not value or kinds.get(name) == "number" or not isinstance(name, str):
            found += [_number(str(name), value)] if value else []
            continue
        base, sign, rest = _split(name, kinds)
        if sign == ":" or (sign == "=" and kinds[base] == "tags"):
            words.setdefault(base, []).append((value, rest))
        elif sign == "=":
            found.append(Shown(base, rest, 1.0))
        elif sign == "?":
            found.append(Shown(base, "missing", 1.0))
        elif sign == ".":
            found += [Shown(base, _date(value), 1.0)] if rest == "day" else []
        else:
            found.append(_number(name, value))
    found += [Shown(base, _joined(given), 1.0) for base, given in words.items()]
    return sorted(found, key=lambda shown: -shown.size)


def _number(name: str, value: float) -> Shown:
    return Shown(name, "missing", math.inf) if math.isnan(value) else Shown(name, value, abs(value))


def _split(name: str, kinds: Mapping[Hashable, str]) -> tuple[str, str, str]:
    """A feature's name as that of its column, the sign behind it, and the rest; an empty sign where it has none."""
    signs = {"category": "=?", "tags": "=?", "text": ":=?", "date": ".?", "number": "?", "vector": "?"}
    for i, sign in enumerate(name):
        if sign in ":=.?" and sign in signs.get(kinds.get(name[:i], ""), "") and (sign != "?" or i == len(name) - 1):
            return name[:i], sign, name[i + 1 :]
    return name, "", ""


def _joined(words: Iterable[tuple[float, str]]) -> str:
    """Words with the largest weights first; pairs and stems are left out, since their words are there too."""
    single = [word for _, word in sorted(words, key=lambda pair: -pair[0]) if " " not in word and "…" not in word]
    return ", ".join(single[:MAX_WORDS]) + (" …" if len(single) > MAX_WORDS else "")


def _date(days: float) -> str:
    """A date and, unless it is midnight, the time of the day, from days since 1970."""
    moment = EPOCH + timedelta(minutes=round(days * 24 * 60))
    return f"{moment:%Y-%m-%d}" if moment.hour == moment.minute == 0 else f"{moment:%Y-%m-%d %H:%M}"
