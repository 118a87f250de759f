"""What a session remembers beside its agent: values of contexts as they were given, and which rows were labelled."""

import hashlib
from collections.abc import Container, Iterable
from typing import Any, Self

import msgspec

from taciturn.features.containers import TEXT_COLUMN
from taciturn.service.core.contexts import JSONContext

MAX_CHARACTERS = 1_000
"""Characters that are remembered of a value."""

MAX_NBYTES = 2**26
"""Bytes of all values of an agent together; beyond them the oldest are forgotten."""

ENTRY, CHARACTER = 400, 4
"""Bytes of a decision's values beside their characters, and of a character: the most that Python takes."""

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def label_key(context: JSONContext, arm: str | int) -> str:
    """A hash of a labelled row: the same context with the same arm has the same."""
    return hashlib.blake2b(_encode_sorted([arm, context]), digest_size=16).hexdigest()


class Remembered:
    """The values of some columns of an agent's contexts, by decision, and the ids of labelled rows by `label_key`.

    An agent holds its contexts as numbers, of which a text cannot be read again.

    Arguments:
        columns: the columns to remember; only text is.

    Attributes:
        nbytes: about how many bytes the values take.
    """

    def __init__(self, columns: Iterable[str] = ()) -> None:
        self.columns = tuple(columns)
        self.values: dict[int, dict[str, str]] = {}
        self.labels: dict[str, int] = {}
        self.nbytes = 0

    def add(self, id: int, context: JSONContext) -> None:
        """Remember the columns of the context of a decision or labelled row."""
        given: Any = {TEXT_COLUMN: context} if isinstance(context, str) else context
        if self.columns and isinstance(given, dict):
            found = {name: given[name][:MAX_CHARACTERS] for name in self.columns if isinstance(given.get(name), str)}
            if found:
                self.values[id] = found
                self.nbytes += _nbytes(found)
        while self.nbytes > MAX_NBYTES:
            self._drop(next(iter(self.values)))

    def _drop(self, id: int) -> None:
        self.nbytes -= _nbytes(self.values.pop(id, {}))

    def forget(self, id: int) -> None:
        """A decision or labelled row was withdrawn."""
        self._drop(id)
        for key in [key for key, labelled in self.labels.items() if labelled == id]:
            del self.labels[key]

    def keep(self, held: Container[int]) -> None:
        """Forget the values of decisions that the agent does not hold any more; labels stay, as what they taught."""
        for id in [id for id in self.values if id not in held]:
            self._drop(id)

    def state_dict(self) -> dict[str, Any]:
        """What a snapshot holds: the values as one text of JSON, as there can be many."""
        values = msgspec.json.encode(list(self.values.items())).decode()
        return {"columns": self.columns, "values": values, "labels": dict(self.labels)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """What `state_dict` describes."""
        made = cls(state["columns"])
        values = msgspec.json.decode(state["values"], type=list[tuple[int, dict[str, str]]])
        made.values, made.labels = dict(values), dict(state["labels"])
        made.nbytes = sum(map(_nbytes, made.values.values()))
        return made


def _nbytes(values: dict[str, str]) -> int:
    """About how many bytes the values of one decision take; 0 of none."""
    return ENTRY + CHARACTER * sum(map(len, values.values())) if values else 0
