"""Repair, backup and restore of a journal in a SQLite file."""

import contextlib
import shutil
import tempfile
from contextlib import closing
from itertools import count, islice
from pathlib import Path

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import DamagedJournal, Entry, Key
from taciturn.service.journal.sqlite import SQLiteJournal
from taciturn.service.journal.sqlite_file import (
    UNREADABLE,
    beside,
    connect,
    examine,
    existing,
    explained,
    finish_repair,
    locked,
    records,
    size_of,
)
from taciturn.system import atomic_move

CHUNK = 1000
"""Records that are copied in one append."""


def repair(path: str | Path) -> tuple[int, int]:
    """Keep the good records before the first bad one, and move the damaged file aside, to `….damaged-1` and so on.

    Returns how many records were kept and how many dropped, as far as a damaged file can tell. A journal without a
    fault is not touched. A crash leaves the damaged journal or the repaired one.
    """
    path = Path(path)
    with explained(path, DamagedJournal), locked(path):
        finish_repair(path)
        existing(path)
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


def backup(path: str | Path, target: str | Path) -> int:
    """Copy a journal, also while it is written to, to one file; returns the position of the copy's last record.

    The copy is verified before it gets its name; a file of that name is replaced.
    """
    path, target = existing(Path(path)), Path(target)
    problems = explained(target, lambda fault: DamagedJournal(f"{path}: {fault}; nothing was copied"))
    with problems, tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as folder:
        scratch = Path(folder) / "journal"
        with closing(connect(path, "ro")) as source, closing(connect(scratch, "rwc")) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a -wal
        good, fault = examine(scratch)
        if fault is not None:
            raise DamagedJournal(f"{path}: {fault}; the last good record is {good}; nothing was copied")
        atomic_move(scratch, target)
    return good


def restore(source: str | Path, path: str | Path) -> int:
    """Create a journal from a verified backup, where there is none; returns the position of its last record."""
    source, path = existing(Path(source)), Path(path)
    with explained(path, DamagedJournal), locked(path):
        finish_repair(path)
        if path.exists() or size_of(beside(path, "-wal")):
            raise TaciturnError(f"{path}: there is a journal already, which is not overwritten; move it away first")
        good, fault = examine(source)
        if fault is not None:
            raise DamagedJournal(f"{source}: {fault}; the last good record is {good}; take another backup")
        return backup(source, path)


def _salvage(path: Path, good: int, scratch: Path) -> int:
    """Copy the first `good` records, and the keys if they are legible; returns the highest position in the file."""
    with closing(connect(path, "ro")) as damaged, closing(SQLiteJournal(scratch)) as new:
        damaged.execute("PRAGMA writable_schema = ON")
        readable = islice(records(damaged), good)
        while chunk := list(islice(readable, CHUNK)):
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
