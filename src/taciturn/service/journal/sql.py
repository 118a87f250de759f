"""A journal in SQL tables: everything that SQLite and PostgreSQL have in common."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import (
    GENESIS,
    BadRecord,
    DamagedJournal,
    Entry,
    Key,
    Record,
    chain,
    check_text,
    verified,
)

PAGE = 100
"""Records that are read at a time."""


def _create_tables(journal: "SQLJournal") -> None:
    position, blob = journal.position_type, journal.blob_type
    journal.write(
        f"CREATE TABLE taciturn_records (position {position} PRIMARY KEY, agent TEXT NOT NULL, kind TEXT NOT NULL, "
        f"body {blob} NOT NULL, digest {blob} NOT NULL)"
    )
    journal.write(f"CREATE TABLE taciturn_keys (name TEXT PRIMARY KEY, digest {blob} NOT NULL, scope TEXT NOT NULL)")
    journal.write("INSERT INTO taciturn_meta VALUES ('head', 0)")  # the number of records, to detect a lost tail


MIGRATIONS: list[Callable[["SQLJournal"], None]] = [_create_tables]
"""The n-th migrates from schema n to n + 1."""


def check_schema(location: str, version: int) -> None:
    """Raise for tables that a newer version has written."""
    if version > len(MIGRATIONS):
        raise TaciturnError(
            f"{location}: written by a newer taciturn (schema {version}, this one knows {len(MIGRATIONS)}); "
            "install that one"
        )


class SQLJournal(ABC):
    """A journal in the tables taciturn_records, taciturn_meta and taciturn_keys.

    Subclasses know how to connect, how to run a statement, and what the database's errors mean. Every call takes a
    lock, so that one thread can change keys while another appends.
    """

    position_type: ClassVar[str]
    blob_type: ClassVar[str]
    location: str  # the journal's name in messages
    remedy: str  # what to do when it is damaged

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tail: tuple[int, bytes] | None = None  # last position and its digest; None if it must be read

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commit all statements in the block or none; the database's errors become `TaciturnError`s."""

    @abstractmethod
    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement with `?` for each value; only inside a transaction."""

    @abstractmethod
    def write(self, sql: str, rows: Sequence[Sequence[object]] | None = None) -> None:
        """Run a statement without a result, once or for each of the rows; only inside a transaction."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

    def append(self, entries: Sequence[Entry]) -> int:
        """Write all entries or none, and return the position of the last."""
        for agent, kind, _ in entries:
            check_text(agent)
            check_text(kind)
        with self._lock:
            with self.transaction():
                position, digest = self._tail or self._stored_tail()
                rows = []
                for agent, kind, body in entries:
                    position += 1
                    digest = chain(digest, position, agent, kind, body)
                    rows.append((position, agent, kind, body, digest))
                self._tail = None  # unknown until the commit has succeeded
                if rows:
                    self.write("INSERT INTO taciturn_records VALUES (?, ?, ?, ?, ?)", rows)
                    self.write("UPDATE taciturn_meta SET value = ? WHERE name = 'head'", [(position,)])
            self._tail = position, digest
            return position

    def probe(self) -> None:
        """Write a number over itself, durably; raises `JournalUnavailable` if nothing can be written."""
        with self.transaction():
            self.write("UPDATE taciturn_meta SET value = value WHERE name = 'head'")

    @property
    def responsive(self) -> bool:
        """Whether the database answers in good time."""
        return True

    def read(self, after: int = 0) -> Iterator[Record]:
        """Yield all records after a position, in order, each verified; no transaction is open between two pages."""
        last, digest = self.last(), self.digest_at(after)
        if after >= last:
            return
        if digest is None:
            raise self.damaged(f"record {after} is missing", after - 1)
        try:
            yield from verified(self._rows(after, last), after, digest)
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
        """Position of the last record; 0 for an empty journal."""
        with self._lock:
            if self._tail is None:
                with self.transaction():
                    self._tail = self._stored_tail()
            return self._tail[0]

    def digest_at(self, position: int) -> bytes | None:
        """Digest of all records up to a position, which identifies this history; None if there is no such record."""
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
        """Add a key, or replace the one of the same name."""
        with self.transaction():
            self.write("DELETE FROM taciturn_keys WHERE name = ?", [(key.name,)])
            self.write("INSERT INTO taciturn_keys VALUES (?, ?, ?)", [key])

    def drop_key(self, name: str) -> bool:
        """Remove a key; returns whether it existed."""
        with self.transaction():
            found = self.query("SELECT name FROM taciturn_keys WHERE name = ?", name)
            self.write("DELETE FROM taciturn_keys WHERE name = ?", [(name,)])
        return bool(found)

    def damaged(self, fault: str, good: int) -> DamagedJournal:
        """The error for a fault: what it is, the last good record, and what to do."""
        return DamagedJournal(f"{self.location}: {fault}; the last good record is {good}; {self.remedy}")

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
        """A number of taciturn_meta; 0 if it is missing, also through damage."""
        rows = self.query("SELECT COALESCE(CAST(value AS BIGINT), 0) FROM taciturn_meta WHERE name = ?", name)
        return int(rows[0][0]) if rows else 0

    def _migrate(self) -> None:
        """Bring the tables to the schema of this version in one transaction; refuse a newer schema untouched."""
        with self.transaction():
            self.write("CREATE TABLE IF NOT EXISTS taciturn_meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
            version = self._meta("schema_version")
            check_schema(self.location, version)
            if version < len(MIGRATIONS):
                for migration in MIGRATIONS[version:]:
                    migration(self)
                self.write("DELETE FROM taciturn_meta WHERE name = 'schema_version'")
                self.write("INSERT INTO taciturn_meta VALUES ('schema_version', ?)", [(len(MIGRATIONS),)])
