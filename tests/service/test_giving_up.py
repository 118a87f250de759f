"""A service that was replaced refuses at once, and an agent that fails again and again is set aside."""

import threading
from concurrent.futures import Future
from contextlib import closing
from queue import SimpleQueue

import pytest

from service_kit import MemoryJournal
from taciturn.agents.linucb import LinUCB
from taciturn.service.api.problems import problem_of
from taciturn.service.core.errors import InternalError, SetAside, Unavailable
from taciturn.service.core.jobs import Job
from taciturn.service.core.operations import AddArm, Create, Decide, DecideRequest, Delete
from taciturn.service.core.service import MAX_BREAKS, Service
from taciturn.service.journal.base import Fenced, JournalUnavailable

REASON = "another process has written to it since"
NEVER = 1e6  # seconds of a pause that no test waits for


def create(service, name):
    service.call(name, service.limits.bounded_create(Create(name, ["a", "b"], "linucb")))


def decide(service, name):
    return service.call(name, Decide(DecideRequest(context=[1.0, 2.0])))


def queue(service, name, what):
    future = Future()
    service.put(name, Job(what, future))
    return future


class Replaced(MemoryJournal):
    """A journal whose appends wait for `release`, and fail since another process has taken over."""

    def __init__(self):
        super().__init__()
        self.fenced, self.appending, self.release = False, threading.Event(), threading.Event()

    def append(self, entries):
        if self.fenced:
            self.appending.set()
            assert self.release.wait(60)
            raise Fenced(REASON)
        return super().append(entries)


def test_requests_in_flight_and_queued_are_refused_at_once_with_the_reason_when_an_append_is_fenced():
    journal = Replaced()
    with closing(Service(journal, retry_seconds=NEVER)) as service:
        for name in "xyz":
            create(service, name)
        journal.fenced = True
        waiting = [queue(service, name, Decide(DecideRequest(context=[1.0]))) for name in "xyzxyz"]
        assert journal.appending.wait(60)
        waiting += [queue(service, name, lambda session: session.agent.next_id) for name in "xyz"]
        journal.release.set()
        for future in waiting:
            with pytest.raises(Unavailable, match=REASON) as refused:
                future.result(60)
            assert problem_of(refused.value).status == 503
        with pytest.raises(Unavailable, match=REASON):
            decide(service, "x")


def test_requests_that_wait_for_a_restored_agent_are_refused_when_another_process_takes_over(monkeypatch):
    journal = MemoryJournal()
    with closing(Service(journal, retry_seconds=NEVER)) as service:
        create(service, "x")
        tried = threading.Semaphore(0)

        def fail(_):
            tried.release()
            raise JournalUnavailable("the database is away")

        monkeypatch.setattr(service._restorer, "restore", fail)  # private: it stands for a database that is away
        journal.failing = 1
        with pytest.raises(Unavailable):
            decide(service, "x")
        for _ in range(2):  # the next attempt is after a long pause
            assert tried.acquire(timeout=60)
        waiting = queue(service, "x", lambda session: session.agent.next_id)
        service.stop_for_good(Fenced(REASON))
        with pytest.raises(Unavailable, match=REASON):
            waiting.result(60)


def test_a_writer_that_was_replaced_is_told_so_though_nobody_writes(store):
    told = SimpleQueue()
    with closing(store.open()) as journal:
        journal.watch(lambda _: None, None, told.put)
        store.tamper("UPDATE taciturn_meta SET value = value + 1 WHERE name = 'epoch'")
        assert REASON in str(told.get(timeout=60))
        assert not journal.responsive
        with pytest.raises(Fenced):
            journal.keys()


def test_an_agent_that_fails_again_and_again_is_set_aside_and_the_others_serve(monkeypatch):
    """As one does whose file had numbers that no arithmetic survives, though each of them is allowed."""
    journal = MemoryJournal()
    with closing(Service(journal, retry_seconds=0)) as service:
        create(service, "x")
        create(service, "y")
        with monkeypatch.context() as patch:
            patch.setattr(LinUCB, "_score", lambda *_: 1 / 0)  # private: no input is known that fails here
            for _ in range(MAX_BREAKS - 1):
                with pytest.raises(InternalError):
                    decide(service, "x")
            service.call("x", AddArm("c"))  # it can still be written to: the failures are counted from the beginning
            for _ in range(MAX_BREAKS):
                with pytest.raises(InternalError):
                    decide(service, "x")
            with pytest.raises(SetAside, match=f"failed {MAX_BREAKS} times in a row") as refused:
                decide(service, "x")
            assert problem_of(refused.value).status == 503
        decide(service, "y")
        assert service.ready
        assert service.names() == ["y"]
    with closing(Service(journal)) as service:  # a start tries again, perhaps with a version that can
        decide(service, "x")
        service.call("x", Delete())
        assert service.names() == ["y"]
