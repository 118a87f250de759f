"""Snapshots: pruning, verification, crashes, and histories that the journal no longer has; in every kind of place."""

import json
import logging
import os
import shutil

import pytest

import taciturn
from snapshot_kit import found
from taciturn.agents.storage import Content
from taciturn.service.journal.base import Entry
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sqlite import SQLiteJournal

AGENT = "../../etc/passwd\n☃"


def test_newest_come_first_old_ones_are_removed_and_agents_are_separate(place):
    snapshots = place.snapshots(keep=2)
    for position in (3, 20, 100):
        snapshots.put(AGENT, position, b"state %d" % position)
        snapshots.put("other", position, b"other")
    snapshots.put(AGENT, 100, b"state again")
    for again in (snapshots, place.snapshots()):
        assert found(again, AGENT) == [(100, b"state again"), (20, b"state 20")]
        assert found(again, "other") == [(100, b"other"), (20, b"other")]
        assert found(again, "nobody") == []
    names = place.names()
    assert len(names) == 8
    assert not [name for name in names if "passwd" in name or "other" in name]


def test_state_can_be_written_by_a_function(place, tmp_path):
    agent = taciturn.LinUCB(arms=2)
    agent.decide([1.0, 2.0])
    snapshots = place.snapshots()
    snapshots.put("agent", 1, Content(agent).write)
    agent.save(tmp_path / "itself")
    for _, path in snapshots.newest_first("agent"):
        assert path.read_bytes() == (tmp_path / "itself").read_bytes()
        assert isinstance(taciturn.load(path), taciturn.LinUCB)
    assert len(place.names()) == 2


def test_file_belongs_to_its_owner_alone_from_its_first_byte_on(place):
    seen = []
    before = os.umask(0)
    try:
        snapshots = place.snapshots()
        snapshots.put(AGENT, 1, lambda path: seen.append(path.stat().st_mode & 0o777))
        seen += [path.stat().st_mode & 0o777 for _, path in snapshots.newest_first(AGENT)]
    finally:
        os.umask(before)
    assert seen == [0o600, 0o600]


def test_an_older_folder_that_others_could_read_is_made_private(tmp_path):
    (tmp_path / "left").write_bytes(b"state")
    for path in (tmp_path, tmp_path / "left"):
        path.chmod(0o755)
    Snapshots(tmp_path)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "left")] == [0o700, 0o600]


def test_truncated_or_changed_snapshot_is_skipped_and_logged(place, caplog):
    snapshots = place.snapshots()
    snapshots.put(AGENT, 1, b"the older state")
    snapshots.put(AGENT, 2, b"the newer state")
    state, header = (next(name for name in place.names() if name.endswith(f"2.{kind}")) for kind in ("state", "json"))
    for name in (state, header):
        whole = place.read(name)
        for at in range(0, len(whole), 13 if place.url.startswith("s3") else 1):  # each is a few requests
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :]):
                place.write(name, damaged)
                caplog.clear()
                with caplog.at_level(logging.WARNING):
                    assert found(snapshots, AGENT) == [(1, b"the older state")], damaged
                assert state in caplog.text
        place.write(name, whole)
    assert found(snapshots, AGENT) == [(2, b"the newer state"), (1, b"the older state")]
    place.remove(state)
    assert found(snapshots, AGENT) == [(1, b"the older state")]


def test_only_the_snapshots_up_to_a_deletion_are_removed_leftovers_included(place):
    snapshots = place.snapshots(keep=5)
    for position in (3, 8, 9):
        snapshots.put(AGENT, position, b"state")
        snapshots.put("other", position, b"other")
    place.remove(next(name for name in place.names() if name.endswith("3.json")))
    snapshots.remove(AGENT, 8)
    assert [position for position, _ in found(snapshots, AGENT)] == [9]
    assert sum(name.endswith(".state") for name in place.names()) == 1 + 3


class Crash(BaseException):
    """Stands for the loss of power."""


class Crashing:
    """Files that crash before one of the steps that change something."""

    def __init__(self, files, step):
        self._files, self._steps = files, iter([*[None] * step, Crash()])

    def __getattr__(self, name):
        if name in {"write", "remove"} and (crash := next(self._steps)):
            raise crash
        return getattr(self._files, name)


@pytest.mark.parametrize("step", range(4))
def test_crash_between_two_files_leaves_the_old_or_the_new_state(place, step):
    place.snapshots(keep=1).put(AGENT, 1, b"old")
    with pytest.raises(Crash):
        Snapshots(Crashing(place.files(), step), keep=1).put(AGENT, 2, b"new")
    after = place.snapshots(keep=1)
    old, new = (1, b"old"), (2, b"new")  # the state, its header; then the old header and the old state are removed
    assert found(after, AGENT) == [[old], [old], [new, old], [new]][step]
    after.put(AGENT, 3, b"next")
    assert found(after, AGENT) == [(3, b"next")]
    assert len(place.names()) == 2


@pytest.mark.parametrize("step", range(6))
def test_crash_leaves_the_old_or_the_new_state_in_a_folder(tmp_path, monkeypatch, step):
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
    assert found(after, AGENT) == [[old], [old], [old], [new, old], [new, old], [new]][step]
    after.put(AGENT, 3, b"next")
    assert found(after, AGENT) == [(3, b"next")]
    assert len(list(disk.iterdir())) == 2


def test_failed_write_leaves_the_old_state(place):
    snapshots = place.snapshots()
    snapshots.put(AGENT, 1, b"old")

    def fail(path):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        snapshots.put(AGENT, 2, fail)
    assert found(snapshots, AGENT) == [(1, b"old")]
    assert len(place.names()) == 2


def test_state_of_a_history_that_the_journal_lost_is_skipped(place, tmp_path, caplog):
    """As after restoring an older backup: the same positions have other records."""

    def journal(name, *bodies):
        opened = SQLiteJournal(tmp_path / name)
        for body in bodies:
            opened.append([Entry("agent", "kind", body)])
        return opened

    first = journal("first", b"1", b"2", b"3", b"4")
    snapshots = place.snapshots(history=first.digest_at)
    for position in (2, 4):
        snapshots.put(AGENT, position, b"first")
    assert [position for position, _ in found(snapshots, AGENT)] == [4, 2]
    second = journal("second", b"1", b"2", b"other", b"4")
    snapshots = place.snapshots(history=second.digest_at)
    assert found(snapshots, AGENT) == [(2, b"first")]  # both histories agree up to here
    snapshots.put(AGENT, 3, b"second")
    assert found(snapshots, AGENT) == [(3, b"second"), (2, b"first")]
    assert "of a history that the journal does not have" in caplog.text
    assert len(place.names()) == 4  # states of the lost history are removed
    first.close()
    second.close()


def test_a_later_state_with_a_damaged_header_is_removed(place):
    snapshots = place.snapshots()
    snapshots.put(AGENT, 9, b"later")
    header = next(name for name in place.names() if name.endswith(".json"))
    place.write(header, json.dumps({"agent": AGENT, "position": 8}).encode())
    snapshots.put(AGENT, 3, b"state")
    assert found(snapshots, AGENT) == [(3, b"state")]
    assert len(place.names()) == 2
