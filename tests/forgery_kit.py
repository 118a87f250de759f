"""Forge files of agents, in a process of their own: a forgery may crash it, and its last line then names which one.

`python tests/forgery_kit.py EVERY FILE…` tries every so many forgeries of each file, and prints a line of JSON for each
file: how many were refused, how many made an agent that was used, and what went wrong.
"""

import copy
import hashlib
import json
import os
import subprocess
import sys
import traceback
import warnings
from itertools import islice
from pathlib import Path

import numpy as np

from taciturn.agents import storage
from taciturn.errors import TaciturnError

FLOATS = (np.nan, np.inf, -np.inf, 3e38, -1.0, 1e-40, 0.0)
INTEGERS = (-1, 2**31 - 1, -(2**31), 7, 0)
TYPES = ("<f4", "<f8", "<i4", "<i8", "|b1", "<U2")
VALUES = (None, True, -1, 0, 3, 10**9, 10**30, "x", {"float": "nan"}, {"float": "inf"}, {"float": "0x1.0p+1000"})
VALUES += ({"list": []}, {"dict": []}, {"range": [0, 9, 1]}, {"tuple": ["a", {"list": []}]})


def forge(files, every):
    """For each file: how many forgeries were refused and used, and what went wrong."""
    command = [sys.executable, __file__, str(every), *map(str, files)]
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=untraced)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


class File:
    """The header and the arrays of a file, and forgeries of it."""

    def __init__(self, path):
        whole, prefix = path.read_bytes(), len(storage.MAGIC) + 8
        start = prefix + int.from_bytes(whole[prefix - 8 : prefix], "little")
        self.header, content = json.loads(whole[prefix:start]), whole[start:-32]
        self.arrays = []
        for dtype, shape, at in self.header["arrays"]:
            kind, count = np.dtype(dtype), int(np.prod(shape))
            self.arrays.append(np.frombuffer(content, kind, count, at).reshape(shape))

    def written(self, root=None, number=None, array=None):
        """The file with another root, or with another array in one place; the checksum is right."""
        arrays = [array if i == number else own for i, own in enumerate(self.arrays)]
        layout, offset = [], 0
        for each in arrays:
            layout.append([each.dtype.str, list(each.shape), offset])
            offset += each.nbytes
        header = self.header | {"arrays": layout} | ({} if root is None else {"root": root})
        text = json.dumps(header).encode()
        parts = [storage.MAGIC, len(text).to_bytes(8, "little"), text, *(each.tobytes() for each in arrays)]
        return (forged := b"".join(parts)) + hashlib.sha256(forged).digest()

    def forgeries(self):
        """What each is, and a function that makes it: other numbers, types and shapes of arrays, and other values."""
        for number, array in enumerate(self.arrays):
            for what, forged in forged_arrays(array):
                yield (
                    f"array {number} {what}",
                    lambda number=number, forged=forged: self.written(None, number, forged()),
                )
        for path in places(self.header["root"]):
            for value in VALUES:
                if (root := replaced(self.header["root"], path, value)) is not None:
                    yield f"{path} is {value}", lambda root=root: self.written(root)


def forged_arrays(array):
    """What each forgery of an array is, and a function that makes it."""
    kind, shape = array.dtype.kind, array.shape
    if kind in "iuf" and array.size:
        for value in FLOATS if kind == "f" else INTEGERS:
            yield f"{shape} holds {value}", lambda value=value: holding(array, value, ...)
            yield (
                f"{shape} holds one {value}",
                lambda value=value: holding(array, value, np.unravel_index(7919 % array.size, shape)),
            )
    for other in TYPES:
        if other != array.dtype.str:
            yield f"is {other}", lambda other=other: np.zeros(shape, other)
    longer = (*(n + 5 for n in shape[:1]), *shape[1:])
    for other in ((0,) * max(len(shape), 1), tuple(n + 1 for n in shape), (*shape, 1), (), longer):
        if other != shape:
            yield f"has shape {other}", lambda other=other: np.zeros(other, array.dtype)


def holding(array, value, where):
    forged = array.copy()
    forged[where] = np.array(value).astype(array.dtype)
    return forged


def places(value, path=()):
    """Paths to all values of a header but its arrays."""
    if isinstance(value, list | dict):
        if not isinstance(value, dict) or not value.keys() & {"array", "scalar"}:
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from places(item, (*path, key))
    else:
        yield path


def replaced(root, path, value):
    """A copy of the root with another value at a path; None where that would be the same, or no value of its kind."""
    root = inner = copy.deepcopy(root)
    for step in path[:-1]:
        inner = inner[step]
    own = inner[path[-1]]
    if own == value and type(own) is type(value):
        return None
    if path[-1] == "float":
        if not isinstance(value, dict):
            return None
        value = value.get("float", "x")
    inner[path[-1]] = value
    return root


def calls(agent):
    """All that can be asked of an agent; and whether a decision is needed for it, which there may not be."""
    at = None if agent.clock is None else agent.clock + 1.0
    names = list(agent.feature_names or ())
    context = {names[0]: 1.0, "never seen": 0.5} if names else np.ones(max(agent.n_features, 1))
    ids = []
    yield False, lambda: ids.append(agent.decide(context, at=at).id)
    yield True, lambda: agent.feedback(ids[0], 1)
    yield True, lambda: agent.feedback(ids[0], 0)
    yield True, lambda: agent.feedback(int(agent.decisions.ids[0]), None)
    yield False, lambda: agent.decide_batch([context, context], at=at)
    yield False, lambda: agent.train_pending(12)
    yield True, lambda: agent.withdraw(int(agent.decisions.ids[-2]))
    yield False, agent.health
    yield True, lambda: agent.explain(int(agent.decisions.ids[-1]))
    yield True, lambda: agent.decide(context, [int(agent.decisions.ids[-1])], at=at)


def attempt(forged):
    """Whether a forgery could be loaded, and what went wrong with it, None for nothing."""
    try:
        agent = storage.loads(forged, "forged", trusted=False)
    except TaciturnError as error:
        return False, "a message of several lines" if "\n" in str(error) else None
    except Exception as error:  # noqa: BLE001 - it is reported
        return False, f"load: {error!r}"
    for number, (needs_decision, call) in enumerate(calls(agent)):
        try:
            call()
        except TaciturnError:
            pass
        except Exception as error:  # noqa: BLE001 - it is reported
            if not (needs_decision and isinstance(error, IndexError)):
                where = traceback.extract_tb(error.__traceback__)[-1]
                return True, f"call {number}: {error!r:.200} at {where.filename}:{where.lineno}"
    return True, None


def try_forgeries(path, every):
    """How many of every so many forgeries of a file were refused and used, and what went wrong."""
    refused = used = 0
    unclean = []
    for what, make in islice(File(path).forgeries(), every // 2, None, every):
        sys.stderr.write(f"{path}: {what}\n")
        sys.stderr.flush()  # the last line names what crashed the process
        loaded, fault = attempt(make())
        used, refused = used + loaded, refused + (not loaded)
        if fault is not None:
            unclean.append(f"{what}: {fault}")
    return refused, used, unclean


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[2:]:
        sys.stdout.write(json.dumps(try_forgeries(Path(name), int(sys.argv[1]))) + "\n")
