import enum
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

import taciturn
from taciturn.agents import storage
from taciturn.errors import InvalidData, TaciturnError
from taciturn.registry import METHODS


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    agent = taciturn.GCNUCB(arms=["a", "b"], hidden=2, neighbors=2, warmup=2)
    agent.warm_start(np.eye(2), ["a", "b"])
    for step in range(6):
        decision = agent.decide(np.random.default_rng(step).random(2))
        agent.feedback(decision.id, step % 2)
    file = tmp_path_factory.mktemp("saved") / "agent.taciturn"
    agent.save(file)
    return file


@pytest.mark.parametrize("name", METHODS)
def test_the_same_state_gives_the_same_bytes_and_keeps_its_parameters(name, tmp_path):
    agent = taciturn.make(name, arms=["a", ("b", 1), 3], seed=2)
    agent.warm_start(np.eye(3), ["a", ("b", 1), 3])
    for step in range(15):
        decision = agent.decide(np.random.default_rng(step).random(3))
        agent.feedback(decision.id, (0, 1, None)[step % 3])
    agent.save(tmp_path / "one")
    loaded = taciturn.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (type(loaded), loaded.params) == (type(agent), agent.params)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_every_flipped_bit_and_every_cut_is_refused(saved, tmp_path):
    """Every byte of the file, the header's, the arrays' and the checksum's alike."""
    whole = saved.read_bytes()
    damaged = tmp_path / "damaged"
    for at in range(len(whole)):
        damaged.write_bytes(whole[:at])
        with pytest.raises(InvalidData) as cut:
            taciturn.load(damaged)
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        with pytest.raises(InvalidData) as flipped:
            taciturn.load(damaged)
        assert "\n" not in str(cut.value) + str(flipped.value)


LIAR = """
import hashlib, json, sys
from pathlib import Path
import numpy as np
import taciturn
from taciturn.agents import storage
from taciturn.errors import TaciturnError

file, lied = Path(sys.argv[1]), Path(sys.argv[1] + ".lied")
content = file.read_bytes()[:-32]
start = 16 + int.from_bytes(content[8:16], "little")
header, arrays = json.loads(content[16:start]), content[start:]
rng = np.random.default_rng(0)
refused = used = 0

def tell(header, arrays):
    global refused, used
    text = json.dumps(header).encode()
    told = storage.MAGIC + len(text).to_bytes(8, "little") + text + arrays
    lied.write_bytes(told + hashlib.sha256(told).digest())
    try:
        agent = taciturn.load(lied, trusted=False)
        for step in range(3):
            decision = agent.decide(rng.random(4))
            agent.feedback(decision.id, step % 2)
            agent.feedback(0, 1)
        agent.withdraw(1)
        agent.health(), agent.explain(decision.id)
        used += 1
    except (TaciturnError, ArithmeticError, ValueError, TypeError, IndexError, KeyError, AttributeError, MemoryError):
        refused += 1

def entries(value):
    if isinstance(value, list):
        for item in value:
            yield from entries(item)
    elif isinstance(value, dict):
        yield value
        for item in value.values():
            yield from entries(item)

for number, (dtype, shape, offset) in enumerate(header["arrays"]):
    size = int(np.prod(shape))
    kind = np.dtype(dtype)
    if size and kind.kind in "iu":
        for wrong in (10**6, -7):
            lie = bytearray(arrays)
            at = offset + int(rng.integers(size)) * kind.itemsize
            lie[at : at + kind.itemsize] = np.array(wrong).astype(kind).tobytes()
            tell(header, bytes(lie))
    for other in ([0, *shape[1:]], [s + 1 for s in shape], shape[::-1], [*shape, 1]):
        layout = [list(entry) for entry in header["arrays"]]
        layout[number][1] = other
        tell({**header, "arrays": layout}, arrays)
    layout = [list(entry) for entry in header["arrays"]]
    layout[number][0] = "<f4" if kind.kind != "f" else "<i8"
    tell({**header, "arrays": layout}, arrays + bytes(64))
plain = json.dumps(header["objects"])
for place in range(40):
    objects = json.loads(plain)
    numbers = [(e, k) for e in entries(objects) for k, v in e.items() if k == "dict"]
    entry, key = numbers[int(rng.integers(len(numbers)))]
    fields = [f for f in entry[key] if type(f[1]) is int]
    if fields:
        fields[int(rng.integers(len(fields)))][1] = int(rng.choice([10**9, -3, 0]))
        tell({**header, "objects": objects}, arrays)
print(refused, used)
"""


