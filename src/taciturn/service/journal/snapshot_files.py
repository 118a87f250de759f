"""The files of snapshots: what a place for them must do, and a folder of the file system that does it."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from taciturn.service.journal.sqlite_file import PRIVATE, PRIVATE_FOLDER, make_private
from taciturn.system import atomic_write

Content = bytes | Callable[[Path], object]
"""What a file shall have: bytes, or a function that writes them to a path."""


class SnapshotFiles(Protocol):
    """A place for files, which several processes may use at the same time. All methods raise OSError if they fail."""

    def names(self, prefix: str) -> list[str]:
        """The names that begin with a prefix, and those of unfinished files, which have a dot before it."""

    def write(self, name: str, content: Content) -> str:
        """Write a file, which is there whole or not at all; returns its SHA-256 in hexadecimal digits."""

    def local(self, name: str) -> AbstractContextManager[Path]:
        """A file on this machine with the content, within the block."""

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""


class LocalFiles:
    """A folder, of this machine or mounted; created if it does not exist, and for its owner only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        make_private(folder)
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # another process has removed it meanwhile
                make_private(path)

    def names(self, prefix: str) -> list[str]:
        """The names that begin with a prefix, and those of unfinished files."""
        return [path.name for path in self._folder.iterdir() if path.name.removeprefix(".").startswith(prefix)]

    def write(self, name: str, content: Content) -> str:
        """Write a file and flush it; returns its SHA-256."""
        atomic_write(self._folder / name, content, PRIVATE)
        return sha256(self._folder / name)

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """The file itself."""
        yield self._folder / name

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        (self._folder / name).unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
