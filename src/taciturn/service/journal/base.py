"""The journal: what was asked of the service, in order. Everything else is a function of it."""

import hashlib
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol

from taciturn.errors import TaciturnError


class DamagedJournal(TaciturnError):
    """A journal that cannot be trusted; the message says at which position, and how to repair it."""


class Entry(NamedTuple):
    """Something that an agent was asked: which agent, what kind of thing, and the rest as JSON."""

    agent: str
    kind: str
    body: bytes


class Record(NamedTuple):
    """An entry in its place. Positions count from 1 over all agents, without gaps."""

    position: int
    agent: str
    kind: str
    body: bytes


class Key(NamedTuple):
    """An API key as it is kept: its name, the SHA-256 of the token, and what it may do ("read" or "write")."""

    name: str
    digest: bytes
    scope: str


class Journal(Protocol):
    """Where entries are kept for ever. One process writes; its calls come from one thread at a time."""

    def append(self, entries: Sequence[Entry]) -> int:
        """Write all entries or none, durably, and return the position of the last."""

    def read(self, after: int = 0) -> Iterator[Record]:
        """All records behind a position, in order, each checked; raises `DamagedJournal` at the first bad one."""

    def last(self) -> int:
        """The position of the last record; 0 for an empty journal."""

    def keys(self) -> Iterable[Key]:
        """All API keys."""

    def put_key(self, key: Key) -> None:
        """Add a key, or replace the one of its name."""

    def drop_key(self, name: str) -> bool:
        """Remove a key; whether there was one."""

    def close(self) -> None:
        """Let go of files and connections."""


GENESIS = bytes(16)  # what the first record is chained to
PAGE = 100  # records that are read at a time


class JournalUnavailable(TaciturnError):
    """A journal that cannot be reached or written now; what was not acknowledged was not promised."""


class JournalFull(JournalUnavailable):
    """A journal whose disk is full; it works again when there is room."""


class BadRecord(Exception):
    """A record that is not what was appended there."""

    def __init__(self, position: int, fault: str) -> None:
        super().__init__(f"record {position} {fault}")
        self.good = position - 1


def chain(previous: bytes, position: int, agent: str, kind: str, body: bytes) -> bytes:
    """The digest of a record, over the digest of the one before it: no record can change, go or move unnoticed."""
    agent_bytes, kind_bytes = agent.encode(), kind.encode()
    lengths = struct.pack("<QII", position, len(agent_bytes), len(kind_bytes))
    return hashlib.blake2b(b"".join((previous, lengths, agent_bytes, kind_bytes, body)), digest_size=16).digest()


def check_name(name: str) -> None:
    """Refuse text that not every database can hold."""
    if "\0" in name or (not name.isascii() and name != name.encode("utf-8", "replace").decode()):
        raise TaciturnError(f"{name!r} has a zero character or half a character in it; leave that out")


def check_schema(place: str, version: int) -> None:
    """Refuse tables of a version to come."""
    if version > len(MIGRATIONS):
        known = len(MIGRATIONS)
        raise TaciturnError(
            f"{place}: written by a newer taciturn (schema {version}, this one knows {known}); install that one"
        )


def checked(rows: Iterable[Sequence[Any]], after: int = 0, digest: bytes = GENESIS) -> Iterator[Record]:
    """Rows of the table of records, in order from a position whose digest is given, as records."""
    for position, (found, agent, kind, body, stored) in enumerate(rows, start=after + 1):
        if found != position:
            raise BadRecord(position, "is missing")
        try:
            digest = chain(digest, position, agent, kind, body)
        except (TypeError, AttributeError, UnicodeError):  # not even text and bytes
            raise BadRecord(position, "was changed") from None
        if digest != stored:
            raise BadRecord(position, "was changed")
        yield Record(position, agent, kind, body)


def _create_tables(journal: "SQLJournal") -> None:
    position, blob = journal.position_type, journal.blob_type
    journal.write(
        f"CREATE TABLE taciturn_records (position {position} PRIMARY KEY, agent TEXT NOT NULL, kind TEXT NOT NULL, "
        f"body {blob} NOT NULL, digest {blob} NOT NULL)"
    )
    journal.write(f"CREATE TABLE taciturn_keys (name TEXT PRIMARY KEY, digest {blob} NOT NULL, scope TEXT NOT NULL)")
    journal.write("INSERT INTO taciturn_meta VALUES ('head', 0)")  # how many records there are: a lost end is noticed


MIGRATIONS: list[Callable[["SQLJournal"], None]] = [_create_tables]  # the n-th leads from schema n to n + 1


