"""Records of deleted agents are really removed, and the journal stays a verified history of the others."""

import hashlib
import shutil
import sqlite3
import threading
from contextlib import closing, suppress
from itertools import groupby
from queue import SimpleQueue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service_kit import Web, until
from taciturn.errors import TaciturnError
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service
from taciturn.service.journal import removal
from taciturn.service.journal.base import DamagedJournal, Entry
from taciturn.service.journal.repair import backup, repair, restore
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sqlite import SQLiteJournal
from taciturn.service.journal.sqlite_file import examine
from taciturn.service.run import compact, opened_app, opened_journal

SECRET = b"the-secret-of-a-caller"
AGENTS, KINDS = st.sampled_from("abc"), st.sampled_from(["decide", "decide", "decide", "reward", "delete"])
HISTORY = st.lists(st.builds(Entry, AGENTS, KINDS, st.binary(max_size=9)), max_size=25)


def survivors(records):
    """Oracle: the records that stay, by definition."""
    last_deletion = {record.agent: record.position for record in records if record.kind == "delete"}
    return [
        record for record in records if record.kind == "delete" or record.position > last_deletion.get(record.agent, 0)
    ]


def rows_of(kept, last):
    """Oracle: positions of all rows: those of the records that stay, and the last of each run between them."""
    stay = {record.position for record in kept}
    runs = (list(group) for gone, group in groupby(range(1, last + 1), lambda position: position not in stay) if gone)
    return sorted(stay | {run[-1] for run in runs})


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(removal, "CHUNK", 3)
    monkeypatch.setattr(removal, "PAGE", 2)


@given(histories=st.lists(HISTORY, min_size=1, max_size=3))
@settings(max_examples=40)
def test_only_records_before_a_deletion_go_and_the_rest_verifies_from_every_position(new_store, histories):
    store, everything = new_store(), []
    for history in histories:
        with closing(store.open()) as journal:
            journal.append(history)
            everything += list(journal.read(len(everything)))
            before = len(list(journal.read()))
            kept = survivors(everything)
            assert journal.compact() == before - len(kept)
            assert journal.compact() == 0
            assert journal.last() == len(everything)
            for after in range(len(everything) + 1):
                assert list(journal.read(after)) == [record for record in kept if record.position > after]
            positions = [row for (row,) in store.tamper("SELECT position FROM taciturn_records ORDER BY position")]
            assert positions == rows_of(kept, len(everything))
            assert all(journal.digest_at(position) for position in positions)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("reading_after", range(0, 25, 4))
def test_reading_goes_on_while_records_are_removed(store, reading_after):
    """Runs grow under the reader, also behind the last record that it wants."""
    history = [Entry("ab"[number % 3 == 0], "decide", b"%d" % number) for number in range(24)]
    with closing(store.open()) as journal:
        journal.append(history)
        reader, seen = journal.read(), []
        for record in reader:
            seen.append(record)
            if record.position == reading_after:
                journal.append([Entry("a", "decide", b"last"), Entry("a", "delete", b"{}")])
                journal.compact()
        assert {record for record in seen if record.agent == "b"} == {
            record for record in journal.read() if record.agent == "b"
        }
        assert [record.position for record in seen] == sorted(record.position for record in seen)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE taciturn_records SET body = ? WHERE position = 3",
        "UPDATE taciturn_records SET digest = ? WHERE position = 3",
        "DELETE FROM taciturn_records WHERE position = 3 AND ? IS NOT NULL",
        "UPDATE taciturn_records SET position = 2 WHERE position = 3 AND ? IS NOT NULL",
        "UPDATE taciturn_records SET kind = 'decide' WHERE position = 3 AND ? IS NOT NULL",
    ],
)
def test_changed_or_missing_run_is_reported(store, statement):
    with closing(store.open()) as journal:
        journal.append([Entry("b", "decide", b"1"), *[Entry("a", "decide", b"2")] * 2, Entry("a", "delete", b"{}")])
        journal.append([Entry("b", "decide", b"3")])
        assert journal.compact() == 2
    store.tamper(statement, bytes(40))
    with closing(store.open()) as journal, pytest.raises(DamagedJournal, match="the last good record is [1-3];"):
        list(journal.read())


def test_entry_cannot_pretend_to_be_a_removed_run(store):
    with closing(store.open()) as journal:
        with pytest.raises(TaciturnError, match="'removed', which stands for removed ones"):
            journal.append([Entry("a", "removed", b"")])
        assert journal.last() == 0


