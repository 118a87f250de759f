"""Journals of schema 1 are migrated: nothing is lost, a copy stays, and a migration that fails changes nothing."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import chain as joined
from itertools import islice

import pytest

from golden import journals, traces
from taciturn import __version__
from taciturn.errors import TaciturnError
from taciturn.service.journal import schema
from taciturn.service.journal.base import DamagedJournal, Entry, JournalUnavailable
from taciturn.service.journal.chain import chain
from taciturn.service.journal.postgres import PostgresJournal
from taciturn.service.journal.repair import repair, restore
from taciturn.service.journal.sqlite import SQLiteJournal
from taciturn.service.journal.sqlite_file import examine


def golden_rows(table):
    with closing(sqlite3.connect(journals.journal_file(1))) as db:
        return db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608


OLD = [Entry(*row[1:4]) for row in golden_rows("taciturn_records")]


@pytest.fixture
def old(store):
    """A store with the journal of schema 1 that 961636e wrote."""
    if store.kind == "sqlite":
        shutil.copy(journals.journal_file(1), store.address)
        return store
    store.tamper(schema.META_TABLE)
    store.tamper(schema.records_table(1, "BIGINT", "BYTEA"))
    store.tamper(schema.keys_table("BYTEA"))
    for table in ("taciturn_meta", "taciturn_records", "taciturn_keys"):
        for row in golden_rows(table):
            store.tamper(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row)  # noqa: S608
    return store


def opened(store, upgrade=None):
    return (SQLiteJournal if store.kind == "sqlite" else PostgresJournal)(store.address, upgrade=upgrade)


def schema_of(store):
    return store.tamper("SELECT value FROM taciturn_meta WHERE name = 'schema_version'")[0][0]


def test_old_journal_keeps_its_records_and_keys_and_says_who_wrote_them(old):
    with closing(opened(old)) as journal:
        records = list(journal.read())
        assert [Entry(*record[1:4]) for record in records] == OLD
        assert {record.version for record in records} == {"0.1.0"}
        assert [key.name for key in journal.keys()] == ["shop"]  # noqa: SIM118 - not a dictionary
        assert journal.append([Entry("lin", "decide", b"{}")]) == len(OLD) + 1
        assert [record.version for record in journal.read(len(OLD))] == [__version__]
    assert schema_of(old) == len(schema.MIGRATIONS)


def test_version_is_covered_by_the_chain(store):
    with closing(store.open()) as journal:
        journal.append([Entry("a", "decide", b"1"), Entry("a", "decide", b"2")])
    store.tamper("UPDATE taciturn_records SET version = '9.9' WHERE position = 2")
    with closing(store.open()) as journal, pytest.raises(DamagedJournal, match="record 2 was changed"):
        list(journal.read())


def test_upgrade_gets_every_record_in_order_and_may_read_ahead(old):
    seen = []

    def upgrade(records):
        ahead = list(islice(records, 7))
        for record in joined(ahead, records):
            seen.append(record)
            yield Entry(record.agent, record.kind, b"new " + record.body)

    with closing(opened(old, upgrade)) as journal:
        found = [Entry(*record[1:4]) for record in journal.read()]
    assert found == [Entry(agent, kind, b"new " + body) for agent, kind, body in OLD]
    assert [(record.position, record.version) for record in seen] == [(i + 1, "0.1.0") for i in range(len(OLD))]
    with closing(opened(old, upgrade)) as journal:  # only once
        assert len(list(journal.read())) == len(seen) == len(OLD)


def test_copy_of_the_old_schema_stays(old, tmp_path):
    with closing(opened(old)):
        pass
    if old.kind == "sqlite":
        copy = f"{old.address}.schema-1.backup"
        assert examine(journals.Path(copy)) == (len(OLD), None)
        restore(copy, tmp_path / "restored" / "journal.db")
        with closing(SQLiteJournal(tmp_path / "restored" / "journal.db")) as journal:
            assert [Entry(*record[1:4]) for record in journal.read()] == OLD
    for table in ("taciturn_records", "taciturn_meta", "taciturn_keys"):
        if old.kind == "sqlite":
            with closing(sqlite3.connect(copy)) as db:
                kept = db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608
        else:
            kept = old.tamper(f"SELECT * FROM {table}_schema_1 ORDER BY 1")  # noqa: S608
        assert kept == golden_rows(table)


def lose(records):
    yield from (Entry(*record[1:4]) for record in islice(records, 40))


def add(records):
    yield from (Entry(*record[1:4]) for record in records)
    yield Entry("lin", "decide", b"{}")


def move(records):
    first, second, third = islice(records, 3)
    yield from (Entry(*record[1:4]) for record in (second, first, third))


def fail(records):
    yield from lose(records)
    raise RuntimeError("in the middle")


@pytest.mark.parametrize("upgrade", [lose, add, move, fail])
def test_upgrade_that_loses_adds_moves_or_fails_leaves_the_old_schema(old, upgrade):
    with pytest.raises((TaciturnError, RuntimeError), match="the upgrade|in the middle") as error:
        opened(old, upgrade)
    assert "\n" not in str(error.value)
    assert schema_of(old) == 1
    assert old.tamper("SELECT * FROM taciturn_records ORDER BY position") == golden_rows("taciturn_records")
    with closing(opened(old)) as journal:
        assert len(list(journal.read())) == len(OLD)


def test_damaged_old_journal_is_not_migrated_and_can_be_repaired(old):
    old.tamper("UPDATE taciturn_records SET body = ? WHERE position = 100", b"{}")
    with pytest.raises(DamagedJournal, match="record 100 was changed; the last good record is 99"):
        opened(old)
    assert schema_of(old) == 1
    if old.kind == "sqlite":
        assert repair(old.address) == (99, len(OLD) - 99)
        assert schema_of(old) == 1
        with closing(opened(old)) as journal:
            assert [Entry(*record[1:4]) for record in journal.read()] == OLD[:99]


def test_start_is_refused_if_the_copy_cannot_be_written(tmp_path):
    path = tmp_path / "journal.db"
    shutil.copy(journals.journal_file(1), path)
    (tmp_path / "journal.db.schema-1.backup").mkdir()
    with pytest.raises(JournalUnavailable, match="schema-1.backup: Is a directory"):
        SQLiteJournal(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT value FROM taciturn_meta WHERE name = 'schema_version'").fetchall() == [(1,)]


def test_digest_of_a_record_without_version_is_that_of_schema_1():
    digest = bytes(16)
    for position, agent, kind, body, stored in golden_rows("taciturn_records"):
        digest = chain(digest, position, agent, kind, body, None)
        assert digest == stored


def test_answers_of_an_old_journal_stay_under_new_defaults(old):
    """In a process that compiles for a generic processor, as the one that wrote the journal did."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    environment |= traces.ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, journals.__file__, "check", old.address]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
