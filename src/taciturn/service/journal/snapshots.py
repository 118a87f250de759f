"""Snapshots: states of agents on the local disk, so that a start need not read the whole journal. Only a cache.

A snapshot is two files, named by a hash of the agent's name and the position: the state (`.state`), and a header
(`.json`) with the agent, the position, the state's SHA-256 and the journal's digest there. It exists once its header
does, which is written last; a state without one is the leftover of a crash.
"""

import hashlib
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger(__name__)
HEADER = re.compile(r"[0-9a-f]{32}-[0-9]{20}\.json")


def settle(scratch: Path, target: Path) -> None:
    """Move a finished file into place so that a crash leaves what was there before or all of it."""
    flush(scratch)
    scratch.replace(target)
    flush(target.parent)


def flush(path: Path) -> None:
    """Have the disk take a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Snapshots:
    """The newest states of each agent in a folder that one process uses; what a crash left there is removed.

    Arguments:
        folder: where; it is made if need be.
        keep: how many states of an agent stay.
        history: the journal's `digest_at`. A state that another history led to is of no use (the journal was restored
            from a backup, repaired, or lost its end with the power), though its position may well exist again.
    """

    def __init__(self, folder: Path, keep: int = 2, history: Callable[[int], bytes | None] = lambda _: b"") -> None:
        self._folder = folder
        self._keep = keep
        self._history = history
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            orphan = path.suffix == ".state" and not path.with_suffix(".json").exists()
            if path.is_file() and (orphan or path.name.startswith(".")):
                path.unlink()

    def put(self, agent: str, position: int, content: bytes | Callable[[Path], object]) -> None:
        """Keep a state, given as bytes or by what writes it to a path, and forget what it makes useless."""
        history = self._history(position)
        target = self._folder / f"{_name(agent)}-{position:020}.state"
        scratch = target.with_name(f".{secrets.token_hex(8)}")
        try:
            scratch.write_bytes(content) if isinstance(content, bytes) else content(scratch)
            header = {"agent": agent, "position": position, "sha256": _sha256(scratch), "history": _hex(history)}
            settle(scratch, target)
            scratch.write_text(json.dumps(header), encoding="ascii")
            settle(scratch, target.with_suffix(".json"))
        finally:
            scratch.unlink(missing_ok=True)
        self._prune(agent, target.with_suffix(".json"))

    def _prune(self, agent: str, newest: Path) -> None:
        """Remove all but the last few up to the newest; what is beyond it belongs to a history that was lost."""
        headers = self._headers(agent)
        place = headers.index(newest)
        for header in headers[:place] + headers[place + self._keep :]:
            header.unlink()
            header.with_suffix(".state").unlink(missing_ok=True)

    def newest_first(self, agent: str) -> Iterator[tuple[int, Path]]:
        """Positions and files of an agent's states, each checked; bad ones are left out and logged."""
        for header in self._headers(agent):
            position = int(header.stem.partition("-")[2])
            if problem := self._problem(agent, position, header):
                log.warning("snapshot %s is left out: %s", header.with_suffix(".state").name, problem)
            else:
                yield position, header.with_suffix(".state")

    def _headers(self, agent: str) -> list[Path]:
        found = (path for path in self._folder.glob(f"{_name(agent)}-*.json") if HEADER.fullmatch(path.name))
        return sorted(found, reverse=True)

    def _problem(self, agent: str, position: int, header: Path) -> str | None:
        try:
            stated = json.loads(header.read_bytes())
            state = header.with_suffix(".state")
            wanted = {"agent": agent, "position": position, "sha256": _sha256(state)}
        except (OSError, ValueError) as error:
            return f"unreadable ({error})"
        if not isinstance(stated, dict) or any(stated.get(name) != value for name, value in wanted.items()):
            return "damaged or truncated"
        history = self._history(position)
        if history is None or stated.get("history") != _hex(history):
            return "of a history that the journal does not have"
        return None


def _name(agent: str) -> str:
    return hashlib.sha256(agent.encode()).hexdigest()[:32]


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
