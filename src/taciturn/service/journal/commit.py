"""Group commit: while the disk is busy with some entries, others gather, and go to it in one append."""

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import Entry, Journal

Done = Callable[[Exception | None, int], object]
log = logging.getLogger(__name__)


class Busy(TaciturnError):
    """More is waiting to be written than is worth waiting for; ask again later."""


class _Submission(NamedTuple):
    era: int
    entries: Sequence[Entry]
    done: Done


class GroupCommit:
    """The one thread that appends. What waits goes to the journal in one append, in the order of submission.

    Each submission's `done` is called on this thread, in order: with None and the position of its last entry once all
    of it is durable, or with the error and 0. After an error nothing is appended until `resume`: everything that was
    submitted before that fails as well, since it may build on what is lost. The owner makes its state anew from the
    journal, where an entry that failed may be or not (a server can go away between writing and saying so), and resumes.

    Arguments:
        journal: where entries go; closing it is left to the owner.
        waiting: submissions that may wait; one more is `Busy`.
        batch: entries after which an append takes no further submission.
    """

    def __init__(self, journal: Journal, *, waiting: int = 10_000, batch: int = 1_000) -> None:
        self._journal = journal
        self._waiting = waiting
        self._batch = batch
        self._queue: SimpleQueue[_Submission | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._era = 0  # counts calls of resume
        self._lost: tuple[int, Exception] = (-1, TaciturnError(""))  # the last era that failed, and why
        self._thread = threading.Thread(target=self._work, name="taciturn-commit", daemon=True)
        self._thread.start()

    def submit(self, entries: Sequence[Entry], done: Done) -> None:
        """Hand entries over and return at once."""
        with self._gate:
            if self._closed:
                raise TaciturnError("this group commit is closed; nothing can be submitted any more")
            if self._queue.qsize() >= self._waiting:
                raise Busy(f"{self._waiting} submissions wait for the journal; try again later")
            self._queue.put(_Submission(self._era, entries, done))

    def resume(self) -> None:
        """Append again what is submitted from now on."""
        with self._gate:
            self._era += 1

    def close(self) -> None:
        """Finish what was submitted, and stop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            last = self._gather(group := [first])
            era, error = self._lost
            for submission in group:
                if submission.era <= era:
                    _tell(submission, error, 0)
            self._append([submission for submission in group if submission.era > era])
            if last:
                return

    def _gather(self, group: list[_Submission]) -> bool:
        """Add what else waits, up to a bound; whether that was the end."""
        size = len(group[0].entries)
        while size < self._batch:
            try:
                submission = self._queue.get_nowait()
            except Empty:
                return False
            if submission is None:
                return True
            group.append(submission)
            size += len(submission.entries)
        return False

    def _append(self, group: list[_Submission]) -> None:
        if not group:
            return
        entries = [entry for submission in group for entry in submission.entries]
        try:
            position = self._journal.append(entries) - len(entries)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            self._lost = group[-1].era, error
            for submission in group:
                _tell(submission, error, 0)
            return
        for submission in group:
            position += len(submission.entries)
            _tell(submission, None, position)


def _tell(submission: _Submission, error: Exception | None, position: int) -> None:
    try:
        submission.done(error, position)
    except Exception:  # the others still wait to be told
        log.exception("what was to be done after an append failed")
