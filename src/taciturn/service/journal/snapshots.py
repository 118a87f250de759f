"""Snapshots: states of agents, so that a start need not read the whole journal. Only a cache.

A snapshot is two files, named by a hash of the agent's name and the position: the state (`.state`), and a header
(`.json`) with the agent, the position, the state's SHA-256 and the journal's digest at that position. The header is
written last and makes the snapshot valid; a state without a header is left over from a crash, or being written.
"""

import hashlib
import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from taciturn.errors import TaciturnError
from taciturn.service.journal.snapshot_files import Content, LocalFiles, SnapshotFiles, sha256

log = logging.getLogger(__name__)
NAME = re.compile(r"\.?[0-9a-f]{32}-([0-9]{20})\.(?:json|state)(?:\.[0-9a-f]+)?")
"""The name of a file with its position, also of one that is unfinished."""

History = Callable[[int], bytes | None]


class Snapshots:
    """The newest states of each agent.

    Several processes may use one place, each for agents of its own. What a crash has left over of an agent is removed
    with the next state of that agent, by the one process that writes it: nobody removes what another is writing.

    Arguments:
        files: where; a path is a folder, which is created if it does not exist.
        keep: how many states of an agent are kept.
        history: the journal's `digest_at`. A state of another history is invalid (the journal was restored from a
            backup, repaired, or lost its tail with the power), even if its position exists again.
    """

    def __init__(self, files: SnapshotFiles | Path, keep: int = 2, history: History = lambda _: b"") -> None:
        self._files: SnapshotFiles = LocalFiles(files) if isinstance(files, Path) else files
        self._keep = keep
        self._history = history

    def put(self, agent: str, position: int, content: Content) -> None:
        """Store a state, given as bytes or by a function that writes it to a path, and remove obsolete ones."""
        history = self._history(position)
        digest = self._files.write(_file(agent, position, "state"), content)
        fields = {"agent": agent, "position": position, "sha256": digest, "history": _hex(history)}
        self._files.write(_file(agent, position, "json"), json.dumps(fields).encode("ascii"))
        self._prune(agent, position)

    def _prune(self, agent: str, newest: int) -> None:
        """Remove all but the newest few, leftovers before them, and later ones of a history that was lost.

        Later ones of this history are by a process that owns the agent since, and are kept, finished or not.
        """
        kept = 0
        for position, names in self._found(agent).items():
            whole = _file(agent, position, "json") in names
            if position > newest:
                obsolete = whole and self._is_lost(agent, position)
                kept += whole and not obsolete
            else:
                obsolete = not whole or kept >= self._keep
                kept += not obsolete
            if obsolete:
                self._remove(names)

    def remove(self, agent: str, until: int) -> None:
        """Remove the states of an agent that was deleted at position `until`, not those of a later one of its name."""
        for position, names in self._found(agent).items():
            if position <= until:
                self._remove(names)

    def newest_first(self, agent: str) -> Iterator[tuple[int, Path]]:
        """Yield positions and files of an agent's states, each verified; invalid ones are skipped and logged.

        A file may be a temporary one, which there is until the next is asked for.
        """
        try:
            found = self._found(agent)
        except OSError as error:
            log.warning("there are no snapshots of %s: %s", agent, error)
            return
        for position, names in found.items():
            if _file(agent, position, "json") not in names:
                continue
            with ExitStack() as held:
                try:
                    path = self._verified(agent, position, held)
                except (OSError, ValueError) as error:
                    log.warning("snapshot %s is skipped: %s", _file(agent, position, "state"), error)
                else:
                    yield position, path

    def _found(self, agent: str) -> dict[int, list[str]]:
        """The names of an agent's files by position, the newest first."""
        found: defaultdict[int, list[str]] = defaultdict(list)
        for name in self._files.names(f"{_hash(agent)}-"):
            if parts := NAME.fullmatch(name):
                found[int(parts[1])].append(name)
        return dict(sorted(found.items(), reverse=True))

    def _remove(self, names: Iterable[str]) -> None:
        """Remove the files of a snapshot; the header first, without which the state is a leftover."""
        for name in sorted(names, key=lambda name: not name.endswith(".json")):
            self._files.remove(name)

    def _is_lost(self, agent: str, position: int) -> bool:
        """Whether a header is of a history that the journal does not have, or is no header."""
        try:
            self._header(agent, position)
        except OSError:  # whatever it is, it is still there, or another process has removed it
            return False
        except ValueError:
            return True
        return False

    def _verified(self, agent: str, position: int, held: ExitStack) -> Path:
        """The state of a snapshot that is valid, as a file until `held` ends; raises OSError or ValueError."""
        digest = self._header(agent, position)
        path = held.enter_context(self._files.local(_file(agent, position, "state")))
        if sha256(path) != digest:
            raise ValueError("it is damaged or truncated")
        return path

    def _header(self, agent: str, position: int) -> object:
        """The SHA-256 that the header of a snapshot names; raises OSError or ValueError."""
        with self._files.local(_file(agent, position, "json")) as path:
            stored = json.loads(path.read_bytes())
        if not isinstance(stored, dict) or (stored.get("agent"), stored.get("position")) != (agent, position):
            raise ValueError("its header is damaged or truncated")
        history = self._history(position)
        if history is None or stored.get("history") != _hex(history):
            raise ValueError("it is of a history that the journal does not have")
        return stored.get("sha256")


def open_snapshots(url: str, *, history: History) -> Snapshots:
    """The snapshots in a folder, or in storage that machines share, such as `s3://bucket/prefix`."""
    folder = url.removeprefix("file://")
    if not folder:
        raise TaciturnError("--snapshots names no place; a folder or s3://bucket/prefix is right")
    if "://" not in folder:
        return Snapshots(LocalFiles(Path(folder)), history=history)
    from taciturn.service.journal.remote_files import RemoteFiles  # noqa: PLC0415 - its drivers are an extra

    return Snapshots(RemoteFiles(url), history=history)


def _file(agent: str, position: int, kind: str) -> str:
    return f"{_hash(agent)}-{position:020}.{kind}"


def _hash(agent: str) -> str:
    return hashlib.sha256(agent.encode()).hexdigest()[:32]


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()
