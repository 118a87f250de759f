"""Files of snapshots in storage that machines share, such as S3: whatever fsspec knows."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from taciturn.errors import TaciturnError, how_to_install
from taciturn.service.journal.snapshot_files import Content, sha256
from taciturn.service.journal.sqlite_file import PRIVATE

try:
    from fsspec.asyn import sync
    from fsspec.core import url_to_fs
except ImportError as error:
    raise ImportError(f"taciturn.service.journal.remote_files needs fsspec: {how_to_install('s3')}") from error

ATTEMPTS = 2
PAUSE_SECONDS = 30.0
"""How long nothing is asked after a failure: a start with a thousand agents must not wait a thousand times."""


class RemoteFiles:
    """A folder in shared storage. Files are written and read by way of temporary ones on this machine.

    Arguments:
        url: where, such as `s3://bucket/prefix`; the bucket must exist. Credentials and the address of a server that
            is not Amazon's are those of the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …).
        seconds: how long a call of a driver with an event loop (those of S3, Google and Azure) may take in all. S3 has
            limits for its answers besides, but none for its permission to send a file.
        clock: seconds that never run backwards.
    """

    def __init__(self, url: str, *, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        try:
            self._system, self._root = url_to_fs(url, skip_instance_cache=True, **_options(url, seconds))
        except (ImportError, ValueError) as error:  # a driver that is not installed, or a protocol that there is not
            raise TaciturnError(f"--snapshots: {error}; a folder or s3://bucket/prefix is right") from None
        if hasattr(self._system, "retries"):
            self._system.retries = ATTEMPTS  # s3fs tries five times otherwise, however long each takes
        self._seconds, self._clock, self._paused_until = seconds, clock, float("-inf")

    def names(self, prefix: str) -> list[str]:
        """The names that begin with a prefix."""
        self._system.invalidate_cache()  # other processes write, too
        try:
            found = self._ask("find", self._root, prefix=prefix)
        except FileNotFoundError:  # some systems say so while nothing was written yet
            return []
        inside = [path.rpartition("/") for path in found]
        return [name for folder, _, name in inside if folder == self._root and name.startswith(prefix)]

    def write(self, name: str, content: Content) -> str:
        """Write a temporary file, and send it; returns its SHA-256."""
        with _scratch() as path:
            path.write_bytes(content) if isinstance(content, bytes) else content(path)
            self._ask("put_file", str(path), self._path(name))
            return sha256(path)

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """A temporary copy."""
        with _scratch() as path:
            self._ask("get_file", self._path(name), str(path))
            yield path

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with suppress(FileNotFoundError):
            self._ask("rm_file", self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """What a method of the driver returns; its errors are of many kinds, and mean that the storage cannot be used.

        FileNotFoundError is raised as it is.
        """
        where = self._system.unstrip_protocol(self._root)  # which shows no password of the URL
        if self._clock() < self._paused_until:
            raise OSError(f"{where} has failed just now, and is asked again after {PAUSE_SECONDS:g} s")
        try:
            return self._call(method, *arguments, **options)
        except FileNotFoundError:
            raise
        except Exception as error:
            self._paused_until = self._clock() + PAUSE_SECONDS
            raise OSError(f"{where} cannot be used: {error}") from error

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        if not self._system.async_impl:
            return getattr(self._system, method)(*arguments, **options)

        async def limited() -> Any:
            try:
                async with asyncio.timeout(self._seconds):
                    return await getattr(self._system, f"_{method}")(*arguments, **options)
            except TimeoutError:
                raise OSError(f"no answer for {self._seconds:g} s") from None

        return sync(self._system.loop, limited)


def _options(url: str, seconds: float) -> dict[str, Any]:
    """Settings of a driver: time limits, for those of which they are known."""
    if not url.startswith(("s3://", "s3a://")):
        return {}
    limits = {"connect_timeout": min(5.0, seconds), "read_timeout": min(20.0, seconds)}
    return {"config_kwargs": {**limits, "retries": {"total_max_attempts": 1}}}


@contextmanager
def _scratch() -> Iterator[Path]:
    """An empty file for its owner only, which is removed after the block."""
    with tempfile.TemporaryDirectory(prefix="taciturn-snapshot-") as folder:
        path = Path(folder) / "file"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, PRIVATE))
        yield path
