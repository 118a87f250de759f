"""What a front and the supervisor read from PostgreSQL again and again: keys, and where the shards are."""

import logging
import threading
from collections.abc import Callable

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import Key
from taciturn.service.journal.directory import WANTED, Directory, ShardRow

log = logging.getLogger("taciturn.service")
POLL_SECONDS = 0.5
SOON_SECONDS = 0.05


class Watch:
    """Polls the directory on a thread of its own.

    Arguments:
        directory: its connection, which is closed with this.
        on_shards: called with the wanted number of shards and those that there are, twice a second.
        on_keys: called with all keys when they have changed.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        on_shards: Callable[[int, list[ShardRow]], object],
        on_keys: Callable[[list[Key]], object],
    ) -> None:
        self._directory, self._on_shards, self._on_keys = directory, on_shards, on_keys
        self._keys_version = -1
        self._stop, self._soon = threading.Event(), threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="taciturn-watch", daemon=True)
        self._thread.start()

    def refresh(self) -> None:
        """Poll soon."""
        self._soon.set()

    def close(self) -> None:
        """Stop."""
        self._stop.set()
        self._soon.set()
        self._thread.join()
        self._directory.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._poll()
                self._failing = False
            except TaciturnError as error:
                if not self._failing:  # once, not twice a second
                    log.warning("the directory of shards cannot be read: %s", error)
                self._failing = True
            self._soon.wait(POLL_SECONDS)
            if self._soon.is_set():
                self._stop.wait(SOON_SECONDS)  # or a shard that stays away would be asked for all the time
            self._soon.clear()

    def _poll(self) -> None:
        meta = self._directory.meta()
        if (version := meta.get("keys_version", 0)) != self._keys_version:
            self._on_keys(list(self._directory.keys()))
            self._keys_version = version
        self._on_shards(meta.get(WANTED, 0), self._directory.shards())
