"""The journal in one SQLite file, which survives kill -9 and, by default, the loss of power.

Beside `journal.db` there are `journal.db-wal` (SQLite's own, part of the journal) and `journal.db.lock` (which process
writes). Only their owner can read them.
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
from taciturn.service.journal.repair import backup
from taciturn.service.journal.schema import Upgrade, check_schema
from taciturn.service.journal.sql import SQLJournal
from taciturn.service.journal.sqlite_file import (
    beside,
    connect,
    examine,
    existing,
    explained,
    file_fault,
    files_of,
    finish_repair,
    locked,
    make_private,
    size_of,
)
from taciturn.service.journal.tables import Tables
from taciturn.system import atomic_move

SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}
SMALLEST_PAGE = 512
"""Bytes of SQLite's smallest page; SQLite would take a shorter file for a new database."""


class SQLiteTables(Tables):
    """The tables of a journal in an existing file, beside the process that writes records; nothing is migrated.

    Arguments:
        path: of the file.
    """

    position_type: ClassVar[str] = "INTEGER"
    blob_type: ClassVar[str] = "BLOB"
    _db: sqlite3.Connection | None = None

    def __init__(self, path: str | Path) -> None:
        self._describe(path)
        with explained(self.path, self._damage), contextlib.ExitStack() as cleanup:
            self._db = connect(existing(self.path), "rw")
            cleanup.callback(self._disconnect)
            check_schema(self.location, self.meta().get("schema_version", 0))
            cleanup.pop_all()

    def _describe(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        self.location = str(path)
        self.remedy = f"to keep the good records, run: taciturn repair --data-dir {shlex.quote(str(self.path.parent))}"

    @contextmanager
    def _statements(self, *, writing: bool) -> Iterator[None]:
        """A transaction; one that writes locks the file at once, as it could not after another process has written."""
        with explained(self.path, self._damage):
            db = self._connection()
            try:
                db.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
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
        """Close the file."""
        with self._lock:
            self._disconnect()

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


class SQLiteJournal(SQLJournal, SQLiteTables):
    """A journal in a file, which is created if it does not exist.

    Arguments:
        path: of the file.
        durability: "full" waits for the disk at every append: what was acknowledged survives the loss of power.
            "normal" does not: a killed process loses nothing, but a machine that loses power may lose the tail.
        upgrade: makes entries of this schema from records of an older one; None keeps their bodies. A journal of an
            older schema is copied to `….schema-N.backup` before it is migrated.
    """

    row_lock: ClassVar[str] = ""  # a transaction that writes locks the whole file

    def __init__(
        self,
        path: str | Path,
        *,
        durability: Literal["full", "normal"] = "full",
        upgrade: Upgrade | None = None,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise TaciturnError(f"durability is {durability!r}; it can be 'full' or 'normal'")
        self._describe(path)
        self.upgrade = upgrade
        self._resources = contextlib.ExitStack()
        with explained(self.path, self._damage), self._resources:
            self._resources.enter_context(locked(self.path))
            self._resources.callback(self._disconnect)
            finish_repair(self.path)
            if not self.path.exists():
                self._create()
            for file in files_of(self.path):
                make_private(file)
            self._open(durability)
            self._resources = self._resources.pop_all()  # keep lock and connection after a successful start

    def _open(self, durability: str) -> None:
        if (size := size_of(self.path)) < SMALLEST_PAGE:
            raise self.damaged(f"the file has only {size} bytes", 0)
        self._db = connect(self.path, "rw")
        self._db.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        self._db.execute("PRAGMA secure_delete = ON")  # what is removed is overwritten
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

    def beside(self) -> SQLiteTables:
        """Another connection to the same file."""
        return SQLiteTables(self.path)

    def shrink(self) -> None:
        """Write the file anew without free pages, and empty its -wal; appends wait meanwhile."""
        with self._lock, explained(self.path, self._damage):
            db = self._connection()
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Stop looking after the file, close it and release its lock."""
        self._stop_housekeeping()
        with self._lock:
            self._resources.close()

    def _keep_copy(self, version: int) -> None:
        backup(self.path, beside(self.path, f".schema-{version}.backup"), force=True)
