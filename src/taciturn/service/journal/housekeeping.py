"""What is done for a journal in the background while a service runs: see that it answers, read keys, compact.

And see whether another process has taken over, also while nothing is written.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import Fenced, Key
from taciturn.service.journal.removal import SnapshotFolder, remove_snapshots, survey
from taciturn.service.journal.tables import SLOW_SECONDS, Tables

if TYPE_CHECKING:
    from taciturn.service.journal.sql import SQLJournal

POLL_SECONDS = 0.5
log = logging.getLogger(__name__)


class Housekeeping:
    """Asks the database twice a second, on a thread of its own; another thread compacts when it is needed.

    Arguments:
        journal: what is looked after.
        tables: another connection to the same tables, which is closed with this.
        on_keys: called with all keys, now and when one has changed.
        snapshots: where those of deleted agents are removed.
        on_fenced: called once another process has taken the journal over; nothing is asked after it.
    """

    def __init__(
        self,
        journal: "SQLJournal",
        tables: Tables,
        on_keys: Callable[[list[Key]], object],
        snapshots: SnapshotFolder | None,
        on_fenced: Callable[[Fenced], object],
    ) -> None:
        self._journal, self._tables, self._on_keys, self._snapshots = journal, tables, on_keys, snapshots
        self._on_fenced = on_fenced
        self._answered = time.monotonic()
        self._keys_version = self._deletions = -1  # so that the first round reads keys, and cleans up after a crash
        self._requests = journal.compact_requests
        self._failing = False
        self._stop = threading.Event()
        self._compacting: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name="taciturn-housekeeping", daemon=True)
        self._thread.start()

    @property
    def responsive(self) -> bool:
        """Whether the database has answered recently."""
        return time.monotonic() - self._answered < SLOW_SECONDS

    def close(self) -> None:
        """Stop; a compaction in progress ends after its current step."""
        self._stop.set()
        self._thread.join()
        if self._compacting is not None:
            self._compacting.join()
        self._tables.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._poll()
                self._failing = False
            except Fenced as error:
                self._on_fenced(error)
                return
            except Exception as error:
                if not self._failing:  # once, not twice a second
                    log.warning("the journal does not answer: %s", error, exc_info=not isinstance(error, TaciturnError))
                self._failing = True
            self._stop.wait(POLL_SECONDS)

    def _poll(self) -> None:
        meta = self._tables.meta()
        self._answered = time.monotonic()
        self._journal.compare_epoch(meta.get("epoch"))
        if (version := meta.get("keys_version", 0)) != self._keys_version:
            self._on_keys(list(self._tables.keys()))
            self._keys_version = version
        requests, deletions = meta.get("compact_requests", 0), self._journal.deletions
        if self._compacting is not None and self._compacting.is_alive():
            return
        requested = requests != self._requests
        if requested or deletions != self._deletions:
            self._compacting = threading.Thread(
                target=self._clean, args=(requested,), name="taciturn-compaction", daemon=True
            )
            self._compacting.start()
        self._requests, self._deletions = requests, deletions

    def _clean(self, requested: bool) -> None:  # noqa: FBT001 - an argument of a thread
        """Remove snapshots of deleted agents, and their records if that was asked for or is worth it."""
        try:
            found = survey(self._journal)
            if self._snapshots is not None:
                remove_snapshots(found, self._snapshots)
            if requested or found.worthwhile:
                removed = self._journal.compact(self._stop.is_set)
                log.info("compacted the journal: %d entries of deleted agents removed", removed)
        except Exception:  # the journal is as valid as before, and the next deletion tries again
            log.exception("the journal could not be compacted")
