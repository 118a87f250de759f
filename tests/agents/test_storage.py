"""Files of agents: equal bytes for equal state, damage and forgery refused, and nothing in them but registered tags."""

import copy
import enum
import hashlib
import json
import os
import re
import sys
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

import taciturn
from oracles.zoo import AGENTS, ARMS, contexts
from process_kit import answering
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


def header_of(file):
    """The header of a file, parsed."""
    content, start = file.read_bytes(), len(storage.MAGIC) + 8
    return json.loads(content[start : start + int.from_bytes(content[start - 8 : start], "little")])


def write_file(file, header, arrays=b""):
    """Write a file with any header, and a correct checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = storage.MAGIC + len(text).to_bytes(8, "little") + text + arrays
    file.write_bytes(content + hashlib.sha256(content).digest())
    return file


@pytest.mark.parametrize("name", METHODS)
def test_equal_state_gives_equal_bytes_and_keeps_the_parameters(name, tmp_path):
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


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_that_has_seen_nothing_is_saved_and_loaded(name, tmp_path):
    """The file once lacked the columns of parts that were not made yet, and could not be loaded."""
    agent = AGENTS[name](arms=ARMS, seed=1)
    agent.save(tmp_path / "one")
    loaded = taciturn.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    one, other = agent.decide(contexts(1)[0]), loaded.decide(contexts(1)[0])
    assert (one.id, one.arm) == (other.id, other.arm)
    np.testing.assert_array_equal(one.scores, other.scores)


def plain_keys(value):
    """All keys of dicts in an encoded state, except inside estimators, whose attributes are scikit-learn's own."""
    if isinstance(value, list):
        for item in value:
            yield from plain_keys(item)
    elif isinstance(value, dict) and "estimator" not in value:
        for key, item in value.get("dict", ()):
            yield key
            yield from plain_keys(item)
        for tag, item in value.items():
            if tag != "dict":
                yield from plain_keys(item)


def objects(value):
    """The tags of all objects in an encoded state."""
    if isinstance(value, list | dict):
        yield from [value["object"]] if isinstance(value, dict) and "object" in value else []
        for item in value.values() if isinstance(value, dict) else value:
            yield from objects(item)


OWN_TAGS = {*storage.MODULE_OF_TAG, "imputer/gcn", "imputer/kmeans", "imputer/random", "imputer/classifier"}


@pytest.mark.parametrize("name", [*AGENTS, "oracle-full", "imputer object"])
def test_a_file_names_no_module_and_no_private_attribute_of_taciturn(name, tmp_path):
    """Renaming a class, its module or an attribute then changes no file."""
    from taciturn.agents.parts.imputers import KMeansImputer

    more = {
        "oracle-full": partial(taciturn.make, "oracle-full"),
        "imputer object": partial(taciturn.BILinUCB, imputer=KMeansImputer(clusters=3), warmup=4),
    }
    agent = (AGENTS | more)[name](arms=ARMS, seed=1, max_nodes=16)
    agent.warm_start(contexts(3), ARMS)
    for step, x in enumerate(contexts(20, 1)):
        agent.feedback(agent.decide(x).id, (1, 0, None)[step % 3])
    agent.save(tmp_path / "agent")
    header = header_of(tmp_path / "agent")
    assert header.keys() == {"root", "arrays"}
    assert "taciturn" not in json.dumps(header)
    keys = list(plain_keys(header["root"]))
    assert {"params", "table", "policy", "parts"} <= set(keys)
    assert not [key for key in keys if isinstance(key, str) and key.startswith("_")]
    assert set(objects(header["root"])) <= OWN_TAGS
    assert header["root"]["object"] == agent.tag


def test_every_flipped_bit_and_every_truncation_is_refused(saved, memory):
    """Every byte of the file, in the header, the arrays and the checksum alike."""
    whole = saved.read_bytes()
    damaged = memory / "damaged"
    for at in range(len(whole)):
        damaged.write_bytes(whole[:at])
        with pytest.raises(InvalidData) as cut:
            taciturn.load(damaged)
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        with pytest.raises(InvalidData) as flipped:
            taciturn.load(damaged)
        assert "\n" not in str(cut.value) + str(flipped.value)


