"""Journals on SQLite and PostgreSQL: append, read, verify, lock; then repair and backup of the SQLite file."""

import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from itertools import accumulate, pairwise
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn import __version__
from taciturn.errors import TaciturnError
from taciturn.service.journal import schema, sql
from taciturn.service.journal.base import DamagedJournal, Entry, JournalFull, JournalUnavailable, Key, Record
from taciturn.service.journal.chain import chain
from taciturn.service.journal.postgres import PostgresJournal
from taciturn.service.journal.repair import backup, repair, restore
from taciturn.service.journal.sqlite import SQLiteJournal
from taciturn.service.journal.sqlite_file import beside, examine

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
ENTRIES = st.builds(Entry, NAMES, NAMES, st.binary(max_size=12))


def numbered(start, stop, size=1):
    return [Entry("agent", "decide", b"%d " % number * size) for number in range(start, stop)]


def filled(path, groups=5, size=1):
    """Create a journal with groups of two records and one key; returns its records."""
    with closing(SQLiteJournal(path)) as journal:
        for group in range(groups):
            journal.append(numbered(2 * group, 2 * group + 2, size))
        journal.put_key(Key("web", b"d" * 32, "write"))
        return list(journal.read())


def contents(path):
    with closing(SQLiteJournal(path)) as journal:
        return list(journal.read())


def names(journal):
    return (name for name, *_ in list(journal.keys()))


def one_line(error):
    return "\n" not in str(error.value)


# --- every journal ---


@given(groups=st.lists(st.lists(ENTRIES, max_size=4), max_size=5), reopen_at=st.integers(0, 5))
@settings(deadline=None, max_examples=50)
def test_appended_entries_are_read_back_in_order_from_any_position(new_store, groups, reopen_at):
    store, expected = new_store(), []
    journal = store.open()
    for number, group in enumerate(groups):
        if number == reopen_at:
            journal.close()
            journal = store.open()
        assert journal.append(group) == len(expected) + len(group)
        expected += [Record(len(expected) + place, *entry) for place, entry in enumerate(group, start=1)]
        assert journal.last() == len(expected)
    assert list(journal.read()) == expected
    journal.close()
    with closing(store.open()) as journal:
        assert journal.last() == len(expected)
        for after in range(len(expected) + 2):
            assert list(journal.read(after)) == expected[after:]
        assert len({journal.digest_at(position) for position in range(len(expected) + 1)}) == len(expected) + 1
        assert journal.digest_at(len(expected) + 1) is None


def test_read_spans_pages_and_stops_at_the_last_record_of_its_start(store):
    with closing(store.open()) as journal:
        journal.append(numbered(0, 2 * sql.PAGE + 1))
        for record in journal.read():
            journal.append(numbered(0, 1))
            assert record.position <= 2 * sql.PAGE + 1
        assert len(list(journal.read())) == journal.last() == 2 * (2 * sql.PAGE + 1)


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_changed_missing_or_moved_record_is_reported_at_its_position(new_store, data):
    store, total = new_store(), data.draw(st.integers(2, 6))
    with closing(store.open()) as journal:
        journal.append([data.draw(ENTRIES) for _ in range(total)])
        originals = list(journal.read())
    position = data.draw(st.integers(1, total))
    match data.draw(st.sampled_from(["byte", "name", "boundary", "digest", "delete", "swap", "extra"])):
        case "byte":
            body = bytearray(originals[position - 1].body or b"+")
            body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
            store.tamper("UPDATE taciturn_records SET body = ? WHERE position = ?", bytes(body), position)
        case "name":
            store.tamper("UPDATE taciturn_records SET agent = agent || 'x' WHERE position = ?", position)
        case "boundary":  # a letter moves from one column to the next
            both = originals[position - 1].agent + (originals[position - 1].kind or "x")
            agent, kind = both[: len(originals[position - 1].agent) + 1], both[len(originals[position - 1].agent) + 1 :]
            store.tamper("UPDATE taciturn_records SET agent = ?, kind = ? WHERE position = ?", agent, kind, position)
        case "digest":
            store.tamper("UPDATE taciturn_records SET digest = ? WHERE position = ?", bytes(16), position)
        case "delete":
            store.tamper("DELETE FROM taciturn_records WHERE position = ?", position)
        case "swap":
            other = data.draw(st.integers(1, total).filter(lambda other: other != position))
            for old, new in ((position, 0), (other, position), (0, other)):
                store.tamper("UPDATE taciturn_records SET position = ? WHERE position = ?", new, old)
            position = min(position, other)
        case "extra":
            position = total + 1
            digest = chain(original_digest(originals, total), position, "a", "b", b"c", __version__)
            store.tamper(
                "INSERT INTO taciturn_records VALUES (?, 'a', 'b', ?, ?, ?)", position, b"c", __version__, digest
            )
    with closing(store.open()) as journal:
        seen = []
        with pytest.raises(DamagedJournal, match=f": record {position} .*last good record is {position - 1};") as error:
            seen.extend(journal.read())
        assert one_line(error)
        assert seen == originals[: len(seen)]


