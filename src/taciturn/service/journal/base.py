"""The journal's types: entries, records chained by digests, API keys, errors, and the interface of a journal."""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from taciturn.errors import TaciturnError

GENESIS = bytes(16)
"""The digest that the first record is chained to."""


class Entry(NamedTuple):
    """What is appended: the agent's name, the kind of the operation, and the operation as JSON."""

    agent: str
    kind: str
    body: bytes


class Record(NamedTuple):
    """An entry with its position. Positions count from 1 over all agents, without gaps."""

    position: int
    agent: str
    kind: str
    body: bytes


class Key(NamedTuple):
    """An API key as stored: its name, the SHA-256 of the token, and its scope ("read" or "write")."""

    name: str
    digest: bytes
    scope: str


class Journal(Protocol):
    """An append-only log of entries. One process writes; calls may come from several threads, one at a time."""

    def append(self, entries: Sequence[Entry]) -> int:
        """Write all entries or none, durably, and return the position of the last."""

    def read(self, after: int = 0) -> Iterator[Record]:
        """Yield all records after a position, in order, each verified; raises `DamagedJournal` at the first bad one."""

    def last(self) -> int:
        """Position of the last record; 0 for an empty journal."""

    def keys(self) -> Iterable[Key]:
        """All API keys."""

    def put_key(self, key: Key) -> None:
        """Add a key, or replace the one of the same name."""

    def drop_key(self, name: str) -> bool:
        """Remove a key; returns whether it existed."""

    @property
    def responsive(self) -> bool:
        """Whether the journal answers in good time."""

    def probe(self) -> None:
        """Write something that changes nothing, durably; raises `JournalUnavailable` if that fails."""

    def close(self) -> None:
        """Release files and connections."""


class DamagedJournal(TaciturnError):
    """A journal that fails verification; the message says at which position, and how to repair it."""


class JournalUnavailable(TaciturnError):
    """A journal that cannot be reached or written now; nothing that failed was acknowledged."""


class Fenced(JournalUnavailable):
    """A journal that another process has taken over; this one never writes again."""


class JournalFull(JournalUnavailable):
    """A journal whose disk is full; it works again when there is space."""


class BadRecord(Exception):
    """A record that is not what was appended at its position; `good` is the last position before it."""

    def __init__(self, position: int, fault: str) -> None:
        super().__init__(f"record {position} {fault}")
        self.good = position - 1


def chain(previous: bytes, position: int, agent: str, kind: str, body: bytes) -> bytes:
    """Digest of a record, over the digest of the one before: a changed, removed or moved record is detected."""
    agent_bytes, kind_bytes = agent.encode(), kind.encode()
    lengths = struct.pack("<QII", position, len(agent_bytes), len(kind_bytes))
    return hashlib.blake2b(b"".join((previous, lengths, agent_bytes, kind_bytes, body)), digest_size=16).digest()


def verified(rows: Iterable[Sequence[Any]], after: int = 0, digest: bytes = GENESIS) -> Iterator[Record]:
    """Yield rows (position, agent, kind, body, digest) that follow position `after` as records; raises `BadRecord`.

    `digest` is the stored digest at position `after`.
    """
    for position, (found, agent, kind, body, stored) in enumerate(rows, start=after + 1):
        if found != position:
            raise BadRecord(position, "is missing")
        try:
            digest = chain(digest, position, agent, kind, body)
        except (TypeError, AttributeError, UnicodeError):  # damage can change the types of columns
            raise BadRecord(position, "was changed") from None
        if digest != stored:
            raise BadRecord(position, "was changed")
        yield Record(position, agent, kind, body)


def check_text(text: str) -> None:
    """Raise for text that not every database can store."""
    if "\0" in text or (not text.isascii() and text != text.encode("utf-8", "replace").decode()):
        raise TaciturnError(f"{text!r} contains a zero character or half a character; remove it")
