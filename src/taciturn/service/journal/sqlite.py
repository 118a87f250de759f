"""The journal in one SQLite file, which survives kill -9 and, by default, the loss of power.

Beside `journal.db` there are `journal.db-wal` (SQLite's own, part of the journal) and `journal.db.lock` (which process
writes).
"""

import contextlib
import shlex
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import DamagedJournal, JournalUnavailable
from taciturn.service.journal.sql import SQLJournal
from taciturn.service.journal.sqlite_file import (
    beside,
    connect,
    examine,
    explained,
    file_fault,
    finish_repair,
    locked,
    size_of,
)
from taciturn.system import atomic_move

SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}
SMALLEST_PAGE = 512
"""Bytes of SQLite's smallest page; SQLite would take a shorter file for a new database."""


class SQLiteJournal(SQLJournal):
    """A journal in a file, which is created if it does not exist.

    Arguments:
        path: of the file.
        durability: "full" waits for the disk at every append: what was acknowledged survives the loss of power.
            "normal" does not: a killed process loses nothing, but a machine that loses power may lose the tail.
    """

    position_type: ClassVar[str] = "INTEGER"
    blob_type: ClassVar[str] = "BLOB"

    def __init__(self, path: str | Path, *, durability: Literal["full", "normal"] = "full") -> None:
        super().__init__()
        if durability not in SYNCHRONOUS:
            raise TaciturnError(f"durability is {durability!r}; it can be 'full' or 'normal'")
        self.path = Path(path)
        self.location = str(path)
        self.remedy = f"to keep the good records, run: taciturn repair --data-dir {shlex.quote(str(self.path.parent))}"
        self._db: sqlite3.Connection | None = None
        self._resources = contextlib.ExitStack()
        with explained(self.path, self._damage), self._resources:
            self._resources.enter_context(locked(self.path))
            self._resources.callback(self._disconnect)
            finish_repair(self.path)
            if not self.path.exists():
                self._create()
            self._open(durability)
            self._resources = self._resources.pop_all()  # keep lock and connection after a successful start

    def _open(self, durability: str) -> None:
        if (size := size_of(self.path)) < SMALLEST_PAGE:
            raise self.damaged(f"the file has only {size} bytes", 0)
        self._db = connect(self.path, "rw")
        self._db.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if fault := file_fault(self._db, self.path):
            raise self._damage(fault)
        self._migrate()

    def _create(self) -> None:
        """Create the file under a temporary name first, so that a file of this name is always complete."""
        if size_of(beside(self.path, "-wal")):
            raise self.damaged("the file is missing, and only its -wal is left", 0)
        with tempfile.TemporaryDirectory(prefix=".create-", dir=self.path.parent) as folder:
            scratch = Path(folder) / "journal"
            self._db = connect(scratch, "rwc")
            self._migrate()
            self._disconnect()
            atomic_move(scratch, self.path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all statements in the block or none."""
        with self._lock, explained(self.path, self._damage):
            db = self._connection()
            try:
                db.execute("BEGIN")
                yield
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # some errors have rolled back already
                    db.execute("ROLLBACK")
                raise

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement with `?` for each value."""
        return self._connection().execute(sql, values).fetchall()

    def write(self, sql: str, rows: Sequence[Sequence[object]] | None = None) -> None:
        """Run a statement once, or for each of the rows."""
        if rows is None:
            self._connection().execute(sql)
        else:
            self._connection().executemany(sql, rows)

    def close(self) -> None:
        """Close the file and release its lock."""
        with self._lock:
            self._resources.close()

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise JournalUnavailable(f"{self.location}: this journal was closed; open it again")
        return self._db

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _damage(self, fault: str) -> DamagedJournal:
        return self.damaged(fault, examine(self.path)[0])
