"""An agent as one file, without pickle: a header in JSON, the arrays behind it, and a checksum over all.

    magic (8 bytes) | length of the header (8 bytes, little-endian) | header | arrays, one after another | sha256

The header describes a graph of objects: parts of an agent by their class, with their attributes; shared parts occur
once, so that what was one object before is one object after. Only classes that are marked as `storable`, NumPy's
generators and scikit-learn's estimators can be in it, as long as arrays and plain values are all that they hold.
Reading makes such objects and fills them in; it calls nothing that the file names. Kernels trust their arrays, so a
file must not lie about them: every part that has a method `_sound` says whether its arrays fit together.
"""

import contextlib
import hashlib
import importlib
import json
import math
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from taciturn.errors import InvalidData, TaciturnError

MAGIC = b"taciturn\x03"  # the last byte is the version of the format
Kind = TypeVar("Kind", bound=type)
HOME = "taciturn.agents."
_STORABLE: dict[str, type] = {}
OWN_ESTIMATORS = frozenset({"sklearn.cluster._kmeans:MiniBatchKMeans"})
KINDS = frozenset("biufU")  # arrays of booleans, whole numbers, floats and text


def save(agent: object, path: str | Path) -> None:
    """Write to a temporary name, flush to the disk, and move into place: a crash leaves the old file or the new one."""
    target = Path(path)
    writer = _Writer()
    header = {"root": writer.encode(agent), "objects": writer.objects, "arrays": writer.layout()}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    digest = hashlib.sha256()
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(8)}")  # a plain file, with the user's own umask
    try:
        with scratch.open("xb") as file:
            parts: list[Any] = [MAGIC, len(text).to_bytes(8, "little"), text, *writer.arrays]
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(target)
        _flush_folder(target.parent)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _flush_folder(folder: Path) -> None:
    """Make a move last through a loss of power, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def size(agent: object) -> int:
    """How many bytes an agent holds in arrays, without what is remade at need and what could not be saved."""
    writer = _Writer()
    with contextlib.suppress(TaciturnError):
        writer.encode(agent)
    return sum(array.nbytes for array in writer.arrays)


def load(path: str | Path, *, trusted: bool = True) -> Any:
    """Read an agent back; it goes on exactly as the one that was saved would have.

    A file from somebody else need not be `trusted`: then only estimators that taciturn itself uses may be in it.
    """
    content = memoryview(Path(path).read_bytes())
    name = Path(path).name
    if bytes(content[:8]) != MAGIC[:8]:
        raise InvalidData(f"{name}: not a file of a taciturn agent")
    if bytes(content[: len(MAGIC)]) != MAGIC:
        raise InvalidData(
            f"{name}: written by another version of taciturn "
            f"(format {content[8:9].hex()}, this one reads {MAGIC[8:].hex()})"
        )
    if hashlib.sha256(content[:-32]).digest() != bytes(content[-32:]):
        raise InvalidData(f"{name}: damaged or truncated, its checksum is wrong")
    start = len(MAGIC) + 8
    stop = start + int.from_bytes(content[len(MAGIC) : start], "little")
    try:
        header = json.loads(bytes(content[start:stop]))
        agent = _Reader(header, content[stop:-32], trusted=trusted).decode(header["root"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidData(f"{name}: not written by this version of taciturn ({reason})") from None
    if not hasattr(agent, "decide"):
        raise InvalidData(f"{name}: holds no agent")
    return agent


class _Layout(NamedTuple):
    dtype: str
    shape: list[int]
    offset: int


class _Writer:
    """Turns objects into what JSON can say, and collects the arrays."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._places: dict[int, int] = {}
        self._alive: list[object] = []  # ids are only good while the objects live

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
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"record": _class_path(value), "items": [self.encode(item) for item in value]}
        for kind in (tuple, list):
            if type(value) is kind:
                return {kind.__name__: [self.encode(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        return {"object": self._place(value)}

    def _encode_array(self, array: np.ndarray[Any, Any], *, scalar: bool) -> dict[str, int]:
        if array.dtype.kind not in KINDS:
            raise TaciturnError(f"an agent that holds an array of {array.dtype} cannot be saved")
        self.arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        return {"scalar" if scalar else "array": len(self.arrays) - 1}

    def _place(self, value: Any) -> int:
        if id(value) not in self._places:
            self._places[id(value)] = place = len(self.objects)
            self._alive.append(value)
            self.objects.append(None)
            self.objects[place] = self._describe(value)
        return self._places[id(value)]

    def _describe(self, value: Any) -> dict[str, Any]:
        if isinstance(value, np.random.Generator):
            return {"generator": self.encode(value.bit_generator.state)}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.encode(value.get_state(legacy=False))}
        path = _class_path(value)
        dropped = getattr(type(value), "_remade", ())
        state = {name: None if name in dropped else item for name, item in vars(value).items()}
        return {"class": path, "state": self.encode(state)}


def storable(kind: Kind) -> Kind:
    """Let files hold objects of this class, which may live anywhere; they are read where the class is known."""
    _STORABLE[_path(kind)] = kind
    return kind


def fits(array: object, dtype: object, *shape: int, least: int | None = None) -> bool:
    """Whether something is an array of a type and shape, whose rows may be more than asked; −1 is any length.

    With `least`, whole numbers must not be below it.
    """
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != len(shape):
        return False
    if not all(asked in (-1, held) for asked, held in zip(shape[1:], array.shape[1:], strict=True)):
        return False
    return len(array) >= shape[0] and (least is None or array.size == 0 or array.min() >= least)


def within(array: np.ndarray[Any, Any], low: int, high: int) -> bool:
    """Whether all of an array is from `low` to below `high`."""
    return bool(((array >= low) & (array < high)).all())


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_path(value: object) -> str:
    path = _path(type(value))
    if path in _STORABLE or _is_estimator(type(value)):
        return path
    name = type(value).__name__
    raise TaciturnError(f"an agent that holds a {name} cannot be saved; its own parts, arrays and plain values can")


def _class_at(path: str, *, trusted: bool) -> Any:
    """A storable class, whose module is imported if it is ours; or an estimator of scikit-learn."""
    module, _, name = path.partition(":")
    if module.startswith(HOME) or (module.startswith("sklearn.") and (trusted or path in OWN_ESTIMATORS)):
        kind = getattr(importlib.import_module(module), name, None)
        if _is_estimator(kind):
            return kind
    if path not in _STORABLE:
        raise ValueError(f"it holds a {path}; import the module that defines it first")
    return _STORABLE[path]


def _is_estimator(kind: Any) -> bool:
    return isinstance(kind, type) and kind.__module__.startswith("sklearn.") and hasattr(kind, "get_params")


class _Reader:
    """Makes the objects first and fills them in after, so that they may refer to each other."""

    def __init__(self, header: dict[str, Any], content: memoryview, *, trusted: bool) -> None:
        self._content = content
        self._trusted = trusted
        self._layout = [_Layout(*entry) for entry in header["arrays"]]
        self._objects = [self._shell(entry) for entry in header["objects"]]
        for value, entry in zip(self._objects, header["objects"], strict=True):
            if "class" in entry:
                vars(value).update(self.decode(entry["state"]))
        for value in self._objects:
            if hasattr(value, "_sound") and not value._sound():  # noqa: SLF001 - one of us
                raise ValueError(f"the parts of a {type(value).__name__} do not fit together")

    def _shell(self, entry: dict[str, Any]) -> Any:
        if "generator" in entry:
            generator = np.random.default_rng()
            generator.bit_generator.state = self.decode(entry["generator"])
            return generator
        if "random_state" in entry:
            state = np.random.RandomState()
            state.set_state(self.decode(entry["random_state"]))
            return state
        kind = _class_at(entry["class"], trusted=self._trusted)
        return kind.__new__(kind)

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "record" in value:
            kind = _class_at(value["record"], trusted=self._trusted)
            return tuple.__new__(kind, map(self.decode, value["items"]))
        ((tag, body),) = value.items()
        decoders: dict[str, Callable[[Any], Any]] = {
            "float": float.fromhex,
            "array": self._array,
            "scalar": lambda index: self._array(index)[()],
            "tuple": lambda items: tuple(map(self.decode, items)),
            "list": lambda items: list(map(self.decode, items)),
            "range": lambda limits: range(*limits),
            "dict": lambda items: {self.decode(key): self.decode(item) for key, item in items},
            "object": lambda place: self._objects[place],
        }
        return decoders[tag](body)

    def _array(self, index: int) -> np.ndarray[Any, Any]:
        entry = self._layout[index]
        dtype = np.dtype(entry.dtype)
        if dtype.kind not in KINDS:
            raise ValueError(f"an array of {dtype}")
        count = math.prod(entry.shape)
        if min(entry.shape, default=0) < 0 or entry.offset < 0:
            raise ValueError(f"an array of shape {entry.shape} at {entry.offset}")
        return np.frombuffer(self._content, dtype, count, entry.offset).reshape(entry.shape).copy()