def test_lost_tail_is_detected_before_an_append(store):
    with closing(store.open()) as journal:
        journal.append(numbered(0, 5))
    store.tamper("DELETE FROM taciturn_records WHERE position >= 4")
    with closing(store.open()) as journal, pytest.raises(DamagedJournal, match="record 4 is missing"):
        journal.append(numbered(0, 1))


@pytest.mark.parametrize("bad", [Entry("a\0", "kind", b""), Entry("a", "\ud800", b"")])
def test_entry_that_cannot_be_stored_changes_nothing(store, bad):
    with closing(store.open()) as journal:
        journal.append(numbered(0, 1))
        with pytest.raises(TaciturnError, match="zero character or half a character"):
            journal.append([*numbered(1, 2), bad])
        assert journal.append(numbered(1, 2)) == 2
        assert [record.body for record in journal.read()] == [b"0 ", b"1 "]


def test_append_that_was_written_without_an_acknowledgement_is_kept(store, monkeypatch):
    """The connection breaks after the commit and before its acknowledgement."""
    with closing(store.open()) as journal:
        journal.append(numbered(0, 1))
        whole = journal.transaction

        @contextmanager
        def broken():
            with whole():
                yield
            raise JournalUnavailable("connection lost")

        with monkeypatch.context() as patch, pytest.raises(JournalUnavailable):
            patch.setattr(journal, "transaction", broken)
            journal.append(numbered(1, 2))
        assert journal.append(numbered(2, 3)) == 3
        assert [record.body for record in journal.read()] == [b"0 ", b"1 ", b"2 "]


def test_second_writer_is_refused_until_the_first_closes(store):
    with closing(store.open()):
        with pytest.raises(JournalUnavailable, match="in use by") as error:
            store.open()
        assert one_line(error)
    with closing(store.open()) as journal:
        journal.append(numbered(0, 1))
    with pytest.raises(JournalUnavailable, match="was closed"):
        journal.append(numbered(0, 1))


def test_keys_are_stored_replaced_and_dropped(store):
    with closing(store.open()) as journal:
        journal.put_key(Key("web", b"\0" * 32, "read"))
        journal.put_key(Key("web", b"\xff" * 32, "write"))
        journal.put_key(Key("it's", b"2" * 32, "read"))
        assert journal.drop_key("nobody") is False
    with closing(store.open()) as journal:
        assert list(journal.keys()) == [Key("it's", b"2" * 32, "read"), Key("web", b"\xff" * 32, "write")]
        assert journal.drop_key("it's") is True
        assert list(names(journal)) == ["web"]


def test_migrations_are_atomic_and_a_newer_schema_is_refused(store, monkeypatch):
    def add(journal, _):
        journal.write("CREATE TABLE taciturn_extra (value TEXT)")

    def fail(journal, _):
        journal.write("INSERT INTO taciturn_extra VALUES ('x')")
        raise RuntimeError("in the middle")

    with closing(store.open()) as journal:
        journal.append(numbered(0, 3))
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, add, fail])
        with pytest.raises(RuntimeError):
            store.open()
    with closing(store.open()) as journal:  # still the old schema
        journal.append(numbered(3, 4))
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, add])
        with closing(store.open()) as journal:
            assert len(list(journal.read())) == 4
    with pytest.raises(TaciturnError, match=r"written by a newer taciturn \(schema 3, this one knows 2\)") as error:
        store.open()
    assert one_line(error)
    assert store.tamper("SELECT count(*) FROM taciturn_extra") == [(0,)]