FORGER = """
import copy, hashlib, json, os, sys
from pathlib import Path
import numpy as np
import taciturn
from taciturn.agents import storage
from taciturn.agents.warm import compile_kernels
from taciturn.errors import TaciturnError

# A parameter may ask for any amount of training or threads, in a file as in a constructor.
SLOW = {"start_epochs", "steps_per_arrival"}
REFUSALS = TaciturnError, ArithmeticError, ValueError, TypeError, IndexError, KeyError, AttributeError, MemoryError

def forgeries(header, arrays, rng):
    def layouts(number, position, value):
        entries = [list(entry) for entry in header["arrays"]]
        entries[number][position] = value
        return {**header, "arrays": entries}

    for number, (dtype, shape, offset) in enumerate(header["arrays"]):
        size, kind = int(np.prod(shape)), np.dtype(dtype)
        if size and kind.kind in "iuf":
            for wrong in (10**6, -7, 0, 1) if kind.kind in "iu" else (np.nan, -1e30):
                content = bytearray(arrays)
                at = offset + int(rng.integers(size)) * kind.itemsize
                content[at : at + kind.itemsize] = np.array(wrong).astype(kind).tobytes()
                yield f"array {number} holds {wrong}", header, bytes(content)
        for other in ([0, *shape[1:]], [s + 1 for s in shape], shape[::-1], [*shape, 1]):
            yield f"array {number} has shape {other}", layouts(number, 1, other), arrays
        other = "<f4" if kind.kind != "f" else "<i8"
        yield f"array {number} is {other}", layouts(number, 0, other), arrays + bytes(64)
        yield f"array {number} is elsewhere", layouts(number, 2, offset + 8), arrays
    for path in numbers(header["root"]):
        for wrong in (10**9, -3, 0):
            root = copy.deepcopy(header["root"])
            inner = root
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = wrong
            yield f"number at {path} is {wrong}", {**header, "root": root}, arrays

def numbers(value, path=()):
    if isinstance(value, dict) and "dict" in value:
        for i, (key, item) in enumerate(value["dict"]):
            if key not in SLOW:
                yield from numbers(item, (*path, "dict", i, 1))
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(item, (*path, key))
    elif type(value) is int:
        yield path

def use(agent, rng):
    for step in range(3):
        decision = agent.decide(rng.random(4))
        agent.feedback(decision.id, step % 2)
        agent.feedback(6, step % 2)  # the first decision, again and again
    agent.withdraw(7)
    agent.add_arm("new", like=0)
    agent.decide(rng.random(4))
    agent.train_pending(20)
    agent.health(), agent.explain(decision.id)

def forge(file, last):
    content = file.read_bytes()[:-32]
    prefix = len(storage.MAGIC) + 8
    start = prefix + int.from_bytes(content[prefix - 8 : prefix], "little")
    header, arrays = json.loads(content[prefix:start]), content[start:]
    rng, forged = np.random.default_rng(0), Path(f"{file}.forged")
    refused = used = 0
    unclean = []  # what `load` raised that is no TaciturnError
    for what, header, arrays in forgeries(header, arrays, rng):
        text = json.dumps(header).encode()
        content = storage.MAGIC + len(text).to_bytes(8, "little") + text + arrays
        forged.write_bytes(content + hashlib.sha256(content).digest())
        last.write_text(what)  # names what crashed the process
        try:
            agent = taciturn.load(forged, trusted=False)
        except TaciturnError:
            refused += 1
            continue
        except Exception as error:
            unclean.append(f"{what}: {error!r}")
            continue
        try:
            use(agent, rng)
            used += 1
        except REFUSALS:
            refused += 1
    return [refused, used, unclean]

compile_kernels(["linucb", "gcnucb", "viewucb"])
for line in sys.stdin:  # everything is imported and loaded once; a fork of this process may crash
    file, last = Path(line.rstrip()), Path(line.rstrip() + ".last")
    child = os.fork()
    if not child:
        print(json.dumps(forge(file, last)), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(json.dumps(f"crashed with status {status}: {last.read_text()}"), flush=True)
"""
FORGED = {
    "linucb": {},
    "rogcn": {},
    "bilinucb-gcn": {"warmup": 4},
    "bilinucb-kmeans": {"warmup": 4},
    "bilinucb-random": {"warmup": 100},
    "gcnucb": {"warmup": 4},
    "viewucb": {},
    "majority": {},
    "labelspreading": {"every": 5},
    "knn": {},
    "logreg": {"every": 5},
    "extratrees": {"every": 5, "trees": 3},
    "static": {},
    "oracle-full": {},
}