@pytest.mark.parametrize("name", ["linucb", "rogcn", "bilinucb-gcn", "bilinucb-kmeans", "gcnucb", "viewucb"])
def test_a_file_that_lies_about_its_arrays_crashes_nothing(name, tmp_path):
    """Kernels do not check indices; a forged one once read and wrote anywhere. In a process of its own, to survive."""
    agent = taciturn.make(name, arms=3, **({"warmup": 4} if name not in ("linucb", "rogcn", "viewucb") else {}))
    agent.warm_start(np.random.default_rng(1).random((6, 4)), [0, 1, 2] * 2)
    for step in range(12):
        agent.feedback(agent.decide(np.random.default_rng(step).random(4)).id, (1, 0, None)[step % 3])
    agent.save(tmp_path / "agent")
    done = subprocess.run([sys.executable, "-c", LIAR, tmp_path / "agent"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    refused, used = map(int, done.stdout.split())
    assert refused > used


def test_another_version_and_another_file_say_so(saved, tmp_path):
    whole = saved.read_bytes()
    other = tmp_path / "other"
    other.write_bytes(whole[:7] + b"\x01" + whole[8:])
    with pytest.raises(InvalidData, match="another version.*format 01, this one reads 02"):
        taciturn.load(other)
    other.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(InvalidData, match="not a file of a taciturn agent"):
        taciturn.load(other)


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
        {"record": "taciturn.datasets.fetch:cache_folder", "items": []},
        {"record": "sklearn.datasets:get_data_home", "items": []},
        {"record": "taciturn.agents.nowhere:Thing", "items": []},
        {"record": "taciturn.agents.storage:save", "items": ["x", "VICTIM"]},
        {"record": "taciturn.agents.contexts:room_for", "items": []},
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
        taciturn.load(file)
    assert victim.read_text() == "mine"


def test_what_cannot_be_saved_is_named_and_the_old_file_stays(tmp_path):
    file = tmp_path / "agent.taciturn"
    taciturn.LinUCB(arms=2).save(file)
    old = file.read_bytes()
    agent = taciturn.BILinUCB(arms=2, imputer=SGDClassifier(loss="log_loss"), warmup=0)
    agent.feedback(agent.decide([1.0]).id, 1)  # now it holds a compiled loss function
    with pytest.raises(TaciturnError, match="that holds a .* cannot be saved"):
        agent.save(file)
    assert file.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["agent.taciturn"]


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "agent.taciturn"
    agent = taciturn.LinUCB(arms=2)
    agent.save(file)
    old = file.read_bytes()

    def full(_):
        raise OSError("no space left on device")

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        agent.save(file)
    assert file.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["agent.taciturn"]


def test_a_batch_with_one_bad_row_decides_nothing():
    agent = taciturn.LinUCB(arms=2)
    with pytest.raises(TaciturnError, match="row 1"):
        agent.decide_batch([[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(TaciturnError, match="2 contexts and 1 lists"):
        agent.decide_batch(np.eye(2), neighbors=[[]])
    assert agent.decide([1.0, 2.0, 3.0]).id == 0
    graph = taciturn.GCNUCB(arms=2)
    ids = graph.warm_start(np.eye(2), [0, 1], edges=[])
    assert [decision.id for decision in graph.decide_batch(np.eye(2), neighbors=[ids, ids[:1]])] == [2, 3]


def test_the_file_has_the_users_own_permissions(tmp_path):
    (tmp_path / "plain").touch()
    taciturn.LinUCB(arms=range(3)).save(tmp_path / "agent.taciturn")
    assert (tmp_path / "agent.taciturn").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert taciturn.load(tmp_path / "agent.taciturn").params["arms"] == range(3)


class Colour(enum.IntEnum):
    RED = 0
    BLUE = 1


def test_names_that_would_come_back_as_something_else_are_refused(tmp_path):
    with pytest.raises(TaciturnError, match="Colour cannot be saved"):
        taciturn.LinUCB(arms=list(Colour)).save(tmp_path / "agent.taciturn")
