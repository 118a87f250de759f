import enum

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

import tacit
from tacit.agents import storage
from tacit.errors import InvalidData, TacitError
from tacit.registry import METHODS


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    agent = tacit.GCNUCB(arms=["a", "b"], hidden=2, neighbors=2, warmup=2)
    agent.warm_start(np.eye(2), ["a", "b"])
    for step in range(6):
        decision = agent.decide(np.random.default_rng(step).random(2))
        agent.feedback(decision.id, step % 2)
    file = tmp_path_factory.mktemp("saved") / "agent.tacit"
    agent.save(file)
    return file


@pytest.mark.parametrize("name", METHODS)
def test_the_same_state_gives_the_same_bytes_and_keeps_its_parameters(name, tmp_path):
    agent = tacit.make(name, arms=["a", ("b", 1), 3], seed=2)
    agent.warm_start(np.eye(3), ["a", ("b", 1), 3])
    for step in range(15):
        decision = agent.decide(np.random.default_rng(step).random(3))
        agent.feedback(decision.id, (0, 1, None)[step % 3])
    agent.save(tmp_path / "one")
    loaded = tacit.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (type(loaded), loaded.params) == (type(agent), agent.params)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_every_flipped_bit_and_every_cut_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    damaged = tmp_path / "damaged"
    for at in range(0, len(whole), 101):
        damaged.write_bytes(whole[:at])
        with pytest.raises(InvalidData):
            tacit.load(damaged)
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        with pytest.raises(InvalidData) as error:
            tacit.load(damaged)
        assert "\n" not in str(error.value)


def test_another_version_and_another_file_say_so(saved, tmp_path):
    whole = saved.read_bytes()
    other = tmp_path / "other"
    other.write_bytes(whole[:7] + b"\x01" + whole[8:])
    with pytest.raises(InvalidData, match="another version.*format 01, this one reads 02"):
        tacit.load(other)
    other.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(InvalidData, match="not a file of a tacit agent"):
        tacit.load(other)


def forged(monkeypatch, tmp_path, encode):
    """A file with a good checksum whose header says something else."""
    monkeypatch.setattr(storage._Writer, "encode", encode)
    storage.save(object(), tmp_path / "forged")
    monkeypatch.undo()
    return tmp_path / "forged"


@pytest.mark.parametrize(
    "root",
    [
        {"record": "os:system", "items": ["true"]},
        {"record": "tacit.datasets.fetch:cache_folder", "items": []},
        {"record": "sklearn.datasets:get_data_home", "items": []},
        {"record": "tacit.agents.nowhere:Thing", "items": []},
        {"record": "tacit.agents.storage:save", "items": ["x", "VICTIM"]},
        {"record": "tacit.agents.contexts:room_for", "items": []},
        {"object": 5},
        5,
        {"unknown": 1},
    ],
)
def test_a_forged_header_runs_nothing(root, monkeypatch, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    if isinstance(root, dict) and "VICTIM" in root.get("items", ()):
        root = {**root, "items": ["x", str(victim)]}
    file = forged(monkeypatch, tmp_path, lambda self, value: root)  # noqa: ARG005
    with pytest.raises(InvalidData):
        tacit.load(file)
    assert victim.read_text() == "mine"


def test_what_cannot_be_saved_is_named_and_the_old_file_stays(tmp_path):
    file = tmp_path / "agent.tacit"
    tacit.LinUCB(arms=2).save(file)
    old = file.read_bytes()
    agent = tacit.BILinUCB(arms=2, imputer=SGDClassifier(loss="log_loss"), warmup=0)
    agent.feedback(agent.decide([1.0]).id, 1)  # now it holds a compiled loss function
    with pytest.raises(TacitError, match="that holds a .* cannot be saved"):
        agent.save(file)
    assert file.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["agent.tacit"]


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "agent.tacit"
    agent = tacit.LinUCB(arms=2)
    agent.save(file)
    old = file.read_bytes()

    def full(_):
        raise OSError("no space left on device")

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        agent.save(file)
    assert file.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["agent.tacit"]


def test_a_batch_with_one_bad_row_decides_nothing():
    agent = tacit.LinUCB(arms=2)
    with pytest.raises(TacitError, match="row 1"):
        agent.decide_batch([[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(TacitError, match="2 contexts and 1 lists"):
        agent.decide_batch(np.eye(2), neighbors=[[]])
    assert agent.decide([1.0, 2.0, 3.0]).id == 0
    graph = tacit.GCNUCB(arms=2)
    ids = graph.warm_start(np.eye(2), [0, 1], edges=[])
    assert [decision.id for decision in graph.decide_batch(np.eye(2), neighbors=[ids, ids[:1]])] == [2, 3]


def test_the_file_has_the_users_own_permissions(tmp_path):
    (tmp_path / "plain").touch()
    tacit.LinUCB(arms=range(3)).save(tmp_path / "agent.tacit")
    assert (tmp_path / "agent.tacit").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert tacit.load(tmp_path / "agent.tacit").params["arms"] == range(3)


class Colour(enum.IntEnum):
    RED = 0
    BLUE = 1


def test_names_that_would_come_back_as_something_else_are_refused(tmp_path):
    with pytest.raises(TacitError, match="Colour cannot be saved"):
        tacit.LinUCB(arms=list(Colour)).save(tmp_path / "agent.tacit")
