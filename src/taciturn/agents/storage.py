"""An agent as one file, without pickle: a header in JSON, the arrays behind it, and a checksum over all.

    magic (9 bytes) | length of the header (8 bytes, little-endian) | header | arrays, one after another | sha256

The header is the agent's ``state_dict`` under its class's tag: explicit keys, plain values, arrays by number. It names
neither modules nor attributes of taciturn, so code may be moved and renamed under a file. Objects in it are classes
that were registered under a tag, and estimators of scikit-learn, as long as arrays and plain values are all that they
hold. Reading calls nothing that the file names but ``from_state_dict`` of a registered class, which raises `ValueError`
where arrays do not fit together: kernels trust them.
"""

import hashlib
import importlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from taciturn.agents.decoding import ARRAY_KINDS, Arrays, Decoder, is_estimator, parse_header
from taciturn.errors import InvalidData, TaciturnError
from taciturn.system import atomic_write
from taciturn.validate import shown

FORMAT = 5
UPGRADES: dict[int, Callable[[Any], Any]] = {4: lambda header: header}  # `BaseAgent.from_state_dict` reads both
"""For each older format that is read, the function that makes a header of the next format from one of it."""

MAGIC = b"taciturn" + bytes([FORMAT])
Kind = TypeVar("Kind", bound=type)
MODULE_OF_TAG = {
    "linucb": "taciturn.agents.linucb",
    "rogcn": "taciturn.agents.rogcn",
    "bilinucb": "taciturn.agents.bilinucb",
    "gcnucb": "taciturn.agents.gcnucb",
    "viewucb": "taciturn.agents.viewucb",
    "majority": "taciturn.agents.references",
    "knn": "taciturn.agents.references",
    "labelspreading": "taciturn.agents.references",
    "logreg": "taciturn.agents.references",
    "oracle-full": "taciturn.agents.references",
    "extratrees": "taciturn.agents.classifiers",
    "static": "taciturn.agents.classifiers",
    "vowpalwabbit": "taciturn.adapters.peers.vowpal_wabbit",
}
"""The modules that register the tags of the library's own agents; they are imported when a file asks for one."""

_CLASSES: dict[str, "_Registered"] = {}


def register(kind: Kind, dump: Callable[[Any], Any] | None = None, restore: Callable[[Any], Any] | None = None) -> Kind:
    """Let files hold objects of a class, under its own ``tag`` or its module and name.

    `dump` returns an object's state and `restore` makes the object; by default these are the method ``state_dict`` and
    the class method ``from_state_dict``.
    """
    anything: Any = kind
    if "tag" not in vars(kind):
        anything.tag = f"{kind.__module__}:{kind.__qualname__}"
    if kind.__module__ != MODULE_OF_TAG.get(anything.tag, kind.__module__):
        raise TaciturnError(f"the tag {anything.tag!r} belongs to taciturn; give {kind.__qualname__} another")
    _CLASSES[anything.tag] = _Registered(
        kind,
        dump or (lambda value: value.state_dict()),
        restore or (lambda state: anything.from_state_dict(state)),  # noqa: PLW0108 - looked up when it is called
    )
    return kind


class _Registered(NamedTuple):
    kind: type
    dump: Callable[[Any], Any]
    restore: Callable[[Any], Any]


class Content:
    """The content of an agent's file; valid until the agent changes."""

    def __init__(self, agent: object) -> None:
        writer = _Writer()
        header = {"root": writer.encode(agent), "arrays": writer.layout()}
        text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        self._chunks: list[Any] = [MAGIC, len(text).to_bytes(8, "little"), text]
        self._arrays = writer.arrays

    @property
    def nbytes(self) -> int:
        """The length of the file."""
        arrays = sum(array.nbytes for array in self._arrays)
        return sum(map(len, self._chunks)) + arrays + hashlib.sha256().digest_size

    def detached(self) -> Self:
        """The same content with copies of the arrays: it stays valid, and another thread can write or send it."""
        self._arrays = [array.copy() for array in self._arrays]
        return self

    def save(self, path: str | Path) -> None:
        """Write the file; a crash leaves the old one or the new one."""
        atomic_write(Path(path), self.write)

    def write(self, path: Path) -> None:
        """Write the file in place; a crash leaves a part of it."""
        with path.open("wb") as file:
            for chunk in self._all_chunks():
                file.write(chunk)

    def __bytes__(self) -> bytes:
        return b"".join(self._all_chunks())

    def _all_chunks(self) -> Iterator[Any]:
        """All chunks, and the checksum over them."""
        digest = hashlib.sha256()
        for chunk in (*self._chunks, *self._arrays):
            digest.update(chunk)
            yield chunk
        yield digest.digest()


def save(agent: object, path: str | Path) -> None:
    """Write a file; a crash leaves the old one or the new one."""
    target = _path_of(path)
    if target.is_dir():
        raise TaciturnError(f"path={shown(str(path))} is a folder; the path of a file is needed")
    if not target.parent.is_dir():
        raise TaciturnError(f"path={shown(str(path))} cannot be written: there is no folder {str(target.parent)!r}")
    Content(agent).save(target)