CHILD = """
import sys
from taciturn.service.journal.base import Entry
from taciturn.service.journal.{kind} import {cls}
journal = {cls}({address!r})
number = journal.last()
while True:
    group = range(number, number + 1 + number % 3)
    number = journal.append([Entry("agent", "decide", b"%d" % body) for body in group])
    print(number, flush=True)
"""


def test_acknowledged_appends_survive_kill_9(store):
    """Twenty kills, each after a seeded random number of acknowledgements."""
    cls = SQLiteJournal if store.kind == "sqlite" else PostgresJournal
    script = CHILD.format(kind=store.kind, cls=cls.__name__, address=store.address)
    draw, acknowledged = random.Random(0), 0  # noqa: S311 - nothing secret
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            lines = [process.stdout.readline() for _ in range(draw.randint(1, 60))]
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.read().split(b"\n")[:-1]  # whole lines that came in the meantime
        with closing(reopened(store)) as journal:
            acknowledged = max(acknowledged, *map(int, lines))
            bodies = [int(record.body) for record in journal.read()]
        assert bodies == list(range(len(bodies)))
        assert acknowledged <= len(bodies)
        acknowledged = len(bodies)


def reopened(store):
    """Open again; PostgreSQL may take a moment to release the lock of a killed process."""
    for _ in range(1000):
        try:
            return store.open()
        except JournalUnavailable as error:
            assert store.kind == "postgres", error
    raise AssertionError("the lock of a killed process was never released")


# --- PostgreSQL ---


def disconnect(store):
    store.tamper("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")


def test_lost_connection_fails_one_append_then_reconnects(server):
    with closing(server.open()) as journal:
        journal.append(numbered(0, 2))
        disconnect(server)
        with pytest.raises(JournalUnavailable) as error:
            journal.append(numbered(2, 3))
        assert one_line(error)
        assert journal.append(numbered(2, 3)) == 3
        with pytest.raises(JournalUnavailable, match="in use by"):
            server.open()


def test_journal_that_lost_its_connection_refuses_to_follow_another_writer(server):
    with closing(server.open()) as journal:
        journal.append(numbered(0, 2))
        disconnect(server)
        with pytest.raises(JournalUnavailable):
            list(journal.keys())
        with closing(server.open()) as other:
            other.append(numbered(2, 3))
        with pytest.raises(JournalUnavailable, match="another process has written to it"):
            journal.append(numbered(2, 3))


def test_commits_wait_for_the_disk_and_errors_are_one_line(server):
    asynchronous = server.address.replace("-c ", "-c synchronous_commit=off -c ")
    with closing(PostgresJournal(asynchronous)) as journal, journal.transaction():
        assert journal.query("SHOW synchronous_commit") == [("on",)]
    for address in ("host=/nowhere password=secret", "not a conninfo"):
        with pytest.raises(TaciturnError) as error:
            PostgresJournal(address)
        assert one_line(error)
        assert "secret" not in str(error.value)
    with closing(psycopg.connect(server.address, autocommit=True)) as db:
        db.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(TaciturnError, match="encoding LATIN1; create one with UTF8"):
        PostgresJournal(re.sub("dbname=[a-z]+", "dbname=old", server.address))


# --- the SQLite file ---


def legible(content, length, records, path):
    """Oracle: the good records that plain SQLite reads from these bytes, padded with zeros to `length`."""
    path.write_bytes(content.ljust(length, b"\0"))
    good = []
    with closing(sqlite3.connect(path)) as db:
        try:
            for row, record in zip(
                db.execute("SELECT * FROM taciturn_records ORDER BY position"), records, strict=False
            ):
                if row[:5] != record or row[5] != original_digest(records, record.position):
                    break
                good.append(record)
        except sqlite3.DatabaseError:
            pass
    return good


