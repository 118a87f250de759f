"""Group commit: entries that arrive while the disk is busy are appended together in the next write."""

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
    """The queue of submissions is full; retry later."""


class _Submission(NamedTuple):
    epoch: int
    entries: Sequence[Entry]
    done: Done


class GroupCommit:
    """The one thread that appends: all queued submissions go to the journal in one append, in the order of submission.

    Each submission's callback `done` is called on this thread, in order: with None and the position of its last entry
    once all of it is durable, or with the error and 0. After an error nothing is appended until `resume`: everything
    submitted before `resume` fails as well, since it may depend on what was lost. The owner restores its state from the
    journal and resumes; an entry that failed may still be in the journal (a server can be lost after it has written and
    before it has answered).

    Arguments:
        journal: where entries go; the owner closes it.
        waiting: submissions that may be queued; one more raises `Busy`.
        batch: entries after which an append takes no further submission.
    """

    def __init__(self, journal: Journal, *, waiting: int = 10_000, batch: int = 1_000) -> None:
        self._journal = journal
        self._waiting = waiting
        self._batch = batch
        self._queue: SimpleQueue[_Submission | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._epoch = 0  # number of calls of resume
        self._failed: tuple[int, Exception] = (-1, TaciturnError(""))  # the last epoch that failed, and its error
        self._thread = threading.Thread(target=self._run, name="taciturn-commit", daemon=True)
        self._thread.start()

    def submit(self, entries: Sequence[Entry], done: Done) -> None:
        """Queue entries and return immediately."""
        with self._lock:
            if self._closed:
                raise TaciturnError("this group commit is closed; open another one")
            if self._queue.qsize() >= self._waiting:
                raise Busy(f"{self._waiting} submissions wait for the journal; retry later")
            self._queue.put(_Submission(self._epoch, entries, done))

    def resume(self) -> None:
        """Append what is submitted from now on."""
        with self._lock:
            self._epoch += 1

    def close(self) -> None:
        """Append what is queued, and stop the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            last = self._gather(group := [first])
            epoch, error = self._failed
            for submission in group:
                if submission.epoch <= epoch:
                    _notify(submission, error, 0)
            self._append([submission for submission in group if submission.epoch > epoch])
            if last:
                return

    def _gather(self, group: list[_Submission]) -> bool:
        """Add queued submissions up to the batch size; returns whether `close` was reached."""
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
        except Exception as error:  # noqa: BLE001 - whatever it is, every callback must be called
            self._failed = group[-1].epoch, error
            for submission in group:
                _notify(submission, error, 0)
            return
        for submission in group:
            position += len(submission.entries)
            _notify(submission, None, position)


def _notify(submission: _Submission, error: Exception | None, position: int) -> None:
    try:
        submission.done(error, position)
    except Exception:  # the other callbacks must still be called
        log.exception("the callback of an append failed")
