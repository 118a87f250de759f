import logging
import shutil

import pytest

import taciturn
from taciturn.service.journal.base import Entry
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sqlite import SQLiteJournal

AGENT = "../../etc/passwd\n☃"


def found(snapshots, agent=AGENT):
    return [(position, path.read_bytes()) for position, path in snapshots.newest_first(agent)]


def test_the_newest_come_first_old_ones_go_and_agents_do_not_mix(tmp_path):
    snapshots = Snapshots(tmp_path / "cache", keep=2)
    for position in (3, 20, 100):
        snapshots.put(AGENT, position, b"state %d" % position)
        snapshots.put("other", position, b"other")
    snapshots.put(AGENT, 100, b"state anew")
    for again in (snapshots, Snapshots(tmp_path / "cache")):
        assert found(again) == [(100, b"state anew"), (20, b"state 20")]
        assert found(again, "other") == [(100, b"other"), (20, b"other")]
        assert found(again, "nobody") == []
    assert len(list((tmp_path / "cache").iterdir())) == 8
    assert {path.name for path in tmp_path.iterdir()} == {"cache"}
    assert not [path for path in (tmp_path / "cache").iterdir() if "passwd" in path.name or "other" in path.name]


def test_an_agent_is_saved_by_its_own_hand(tmp_path):
    agent = taciturn.LinUCB(arms=2)
    agent.decide([1.0, 2.0])
    snapshots = Snapshots(tmp_path)
    snapshots.put("agent", 1, agent.save)
    ((_, path),) = snapshots.newest_first("agent")
    agent.save(tmp_path / "itself")
    assert path.read_bytes() == (tmp_path / "itself").read_bytes()
    assert isinstance(taciturn.load(path), taciturn.LinUCB)


def test_every_cut_and_every_flipped_bit_is_left_out_and_logged(tmp_path, caplog):
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
    """The power goes."""


@pytest.mark.parametrize("step", range(5))
def test_a_crash_leaves_the_old_states_and_nothing_else(tmp_path, monkeypatch, step):
    snapshots = Snapshots(tmp_path, keep=1)
    snapshots.put(AGENT, 1, b"old")
    moves = iter(range(100))
    disk = tmp_path.parent / f"{tmp_path.name}-disk"

    def stop(*_):
        if next(moves) == step:
            shutil.copytree(tmp_path, disk)  # what is there if everything ends now
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
        pytest.fail("there are more steps to crash at than this test thinks")
    monkeypatch.undo()
    after = Snapshots(disk, keep=1)
    old, new = (1, b"old"), (2, b"new")  # its header is moved into place second, and then the old one goes
    assert found(after) == [[old], [old], [new, old], [new, old], [new]][step]
    after.put(AGENT, 3, b"next")
    assert found(after) == [(3, b"next")]
    assert len(list(disk.iterdir())) == 2


def test_a_failed_write_leaves_what_was_there(tmp_path):
    snapshots = Snapshots(tmp_path)
    snapshots.put(AGENT, 1, b"old")

    def fail(path):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        snapshots.put(AGENT, 2, fail)
    assert found(snapshots) == [(1, b"old")]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_state_of_a_history_that_the_journal_lost_is_of_no_use(tmp_path, caplog):
    """As after restoring an older backup: the same positions come again with other records."""

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
    assert found(snapshots) == [(2, b"first")]  # so far the histories agree
    snapshots.put(AGENT, 3, b"second")
    assert found(snapshots) == [(3, b"second"), (2, b"first")]
    assert "of a history that the journal does not have" in caplog.text
    assert len(list((tmp_path / "cache").iterdir())) == 4  # what can never be used again is gone
    first.close()
    second.close()