def original_digest(records, position):
    return list(accumulate(records[:position], lambda digest, record: chain(digest, *record), initial=bytes(16)))[-1]


def test_truncated_file_reports_the_last_good_record_and_repair_keeps_up_to_it(memory):
    records = filled(memory / "whole.db", groups=30, size=60)
    whole = (memory / "whole.db").read_bytes()
    assert len(whole) > 3 * 4096
    path = memory / "cut" / "journal.db"
    path.parent.mkdir()
    positions = set()
    for cut in [*range(1, len(whole) - 4096, 1009), *range(len(whole) - 4096, len(whole))]:
        path.write_bytes(whole[:cut])
        with pytest.raises(DamagedJournal) as error:
            SQLiteJournal(path)
        assert one_line(error)
        assert f"taciturn repair --data-dir {path.parent}" in str(error.value)
        good = int(re.search(r"the last good record is (\d+);", str(error.value))[1])
        positions.add(good)
        if cut % 128 == 0 or cut < len(whole) - 4096 or cut > len(whole) - 4:
            assert records[:good] == legible(whole[:cut], len(whole), records, memory / "plain.db")
        if good and (cut % 128 == 0 or cut > len(whole) - 4):
            assert repair(path) == (good, len(records) - good)
            assert (path.parent / "journal.db.damaged-1").read_bytes() == whole[:cut]
            assert contents(path) == records[:good]
            shutil.rmtree(path.parent)
            path.parent.mkdir()
    assert len(positions) > 3  # every page was hit


