"""The journal in one SQLite file, which survives kill -9 and, by default, the loss of power.

Beside `journal.db` there are `journal.db-wal` (SQLite's own, part of the journal) and `journal.db.lock` (who writes).
"""

import contextlib
import fcntl
import os
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import (
    BadRecord,
    DamagedJournal,
    Entry,
    JournalFull,
    JournalUnavailable,
    Key,
    Record,
    SQLJournal,
    check_schema,
    checked,
)
from taciturn.service.journal.snapshots import flush, settle

SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}
SMALLEST = 512  # bytes of the smallest page of SQLite
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: the tables are not ours
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite's own message quotes what is damaged


class SQLiteJournal(SQLJournal):
    """A journal in a file of its own, made if need be.

    Arguments:
        path: of the file.
        durability: "full" waits for the disk at every append: what was acknowledged survives the loss of power.
            "normal" does not: a killed process loses nothing, but a machine that loses power may lose the end.
    """

    position_type: ClassVar[str] = "INTEGER"
    blob_type: ClassVar[str] = "BLOB"

    def __init__(self, path: str | Path, *, durability: Literal["full", "normal"] = "full") -> None:
        super().__init__()
        if durability not in SYNCHRONOUS:
            raise TaciturnError(f"durability is {durability!r}; it can be 'full' or 'normal'")
        self.path = Path(path)
        self.place = str(path)
        self.remedy = f"to keep what is good, run: taciturn repair --data-dir {shlex.quote(str(self.path.parent))}"
        self._db: sqlite3.Connection | None = None
        self._guard = contextlib.ExitStack()
        with _explained(self.path, self._damage), self._guard:
            self._guard.enter_context(_locked(self.path))
            self._guard.callback(self._disconnect)
            _finish_repair(self.path)
            if not self.path.exists():
                self._create()
            if (length := _length(self.path)) < SMALLEST:  # which SQLite would take for a new one
                raise self.damaged(f"the file has only {length} bytes", 0)
            self._db = _connect(self.path, "rw")
            self._db.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if fault := _fault(self._db, self.path):
                raise self._damage(fault)
            self._migrate()
            self._guard = self._guard.pop_all()  # all is well, and stays open

    def _create(self) -> None:
        """Under another name first, so that a file of this name is never an unfinished one."""
        if _length(_beside(self.path, "-wal")):
            raise self.damaged("the file is gone, and only its -wal is left", 0)
        with tempfile.TemporaryDirectory(prefix=".create-", dir=self.path.parent) as folder:
            scratch = Path(folder) / "journal"
            self._db = _connect(scratch, "rwc")
            self._migrate()
            self._disconnect()
            settle(scratch, self.path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements in it or none."""
        with self._lock, _explained(self.path, self._damage):
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
        """The rows of a statement."""
        return self._connection().execute(sql, values).fetchall()

    def write(self, sql: str, rows: Sequence[Sequence[object]] | None = None) -> None:
        """A statement once, or for each of the rows."""
        if rows is None:
            self._connection().execute(sql)
        else:
            self._connection().executemany(sql, rows)

    def backup(self, target: str | Path) -> int:
        """Copy the journal as it is now, while it is being written to; see the function of this name."""
        return backup(self.path, target)

    def close(self) -> None:
        """Close the file and let others have it."""
        with self._lock:
            self._guard.close()

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise JournalUnavailable(f"{self.place}: this journal was closed; open it again")
        return self._db

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _damage(self, problem: str) -> DamagedJournal:
        return self.damaged(problem, examine(self.path)[0])


def examine(path: Path) -> tuple[int, str | None]:
    """The position up to which all records are good, and what is wrong with the file or behind it."""
    with closing(_connect(path, "ro")) as db:
        fault, good = _fault(db, path), 0
        try:
            db.execute("PRAGMA writable_schema = ON")  # what a file that was cut still has can be read
            for record in _records(db):
                good = record.position
            meta = dict(db.execute("SELECT name, COALESCE(CAST(value AS INTEGER), 0) FROM taciturn_meta"))
            check_schema(str(path), meta.get("schema_version", 0))
            if meta.get("head") != good:
                fault = fault or f"it has {good} records and should have {meta.get('head')}"
        except (BadRecord, *UNREADABLE) as error:
            fault = fault or str(error)
    return good, fault


def repair(path: str | Path) -> tuple[int, int]:
    """Keep the good records up to the first bad one, and move the damaged file aside, to `….damaged-1` and so on.

    Returns how many records were kept and how many dropped, as far as a damaged file can tell. A journal in which
    nothing is wrong is left alone. A crash leaves the damaged journal or the repaired one.
    """
    path = Path(path)
    with _explained(path, DamagedJournal), _locked(path):
        _finish_repair(path)
        _existing(path)
        for leftover in path.parent.glob(".repair-*"):
            shutil.rmtree(leftover)
        good, fault = examine(path)
        if fault is None:
            return good, 0
        if good == 0:
            raise DamagedJournal(f"{path}: {fault}; no record can be read, so restore a backup")
        with tempfile.TemporaryDirectory(prefix=".repair-", dir=path.parent) as folder:
            scratch = Path(folder) / "journal"
            extent = _salvage(path, good, scratch)
            number = next(number for number in count(1) if not _beside(path, f".damaged-{number}").exists())
            settle(scratch, _beside(path, f".repaired-{number}"))
        _finish_repair(path)
        return good, max(extent - good, 0)


def backup(path: str | Path, target: str | Path) -> int:
    """Copy a journal, also one that is in use, to a file that is checked before it gets its name.

    Returns the position of its last record. A file that has the name is replaced.
    """
    path, target = _existing(Path(path)), Path(target)
    problems = _explained(target, lambda problem: DamagedJournal(f"{path}: {problem}; nothing was copied"))
    with problems, tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as folder:
        scratch = Path(folder) / "journal"
        with closing(_connect(path, "ro")) as source, closing(_connect(scratch, "rwc")) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
        good, fault = examine(scratch)
        if fault is not None:
            raise DamagedJournal(f"{path}: {fault}; the last good record is {good}; nothing was copied")
        settle(scratch, target)
    return good


def restore(source: str | Path, path: str | Path) -> int:
    """Make a journal from a backup that is good, where there is none; returns the position of its last record."""
    source, path = _existing(Path(source)), Path(path)
    with _explained(path, DamagedJournal), _locked(path):
        _finish_repair(path)
        if path.exists() or _length(_beside(path, "-wal")):
            raise TaciturnError(f"{path}: there is a journal already, which is not overwritten; move it away first")
        good, fault = examine(source)
        if fault is not None:
            raise DamagedJournal(f"{source}: {fault}; the last good record is {good}; take another backup")
        return backup(source, path)


def _salvage(path: Path, good: int, scratch: Path) -> int:
    """Copy the first records, and the keys if they are legible; returns the highest position the file speaks of."""
    with closing(_connect(path, "ro")) as damaged, closing(SQLiteJournal(scratch)) as new:
        damaged.execute("PRAGMA writable_schema = ON")
        records = islice(_records(damaged), good)
        while chunk := list(islice(records, 1000)):
            new.append([Entry(*record[1:]) for record in chunk])
        with contextlib.suppress(*UNREADABLE):
            for row in damaged.execute("SELECT name, digest, scope FROM taciturn_keys"):
                new.put_key(Key(*row))
        extent = good
        for sql in (
            "SELECT max(position) FROM taciturn_records",
            "SELECT value FROM taciturn_meta WHERE name = 'head'",
        ):
            with contextlib.suppress(*UNREADABLE):
                extent = max([extent, *(value for (value,) in damaged.execute(sql) if isinstance(value, int))])
    return extent


def _finish_repair(path: Path) -> None:
    """Put a repaired file into the place of the damaged one; a crash in between is made good by the next call."""
    for repaired in path.parent.glob(f"{path.name}.repaired-*"):
        aside = repaired.name.replace(".repaired-", ".damaged-")
        for suffix in ("", "-wal"):
            if _beside(path, suffix).exists():
                _beside(path, suffix).rename(path.with_name(aside + suffix))
        _beside(path, "-shm").unlink(missing_ok=True)
        flush(path.parent)  # first the old one is gone with its -wal, then the new one comes
        settle(repaired, path)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")  # damaged text is for the chain to notice
    return db


def _records(db: sqlite3.Connection) -> Iterator[Record]:
    return checked(db.execute("SELECT position, agent, kind, body, digest FROM taciturn_records ORDER BY position"))


def _fault(db: sqlite3.Connection, path: Path) -> str | None:
    """What is wrong with the file as such: it was cut, or its pages make no sense."""
    try:
        ((pages,),) = db.execute("PRAGMA page_count")
        ((size,),) = db.execute("PRAGMA page_size")
        length, wanted = _length(path), max(pages, 1) * size
        if length < wanted and not _length(_beside(path, "-wal")):
            return f"the file has {length} bytes and should have {wanted}"
        result = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    except UNREADABLE as error:
        return str(error)
    return None if result == "ok" else str(result).splitlines()[-1]


@contextmanager
def _explained(path: Path, damaged: Callable[[str], DamagedJournal]) -> Iterator[None]:
    """Say in one line what SQLite or the system says."""
    try:
        yield
    except UnicodeDecodeError:
        raise damaged("its tables are garbled") from None
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without what extended codes add
        if code in DAMAGE:
            raise damaged(str(error)) from None
        if code == sqlite3.SQLITE_FULL:
            raise JournalFull(f"{path}: the disk is full, nothing was written; make room and try again") from None
        raise JournalUnavailable(f"{path}: {error}, nothing was written; see to it and try again") from None
    except OSError as error:
        raise JournalUnavailable(f"{path}: {error.strerror or error}; see to it and try again") from None


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TaciturnError(f"{path}: there is no such file")
    return path


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Be the only process that writes to a journal; the system lets go of the lock when a process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(_beside(path, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 20).decode("ascii", "replace").strip() or "another one"
            raise JournalUnavailable(
                f"{path}: in use by process {owner}, and only one can write; stop that one first"
            ) from None
        os.truncate(handle, 0)
        with contextlib.suppress(OSError):  # on a full disk the number is missing in a message, no more
            os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)