@pytest.mark.usefixtures("small_chunks")
def test_failure_at_any_statement_leaves_a_valid_journal_that_can_be_compacted_again(new_store):
    history = [Entry("abc"[number % 3 % 2], "decide", b"%d" % number) for number in range(15)]
    history += [Entry("a", "delete", b"{}"), Entry("a", "create", b"{}")]
    failures, step = 1, 0
    while failures:
        store = new_store()
        with closing(store.open()) as journal:
            journal.append(history)
            everything = list(journal.read())
            failures, step = fail_at(journal, step), step + 1
        with closing(store.open()) as journal:
            found = list(journal.read())
            assert set(survivors(everything)) <= set(found) <= set(everything)
            journal.compact()
            assert list(journal.read()) == survivors(everything)
    assert step > 6


def fail_at(journal, step):
    """Compact until the given statement, which fails as if the process was killed; returns whether it came to that."""
    steps, original = iter(range(1000)), journal.write

    def write(sql, rows=None):
        if next(steps) == step:
            raise KeyboardInterrupt
        original(sql, rows)

    journal.write = write
    try:
        journal.compact()
    except KeyboardInterrupt:
        return 1
    finally:
        journal.write = original
    return 0


# --- the bytes are gone ---


def files_with(folder, text):
    return [path.name for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def with_secrets(journal, number=300):
    for start in range(0, number, 50):
        bodies = [b"%d %s " % (start + place, SECRET) * 40 for place in range(50)]
        journal.append([Entry("ab"[place % 2], "decide", body) for place, body in enumerate(bodies)])
    journal.append([Entry("b", "decide", b"open"), Entry("a", "delete", b"{}"), Entry("b", "delete", b"{}")])
    journal.append([Entry("b", "create", b"new")])


def test_compaction_leaves_no_trace_of_deleted_agents_in_the_files_or_in_backups(tmp_path):
    path = tmp_path / "journal.db"
    with closing(SQLiteJournal(path)) as journal:
        with_secrets(journal)
        assert files_with(tmp_path, SECRET)
        before = sum(file.stat().st_size for file in tmp_path.iterdir())
        assert journal.compact() == 301
        assert files_with(tmp_path, SECRET) == []  # also while it is open, with its -wal
        assert path.stat().st_size < before / 10
        backup(path, tmp_path / "copy")
        records = list(journal.read())
    assert [(record.agent, record.body) for record in records] == [("a", b"{}"), ("b", b"{}"), ("b", b"new")]
    assert files_with(tmp_path, SECRET) == []
    assert examine(tmp_path / "copy") == (records[-1].position, None)
    restore(tmp_path / "copy", tmp_path / "new.db")
    with closing(SQLiteJournal(tmp_path / "new.db")) as journal:
        assert list(journal.read()) == records


def test_removed_records_are_vacuumed_in_postgres(server):
    with closing(server.open()) as journal:
        with_secrets(journal)
        assert journal.compact() == 301
    assert server.tamper("SELECT count(*) FROM taciturn_records WHERE position(?::bytea in body) > 0", SECRET) == [(0,)]
    vacuums = "SELECT vacuum_count FROM pg_stat_user_tables WHERE relid = 'taciturn_records'::regclass"
    until(lambda: server.tamper(vacuums) == [(1,)])


def test_compaction_without_a_service_removes_snapshots_of_the_deleted_not_of_their_successors(tmp_path):
    snapshots = Snapshots(tmp_path / "snapshots")
    with opened_journal(tmp_path) as journal:
        with_secrets(journal)
        last = journal.last()
    for agent, position in (("a", 7), ("b", 8), ("b", last)):
        snapshots.put(agent, position, b"state")
    assert compact(tmp_path) == 301
    assert [[position for position, _ in snapshots.newest_first(agent)] for agent in "ab"] == [[], [last]]


def test_request_that_came_before_the_first_look_is_not_lost(tmp_path, compacted):
    with opened_journal(tmp_path) as journal:
        journal.append([Entry("b", "create", b"{}")] * 9 + [Entry("a", "decide", b"{}"), Entry("a", "delete", b"{}")])
        with closing(journal.beside()) as tables:
            tables.request_compaction()
        journal.watch(lambda _: None)
        assert compacted.get(timeout=60) == 1


def test_repair_keeps_removed_runs(tmp_path):
    path = tmp_path / "journal.db"
    with closing(SQLiteJournal(path)) as journal:
        with_secrets(journal)
        journal.compact()
        journal.append([Entry("b", "decide", b"good"), Entry("b", "decide", b"bad")])
        records = list(journal.read())
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE taciturn_records SET body = 'x' WHERE position = ?", (records[-1].position,))
        db.commit()
    assert repair(path) == (records[-2].position, 1)
    with closing(SQLiteJournal(path)) as journal:
        assert list(journal.read()) == records[:-1]
        assert journal.append([Entry("b", "decide", b"next")]) == records[-1].position


def test_all_files_belong_to_their_owner_alone_also_older_ones(tmp_path):
    folder = tmp_path / "data"
    for _ in range(2):
        with (
            opened_journal(folder) as journal,
            opened_app(journal, folder, snapshot_every=1) as (app, _),
            Web(app) as web,
        ):
            name = f"a{journal.last()}"
            web("POST", "/v1/agents", json={"name": name, "kind": "linucb", "arms": 2})
            web("POST", f"/v1/agents/{name}/decisions", json={"context": [1.0, 2.0]})
            backup(folder / "journal.db", folder / f"copy-{name}")
            (folder / "journal.db.damaged-1").touch(0o644)
            modes = {}
            for path in folder.rglob("*"):
                with suppress(FileNotFoundError):  # a snapshot is written meanwhile, and gets its name
                    modes[path.name] = path.stat().st_mode & 0o777
            loose = {name for name, mode in modes.items() if mode & 0o077} - {"journal.db.damaged-1"}
            assert (loose, folder.stat().st_mode & 0o777) == (set(), 0o700)
            assert {"journal.db", "journal.db-wal", "journal.db-shm", "journal.db.lock", "snapshots"} <= modes.keys()
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for copy in folder.glob("copy-*"):
            copy.unlink()


# --- on its own, in a running service ---


def deciding(web, name, text="x"):
    web("POST", "/v1/agents", json={"name": name, "kind": "linucb", "arms": 2})
    for number in range(10):
        assert web("POST", f"/v1/agents/{name}/decisions", json={"context": {text: float(number)}}).status_code == 200


def snapshots_of(folder, name):
    return list((folder / "snapshots").glob(f"{hashlib.sha256(name.encode()).hexdigest()[:32]}-*"))


@pytest.fixture
def compacted(monkeypatch):
    """Gets what each compaction of a SQLite journal returned."""
    done, original = SimpleQueue(), SQLiteJournal.compact
    monkeypatch.setattr(SQLiteJournal, "compact", lambda self, *stopping: done.put(original(self, *stopping)))
    return done


def test_service_compacts_when_half_is_dead_and_removes_snapshots_of_deleted_agents(tmp_path, compacted):
    text = SECRET.decode()
    with (
        opened_journal(tmp_path) as journal,
        opened_app(journal, tmp_path, snapshot_every=5) as (app, _),
        Web(app) as web,
    ):
        deciding(web, "kept")
        deciding(web, "kept-too")
        deciding(web, "gone", text)
        deciding(web, "again", text)
        until(lambda: snapshots_of(tmp_path, "gone"))
        web("DELETE", "/v1/agents/gone")
        until(lambda: not snapshots_of(tmp_path, "gone"))
        assert compacted.empty()  # a quarter
        web("DELETE", "/v1/agents/again")
        assert compacted.get(timeout=60) == 22
        until(lambda: files_with(tmp_path, SECRET) == [])
        deciding(web, "again")
        about = [web("GET", f"/v1/agents/{name}/health").json() for name in ("kept", "kept-too", "again")]
    with opened_journal(tmp_path) as journal, opened_app(journal, tmp_path) as (app, _), Web(app) as web:
        assert [web("GET", f"/v1/agents/{name}/health").json() for name in ("kept", "kept-too", "again")] == about
        assert web("GET", "/v1/agents/gone").status_code == 404
    shutil.rmtree(tmp_path / "snapshots")
    with opened_journal(tmp_path) as journal, closing(Service(journal)) as service, Web(create_app(service)) as web:
        assert [web("GET", f"/v1/agents/{name}/health").json() for name in ("kept", "kept-too", "again")] == about


def test_running_service_compacts_when_it_is_asked_to(tmp_path, compacted):
    with opened_journal(tmp_path) as journal, opened_app(journal, tmp_path) as (app, _), Web(app) as web:
        for name in ("kept", "kept-too", "gone"):
            deciding(web, name)
        web("DELETE", "/v1/agents/gone")
        with closing(journal.beside()) as tables:
            until(lambda: requested(tables, compacted))
        assert compacted.get(timeout=60) in (0, 11)


def requested(tables, compacted):
    tables.request_compaction()
    return not compacted.empty()


def test_appends_go_on_while_a_journal_is_compacted(store):
    stop = threading.Event()
    with closing(store.open()) as journal:
        journal.append([Entry("a", "decide", b"%d" % number) for number in range(3000)] + [Entry("a", "delete", b"{}")])

        def write():
            while not stop.is_set():
                journal.append([Entry("b", "decide", b"1")])

        writer = threading.Thread(target=write)
        writer.start()
        assert journal.compact() == 3000
        stop.set()
        writer.join()
        assert [record.position for record in journal.read()] == list(range(3001, journal.last() + 1))


def test_compaction_that_is_told_to_stop_stops(store):
    with closing(store.open()) as journal:
        journal.append([Entry("a", "decide", b"1"), Entry("a", "delete", b"{}")])
        assert journal.compact(lambda: True) == 0
        assert len(list(journal.read())) == 2