def copy_while_running(path, folder):
    """The files as kill -9 would leave them; another process copies, as closing a file here would drop its locks."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    subprocess.run(["cp", path, f"{path}-wal", folder], check=True)  # noqa: S607 - the one that is there
    return folder / path.name


def test_truncated_wal_keeps_the_transactions_before_the_cut(memory):
    path, ends = memory / "journal.db", []
    with closing(SQLiteJournal(path)) as journal:
        journal.append(numbered(0, 3))
    with closing(SQLiteJournal(path)) as journal:  # a checkpoint has moved those three into the main file
        for group in range(6):
            journal.append(numbered(3 + 2 * group, 5 + 2 * group, size=700 * (group % 2)))
            ends.append(Path(f"{path}-wal").stat().st_size)
        records = list(journal.read())
        copy = copy_while_running(path, memory / "copy")
    main, wal = copy.read_bytes(), Path(f"{copy}-wal").read_bytes()
    assert len(wal) == ends[-1]
    assert all(one < two for one, two in pairwise(ends))
    for cut in {*range(0, len(wal), 307), *ends, *(end - 1 for end in ends), *(end + 1 for end in ends[:-1])}:
        copy.write_bytes(main)
        Path(f"{copy}-wal").write_bytes(wal[:cut])
        found = contents(copy)
        assert found == records[: 3 + 2 * sum(end <= cut for end in ends)]
        with closing(SQLiteJournal(copy)) as journal:
            assert journal.append(numbered(0, 1)) == len(found) + 1


def test_flipped_bit_is_detected_or_changes_no_record(memory):
    records = filled(memory / "whole.db", groups=20, size=60)
    whole = (memory / "whole.db").read_bytes()
    draw, path, detected = random.Random(0), memory / "journal.db", 0  # noqa: S311 - nothing secret
    bits = [*range(8 * 100), *draw.sample(range(8 * len(whole)), 800)]  # all of SQLite's header, and some of the rest
    for bit in bits:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        for leftover in memory.glob("journal.db*"):
            leftover.unlink()
        path.write_bytes(damaged)
        try:
            assert contents(path) == records
        except TaciturnError as error:
            assert isinstance(error, DamagedJournal) or "newer taciturn" in str(error)
            detected += 1
            assert "\n" not in str(error)
    assert 0.2 < detected / len(bits) < 0.9


def test_damage_outside_the_records_is_detected_on_opening_and_loses_no_record(tmp_path):
    path = tmp_path / "journal.db"
    records = filled(path)
    with closing(sqlite3.connect(path)) as db:
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'taciturn_keys'")
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = bytes(4096)
    path.write_bytes(content)
    with pytest.raises(DamagedJournal, match="the last good record is 10;"):
        SQLiteJournal(path)
    assert repair(path) == (10, 0)
    assert contents(path) == records


@pytest.mark.parametrize("content", [b"", b"x", b"not a database at all\n" * 500])
def test_other_file_is_not_taken_for_an_empty_journal(tmp_path, content):
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with pytest.raises(DamagedJournal, match="last good record is 0; .*taciturn repair --data-dir") as error:
        SQLiteJournal(path)
    assert one_line(error)
    with pytest.raises(DamagedJournal, match="no record can be read, so restore a backup"):
        repair(path)
    assert path.read_bytes() == content
    path.rename(tmp_path / "journal.db-wal")
    (tmp_path / "journal.db-wal").write_bytes(content or b"x")
    with pytest.raises(DamagedJournal, match="only its -wal is left"):
        SQLiteJournal(path)


def damage(path):
    """A copy with records 1 to 10, the 7th changed and the last ones only in the -wal; and the original records."""
    records = filled(path.parent / "first.db", groups=3)
    shutil.copy(path.parent / "first.db", path)
    with closing(SQLiteJournal(path)) as journal:
        journal.append(numbered(6, 10))
        records = list(journal.read())
        with journal.transaction():
            journal.write("UPDATE taciturn_records SET body = ? WHERE position = 7", [(b"other",)])
        copy = copy_while_running(path, path.parent / "copy")
    return copy, records


def test_repair_keeps_the_records_before_the_fault_and_moves_the_file_aside(tmp_path):
    path, records = damage(tmp_path / "journal.db")
    before = [file.read_bytes() for file in (path, Path(f"{path}-wal"))]
    assert repair(path) == (6, 4)
    aside = path.with_name("journal.db.damaged-1")
    assert [file.read_bytes() for file in (aside, Path(f"{aside}-wal"))] == before
    with closing(SQLiteJournal(path)) as journal:
        assert list(journal.read()) == records[:6]
        assert list(journal.keys()) == [Key("web", b"d" * 32, "write")]
        journal.append(numbered(0, 1))
    assert repair(path) == (7, 0)  # without a fault nothing is changed
    files = {file.name for file in path.parent.iterdir() if file.stat().st_size}
    assert files - {"journal.db-shm"} == {"journal.db", "journal.db.lock", aside.name, f"{aside.name}-wal"}


@pytest.mark.parametrize("step", range(5))
def test_crash_during_repair_leaves_the_damaged_journal_or_the_repaired_one(tmp_path, monkeypatch, step):
    path, records = damage(tmp_path / "journal.db")
    steps = iter(range(100))

    def crashing(original):
        def move(self, target):
            if next(steps) == step:
                raise KeyboardInterrupt
            return original(self, target)

        return move

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crashing(Path.rename))
        patch.setattr(Path, "replace", crashing(Path.replace))
        if step < 4:  # the new journal's name, the old one, its -wal, into place
            with pytest.raises(KeyboardInterrupt):
                repair(path)
        else:
            repair(path)
            assert next(steps) == 4
    if step < 1:
        with pytest.raises(DamagedJournal):
            contents(path)
        assert repair(path) == (6, 4)
    assert contents(path) == records[:6]
    aside = path.with_name("journal.db.damaged-1")
    assert examine(aside)[0] == 6
    assert not list(path.parent.glob("*.repaired*"))


def test_backup_during_writes_can_be_restored(tmp_path):
    path, stop = tmp_path / "journal.db", threading.Event()
    with closing(SQLiteJournal(path)) as journal:
        journal.append(numbered(0, 10))
        journal.put_key(Key("web", b"d" * 32, "write"))

        def write():
            while not stop.is_set():
                journal.append(numbered(0, 3))

        writer = threading.Thread(target=write)
        writer.start()
        lasts = [backup(path, tmp_path / f"backup-{number}") for number in range(5)]
        stop.set()
        writer.join()
        records = list(journal.read())
    assert all(1 <= one <= two <= len(records) for one, two in pairwise(lasts))
    for number, last in enumerate(lasts):
        assert restore(tmp_path / f"backup-{number}", tmp_path / f"new-{number}.db") == last
        assert contents(tmp_path / f"new-{number}.db") == records[:last]
    with closing(SQLiteJournal(tmp_path / "new-0.db")) as journal:
        assert list(names(journal)) == ["web"]
    assert not list(tmp_path.glob(".*"))


def test_backup_never_replaces_the_journal_itself(tmp_path):
    """With --force it did, and the running service went on in a file that was gone."""
    path = tmp_path / "journal.db"
    (tmp_path / "link").symlink_to(path)
    with closing(SQLiteJournal(path)) as journal:
        journal.append(numbered(0, 3))
        for target in (path, tmp_path / "journal.db-wal", tmp_path / "journal.db-shm", tmp_path / "link"):
            with pytest.raises(TaciturnError, match="belongs to the journal itself"):
                backup(path, target, force=True)
        assert backup(path, tmp_path / "journal.db.copy") == 3
        assert backup(path, tmp_path / "journal.db.copy", force=True) == 3
        assert len(list(journal.read())) == 3


def test_damaged_backup_is_neither_made_nor_restored_and_nothing_is_overwritten(tmp_path):
    path, _ = damage(tmp_path / "journal.db")
    with pytest.raises(DamagedJournal, match="record 7 was changed; the last good record is 6; nothing was copied"):
        backup(path, tmp_path / "backup")
    filled(tmp_path / "good.db")
    whole = (tmp_path / "good.db").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-1])
    for source, message in (("cut", "take another backup"), ("nothing", "no such file")):
        with pytest.raises(TaciturnError, match=message):
            restore(tmp_path / source, tmp_path / "new.db")
    assert not (tmp_path / "backup").exists()
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(TaciturnError, match="not overwritten"):
        restore(tmp_path / "good.db", path)
    assert not list(tmp_path.glob(".*"))


def tables_of(path):
    with closing(sqlite3.connect(path)) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_the_notes_beside_a_journal_are_restored_with_it_and_no_others(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    filled(old / "journal.db")
    (old / "budget.json").write_bytes(b"\x00 as it is")
    backup(old / "journal.db", tmp_path / "backup")
    (new / "mode.json").write_text("of another journal")
    (new / "other.json").write_text("kept")
    restore(tmp_path / "backup", new / "journal.db")
    assert {file.name: file.read_bytes() for file in new.glob("*.json")} == {
        "budget.json": b"\x00 as it is",
        "other.json": b"kept",
    }
    assert tables_of(new / "journal.db") == tables_of(old / "journal.db")
    backup(new / "journal.db", tmp_path / "again")
    assert tables_of(tmp_path / "again") == tables_of(new / "journal.db") | {"taciturn_notes"}


def test_a_backup_of_before_leaves_the_notes_of_a_folder_alone(tmp_path):
    filled(tmp_path / "backup")
    new = tmp_path / "new"
    new.mkdir()
    (new / "budget.json").write_text("copied by hand")
    restore(tmp_path / "backup", new / "journal.db")
    assert (new / "budget.json").read_text() == "copied by hand"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE taciturn_notes SET content = 'x'",
        "UPDATE taciturn_notes SET content = x'80'",  # of no notes
        "UPDATE taciturn_notes SET digest = 'x'",
        "DELETE FROM taciturn_notes",
        "INSERT INTO taciturn_notes SELECT * FROM taciturn_notes",
        "ALTER TABLE taciturn_notes RENAME COLUMN content TO other",
        "DROP TABLE taciturn_notes; CREATE TABLE taciturn_notes AS SELECT NULL AS content, NULL AS digest",
    ],
)
def test_a_backup_with_changed_notes_is_not_restored(tmp_path, change):
    filled(tmp_path / "journal.db")
    (tmp_path / "budget.json").write_text("{}")
    backup(tmp_path / "journal.db", tmp_path / "backup")
    with closing(sqlite3.connect(tmp_path / "backup")) as db, db:
        db.executescript(change)
    with pytest.raises(DamagedJournal, match=r"the notes in it, as budget\.json, were changed; take another backup"):
        restore(tmp_path / "backup", tmp_path / "new" / "journal.db")
    assert not (tmp_path / "new").exists()


def test_a_backup_has_the_name_of_no_note(tmp_path):
    filled(tmp_path / "journal.db")
    (tmp_path / "budget.json").write_text("{}")
    with pytest.raises(TaciturnError, match="belongs to the journal itself"):
        backup(tmp_path / "journal.db", tmp_path / "budget.json", force=True)
    new = tmp_path / "new"
    new.mkdir()
    backup(tmp_path / "journal.db", new / "mode.json")
    with pytest.raises(TaciturnError, match="has the name of a note"):
        restore(new / "mode.json", new / "journal.db")
    assert (tmp_path / "budget.json").read_text() == "{}"
    assert tables_of(new / "mode.json") >= {"taciturn_notes"}


def test_a_restore_that_stops_half_way_leaves_no_journal_and_can_be_repeated(tmp_path, monkeypatch):
    filled(tmp_path / "journal.db")
    (tmp_path / "budget.json").write_text("{}")
    backup(tmp_path / "journal.db", tmp_path / "backup")
    new = tmp_path / "new"

    def fail(*_):
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr("taciturn.service.journal.repair.atomic_move", fail)
        with pytest.raises(JournalUnavailable, match="the disk is gone"):
            restore(tmp_path / "backup", new / "journal.db")
    assert not (new / "journal.db").exists()
    assert restore(tmp_path / "backup", new / "journal.db") == len(contents(new / "journal.db"))
    assert (new / "budget.json").read_text() == "{}"


@pytest.fixture
def no_large_files():
    """Limit files to 200 kB when called, as on a disk with a quota."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("cause", ["full", "quota"])