@pytest.fixture(scope="module")
def forger():
    """A function that makes and tries all forgeries of a file in a process of its own, which may crash."""
    with answering(sys.executable, "-c", FORGER) as forge:
        yield forge


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_array_or_number_is_refused_or_harmless(name, memory, forger):
    """Kernels do not check indices; a forged one once read and wrote anywhere."""
    agent = taciturn.make(name, arms=3, **FORGED[name])
    agent.warm_start(np.random.default_rng(1).random((6, 4)), [0, 1, 2] * 2)
    for step in range(12):
        near = [agent.next_id - 1] if step % 4 == 0 else None
        agent.feedback(agent.decide(np.random.default_rng(step).random(4), near).id, (1, 0, None)[step % 3])
    agent.defer_training()
    agent.decide(np.random.default_rng(12).random(4))
    agent.decide(np.random.default_rng(13).random(4))
    agent.train_pending(5)  # ViewUCB is in the middle of a solve
    agent.save(memory / "agent")
    found = forger(memory / "agent")
    assert not isinstance(found, str), found
    refused, used, unclean = found
    assert unclean == [], "a file that does not fit together is InvalidData"
    assert refused > used


def test_another_format_and_another_kind_of_file_are_named(saved, tmp_path):
    whole, version = saved.read_bytes(), len(storage.MAGIC) - 1
    other = tmp_path / "other"
    other.write_bytes(whole[:version] + b"\x01" + whole[version + 1 :])
    with pytest.raises(InvalidData, match="format 01 of another version of taciturn; this one reads 04 to 05"):
        taciturn.load(other)
    other.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(InvalidData, match="not a file of a taciturn agent"):
        taciturn.load(other)


VICTIM = "VICTIM"  # replaced by the path of a file that must stay as it is


@pytest.mark.parametrize(
    "root",
    [
        {"object": "os:system", "state": "true"},
        {"object": "taciturn.datasets.fetch:cache_folder", "state": {"dict": []}},
        {"object": "taciturn.agents.storage:save", "state": {"list": ["x", VICTIM]}},
        {"object": "taciturn.agents.base:BaseAgent", "state": {"dict": []}},
        {"object": "taciturn.agents.linucb:LinUCB", "state": {"dict": []}},
        {"object": "pathlib:Path.unlink", "state": VICTIM},
        {"object": "linucb", "state": {"dict": []}},
        {"object": "linucb", "state": 5},
        {"object": "linucb"},
        {"object": 5, "state": 5},
        {"object": {"list": []}, "state": 5},
        {"object": "imputer/random", "state": {"dict": []}},
        {"estimator": "os:system", "state": {"dict": []}},
        {"estimator": "sklearn.datasets:get_data_home", "state": {"dict": []}},
        {"estimator": "sklearn.nowhere:Thing", "state": {"dict": []}},
        {"estimator": "sklearn.cluster._kmeans:MiniBatchKMeans", "state": {"dict": []}},
        {"estimator": "sklearn.cluster._kmeans:MiniBatchKMeans", "state": 5},
        {"random_state": {"dict": []}},
        {"array": 0},
        {"array": -1},
        {"array": "0"},
        {"float": "x"},
        {"range": [0, 1, 0]},
        {"tuple": 5},
        {"dict": [[{"list": []}, 1]]},
        {"dict": 5},
        {"unknown": 1},
        {"list": [], "tuple": []},
        {},
        [],
        5,
        None,
        "linucb",
    ],
    ids=json.dumps,
)
def test_a_forged_header_runs_nothing(root, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    text = json.dumps({"root": root, "arrays": []}).replace(VICTIM, str(victim)).encode()
    for trusted in (True, False):
        with pytest.raises(InvalidData) as error:
            taciturn.load(write_file(tmp_path / "forged", text), trusted=trusted)
        assert "\n" not in str(error.value)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"5",
        b"[]",
        b"{}",
        b'{"root": 5}',
        b'{"root": {"array": 0}, "arrays": [["<f8", [1000000000000], 0]]}',
        b'{"root": {"array": 0}, "arrays": [["<f8", [-1], 0]]}',
        b'{"root": {"array": 0}, "arrays": [["<f8", [0], -8]]}',
        b'{"root": {"array": 0}, "arrays": [["O", [0], 0]]}',
        b'{"root": {"array": 0}, "arrays": [["nonsense", [0], 0]]}',
        b'{"root": {"array": 0}, "arrays": [[0]]}',
        b'{"root": {"array": 0}, "arrays": 5}',
    ],
    ids=lambda header: header[:60].decode("latin-1"),
)
def test_a_header_that_is_not_one_is_refused(header, tmp_path):
    with pytest.raises(InvalidData) as error:
        taciturn.load(write_file(tmp_path / "forged", header))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("arms", [10**12, {"range": [0, 10**12, 1]}])
