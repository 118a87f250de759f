"""Notes: small files beside the journal that say since when something holds, which a backup takes along.

In a backup they are rows of a table of their own, each with a digest.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from taciturn.service.journal.base import DamagedJournal
from taciturn.service.journal.sqlite_file import PRIVATE
from taciturn.system import atomic_write

BUDGET_FILE, MODE_FILE = "budget.json", "mode.json"
NOTES = (BUDGET_FILE, MODE_FILE)


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
    db.execute("CREATE TABLE taciturn_notes (name TEXT PRIMARY KEY, content BLOB NOT NULL, digest BLOB NOT NULL)")
    rows = [(name, content, _digest(name, content)) for name, content in notes.items()]
    db.executemany("INSERT INTO taciturn_notes VALUES (?, ?, ?)", rows)


def stored_notes(db: sqlite3.Connection, source: Path) -> dict[str, bytes] | None:
    """The notes in a backup; None for one of a version that left them out. Raises an error where one is damaged."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'taciturn_notes'").fetchall():
        return None
    notes = {}
    for name, content, digest in db.execute("SELECT name, CAST(content AS BLOB), digest FROM taciturn_notes"):
        if name not in NOTES or digest != _digest(name, content):
            raise DamagedJournal(f"{source}: a note in it, as {BUDGET_FILE}, was changed; take another backup")
        notes[name] = content
    return notes


def remove_notes(db: sqlite3.Connection) -> None:
    """Take the notes out of a copy of a backup, which is to be a journal."""
    db.execute("DROP TABLE IF EXISTS taciturn_notes")


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + b"\0" + content, digest_size=16).digest()
