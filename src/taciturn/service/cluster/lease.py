"""The lease of a shard: for how long its process may answer."""

import logging
import threading
import time
from collections.abc import Callable

from taciturn.service.journal.base import Fenced
from taciturn.service.journal.directory import Directory

log = logging.getLogger("taciturn.service")
RENEWALS = 4
"""Attempts to renew a lease before it runs out."""

MARGIN = 0.9
"""A process trusts its lease for this share of its time: clocks may run at slightly different rates."""


class Lease:
    """Renews the lease of a shard on a thread of its own, over a connection of its own.

    The database holds the lease from the moment of a renewal on, this process counts from just before it asked: it
    stops to answer before anybody else can take over.

    Arguments:
        directory: its connection, which is closed with this.
        shard, epoch: which shard, and the epoch that `Directory.take` gave.
        seconds: how long a lease runs.
        taken: the monotonic time just before the lease was taken.
        on_fenced: called once another process has taken over.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        shard: int,
        epoch: int,
        seconds: float,
        taken: float,
        on_fenced: Callable[[Fenced], object],
    ) -> None:
        self._directory, self._shard, self._epoch, self._seconds = directory, shard, epoch, seconds
        self._on_fenced = on_fenced
        self._until = taken + MARGIN * seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="taciturn-lease", daemon=True)
        self._thread.start()

    @property
    def valid(self) -> bool:
        """Whether no other process can have taken over yet."""
        return time.monotonic() < self._until

    def close(self) -> None:
        """Give the lease back, so that another process need not wait for its end."""
        self._stop.set()
        self._thread.join()
        try:
            self._directory.renew(self._shard, self._epoch, 0.0)
        except Exception as error:  # noqa: BLE001 - it runs out by itself
            log.debug("the lease of shard %d was not given back: %s", self._shard, error)
        self._directory.close()

    def _run(self) -> None:
        failing = False
        while not self._stop.wait(self._seconds / RENEWALS):
            asked = time.monotonic()
            try:
                self._directory.renew(self._shard, self._epoch, self._seconds)
            except Fenced as error:
                self._until = 0.0
                self._on_fenced(error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                if not failing:
                    log.warning("shard %d cannot renew its lease: %s", self._shard, error)
                failing = True
            else:
                self._until, failing = asked + MARGIN * self._seconds, False
