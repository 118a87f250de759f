"""Snapshots: pruning, verification, crashes, and histories that the journal no longer has."""

import logging
import os
import shutil

import pytest

import taciturn
from taciturn.agents.storage import Content
from taciturn.service.journal.base import Entry
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sqlite import SQLiteJournal

AGENT = "../../etc/passwd\n☃"


def found(snapshots, agent=AGENT):
    return [(position, path.read_bytes()) for position, path in snapshots.newest_first(agent)]


def test_newest_come_first_old_ones_are_removed_and_agents_are_separate(tmp_path):
    snapshots = Snapshots(tmp_path / "cache", keep=2)
    for position in (3, 20, 100):
        snapshots.put(AGENT, position, b"state %d" % position)
        snapshots.put("other", position, b"other")
    snapshots.put(AGENT, 100, b"state again")
    for again in (snapshots, Snapshots(tmp_path / "cache")):
        assert found(again) == [(100, b"state again"), (20, b"state 20")]
        assert found(again, "other") == [(100, b"other"), (20, b"other")]
        assert found(again, "nobody") == []
    assert len(list((tmp_path / "cache").iterdir())) == 8
    assert {path.name for path in tmp_path.iterdir()} == {"cache"}
    assert not [path for path in (tmp_path / "cache").iterdir() if "passwd" in path.name or "other" in path.name]


def test_state_can_be_written_by_a_function(tmp_path):
    agent = taciturn.LinUCB(arms=2)
    agent.decide([1.0, 2.0])
    snapshots = Snapshots(tmp_path)
    snapshots.put("agent", 1, Content(agent).write)
    ((_, path),) = snapshots.newest_first("agent")
    agent.save(tmp_path / "itself")
    assert path.read_bytes() == (tmp_path / "itself").read_bytes()
    assert isinstance(taciturn.load(path), taciturn.LinUCB)


def test_file_belongs_to_its_owner_alone_from_its_first_byte_on(tmp_path):
    seen = []
    before = os.umask(0)
    try:
        Snapshots(tmp_path).put(AGENT, 1, lambda path: seen.append(path.stat().st_mode & 0o777))
    finally:
        os.umask(before)
    assert seen == [0o600]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_truncated_or_changed_snapshot_is_skipped_and_logged(tmp_path, caplog):
    snapshots = Snapshots(tmp_path)
    snapshots.put(AGENT, 1, b"the older state")
    snapshots.put(AGENT, 2, b"the newer state")
    ((_, state), _) = snapshots.newest_first(AGENT)
    for file in (state, state.with_suffix(".json")):
        whole = file.read_bytes()
        for at in range(len(whole)):
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :]):
                file.write_bytes(damaged)
                caplog.clear()
                with caplog.at_level(logging.WARNING):
                    assert found(snapshots) == [(1, b"the older state")], damaged
                assert state.name in caplog.text
        file.write_bytes(whole)
    state.unlink()
    assert found(snapshots) == [(1, b"the older state")]


class Crash(BaseException):
    """Stands for the loss of power."""


@pytest.mark.parametrize("step", range(6))
def test_crash_leaves_the_old_or_the_new_state(tmp_path, monkeypatch, step):
    snapshots = Snapshots(tmp_path, keep=1)
    snapshots.put(AGENT, 1, b"old")
    moves = iter(range(100))
    disk = tmp_path.parent / f"{tmp_path.name}-disk"

    def stop(*_):
        if next(moves) == step:
            shutil.copytree(tmp_path, disk)  # what a crash at this step would leave
            raise Crash

    for name in ("replace", "unlink"):
        original = getattr(type(tmp_path), name)
        monkeypatch.setattr(
            type(tmp_path), name, lambda *args, original=original, **options: (stop(), original(*args, **options))
        )
    try:
        snapshots.put(AGENT, 2, b"new")
    except Crash:
        pass
    else:
        pytest.fail("put has fewer steps than this test expects")
    monkeypatch.undo()
    after = Snapshots(disk, keep=1)
    old, new = (1, b"old"), (2, b"new")  # the header is moved into place last, then the old one is removed
    assert found(after) == [[old], [old], [old], [new, old], [new, old], [new]][step]
    after.put(AGENT, 3, b"next")
    assert found(after) == [(3, b"next")]
    assert len(list(disk.iterdir())) == 2


def test_failed_write_leaves_the_old_state(tmp_path):
    snapshots = Snapshots(tmp_path)
    snapshots.put(AGENT, 1, b"old")

    def fail(path):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        snapshots.put(AGENT, 2, fail)
    assert found(snapshots) == [(1, b"old")]
    assert len(list(tmp_path.iterdir())) == 2


def test_state_of_a_history_that_the_journal_lost_is_skipped(tmp_path, caplog):
    """As after restoring an older backup: the same positions have other records."""

    def journal(name, *bodies):
        opened = SQLiteJournal(tmp_path / name)
        for body in bodies:
            opened.append([Entry("agent", "kind", body)])
        return opened

    first = journal("first", b"1", b"2", b"3", b"4")
    snapshots = Snapshots(tmp_path / "cache", history=first.digest_at)
    for position in (2, 4):
        snapshots.put(AGENT, position, b"first")
    assert [position for position, _ in found(snapshots)] == [4, 2]
    second = journal("second", b"1", b"2", b"other", b"4")
    snapshots = Snapshots(tmp_path / "cache", history=second.digest_at)
    assert found(snapshots) == [(2, b"first")]  # both histories agree up to here
    snapshots.put(AGENT, 3, b"second")
    assert found(snapshots) == [(3, b"second"), (2, b"first")]
    assert "of a history that the journal does not have" in caplog.text
    assert len(list((tmp_path / "cache").iterdir())) == 4  # states of the lost history are removed
    first.close()
    second.close()
