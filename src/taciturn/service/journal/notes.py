"""Notes: small files beside the journal that say since when something holds, which a backup takes along.

In a backup all of them are the one row of a table of their own, with a digest.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import msgspec

from taciturn.service.journal.base import DamagedJournal
from taciturn.service.journal.sqlite_file import PRIVATE
from taciturn.system import atomic_write

BUDGET_FILE, MODE_FILE = "budget.json", "mode.json"
NOTES = (BUDGET_FILE, MODE_FILE)


def is_note(file: Path, folder: Path) -> bool:
    """Whether a file is one of the notes of a data folder."""
    return file.resolve() in {folder.resolve() / name for name in NOTES}


def read_notes(folder: Path) -> dict[str, bytes]:
    """The notes that are in a data folder."""
    return {name: (folder / name).read_bytes() for name in NOTES if (folder / name).is_file()}


def write_notes(folder: Path, notes: Mapping[str, bytes]) -> None:
    """Have these notes in a data folder and no others: those of an earlier journal say nothing of this one."""
    for name in NOTES:
        if name in notes:
            atomic_write(folder / name, notes[name], PRIVATE)
        else:
            (folder / name).unlink(missing_ok=True)


def store_notes(db: sqlite3.Connection, notes: Mapping[str, bytes]) -> None:
    """Put notes into a backup."""
    remove_notes(db)
    content = msgspec.msgpack.encode(notes)
    db.execute("CREATE TABLE taciturn_notes (content BLOB NOT NULL, digest BLOB NOT NULL)")
    db.execute("INSERT INTO taciturn_notes VALUES (?, ?)", (content, _digest(content)))


def stored_notes(db: sqlite3.Connection, source: Path) -> dict[str, bytes] | None:
    """The notes in a backup; None for one of a version that left them out. Raises an error where they are damaged."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'taciturn_notes'").fetchall():
        return None
    try:
        ((content, digest),) = db.execute("SELECT content, digest FROM taciturn_notes")
        intact = isinstance(content, bytes) and digest == _digest(content)
    except (sqlite3.OperationalError, ValueError):  # other columns, or not one row
        intact = False
    if not intact:
        raise DamagedJournal(f"{source}: the notes in it, as {BUDGET_FILE}, were changed; take another backup")
    notes = msgspec.msgpack.decode(content, type=dict[str, bytes])
    return {name: notes[name] for name in NOTES if name in notes}


def remove_notes(db: sqlite3.Connection) -> None:
    """Take the notes out of a copy of a backup, which is to be a journal."""
    db.execute("DROP TABLE IF EXISTS taciturn_notes")


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
