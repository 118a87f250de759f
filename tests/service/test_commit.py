"""Group commit: order, grouping, failures and closing, on a journal whose appends the test releases."""

import logging
import threading
from contextlib import closing
from queue import SimpleQueue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import Entry, JournalFull
from taciturn.service.journal.commit import Busy, GroupCommit
from taciturn.service.journal.sqlite import SQLiteJournal


class Gated:
    """Puts into `begun` when an append has begun, and blocks until `go` has an outcome: None or an error to raise."""

    def __init__(self):
        self.appends, self.begun, self.go = [], SimpleQueue(), SimpleQueue()
        self.length = 0

    def append(self, entries):
        self.begun.put(len(entries))
        outcome = self.go.get(timeout=30)
        if outcome is not None:
            raise outcome
        self.appends.append(list(entries))
        self.length += len(entries)
        return self.length


def entries(*bodies):
    return [Entry("agent", "kind", str(body).encode()) for body in bodies]


@pytest.fixture
def gated():
    journal, results = Gated(), []
    commit = GroupCommit(journal, waiting=5, batch=4)

    def submit(name, *bodies):
        commit.submit(entries(*bodies), lambda error, position: results.append((name, error, position)))

    yield journal, commit, submit, results
    for _ in range(100):
        journal.go.put(None)
    commit.close()


def test_submissions_during_an_append_go_into_the_next_one_in_order(gated):
    journal, commit, submit, results = gated
    submit("a", 1)
    assert journal.begun.get(timeout=30) == 1
    submit("b", 2, 3)
    submit("nothing")
    submit("c", 4, 5)
    submit("d", 6)
    assert results == []  # no callback before the entries are durable
    for _ in range(3):
        journal.go.put(None)
    commit.close()
    assert journal.appends == [entries(1), entries(2, 3, 4, 5), entries(6)]  # four entries fill a batch
    assert results == [("a", None, 1), ("b", None, 3), ("nothing", None, 3), ("c", None, 5), ("d", None, 6)]


def test_full_queue_raises_busy(gated):
    journal, commit, submit, results = gated
    submit("under way", 0)
    journal.begun.get(timeout=30)
    for number in range(5):
        submit("waiting", number)
    with pytest.raises(Busy, match="5 submissions wait"):
        submit("too much", 9)
    for _ in range(3):
        journal.go.put(None)
    commit.close()
    assert [name for name, *_ in results] == ["under way"] + ["waiting"] * 5
    with pytest.raises(TaciturnError, match="closed"):
        submit("late", 1)
    commit.close()


def test_error_fails_its_group_and_all_later_submissions_until_resume(gated):
    journal, commit, submit, results = gated
    full = JournalFull("disk full")
    submit("before", 1)
    journal.begun.get(timeout=30)
    submit("failing", 2)
    submit("same group", 3)
    journal.go.put(None)
    assert journal.begun.get(timeout=30) == 2
    submit("queued", 4)
    journal.go.put(full)
    called = threading.Event()
    commit.submit(entries(5), lambda error, _: (results.append(("after", error, 0)), called.set()))
    assert called.wait(30)
    assert journal.begun.empty()  # neither was tried
    commit.resume()
    submit("resumed", 6)
    journal.go.put(None)
    commit.close()
    failed = ["failing", "same group", "queued", "after"]
    assert results == [("before", None, 1), *((name, full, 0) for name in failed), ("resumed", None, 2)]
    assert journal.appends == [entries(1), entries(6)]


def test_submissions_queued_before_resume_fail(gated):
    """The first failure's callback blocks the thread until the owner has resumed and submitted again."""
    journal, commit, submit, results = gated
    full, notifying, resumed = JournalFull("disk full"), threading.Event(), threading.Event()
    commit.submit(entries(1), lambda *_: (notifying.set(), resumed.wait(30)))
    journal.begun.get(timeout=30)
    submit("old", 2)
    journal.go.put(full)
    assert notifying.wait(30)
    commit.resume()
    submit("new", 3)
    resumed.set()
    journal.go.put(None)
    commit.close()
    assert results == [("old", full, 0), ("new", None, 1)]
    assert journal.appends == [entries(3)]


def test_callback_that_raises_is_logged_and_the_others_are_called(gated, caplog):
    journal, commit, submit, results = gated

    def failing(*_):
        raise RuntimeError("bad callback")

    commit.submit(entries(1), failing)
    submit("other", 2)
    journal.go.put(None)
    journal.go.put(None)
    with caplog.at_level(logging.ERROR):
        commit.close()
    assert results == [("other", None, 2)]
    assert "bad callback" in caplog.text


@given(sizes=st.lists(st.integers(0, 5), max_size=60), batch=st.integers(1, 20))
@settings(deadline=None, max_examples=25)
def test_entries_are_in_a_real_journal_once_in_order_at_the_reported_position(tmp_path_factory, sizes, batch):
    results, bodies = [], iter(range(1000))
    with closing(SQLiteJournal(tmp_path_factory.mktemp("journal") / "journal.db")) as journal:
        with closing(GroupCommit(journal, batch=batch)) as commit:
            for size in sizes:
                group = entries(*(next(bodies) for _ in range(size)))
                commit.submit(group, lambda error, position: results.append((error, position)))
        assert results == [(None, sum(sizes[: i + 1])) for i in range(len(sizes))]
        assert [int(record.body) for record in journal.read()] == list(range(sum(sizes)))
