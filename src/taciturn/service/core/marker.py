"""Which entry is being replayed, in a file that outlives the process: it finds an entry that kills the service."""

import contextlib
import mmap
from pathlib import Path

from taciturn.errors import TaciturnError

SIZE = 4096
FATAL = 2
"""An entry during whose replay the process has died so many times is not replayed again."""


class ReplayMarker:
    """The entry that is being replayed, and how many processes have died there.

    A page of memory that is mapped to a file costs nothing to write, and the system keeps it when the process dies,
    even by a signal. A process that is killed from outside dies at some entry too, but hardly twice at the same one.

    Arguments:
        path: of the file.
        version: of the software; another one tries again.
    """

    def __init__(self, path: Path, version: str) -> None:
        self._version = version
        with path.open("a+b") as file:
            path.chmod(0o600)
            file.truncate(SIZE)
            self._page = mmap.mmap(file.fileno(), SIZE)
        version_then, self._entry, deaths = self._read()
        self._deaths = deaths + 1 if self._entry and version_then == version else 0

    def enter(self, agent: str, position: int) -> None:
        """An entry is about to be replayed; raises if earlier processes have died there."""
        entry = f"{agent} {position}"
        deaths = self._deaths if entry == self._entry else 0
        if deaths >= FATAL:
            raise TaciturnError(f"the service died {deaths} times while it replayed this entry, so it is left out")
        text = f"{self._version}\n{entry}\n{deaths}\n".encode()
        self._page[: len(text)] = text

    def clear(self) -> None:
        """Nothing is being replayed."""
        keep = f"{self._version}\n{self._entry}\n{self._deaths - 1}\n" if self._deaths >= FATAL else "\n\n\n"
        self._page[: len(keep)] = keep.encode()

    def close(self) -> None:
        """Release the file."""
        self._page.close()

    def _read(self) -> tuple[str, str, int]:
        with contextlib.suppress(ValueError, UnicodeDecodeError):
            version, entry, deaths, *_ = self._page[:].decode().split("\n")
            return version, entry, int(deaths)
        return "", "", 0