def test_more_arms_than_the_file_names_are_refused_before_memory_is_taken(arms, tmp_path):
    taciturn.LinUCB(arms=3).save(tmp_path / "agent")
    header = header_of(tmp_path / "agent")
    state = dict(header["root"]["state"]["dict"])
    for entry in state["params"]["dict"]:
        if entry[0] == "arms":
            entry[1] = arms
    content = (tmp_path / "agent").read_bytes()
    start = len(storage.MAGIC) + 8
    arrays = content[start + int.from_bytes(content[start - 8 : start], "little") : -32]
    with pytest.raises(InvalidData, match="arms"):
        taciturn.load(write_file(tmp_path / "forged", header, arrays))


def test_an_agent_that_cannot_be_saved_is_refused_and_the_old_file_stays(tmp_path):
    file = tmp_path / "agent.taciturn"
    taciturn.LinUCB(arms=2).save(file)
    old = file.read_bytes()
    agent = taciturn.BILinUCB(arms=2, imputer=SGDClassifier(loss="log_loss"), warmup=0)
    agent.feedback(agent.decide([1.0]).id, 1)  # now it holds a compiled loss function
    with pytest.raises(TaciturnError, match="that holds a .* cannot be saved"):
        agent.save(file)
    assert file.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["agent.taciturn"]


def test_a_path_that_is_no_file_is_refused_in_one_line_that_names_it(tmp_path):
    """Errors named a hidden temporary file, or were raised from inside of pathlib."""
    agent, file = taciturn.LinUCB(arms=2), tmp_path / "none" / "agent"
    for path, reason in ((tmp_path, "is a folder"), (file, f"there is no folder '{file.parent}'"), (None, "path=None")):
        with pytest.raises(TaciturnError, match=re.escape(reason)):
            agent.save(path)
    with pytest.raises(TaciturnError, match="path=3 is not allowed"):
        taciturn.load(3)
    assert not list(tmp_path.iterdir())
    agent.save(str(tmp_path / "agent"))
    assert taciturn.load(tmp_path / "agent").params == agent.params


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "agent.taciturn"
    agent = taciturn.LinUCB(arms=2)
    agent.save(file)
    old = file.read_bytes()

    def full(_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        agent.save(file)
    assert file.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["agent.taciturn"]


def test_a_batch_with_one_bad_row_decides_nothing():
    agent = taciturn.LinUCB(arms=2)
    with pytest.raises(TaciturnError, match="row 1"):
        agent.decide_batch([[1.0, 2.0], [np.inf, 1.0]])
    with pytest.raises(TaciturnError, match="2 contexts and 1 lists"):
        agent.decide_batch(np.eye(2), neighbors=[[]])
    assert agent.decide([1.0, 2.0, 3.0]).id == 0
    graph = taciturn.GCNUCB(arms=2)
    ids = graph.warm_start(np.eye(2), [0, 1], edges=[])
    assert [decision.id for decision in graph.decide_batch(np.eye(2), neighbors=[ids, ids[:1]])] == [2, 3]


def test_a_file_has_the_permissions_of_the_users_umask(tmp_path):
    (tmp_path / "plain").touch()
    taciturn.LinUCB(arms=range(3)).save(tmp_path / "agent.taciturn")
    assert (tmp_path / "agent.taciturn").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert taciturn.load(tmp_path / "agent.taciturn").params["arms"] == range(3)


class Colour(enum.IntEnum):
    RED = 0
    BLUE = 1


def test_arm_names_that_would_be_loaded_as_another_type_are_refused(tmp_path):
    with pytest.raises(TaciturnError, match="Colour cannot be saved"):
        taciturn.LinUCB(arms=list(Colour)).save(tmp_path / "agent.taciturn")


def test_feature_names_in_a_file_are_unique_and_as_many_as_features():
    """A name twice led to a column that was not there, and kernels read behind their arrays."""
    agent = taciturn.ViewUCB(arms=2)
    agent.decide({"x": 1.0, "y": 1.0})
    for names in (["x", "y", "y"], ["x", "x"], ["x"]):
        state = copy.deepcopy(agent.state_dict())
        state["intake"]["reader"]["names"] = names
        with pytest.raises(ValueError, match="names of the features"):
            taciturn.ViewUCB.from_state_dict(state)


def test_contexts_in_a_file_are_as_small_as_contexts_may_be():
    for scaling, too_large in (("none", 1e30), ("auto", 1e101)):
        agent = taciturn.ViewUCB(arms=2, scaling=scaling)
        agent.decide({"x": 1.0})
        state = copy.deepcopy(agent.state_dict())
        state["intake"]["contexts"]["values"][0] = too_large
        with pytest.raises(ValueError, match="values are not allowed"):
            taciturn.ViewUCB.from_state_dict(state)
