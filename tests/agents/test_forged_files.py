"""A forged file with a correct checksum is refused in one line, or makes an agent that works or refuses in one line."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import taciturn
from golden import files
from taciturn.agents import storage
from taciturn.service.core.session import SERVED_METHODS

FORGER = """
import copy, hashlib, json, sys, traceback, warnings
from pathlib import Path
import numpy as np
from taciturn.agents import storage
from taciturn.errors import TaciturnError

warnings.simplefilter("ignore")
whole = Path(sys.argv[1]).read_bytes()
prefix = len(storage.MAGIC) + 8
start = prefix + int.from_bytes(whole[prefix - 8 : prefix], "little")
header, content = json.loads(whole[prefix:start]), whole[start:-32]
rng = np.random.default_rng(0)
refused = used = number = 0
unclean = []

def file_of(header, content):
    text = json.dumps(header).encode()
    forged = storage.MAGIC + len(text).to_bytes(8, "little") + text + content
    return forged + hashlib.sha256(forged).digest()

def calls(agent):
    at = None if agent.clock is None else agent.clock + 1.0
    names = list(agent.feature_names or ())
    context = {names[0]: 1.0, "never seen": 0.5} if names else np.ones(max(agent.n_features, 1))
    ids = []
    yield lambda: ids.append(agent.decide(context, at=at).id)
    yield lambda: agent.feedback(ids[0], 1)
    yield lambda: agent.feedback(ids[0], 0)
    yield lambda: agent.feedback(int(agent.decisions.ids[0]), None)
    yield lambda: agent.decide_batch([context, context], at=at)
    yield lambda: agent.train_pending(12)
    yield lambda: agent.withdraw(int(agent.decisions.ids[-2]))
    yield lambda: agent.health()
    yield lambda: agent.explain(int(agent.decisions.ids[-1]))
    yield lambda: agent.decide(context, [int(agent.decisions.ids[-1])], at=at)

def attempt(what, forged):
    global refused, used, number
    number += 1
    if number % int(sys.argv[2]):
        return
    print(what, file=sys.stderr, flush=True)  # the last line names what crashed the process
    try:
        agent = storage.loads(forged, "forged", trusted=False)
    except TaciturnError as error:
        refused += 1
        assert "\\n" not in str(error)
        return
    except Exception as error:
        unclean.append(f"{what}: load: {error!r}")
        return
    used += 1
    for number, call in enumerate(calls(agent)):
        try:
            call()
        except TaciturnError:
            pass
        except Exception as error:
            if isinstance(error, IndexError) and number in (1, 2, 3, 6, 8, 9):
                continue  # there was no decision to go on with
            where = traceback.extract_tb(error.__traceback__)[-1]
            unclean.append(f"{what}: call {number}: {error!r:.200} at {where.filename}:{where.lineno}")
            return

def relaid(number, dtype, shape, array):
    \"\"\"The file with another array in one place; the others move.\"\"\"
    layout, pieces, offset = [], [], 0
    for i, (kind, lengths, at) in enumerate(header["arrays"]):
        size = int(np.prod(lengths)) * np.dtype(kind).itemsize
        piece = content[at : at + size]
        if i == number:
            kind, lengths, piece = dtype, shape, array
        layout.append([kind, lengths, offset])
        offset += len(piece)
        pieces.append(piece)
    return file_of({**header, "arrays": layout}, b"".join(pieces))

for number, (dtype, shape, at) in enumerate(header["arrays"]):
    kind, count = np.dtype(dtype), int(np.prod(shape))
    array = np.frombuffer(content, kind, count, at).reshape(shape)
    if kind.kind in "iuf" and count:
        floats = np.nan, np.inf, -np.inf, 3e38, -1.0, 1e-40, 0.0
        for value in (-1, 2**31 - 1, -(2**31), 7, 0) if kind.kind in "iu" else floats:
            for everywhere in (True, False):
                forged = array.copy()
                forged[... if everywhere else tuple(rng.integers(n) for n in shape)] = np.array(value).astype(kind)
                attempt(f"array {number} {shape} holds {value}", relaid(number, dtype, shape, forged.tobytes()))
    for other in ("<f4", "<f8", "<i4", "<i8", "|b1", "<U2"):
        if other != dtype:
            forged = np.zeros(shape, other)
            attempt(f"array {number} is {other}", relaid(number, other, shape, forged.tobytes()))
    longer = [n + 5 for n in shape[:1]] + shape[1:]
    for other in ([0] * max(len(shape), 1), [n + 1 for n in shape], [*shape, 1], [], longer):
        if other != shape:
            attempt(f"array {number} has shape {other}", relaid(number, dtype, other, np.zeros(other, dtype).tobytes()))

