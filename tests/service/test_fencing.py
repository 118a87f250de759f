"""One writer at a time, also when a writer freezes and is replaced; and a database that hangs is noticed."""

import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

import psycopg
import pytest

from service_kit import Web, until
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service
from taciturn.service.journal import housekeeping, postgres, tables
from taciturn.service.journal.base import Entry, Fenced, JournalUnavailable
from taciturn.service.journal.commit import GroupCommit


def entries(*bodies):
    return [Entry("agent", "decide", str(body).encode()) for body in bodies]


def bodies(journal):
    return [int(record.body) for record in journal.read()]


def disconnect(store):
    """The database ends the connection of the writer, and has ended it when this returns."""
    end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks WHERE locktype = 'advisory'"
    assert store.tamper(end) == [(True,)]


# --- fencing ---


def test_writer_whose_epoch_is_over_writes_nothing_and_never_again(store):
    with closing(store.open()) as journal:
        journal.append(entries(0, 1))
        store.tamper("UPDATE taciturn_meta SET value = value + 1 WHERE name = 'epoch'")
        with pytest.raises(Fenced, match="another process has written to it since"):
            journal.append(entries(2))
        store.tamper("UPDATE taciturn_meta SET value = value - 1 WHERE name = 'epoch'")
        for call in (lambda: journal.append(entries(2)), lambda: list(journal.read()), journal.keys, journal.compact):
            with pytest.raises(Fenced) as error:
                call()
            assert "\n" not in str(error.value)
        assert not journal.responsive
    with closing(store.open()) as journal:
        assert bodies(journal) == [0, 1]


def test_writer_that_was_cut_off_and_replaced_is_fenced_also_after_the_other_has_left(server):
    with closing(server.open()) as old:
        old.append(entries(0, 1))
        disconnect(server)
        with closing(server.open()) as new:
            assert new.append(entries(2)) == 3
            with pytest.raises(Fenced):
                old.append(entries(99))
        with pytest.raises(Fenced):
            old.append(entries(99))
    with closing(server.open()) as journal:
        assert bodies(journal) == [0, 1, 2]


def test_group_commit_of_a_replaced_writer_acknowledges_nothing(server):
    answers = SimpleQueue()
    with closing(server.open()) as old, closing(GroupCommit(old)) as commit:
        commit.submit(entries(0), lambda error, _: answers.put(error))
        assert answers.get(timeout=60) is None
        disconnect(server)
        with closing(server.open()) as new:
            new.append(entries(1))
            for _ in range(3):
                commit.submit(entries(99), lambda error, position: answers.put((error, position)))
                error, position = answers.get(timeout=60)
                assert (type(error), position) == (Fenced, 0)
                commit.resume()
            assert bodies(new) == [0, 1]


FROZEN = """
import sys
from taciturn.service.journal.base import Entry
from taciturn.service.journal.postgres import PostgresJournal
journal = PostgresJournal(sys.argv[1])
while True:
    position = journal.last() + 1
    print(journal.append([Entry("agent", "decide", b"%d" % (position - 1))]), flush=True)
"""


@pytest.mark.parametrize("acknowledged", [1, 7, 20])
def test_frozen_writer_with_an_append_in_flight_is_fenced_when_it_thaws(server, acknowledged):
    """The process is stopped at any point of its loop of appends; nothing that it acknowledges later is lost."""
    command = [sys.executable, "-c", FROZEN, server.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            positions = [int(process.stdout.readline()) for _ in range(acknowledged)]
            process.send_signal(signal.SIGSTOP)
            disconnect(server)
            with closing(server.open()) as new:
                before = new.last()
                for number in range(5):
                    new.append(entries(1000 + number))
                process.send_signal(signal.SIGCONT)
                output, problem = process.communicate(timeout=60)
                positions += map(int, output.split())
                assert bodies(new) == [*range(before), *range(1000, 1005)]
        finally:
            process.kill()
    assert "Fenced" in problem.splitlines()[-1]
    assert max(positions) <= before  # it acknowledged only what the other has read


# --- a database that hangs ---


@contextmanager
def frozen(store):
    """All processes of the server are stopped."""
    ((folder,),) = store.tamper("SHOW data_directory")
    pid = (Path(folder) / "postmaster.pid").read_text().split()[0]
    children = subprocess.run(["pgrep", "-P", pid], capture_output=True, text=True, check=True)  # noqa: S607
    pids = [int(pid), *map(int, children.stdout.split())]
    for each in pids:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in pids:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


@pytest.fixture
def impatient(monkeypatch):
    """The service gives up on the database in tenths of a second."""
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.3)
    monkeypatch.setitem(postgres.TIME_LIMITS, "connect_timeout", "2")  # the least that libpq takes
    for module in (tables, housekeeping):
        monkeypatch.setattr(module, "SLOW_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
def test_append_to_a_frozen_server_fails_in_time_and_works_when_it_thaws(server):
    with closing(server.open()) as journal:
        journal.append(entries(0))
        with frozen(server):
            with pytest.raises(JournalUnavailable, match=r"the server has not answered for 0\.3 s") as error:
                journal.append(entries(1))
            assert "\n" not in str(error.value)
            with pytest.raises(JournalUnavailable, match="timeout"):
                journal.append(entries(1))
        until(lambda: works(journal))
        assert bodies(journal)[0] == 0


def works(journal):
    """Whether the journal can be written again; the server takes a moment to notice that the old connection is gone."""
    try:
        return journal.append(entries(2)) > 1
    except JournalUnavailable:
        return False


@pytest.mark.usefixtures("impatient")
def test_service_is_not_ready_while_the_database_hangs_though_nobody_writes(server):
    with (
        closing(server.open()) as journal,
        closing(Service(journal)) as service,
        Web(create_app(service)) as web,
    ):
        seen = SimpleQueue()
        journal.watch(seen.put)
        assert seen.get(timeout=60) == []
        with frozen(server):
            until(lambda: web("GET", "/readyz").status_code == 503)
            assert not journal.responsive
        until(lambda: web("GET", "/readyz").status_code == 200)


def test_transaction_that_hangs_makes_a_journal_unresponsive_without_waiting_for_its_lock(store, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(tables.time, "monotonic", lambda: now[0])
    with closing(store.open()) as journal:
        with journal.transaction():
            assert journal.responsive
            now[0] += tables.SLOW_SECONDS
            assert not journal.responsive
        assert journal.responsive


def test_time_limits_are_those_of_the_conninfo_if_it_has_some(server):
    with closing(postgres.PostgresTables(server.address + " connect_timeout=77")) as found, found.reading():
        settings = psycopg.conninfo.conninfo_to_dict(found._connection().info.dsn)
    assert settings["connect_timeout"] == 77 or settings["connect_timeout"] == "77"
    assert settings["tcp_user_timeout"] == postgres.TIME_LIMITS["tcp_user_timeout"]