def _path_of(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TaciturnError(f"path={shown(path)} is not allowed; the path of a file is")
    return Path(path)


def dumps(agent: object) -> bytes:
    """The content of the file that `save` writes."""
    return bytes(Content(agent))


def load(path: str | Path, *, trusted: bool = True) -> Any:
    """Read an agent from the file at `path`; it resumes bit for bit where the saved one stopped.

    With `trusted=False`, for files from others, only estimators that taciturn itself uses may be in it, and a header
    that would take much more memory than the file is refused before it is read; see `agents/decoding.py`.
    """
    file = _path_of(path)
    return loads(file.read_bytes(), file.name, trusted=trusted)


def loads(content: bytes, name: str, *, trusted: bool = True) -> Any:
    """The agent in the content of a file, as `load`; `name` is what errors call it."""
    whole = memoryview(content)
    version = _checked_version(whole, name)
    start = len(MAGIC) + 8
    stop = start + int.from_bytes(whole[len(MAGIC) : start], "little")
    try:
        header = parse_header(whole[start:stop], trusted=trusted)
        for older in range(version, FORMAT):
            header = UPGRADES[older](header)
        arrays = Arrays(header["arrays"], whole[stop:-32])
        agent = Decoder(arrays, _restorer, trusted=trusted).decode(header["root"])
    except _UNSOUND as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidData(f"{name}: not written by this version of taciturn ({reason})") from None
    if not hasattr(agent, "decide"):
        raise InvalidData(f"{name}: holds no agent")
    return agent


_UNSOUND = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a header that `Content` did not write can raise."""


def _checked_version(content: memoryview, name: str) -> int:
    """The format of a file, which is one that can be read; its checksum is right."""
    if bytes(content[:8]) != MAGIC[:8] or len(content) < len(MAGIC):
        raise InvalidData(f"{name}: not a file of a taciturn agent")
    version, oldest = content[8], FORMAT
    while oldest - 1 in UPGRADES:
        oldest -= 1
    if not oldest <= version <= FORMAT:
        reads = f"{FORMAT:02x}" if oldest == FORMAT else f"{oldest:02x} to {FORMAT:02x}"
        raise InvalidData(f"{name}: has format {version:02x} of another version of taciturn; this one reads {reads}")
    if hashlib.sha256(content[:-32]).digest() != bytes(content[-32:]):
        raise InvalidData(f"{name}: damaged or truncated, its checksum is wrong")
    return version


def _restorer(tag: str) -> Callable[[Any], Any]:
    """The function that makes an object of the class registered under a tag."""
    if tag not in _CLASSES and tag in MODULE_OF_TAG:
        importlib.import_module(MODULE_OF_TAG[tag])
    if tag not in _CLASSES:
        raise ValueError(f"it holds a {tag}; import the module that defines it first")
    return _CLASSES[tag].restore


def nbytes(state: Any) -> int:
    """Bytes in the arrays of a state."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if is_estimator(type(state)):
        state = vars(state)
    items = state.values() if isinstance(state, dict) else state if isinstance(state, tuple | list) else ()
    return sum(map(nbytes, items))


class _Layout(NamedTuple):
    dtype: str
    shape: list[int]
    offset: int


class _Writer:
    """Turns a state into what JSON can say, and collects the arrays."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []

    def layout(self) -> list[_Layout]:
        offsets = np.cumsum([0, *(array.nbytes for array in self.arrays)])
        return [
            _Layout(array.dtype.str, list(array.shape), int(offset))
            for array, offset in zip(self.arrays, offsets, strict=False)
        ]

    def encode(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return {"float": value.hex()}
        if isinstance(value, range):
            return {"range": [value.start, value.stop, value.step]}
        if isinstance(value, np.ndarray | np.generic):
            return self._encode_array(np.asarray(value), scalar=isinstance(value, np.generic))
        for kind in (tuple, list):
            if type(value) is kind:
                return {kind.__name__: [self.encode(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        return self._encode_object(value)

    def _encode_array(self, array: np.ndarray[Any, Any], *, scalar: bool) -> dict[str, int]:
        if array.dtype.kind not in ARRAY_KINDS:
            raise TaciturnError(f"an agent that holds an array of {array.dtype} cannot be saved")
        self.arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        return {"scalar" if scalar else "array": len(self.arrays) - 1}

    def _encode_object(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, np.random.RandomState):  # in estimators
            return {"random_state": self.encode(value.get_state(legacy=False))}
        if is_estimator(kind):
            return {"estimator": f"{kind.__module__}:{kind.__qualname__}", "state": self.encode(vars(value))}
        known = _CLASSES.get(getattr(kind, "tag", ""))
        if known is not None and known.kind is kind:
            return {"object": value.tag, "state": self.encode(known.dump(value))}
        if known is not None:
            raise TaciturnError(f"a {kind.__name__} cannot be saved: another class took its tag {value.tag!r} later")
        raise TaciturnError(f"an agent that holds a {kind.__name__} cannot be saved; arrays and plain values can")