def places(value, path=()):
    if isinstance(value, dict):
        tagged = value.keys() & {"array", "scalar"}
        for key, item in value.items():
            if not tagged:
                yield from places(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))
    else:
        yield path

WRONG = (None, True, -1, 0, 3, 10**9, 10**30, "x", {"float": "nan"}, {"float": "inf"}, {"float": "0x1.0p+1000"},
         {"list": []}, {"dict": []}, {"range": [0, 9, 1]}, {"tuple": ["a", {"list": []}]})
for path in places(header["root"]):
    for wrong in WRONG:
        root = copy.deepcopy(header["root"])
        inner = root
        for step in path[:-1]:
            inner = inner[step]
        if inner[path[-1]] == wrong and type(inner[path[-1]]) is type(wrong):
            continue
        if path[-1] == "float":
            if len(path) < 2 or not isinstance(wrong, dict):
                continue
            inner[path[-1]] = wrong.get("float", "x")
        else:
            inner[path[-1]] = wrong
        attempt(f"{path} is {wrong}", file_of({**header, "root": root}, content))
print(json.dumps([refused, used, unclean]))
"""


EVERY = os.environ.get("TACITURN_FORGERIES", "31")
"""Which forgeries are tried: every so many; 1 tries all, a few thousand of each file, which takes half an hour."""


def forge(file):
    """Forgeries of a file in a process of their own: how many were refused and used, and what went wrong."""
    command = [sys.executable, "-c", FORGER, file, EVERY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted(set(files.AGENTS) - {"bilinucb-classifier"}))
def test_a_forgery_of_a_file_that_must_load_for_ever_is_harmless(name):
    """Neither a crash nor an error that is not taciturn's; classifiers are not allowed in files from others."""
    refused, used, unclean = forge(files.FOLDER / f"{name}.taciturn")
    assert unclean == []
    assert refused > 5
    assert used > 0


@pytest.mark.parametrize("kind", SERVED_METHODS)
def test_a_forgery_of_a_new_agent_is_harmless(kind, tmp_path):
    agent = taciturn.make(kind, arms=["a", "b"])
    agent.save(tmp_path / "agent")
    refused, used, unclean = forge(tmp_path / "agent")
    assert unclean == []
    assert refused + used > 5


def test_what_follows_from_other_state_is_not_read_from_a_file():
    """Forged distances, norms, contexts at unit length and 1/λ are made anew, bit for bit."""
    agent = storage.load(files.FOLDER / "viewucb-in-solve.taciturn")
    content = storage.dumps(agent)
    state = agent.state_dict()
    derived = [state["parts"]["graph"]["slots"][name] for name in ("distances", "kth_distance", "squares")]
    derived += [state["parts"]["unit_contexts"]["values"], state["parts"]["ridge"]["scale"]]
    for array in derived:
        array[...] = 0.25
    forged = storage.dumps(agent)
    assert forged != content
    assert storage.dumps(storage.loads(forged, "forged")) == content


def test_an_imputer_in_a_file_has_its_settings_and_nothing_else():
    from taciturn.agents.parts.imputers import KMeansImputer

    agent = taciturn.BILinUCB(arms=2, imputer=KMeansImputer(clusters=3))
    vars(agent.imputer)["impute"] = 5
    vars(agent.imputer)["_kmeans"] = np.zeros(3)
    loaded = storage.loads(storage.dumps(agent), "agent", trusted=False)
    assert vars(loaded.imputer) == {"clusters": 3}
    vars(agent.imputer)["clusters"] = 10**9
    with pytest.raises(taciturn.TaciturnError, match="clusters"):
        storage.loads(storage.dumps(agent), "agent", trusted=False)
