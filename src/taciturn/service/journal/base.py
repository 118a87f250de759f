"""The journal's types: entries, records, API keys, errors, and the interface of a journal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from taciturn import __version__
from taciturn.errors import TaciturnError

DELETE = "delete"
"""The kind of the entry that ends an agent: the agent's entries before it are dead, and compaction removes them."""

REMOVED = "removed"
"""The kind of the row that stands for a run of removed records; no entry can have it."""


class Entry(NamedTuple):
    """What is appended: the agent's name, the kind of the operation, and the operation as JSON."""

    agent: str
    kind: str
    body: bytes


class Record(NamedTuple):
    """An entry with its position, and the version of taciturn that wrote it. Positions count from 1 over all agents."""

    position: int
    agent: str
    kind: str
    body: bytes
    version: str = __version__


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
        """Yield all records after a position, in order, each verified; raises `DamagedJournal` at the first bad one.

        Positions rise, with gaps where compaction has removed the records of deleted agents.
        """

    def last(self) -> int:
        """Position of the last record, also if that one was removed; 0 for an empty journal."""

    @property
    def responsive(self) -> bool:
        """Whether the journal answers in time, as far as is known; takes no lock and asks nobody."""

    def keys(self) -> Iterable[Key]:
        """All API keys."""

    def put_key(self, key: Key) -> None:
        """Add a key, or replace the one of the same name."""

    def drop_key(self, name: str) -> bool:
        """Remove a key; returns whether it existed."""

    def probe(self) -> None:
        """Write something that changes nothing, durably; raises `JournalUnavailable` if that fails."""

    def close(self) -> None:
        """Release files and connections."""


class DamagedJournal(TaciturnError):
    """A journal that fails verification; the message says at which position, and how to repair it."""


class JournalUnavailable(TaciturnError):
    """A journal that cannot be reached or written now; nothing that failed was acknowledged."""


class Fenced(JournalUnavailable):
    """Another process has taken the journal over: this one never writes or reads again, and the service must stop."""


class JournalInUse(JournalUnavailable):
    """A journal that another process writes to."""


class JournalFull(JournalUnavailable):
    """A journal whose disk is full; it works again when there is space."""


def check_text(text: str) -> None:
    """Raise for text that not every database can store."""
    if "\0" in text or (not text.isascii() and text != text.encode("utf-8", "replace").decode()):
        raise TaciturnError(f"{text!r} contains a zero character or half a character; remove it")
