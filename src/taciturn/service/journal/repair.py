"""Repair, backup and restore of a journal in a SQLite file."""

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import DamagedJournal
from taciturn.service.journal.notes import is_note, read_notes, remove_notes, store_notes, stored_notes, write_notes
from taciturn.service.journal.schema import META_TABLE, keys_table, records_table
from taciturn.service.journal.sqlite_file import (
    UNREADABLE,
    beside,
    connect,
    examine,
    existing,
    explained,
    finish_repair,
    locked,
    schema_of,
    size_of,
    waiting_repairs,
)
from taciturn.system import atomic_move


def repair(path: str | Path) -> tuple[int, int]:
    """Keep the good records before the first bad one, and move the damaged file aside, to `….damaged-1` and so on.

    Returns how many records were kept and how many dropped, as far as a damaged file can tell. A journal without a
    fault is not touched. A crash leaves the damaged journal or the repaired one.
    """
    path = Path(path)
    if not waiting_repairs(path):
        existing(path)  # before the lock, which would make the folder
    with explained(path, DamagedJournal), locked(path):
        finish_repair(path)
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
            number = next(number for number in count(1) if not beside(path, f".damaged-{number}").exists())
            atomic_move(scratch, beside(path, f".repaired-{number}"))
        finish_repair(path)
        return good, max(extent - good, 0)


def backup(path: str | Path, target: str | Path, *, force: bool = False) -> int:
    """Copy a journal, also while it is written to, to one file; returns the position of the copy's last record.

    The notes beside the journal are in it too. The copy is verified before it gets its name; a file of that name is
    replaced only with `force`.
    """
    path, target = existing(Path(path)), Path(target)
    if target.exists() and not force:
        raise TaciturnError(f"{target}: there is a file already, which is not overwritten; --force replaces it")
    own = {beside(path.resolve(), suffix) for suffix in ("", "-wal", "-shm", ".lock")}
    if target.resolve() in own or is_note(target, path.parent):
        raise TaciturnError(f"{target}: belongs to the journal itself, which is never overwritten; give another file")
    with explained(path, DamagedJournal):
        notes = read_notes(path.parent)
    with _copied(path, target, lambda copy: store_notes(copy, notes)) as (scratch, last):
        atomic_move(scratch, target)
    return last


@contextmanager
def _copied(path: Path, target: Path, change: Callable[[sqlite3.Connection], object]) -> Iterator[tuple[Path, int]]:
    """A copy of a journal, changed and then verified, in a folder beside the target; and its last position."""
    problems = explained(target, lambda fault: DamagedJournal(f"{path}: {fault}; nothing was copied"))
    with problems, tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as folder:
        scratch = Path(folder) / "journal"
        with closing(connect(path, "ro")) as source, closing(connect(scratch, "rwc")) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a -wal
            change(copy)
        good, fault = examine(scratch)
        if fault is not None:
            raise DamagedJournal(f"{path}: {fault}; the last good record is {good}; nothing was copied")
        yield scratch, good


def restore(source: str | Path, path: str | Path) -> int:
    """Create a journal from a verified backup, where there is none; returns the position of its last record.

    The notes in the backup take the place of those that are there, before the journal appears.
    """
    source, path = existing(Path(source)), Path(path)
    if is_note(source, path.parent):
        raise TaciturnError(f"{source}: has the name of a note beside the journal, which would replace it; rename it")
    with explained(source, DamagedJournal):
        good, fault = examine(source)
        with closing(connect(source, "ro")) as db:
            notes = stored_notes(db, source) if fault is None else None
    if fault is not None:  # before the lock, which would make the folder
        raise DamagedJournal(f"{source}: {fault}; the last good record is {good}; take another backup")
    with explained(path, DamagedJournal), locked(path):
        finish_repair(path)
        if path.exists() or size_of(beside(path, "-wal")):
            raise TaciturnError(f"{path}: there is a journal already, which is not overwritten; move it away first")
        with _copied(source, path, remove_notes) as (scratch, last):
            if notes is not None:
                write_notes(path.parent, notes)
            atomic_move(scratch, path)
        return last


def _salvage(path: Path, good: int, scratch: Path) -> int:
    """Copy the rows up to `good`, and the keys if they are legible; returns the highest position in the file.

    The rows are copied as they are: the new file has the schema of the damaged one, and its removed runs.
    """
    with closing(connect(path, "ro")) as damaged, closing(connect(scratch, "rwc")) as new:
        damaged.execute("PRAGMA writable_schema = ON")
        schema = schema_of(damaged)
        new.execute("BEGIN")
        for statement in (META_TABLE, records_table(schema, "INTEGER", "BLOB"), keys_table("BLOB")):
            new.execute(statement)
        rows = _rows_until(damaged, good)
        new.executemany(f"INSERT INTO taciturn_records VALUES ({'?, ' * (3 + schema)}?)", rows)  # noqa: S608
        with contextlib.suppress(*UNREADABLE):
            new.executemany(
                "INSERT INTO taciturn_keys VALUES (?, ?, ?)",
                damaged.execute("SELECT name, digest, scope FROM taciturn_keys").fetchall(),
            )
        numbers = {"schema_version": schema, "head": good}
        if schema > 1:
            numbers |= dict.fromkeys(("epoch", "keys_version", "compact_requests"), 0)
        new.executemany("INSERT INTO taciturn_meta VALUES (?, ?)", numbers.items())
        new.execute("COMMIT")
        return max(good, *_extents(damaged))


def _rows_until(damaged: sqlite3.Connection, good: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows up to a position, without touching what comes after it and may be illegible."""
    for row in damaged.execute("SELECT * FROM taciturn_records ORDER BY position"):
        yield row
        if row[0] == good:
            return


def _extents(damaged: sqlite3.Connection) -> Iterator[int]:
    """Yield positions that the file has or should have, as far as it is legible; at least 0."""
    yield 0
    for sql in (
        "SELECT max(position) FROM taciturn_records",
        "SELECT value FROM taciturn_meta WHERE name = 'head'",
    ):
        with contextlib.suppress(*UNREADABLE):
            yield from (value for (value,) in damaged.execute(sql) if isinstance(value, int))