class SQLJournal(ABC):
    """A journal in tables. What differs between databases is how to connect, to run a statement, and their errors.

    Every call takes a lock, so that keys can be changed by one thread while another appends.
    """

    position_type: ClassVar[str]
    blob_type: ClassVar[str]
    place: str  # the journal's name in messages
    remedy: str  # what to do when it is damaged

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tail: tuple[int, bytes] | None = None  # the last position and its digest; None where it must be read

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All statements in it or none; what the database says against them becomes a `TaciturnError`."""

    @abstractmethod
    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement with `?` where the values go; only inside a transaction."""

    @abstractmethod
    def write(self, sql: str, rows: Sequence[Sequence[object]] | None = None) -> None:
        """A statement that gives nothing back, once, or for each of the rows; only inside a transaction."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""

    def append(self, entries: Sequence[Entry]) -> int:
        """Write all entries or none, and return the position of the last."""
        for agent, kind, _ in entries:
            check_name(agent)
            check_name(kind)
        with self._lock:
            with self.transaction():
                position, digest = self._tail or self._stored_tail()
                rows = []
                for agent, kind, body in entries:
                    position += 1
                    digest = chain(digest, position, agent, kind, body)
                    rows.append((position, agent, kind, body, digest))
                self._tail = None  # until it is known how this ended
                if rows:
                    self.write("INSERT INTO taciturn_records VALUES (?, ?, ?, ?, ?)", rows)
                    self.write("UPDATE taciturn_meta SET value = ? WHERE name = 'head'", [(position,)])
            self._tail = position, digest
            return position

    def read(self, after: int = 0) -> Iterator[Record]:
        """All records behind a position, in order, each checked; none is held on to between two steps."""
        last, digest = self.last(), self.digest_at(after)
        if after >= last:
            return
        if digest is None:
            raise self.damaged(f"record {after} is missing", after - 1)
        try:
            yield from checked(self._rows(after, last), after, digest)
        except BadRecord as error:
            raise self.damaged(str(error), error.good) from None

    def _rows(self, after: int, last: int) -> Iterator[tuple[Any, ...]]:
        statement = (
            "SELECT position, agent, kind, body, digest FROM taciturn_records "
            "WHERE position > ? AND position <= ? ORDER BY position LIMIT ?"
        )
        while after < last:
            with self.transaction():
                rows = self.query(statement, after, last, PAGE)
            if not rows:
                raise BadRecord(after + 1, "is missing")
            yield from rows
            after = rows[-1][0]

    def last(self) -> int:
        """The position of the last record."""
        with self._lock:
            if self._tail is None:
                with self.transaction():
                    self._tail = self._stored_tail()
            return self._tail[0]

    def digest_at(self, position: int) -> bytes | None:
        """The digest of everything up to a position, which tells one history from another; None where there is none."""
        if position == 0:
            return GENESIS
        with self.transaction():
            rows = self.query("SELECT digest FROM taciturn_records WHERE position = ?", position)
        return rows[0][0] if rows else None

    def keys(self) -> Iterable[Key]:
        """All API keys, by name."""
        with self.transaction():
            return [Key(*row) for row in self.query("SELECT name, digest, scope FROM taciturn_keys ORDER BY name")]

    def put_key(self, key: Key) -> None:
        """Add a key, or replace the one of its name."""
        with self.transaction():
            self.write("DELETE FROM taciturn_keys WHERE name = ?", [(key.name,)])
            self.write("INSERT INTO taciturn_keys VALUES (?, ?, ?)", [key])

    def drop_key(self, name: str) -> bool:
        """Remove a key; whether there was one."""
        with self.transaction():
            found = self.query("SELECT name FROM taciturn_keys WHERE name = ?", name)
            self.write("DELETE FROM taciturn_keys WHERE name = ?", [(name,)])
        return bool(found)

    def damaged(self, problem: str, good: int) -> DamagedJournal:
        """What to raise: the problem, the last good record, and what to do."""
        return DamagedJournal(f"{self.place}: {problem}; the last good record is {good}; {self.remedy}")

    def _stored_tail(self) -> tuple[int, bytes]:
        rows = self.query("SELECT COALESCE(position, 0), digest FROM taciturn_records ORDER BY position DESC LIMIT 1")
        position, digest = rows[0] if rows else (0, GENESIS)
        head = self._meta("head")
        if position < head:
            raise self.damaged(f"record {position + 1} is missing", position)
        if position > head:
            raise self.damaged(f"record {head + 1} was not written by taciturn", head)
        return position, digest

    def _meta(self, name: str) -> int:
        """A number of the table of them; 0 where there is none, be it by damage."""
        rows = self.query("SELECT COALESCE(CAST(value AS BIGINT), 0) FROM taciturn_meta WHERE name = ?", name)
        return int(rows[0][0]) if rows else 0

    def _migrate(self) -> None:
        """Bring the tables to the schema of this version, in one transaction; a newer one is not touched."""
        with self.transaction():
            self.write("CREATE TABLE IF NOT EXISTS taciturn_meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
            version = self._meta("schema_version")
            check_schema(self.place, version)
            if version < len(MIGRATIONS):
                for migration in MIGRATIONS[version:]:
                    migration(self)
                self.write("DELETE FROM taciturn_meta WHERE name = 'schema_version'")
                self.write("INSERT INTO taciturn_meta VALUES ('schema_version', ?)", [(len(MIGRATIONS),)])
