"""What was answered never changes: not by a new default, not by other rounding, not by a restart."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest

import taciturn
from service_kit import MemoryJournal
from taciturn.agents.linucb import LinUCB
from taciturn.agents.viewucb import ViewUCB
from taciturn.errors import ForgottenDecision, RequestIdReused, TaciturnError
from taciturn.service.api.problems import problem_of
from taciturn.service.core.errors import SetAside, Unavailable, UnknownAgent
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import (
    AddArm,
    Create,
    Decide,
    DecideRequest,
    Delete,
    Reward,
    Withdraw,
    operation_of,
)
from taciturn.service.core.service import Service
from taciturn.service.core.session import MAX_REQUESTS
from taciturn.service.journal.base import Fenced, JournalUnavailable
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sqlite import SQLiteJournal

CONTEXTS = np.random.default_rng(0).normal(size=(60, 4)).round(3).tolist()


@pytest.fixture
def opened():
    """Opens services, and closes them at the end."""
    services = []

    def open_service(*args, **options):
        services.append(Service(*args, **options))
        return services[-1]

    yield open_service
    for service in services:
        service.close()


def create(service, name="x", kind="linucb", **params):
    service.call(name, service.limits.bounded_create(Create(name, ["a", "b", "c"], kind, {"seed": 1, **params})))


def ask(service, name, **request):
    return service.call(name, Decide(DecideRequest(**request)))


def decide(service, context, name="x", **options):
    return json.loads(ask(service, name, context=context, **options))


def history(service, name="x"):
    """Requests and their answers, as bytes; two in three get feedback, which for some is corrected."""
    asked = []
    for step in range(0, 40, 2):
        given = {"context": CONTEXTS[step]} if step % 3 else {"contexts": CONTEXTS[step : step + 2]}
        request = {**given, "request_id": f"r{step}"}
        answer = ask(service, name, **request)
        asked.append((request, answer))
        for made in json.loads(answer).get("decisions", [json.loads(answer)]):
            if made["id"] % 3:
                service.call(name, Reward(made["id"], (1.0, 0.0, None, 0.5)[made["id"] % 4]))
                if made["id"] % 5 == 0:
                    service.call(name, Reward(made["id"], 1.0))
        if step == 20:
            service.call(name, AddArm("d", "a"))
    return asked


def decisions(answers):
    return [made for _, answer in answers for made in json.loads(answer).get("decisions", [json.loads(answer)])]


def pending(service, name="x"):
    return service.call(name, lambda session: session.oldest_pending(10**9))


def other_default(patch, kind):
    patch.setitem(kind.__init__.__kwdefaults__, "alpha", 9.0)


def other_rounding(patch, kind):
    """Scores that differ by far more than rounding, so that other arms would surely be chosen."""
    score = kind._score  # private: there is no public way to change an agent's numbers
    patch.setattr(kind, "_score", lambda self, node: (score(self, node)[0] * -1.0, score(self, node)[1]))


@pytest.mark.parametrize("snapshots", [None, 7, 10**9])
@pytest.mark.parametrize(("name", "kind"), [("linucb", LinUCB), ("viewucb", ViewUCB)])
@pytest.mark.parametrize("change", [other_default, other_rounding])
def test_answers_survive_a_change_of_the_software(opened, monkeypatch, tmp_path, caplog, change, name, kind, snapshots):
    journal = MemoryJournal()
    options = {} if snapshots is None else {"snapshots": Snapshots(tmp_path), "snapshot_every": snapshots}
    service = opened(journal, **options)
    create(service, kind=name)
    answers, waiting, params = history(service), pending(service), service.call("x", lambda s: s.about("x")["params"])
    service.close()
    change(monkeypatch, kind)
    service = opened(journal)  # without the snapshots: every decision is replayed
    if change is other_rounding:
        assert service.differing > 10
        assert "would have made otherwise" in caplog.text
    assert service.call("x", lambda session: session.about("x")["params"]) == params
    assert pending(service) == waiting
    for request, answer in answers:
        assert ask(service, "x", **request) == answer, "a retry gets the bytes that were sent then"
    for made in decisions(answers):
        found = service.call("x", lambda session, made=made: session.agent.decision(made["id"]))
        assert (found.arm, found.propensity) == (made["arm"], made["propensity"])
    held = service.call("x", lambda session: session.agent.decisions)
    assert held[waiting[0]].state == "pending"
    assert decide(service, CONTEXTS[50])["id"] == len(decisions(answers))
    service.close()
    again = opened(journal, **options)  # and from the snapshots
    assert [ask(again, "x", **request) for request, _ in answers] == [answer for _, answer in answers]


def test_journal_holds_answers_times_and_all_parameters(opened):
    journal = MemoryJournal()
    service = opened(journal, clock=lambda: 77.5)
    create(service, expire_after=None)
    answer = decide(service, CONTEXTS[0])
    created, decided = (operation_of(record.kind, record.body) for record in journal.records)
    bare = taciturn.make("linucb", arms=3)
    assert created.params.keys() == bare.params.keys() - {"arms"}
    assert (created.params["alpha"], created.params["seed"]) == (bare.alpha, 1)
    (made,) = decided.decisions
    assert (made.id, made.arm, made.scores, made.widths) == tuple(answer[k] for k in ("id", "arm", "scores", "widths"))
    assert (made.propensity, decided.at) == (answer["propensity"], 77.5)


# Requests with an id.


def test_request_id_is_for_one_request_only(opened):
    service = opened(MemoryJournal())
    create(service)
    first = ask(service, "x", context={"a": 1.0, "b": 2.0}, request_id="r")
    assert ask(service, "x", context={"b": 2.0, "a": 1.0}, request_id="r") == first, "the same, in another order"
    for other in (
        {"context": {"a": 1.0}},
        {"contexts": [{"a": 1.0, "b": 2.0}]},
        {"context": {"a": 1, "b": 2}, "allowed": ["a"]},
    ):
        with pytest.raises(RequestIdReused, match="another request") as caught:
            ask(service, "x", **other, request_id="r")
        assert problem_of(caught.value).status == 409
    assert service.call("x", lambda session: session.agent.next_id) == 1


def test_ids_of_requests_are_remembered_by_count(opened):
    service = opened(MemoryJournal())
    create(service)
    rows = [CONTEXTS[0]] * 50
    for number in range(400):  # 400 requests of 50 decisions: 20 000 in all
        ask(service, "x", contexts=rows, request_id=f"r{number}")
    assert len(service.call("x", lambda session: session.requests)) == 400 < MAX_REQUESTS
    again = json.loads(ask(service, "x", contexts=rows, request_id="r0"))
    assert [made["id"] for made in again["decisions"]] == list(range(50))


def test_retry_of_a_withdrawn_decision_says_so(opened):
    service = opened(MemoryJournal())
    create(service)
    decide(service, CONTEXTS[0], request_id="r")
    service.call("x", Withdraw(0))
    with pytest.raises(ForgottenDecision):
        decide(service, CONTEXTS[0], request_id="r")


# Silence.


def test_unanswered_decisions_become_silent_by_default(opened, caplog):
    """50 000 unanswered decisions were the end: 429 for ever after."""
    now = [0.0]
    journal = MemoryJournal()
    service = opened(journal, limits=Limits(pending=20, nodes=100), clock=lambda: now[0])
    create(service)
    for number in range(200):
        assert decide(service, CONTEXTS[number % 60])["id"] == number
    assert pending(service) == list(range(180, 200))
    assert "the oldest become silent" in caplog.text
    (worker,) = service.workers()
    assert worker.counts["silenced"] == 180
    now[0] = service.limits.expire_after + 1
    decide(service, CONTEXTS[0])
    assert pending(service) == [200], "by time, too"
    service.close()
    assert pending(opened(journal, limits=Limits(pending=20, nodes=100))) == [200]


def test_expiry_after_a_long_pause_is_done_in_pieces():
    agent = taciturn.make("linucb", arms=2, expire_after=10.0)
    agent.decide_batch([[1.0, 0.5]] * 250, at=0.0)
    counts = []
    for _ in range(3):
        agent.decide([1.0, 0.0], at=100.0)
        counts.append(agent.health().silent)
    assert counts == [100, 200, 250]


# What breaks.


def test_broken_agent_stops_no_other(opened, monkeypatch):
    journal = MemoryJournal()
    service = opened(journal)
    create(service, "x")
    create(service, "y")
    decide(service, CONTEXTS[0])
    released, restoring = threading.Event(), threading.Event()
    restore = service._restorer.restore  # private: the only place where a restore can be held

    def held(names):
        restoring.set()
        released.wait()
        return restore(names)

    monkeypatch.setattr(service._restorer, "restore", held)
    with monkeypatch.context() as patch:
        patch.setattr(LinUCB, "_score", lambda *_: 1 / 0)
        with pytest.raises(TaciturnError):
            decide(service, CONTEXTS[1])
    assert restoring.wait(10)
    assert service.ready
    for number in range(5):
        assert decide(service, CONTEXTS[number], "y")["id"] == number
    released.set()
    assert decide(service, CONTEXTS[1])["id"] == 1, "what was asked meanwhile is done then"


def test_agent_that_cannot_be_restored_is_set_aside_and_can_be_deleted(opened):
    journal = MemoryJournal()
    service = opened(journal)
    create(service, "x")
    create(service, "y")
    decide(service, CONTEXTS[0])
    decide(service, CONTEXTS[0], "y")
    service.close()
    at = next(i for i, record in enumerate(journal.records) if record.kind == "decide" and record.agent == "x")
    journal.records[at] = journal.records[at]._replace(body=b'{"request":{"context":[]},"decisions":[]}')
    service = opened(journal)
    assert service.ready
    assert decide(service, CONTEXTS[1], "y")["id"] == 1
    with pytest.raises(SetAside, match="entry 3") as caught:
        decide(service, CONTEXTS[1])
    assert (problem_of(caught.value).status, problem_of(caught.value).slug) == (503, "set-aside")
    with pytest.raises(TaciturnError, match="there is an agent"):
        create(service, "x")
    service.call("x", Delete())
    with pytest.raises(UnknownAgent):
        decide(service, CONTEXTS[1])
    create(service, "x")
    assert decide(service, CONTEXTS[1])["id"] == 0
    service.close()
    service = opened(journal)
    assert (service.set_aside, service.names()) == ({}, ["x", "y"])


def test_unknown_kind_of_entry_is_not_passed_over(opened):
    journal = MemoryJournal()
    service = opened(journal)
    create(service)
    service.close()
    journal.records.append(journal.records[0]._replace(position=2, kind="teleport"))
    assert "newer taciturn" in opened(journal).set_aside["x"]


def test_reads_go_on_while_the_disk_is_full(opened, caplog):
    caplog.set_level(logging.INFO)
    journal = MemoryJournal()
    service = opened(journal, retry_seconds=0.01)
    create(service)
    decide(service, CONTEXTS[0])
    journal.failing = 10**9
    with pytest.raises(Unavailable):
        decide(service, CONTEXTS[1])
    assert service.readable.wait(10)
    for _ in range(3):
        assert service.call("x", lambda session: session.agent.next_id) == 1
        with pytest.raises(Unavailable, match="cannot be written"):
            decide(service, CONTEXTS[1])
    assert not service.ready
    assert caplog.text.count("could not be written") == 1, "logged, once"
    journal.failing = 0
    assert service.writable.wait(10)
    assert service.ready
    assert "can be written again" in caplog.text
    assert decide(service, CONTEXTS[1])["id"] == 1


def test_service_that_was_replaced_stops_for_good(opened):
    journal = MemoryJournal()
    service = opened(journal)
    create(service)
    decide(service, CONTEXTS[0])

    def fenced(_):
        raise Fenced("another process writes")

    journal.append = fenced
    with pytest.raises(Unavailable):
        decide(service, CONTEXTS[1])
    assert not service.ready
    for what in (Decide(DecideRequest(CONTEXTS[1])), lambda session: session.agent.next_id):
        with pytest.raises(Unavailable, match="for good"):
            service.call("x", what)
    with pytest.raises(Fenced):
        service.check()


# The start.


class SlowJournal(MemoryJournal):
    """A journal that is read only as far as it is released."""

    def __init__(self, records):
        super().__init__()
        self.records, self.released = records, threading.Semaphore(0)
        self.waiting = threading.Event()

    def read(self, after=0):
        for record in self.records[after:]:
            if not self.released.acquire(blocking=False):
                self.waiting.set()
                self.released.acquire()
            yield record


def test_start_in_the_background_says_how_far_it_is(opened):
    journal = MemoryJournal()
    service = opened(journal)
    create(service)
    answers = history(service)
    service.close()
    slow = SlowJournal(journal.records)
    slow.released.release(10)
    service = opened(slow, background=True)
    assert slow.waiting.wait(10)
    assert (service.ready, service.progress) == (False, (10, len(journal.records)))
    assert f"10 of {len(journal.records)} entries" in service.status
    for what in (Decide(DecideRequest(CONTEXTS[1])), lambda session: session.agent.next_id):
        with pytest.raises(Unavailable, match="10 of"):
            service.call("x", what)
    slow.released.release(10**6)
    assert service.started.wait(20)
    assert service.ready
    assert ask(service, "x", **answers[0][0]) == answers[0][1]


def test_stop_during_the_start_does_not_wait_for_it():
    journal = MemoryJournal()
    with closing(Service(journal)) as service:
        create(service)
        history(service)
    slow = SlowJournal(journal.records)
    slow.released.release(10)
    service = Service(slow, background=True)
    assert slow.waiting.wait(10)
    closer = threading.Thread(target=service.close)
    closer.start()
    while not service._stopping.is_set():  # private: nothing public says that close has begun
        pass
    slow.released.release()
    closer.join(10)
    assert not closer.is_alive()


def test_damaged_journal_is_reported_by_the_owner(opened):
    class Damaged(MemoryJournal):
        def read(self, after=0):
            raise JournalUnavailable("record 3 was changed")

    service = opened(Damaged(), background=True)
    assert service.started.wait(10)
    assert not service.ready
    with pytest.raises(JournalUnavailable, match="record 3"):
        service.check()
    with pytest.raises(JournalUnavailable, match="record 3"):
        Service(Damaged())


DEADLY = """
import signal, sys
from pathlib import Path
from taciturn.service.core import session
from taciturn.service.core.operations import Decide
from taciturn.service.core.service import Service
from taciturn.service.journal.sqlite import SQLiteJournal
apply = session.Session.apply
def deadly(self, op):
    if isinstance(op, Decide) and self.kind == "viewucb" and op.decisions is not None:
        signal.raise_signal(signal.SIGSEGV)  # in this thread, as a bad address would
    return apply(self, op)
