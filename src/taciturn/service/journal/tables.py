"""The tables of a journal over one connection: statements, numbers of `taciturn_meta`, and API keys.

The journal itself is such a connection, of the one process that writes records. Others may be open beside it, to change
keys and to see whether the database answers.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from taciturn.service.journal.base import DamagedJournal, Key

SLOW_SECONDS = 5.0
"""A database that takes longer than this for one transaction does not answer in time."""


class Tables(ABC):
    """The tables taciturn_records, taciturn_meta and taciturn_keys.

    Subclasses know how to connect, how to run a statement, and what the database's errors mean. Every transaction takes
    a lock, so that several threads can use one connection.
    """

    position_type: ClassVar[str]
    blob_type: ClassVar[str]
    location: str  # the journal's name in messages
    remedy: str  # what to do when it is damaged

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy_since: float | None = None  # when the transaction began that is open now

    def transaction(self) -> AbstractContextManager[None]:
        """Commit all statements in the block or none; the database's errors become `TaciturnError`s."""
        return self._timed(writing=True)

    def reading(self) -> AbstractContextManager[None]:
        """Run queries that see one state of the database; writers of other processes are not kept waiting."""
        return self._timed(writing=False)

    @contextmanager
    def _timed(self, *, writing: bool) -> Iterator[None]:
        with self._lock:
            self._busy_since = time.monotonic()
            try:
                with self._statements(writing=writing):
                    yield
            finally:
                self._busy_since = None

    @abstractmethod
    def _statements(self, *, writing: bool) -> AbstractContextManager[None]:
        """A transaction of the database."""

    @abstractmethod
    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement with `?` for each value; only inside a transaction."""

    @abstractmethod
    def write(self, sql: str, rows: Sequence[Sequence[object]] | None = None) -> None:
        """Run a statement without a result, once or for each of the rows; only inside a transaction."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

    @property
    def responsive(self) -> bool:
        """Whether no transaction takes too long; takes no lock and asks nobody."""
        since = self._busy_since
        return since is None or time.monotonic() - since < SLOW_SECONDS

    def meta(self) -> dict[str, int]:
        """All numbers of taciturn_meta: `head`, `schema_version`, `epoch`, `keys_version` and `compact_requests`."""
        with self.reading():
            rows = self.query("SELECT name, COALESCE(CAST(value AS BIGINT), 0) FROM taciturn_meta")
        return {name: int(value) for name, value in rows}

    def request_compaction(self) -> None:
        """Ask the process that writes to compact the journal."""
        with self.transaction():
            self._count_up("compact_requests")

    def keys(self) -> Iterable[Key]:
        """All API keys, by name."""
        with self.reading():
            return [Key(*row) for row in self.query("SELECT name, digest, scope FROM taciturn_keys ORDER BY name")]

    def put_key(self, key: Key) -> None:
        """Add a key, or replace the one of the same name."""
        with self.transaction():
            self.write("DELETE FROM taciturn_keys WHERE name = ?", [(key.name,)])
            self.write("INSERT INTO taciturn_keys VALUES (?, ?, ?)", [key])
            self._count_up("keys_version")

    def drop_key(self, name: str) -> bool:
        """Remove a key; returns whether it existed."""
        with self.transaction():
            found = self.query("SELECT name FROM taciturn_keys WHERE name = ?", name)
            self.write("DELETE FROM taciturn_keys WHERE name = ?", [(name,)])
            self._count_up("keys_version")
        return bool(found)

    def damaged(self, fault: str, good: int) -> DamagedJournal:
        """The error for a fault: what it is, the last good record, and what to do."""
        return DamagedJournal(f"{self.location}: {fault}; the last good record is {good}; {self.remedy}")

    def _number(self, name: str) -> int:
        """A number of taciturn_meta, inside a transaction; 0 if it is missing, also through damage."""
        rows = self.query("SELECT COALESCE(CAST(value AS BIGINT), 0) FROM taciturn_meta WHERE name = ?", name)
        return int(rows[0][0]) if rows else 0

    def _count_up(self, name: str) -> None:
        self.write("UPDATE taciturn_meta SET value = COALESCE(CAST(value AS BIGINT), 0) + 1 WHERE name = ?", [(name,)])
