"""One SQLite file: connecting, locking, its neighbors' names, SQLite's errors in one line, and checking for damage."""

import contextlib
import fcntl
import glob
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import DamagedJournal, JournalFull, JournalInUse, JournalUnavailable, Record
from taciturn.service.journal.chain import BadRecord, verified
from taciturn.service.journal.schema import check_schema
from taciturn.system import atomic_move, flush

DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: the tables are not ours
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite's own message quotes damaged bytes

PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
"""Permissions of files and folders: only their owner reads what callers have sent."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a file with SQLite's mode "ro", "rw" or "rwc"; damaged text is read as it is, for the digests to detect.

    A new file can be read by its owner only; SQLite gives the -wal and -shm the same permissions. The caller closes it.
    """
    if mode == "rwc":
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
    address = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    return db


def records(db: sqlite3.Connection) -> Iterator[Record]:
    """Yield all records and removed runs in order, each verified; raises `BadRecord`."""
    version = "version" if schema_of(db) > 1 else "NULL"
    columns = f"position, agent, kind, body, {version}, digest"
    return verified(db.execute(f"SELECT {columns} FROM taciturn_records ORDER BY position"))  # noqa: S608


def schema_of(db: sqlite3.Connection) -> int:
    """1 or 2: the schema that the table of records has, even where the number in taciturn_meta is damaged."""
    columns = [column[0] for column in db.execute("SELECT * FROM taciturn_records LIMIT 0").description]
    return 2 if "version" in columns else 1


def file_fault(db: sqlite3.Connection, path: Path) -> str | None:
    """What is wrong with the file itself: truncated, or pages that make no sense; None if nothing is."""
    try:
        ((pages,),) = db.execute("PRAGMA page_count")
        ((page_size,),) = db.execute("PRAGMA page_size")
        size, expected = size_of(path), max(pages, 1) * page_size
        if size < expected and not size_of(beside(path, "-wal")):
            return f"the file has {size} bytes and should have {expected}"
        result = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    except UNREADABLE as error:
        return str(error)
    return None if result == "ok" else str(result).splitlines()[-1]


def examine(path: Path) -> tuple[int, str | None]:
    """Position up to which all records are good, and the first fault of the file or of what follows."""
    with closing(connect(path, "ro")) as db:
        fault, good = file_fault(db, path), 0
        try:
            db.execute("PRAGMA writable_schema = ON")  # lets SQLite read what a truncated file still holds
            for record in records(db):
                good = record.position
            meta = dict(db.execute("SELECT name, COALESCE(CAST(value AS INTEGER), 0) FROM taciturn_meta"))
            check_schema(str(path), meta.get("schema_version", 0))
            if meta.get("head") != good:
                fault = fault or f"it has {good} records and should have {meta.get('head')}"
        except (BadRecord, *UNREADABLE) as error:
            fault = fault or str(error)
    return good, fault


def waiting_repairs(path: Path) -> list[Path]:
    """Repaired copies of a journal that a crash has kept from taking its place."""
    return list(path.parent.glob(f"{path.name}.repaired-*"))


def finish_repair(path: Path) -> None:
    """Replace a damaged journal by its repaired copy, if one is waiting; completes a repair that a crash interrupted.

    The damaged file and its -wal are moved aside and flushed first, so that the new file never meets the old -wal.
    """
    for repaired in waiting_repairs(path):
        aside = repaired.name.replace(".repaired-", ".damaged-")
        for suffix in ("", "-wal"):
            if beside(path, suffix).exists():
                beside(path, suffix).rename(path.with_name(aside + suffix))
        beside(path, "-shm").unlink(missing_ok=True)
        flush(path.parent)
        atomic_move(repaired, path)


@contextmanager
def explained(path: Path, damaged: Callable[[str], DamagedJournal]) -> Iterator[None]:
    """Turn errors of SQLite and of the system into one line; `damaged` makes the error for a damaged file."""
    try:
        yield
    except UnicodeDecodeError:
        raise damaged("its tables are garbled") from None
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code, without what extended codes add
        if code in DAMAGE or (code == sqlite3.SQLITE_READONLY and os.access(path, os.W_OK)):  # its header says so
            raise damaged(str(error)) from None
        if code == sqlite3.SQLITE_FULL:
            raise JournalFull(f"{path}: the disk is full, nothing was written; free some space and retry") from None
        raise JournalUnavailable(f"{path}: {error}, nothing was written; fix that and retry") from None
    except OSError as error:
        raise JournalUnavailable(f"{path}: {error.strerror or error}; fix that and retry") from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Be the only process that writes to a journal; the system releases the lock when the process dies."""
    path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    handle = os.open(beside(path, ".lock"), os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 20).decode("ascii", "replace").strip() or "unknown"
            raise JournalInUse(
                f"{path}: in use by process {owner}, and only one can write; stop that one first"
            ) from None
        os.truncate(handle, 0)
        with contextlib.suppress(OSError):  # on a full disk only the number in that message is lost
            os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)


def make_private(path: Path) -> None:
    """Let only its owner use a file or folder."""
    with contextlib.suppress(PermissionError):  # it belongs to another user, who has allowed us to write
        path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE)


def files_of(path: Path) -> list[Path]:
    """A journal and all files beside it whose names begin with its name."""
    return [file for file in path.parent.glob(f"{glob.escape(path.name)}*") if file.is_file()]


def existing(path: Path) -> Path:
    """The path, which must exist."""
    if not path.exists():
        raise TaciturnError(f"{path}: there is no such file")
    return path


def size_of(path: Path) -> int:
    """Bytes of a file; 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0


def beside(path: Path, suffix: str) -> Path:
    """The path with a suffix: `journal.db` → `journal.db-wal`."""
    return path.with_name(path.name + suffix)