def test_full_disk_changes_nothing_and_appends_work_again_with_space(tmp_path, no_large_files, cause):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(SQLiteJournal(tmp_path / "journal.db")) as journal:
        with pytest.raises(JournalFull if cause == "full" else JournalUnavailable) as error:
            connection = journal._connection()  # private: no public statement can fill a disk on purpose
            connection.execute("PRAGMA max_page_count = 40") if cause == "full" else no_large_files()
            for group in range(1000):
                journal.append(numbered(3 * group, 3 * group + 3, size=1000))
        assert one_line(error)
        assert group > 5
        assert len(list(journal.read())) == journal.last() == 3 * group
        with pytest.raises(JournalUnavailable):
            journal.append(numbered(0, 3, size=100_000))
        connection.execute("PRAGMA max_page_count = 100000")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert journal.append(numbered(3 * group, 3 * group + 3)) == 3 * group + 3
    records = contents(tmp_path / "journal.db")
    assert [int(record.body.split()[0]) for record in records] == list(range(3 * group + 3))


def test_durability_sets_sqlite_synchronous(tmp_path):
    for durability, level in (("full", 2), ("normal", 1)):
        with closing(SQLiteJournal(tmp_path / durability, durability=durability)) as journal, journal.transaction():
            assert journal.query("PRAGMA synchronous") == [(level,)]
            assert journal.query("PRAGMA journal_mode") == [("wal",)]
    with pytest.raises(TaciturnError, match="'full' or 'normal'"):
        SQLiteJournal(tmp_path / "journal.db", durability="none")
    with pytest.raises(JournalUnavailable, match="Not a directory|File exists") as error:
        SQLiteJournal(tmp_path / "full" / "journal.db")
    assert one_line(error)


def test_second_process_is_told_which_process_holds_the_lock(tmp_path):
    script = (
        f"from taciturn.service.journal.sqlite import SQLiteJournal; SQLiteJournal({str(tmp_path / 'journal.db')!r})"
    )
    with closing(SQLiteJournal(tmp_path / "journal.db")):
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"in use by process {os.getpid()}" in other.stderr.splitlines()[-1]
    assert beside(tmp_path / "journal.db", ".lock").exists()
