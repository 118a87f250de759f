"""Snapshots: states of agents on the local disk, so that a start need not read the whole journal. Only a cache.

A snapshot is two files, named by a hash of the agent's name and the position: the state (`.state`), and a header
(`.json`) with the agent, the position, the state's SHA-256 and the journal's digest at that position. The header is
written last and makes the snapshot valid; a state without a header is left over from a crash.
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from taciturn.service.journal.sqlite_file import PRIVATE, PRIVATE_FOLDER, make_private
from taciturn.system import atomic_write

log = logging.getLogger(__name__)
HEADER = re.compile(r"[0-9a-f]{32}-[0-9]{20}\.json")


class Snapshots:
    """The newest states of each agent in a folder that one process uses; leftovers of a crash are removed at the start.

    Arguments:
        folder: where; created if it does not exist.
        keep: how many states of an agent are kept.
        history: the journal's `digest_at`. A state of another history is invalid (the journal was restored from a
            backup, repaired, or lost its tail with the power), even if its position exists again.
    """

    def __init__(self, folder: Path, keep: int = 2, history: Callable[[int], bytes | None] = lambda _: b"") -> None:
        self._folder = folder
        self._keep = keep
        self._history = history
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        make_private(folder)
        for path in folder.iterdir():
            orphan = path.suffix == ".state" and not path.with_suffix(".json").exists()
            if path.is_file() and (orphan or path.name.startswith(".")):
                path.unlink()
            elif path.is_file():
                make_private(path)

    def put(self, agent: str, position: int, content: bytes | Callable[[Path], object]) -> None:
        """Store a state, given as bytes or by a function that writes it to a path, and remove obsolete ones."""
        history = self._history(position)
        state = self._folder / f"{_name(agent)}-{position:020}.state"
        header = state.with_suffix(".json")
        atomic_write(state, content, PRIVATE)
        fields = {"agent": agent, "position": position, "sha256": _sha256(state), "history": _hex(history)}
        atomic_write(header, json.dumps(fields).encode("ascii"), PRIVATE)
        self._prune(agent, header)

    def _prune(self, agent: str, newest: Path) -> None:
        """Remove all but the newest few, and those with a later position, which belong to a history that was lost."""
        headers = self._headers(agent)
        index = headers.index(newest)
        for header in headers[:index] + headers[index + self._keep :]:
            _unlink(header)

    def remove(self, agent: str, until: int) -> None:
        """Remove the states of an agent that was deleted at position `until`, not those of a later one of its name."""
        for header in self._headers(agent):
            if _position(header) <= until:
                _unlink(header)

    def newest_first(self, agent: str) -> Iterator[tuple[int, Path]]:
        """Yield positions and files of an agent's states, each verified; invalid ones are skipped and logged."""
        for header in self._headers(agent):
            position = _position(header)
            if fault := self._fault(agent, position, header):
                log.warning("snapshot %s is skipped: %s", header.with_suffix(".state").name, fault)
            else:
                yield position, header.with_suffix(".state")

    def _headers(self, agent: str) -> list[Path]:
        found = (path for path in self._folder.glob(f"{_name(agent)}-*.json") if HEADER.fullmatch(path.name))
        return sorted(found, reverse=True)

    def _fault(self, agent: str, position: int, header: Path) -> str | None:
        try:
            stored = json.loads(header.read_bytes())
            state = header.with_suffix(".state")
            expected = {"agent": agent, "position": position, "sha256": _sha256(state)}
        except (OSError, ValueError) as error:
            return f"unreadable ({error})"
        if not isinstance(stored, dict) or any(stored.get(name) != value for name, value in expected.items()):
            return "damaged or truncated"
        history = self._history(position)
        if history is None or stored.get("history") != _hex(history):
            return "of a history that the journal does not have"
        return None


def _position(header: Path) -> int:
    return int(header.stem.partition("-")[2])


def _unlink(header: Path) -> None:
    """Remove a snapshot; the header first, without which the state is a leftover."""
    header.unlink(missing_ok=True)
    header.with_suffix(".state").unlink(missing_ok=True)


def _name(agent: str) -> str:
    return hashlib.sha256(agent.encode()).hexdigest()[:32]


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
