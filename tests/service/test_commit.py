"""Order, groups, failures and the end, with a journal that waits until it is told to go on."""

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
    """Says when an append has begun, and goes on when `go` gets an outcome: None or an error."""

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
    journal, told = Gated(), []
    commit = GroupCommit(journal, waiting=5, batch=4)

    def submit(name, *bodies):
        commit.submit(entries(*bodies), lambda error, position: told.append((name, error, position)))

    yield journal, commit, submit, told
    for _ in range(100):
        journal.go.put(None)
    commit.close()


def test_what_gathers_while_the_disk_is_busy_goes_in_one_append_in_order(gated):
    journal, commit, submit, told = gated
    submit("a", 1)
    assert journal.begun.get(timeout=30) == 1
    submit("b", 2, 3)
    submit("nothing")
    submit("c", 4, 5)
    submit("d", 6)
    assert told == []  # nothing is acknowledged before it is durable
    for _ in range(3):
        journal.go.put(None)
    commit.close()
    assert journal.appends == [entries(1), entries(2, 3, 4, 5), entries(6)]  # four close a batch
    assert told == [("a", None, 1), ("b", None, 3), ("nothing", None, 3), ("c", None, 5), ("d", None, 6)]


def test_a_full_queue_says_so_at_once_and_takes_nothing(gated):
    journal, commit, submit, told = gated
    submit("under way", 0)
    journal.begun.get(timeout=30)
    for number in range(5):
        submit("waiting", number)
    with pytest.raises(Busy, match="5 submissions wait"):
        submit("too much", 9)
    for _ in range(3):
        journal.go.put(None)
    commit.close()
    assert [name for name, *_ in told] == ["under way"] + ["waiting"] * 5
    with pytest.raises(TaciturnError, match="closed"):
        submit("late", 1)
    commit.close()


def test_an_error_fails_its_group_and_all_behind_it_until_the_owner_resumes(gated):
    journal, commit, submit, told = gated
    full = JournalFull("no room")
    submit("before", 1)
    journal.begun.get(timeout=30)
    submit("failing", 2)
    submit("same group", 3)
    journal.go.put(None)
    assert journal.begun.get(timeout=30) == 2
    submit("queued", 4)
    journal.go.put(full)
    heard = threading.Event()
    commit.submit(entries(5), lambda error, _: (told.append(("after", error, 0)), heard.set()))
    assert heard.wait(30)
    assert journal.begun.empty()  # neither was even tried
    commit.resume()
    submit("anew", 6)
    journal.go.put(None)
    commit.close()
    failed = ["failing", "same group", "queued", "after"]
    assert told == [("before", None, 1), *((name, full, 0) for name in failed), ("anew", None, 2)]
    assert journal.appends == [entries(1), entries(6)]


def test_what_still_waits_when_the_owner_resumes_is_of_the_old_state_and_fails(gated):
    """The thread is kept busy telling the first failure while the owner resumes and goes on."""
    journal, commit, submit, told = gated
    full, telling, resumed = JournalFull("no room"), threading.Event(), threading.Event()
    commit.submit(entries(1), lambda *_: (telling.set(), resumed.wait(30)))
    journal.begun.get(timeout=30)
    submit("old", 2)
    journal.go.put(full)
    assert telling.wait(30)
    commit.resume()
    submit("new", 3)
    resumed.set()
    journal.go.put(None)
    commit.close()
    assert told == [("old", full, 0), ("new", None, 1)]
    assert journal.appends == [entries(3)]


def test_a_done_that_raises_is_logged_and_the_others_are_told(gated, caplog):
    journal, commit, submit, told = gated

    def careless(*_):
        raise RuntimeError("careless")

    commit.submit(entries(1), careless)
    submit("other", 2)
    journal.go.put(None)
    journal.go.put(None)
    with caplog.at_level(logging.ERROR):
        commit.close()
    assert told == [("other", None, 2)]
    assert "careless" in caplog.text


@given(sizes=st.lists(st.integers(0, 5), max_size=60), batch=st.integers(1, 20))
@settings(deadline=None, max_examples=25)
def test_on_a_real_journal_everything_is_there_once_in_order_at_the_position_told(tmp_path_factory, sizes, batch):
    told, bodies = [], iter(range(1000))
    with closing(SQLiteJournal(tmp_path_factory.mktemp("journal") / "journal.db")) as journal:
        with closing(GroupCommit(journal, batch=batch)) as commit:
            for size in sizes:
                group = entries(*(next(bodies) for _ in range(size)))
                commit.submit(group, lambda error, position: told.append((error, position)))
        assert told == [(None, sum(sizes[: place + 1])) for place in range(len(sizes))]
        assert [int(record.body) for record in journal.read()] == list(range(sum(sizes)))