session.Session.apply = deadly
folder = Path(sys.argv[1])
journal = SQLiteJournal(folder / "journal.db")
service = Service(journal, marker=folder / "replay.mark")
print(service.names(), service.set_aside)
service.close()
journal.close()
"""


def test_entry_that_kills_the_process_is_left_out_in_the_end(tmp_path):
    with closing(SQLiteJournal(tmp_path / "journal.db")) as journal, closing(Service(journal)) as service:
        create(service, "lin", "linucb")
        create(service, "view", "viewucb")
        for name in ("lin", "view"):
            decide(service, CONTEXTS[0], name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    runs = [
        subprocess.run([sys.executable, "-c", DEADLY, tmp_path], capture_output=True, text=True, env=environment)  # noqa: PLW1510
        for _ in range(4)
    ]
    assert [run.returncode for run in runs] == [-signal.SIGSEGV] * 2 + [0] * 2, runs[-1].stderr
    for run in runs[2:]:
        assert run.stdout.startswith("['lin'] {'view': ")
        assert "died 2 times" in run.stdout


# Snapshots.


def written(service):
    """Wait until the snapshot after the last request is on the disk."""
    service.call("x", lambda _: None)
    service.call("x", lambda _: None)  # the worker begins a snapshot before it takes the next job
    (worker,) = service.workers()
    if worker._writing is not None:  # private: the only handle on the snapshot that is being written
        worker._writing.result(10)


@pytest.mark.parametrize("request_size", [1, 10])
def test_snapshots_are_made_by_decisions_not_by_requests(opened, tmp_path, request_size):
    journal = MemoryJournal()
    service = opened(journal, Snapshots(tmp_path), snapshot_every=100, snapshot_seconds=1e9)
    create(service)
    for _ in range(250 // request_size):
        ask(service, "x", contexts=[CONTEXTS[0]] * request_size)
        written(service)  # one that is due while another is being written comes later
    assert journal.last() - service.workers()[0].snapshot.position <= 100 // request_size


def test_snapshots_are_made_by_the_time_that_a_replay_would_take(opened, tmp_path):
    journal = MemoryJournal()
    service = opened(journal, Snapshots(tmp_path), snapshot_every=10**9, snapshot_seconds=0.0)
    create(service)
    for number in range(3):
        decide(service, CONTEXTS[number])
        written(service)
        assert service.workers()[0].entries_since_snapshot <= 1


def test_a_service_that_is_killed_again_and_again_does_not_replay_ever_more(opened, tmp_path):
    """Each of them makes fewer decisions than there are between two snapshots."""
    journal, replayed = MemoryJournal(), []
    create(opened(journal, Snapshots(tmp_path)))
    for _ in range(12):
        service = opened(journal, Snapshots(tmp_path), snapshot_every=100, snapshot_seconds=1e9)
        replayed.append(service.progress[0])
        for number in range(30):
            decide(service, CONTEXTS[number % len(CONTEXTS)])
        written(service)
    assert max(replayed) <= 130
    assert len(service.call("x", lambda session: list(session.agent.decisions))) == 12 * 30
