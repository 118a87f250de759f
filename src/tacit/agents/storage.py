"""An agent as one file, without pickle: a header in JSON, the arrays behind it, and a checksum over all.

    magic (8 bytes) | length of the header (8 bytes, little-endian) | header | arrays, one after another | sha256

The header describes a graph of objects: parts of tacit by their class, with their attributes; shared parts occur
once, so that what was one object before is one object after. Only agents, imputers and kernels, NumPy's generators
and scikit-learn's estimators can be in it, as long as arrays and plain values are all that they hold; reading it runs
no code of the file's.
"""

import hashlib
import importlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.contracts import InvalidData, TacitError

MAGIC = b"tacit\x00\x00\x01"  # the last byte is the version of the format
HOMES = ("tacit.agents.", "tacit.kernels.")
_STORABLE: dict[str, type] = {}
KINDS = frozenset("biufU")  # arrays of booleans, whole numbers, floats and text


def save(agent: object, path: str | Path) -> None:
    """Write to a temporary name, flush to the disk, and move into place: a crash leaves the old file or the new one."""
    target = Path(path)
    writer = _Writer()
    header = {"root": writer.encode(agent), "objects": writer.objects, "arrays": writer.layout()}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            parts: list[Any] = [MAGIC, len(text).to_bytes(8, "little"), text, *writer.arrays]
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def load(path: str | Path) -> Any:
    """Read an agent back; it goes on exactly as the one that was saved would have."""
    content = memoryview(Path(path).read_bytes())
    name = Path(path).name
    if bytes(content[:5]) != MAGIC[:5]:
        raise InvalidData(f"{name}: not a file of a tacit agent")
    if bytes(content[: len(MAGIC)]) != MAGIC:
        raise InvalidData(
            f"{name}: written by another version of tacit (format {content[7:8].hex()}, this one reads 01)"
        )
    if hashlib.sha256(content[:-32]).digest() != bytes(content[-32:]):
        raise InvalidData(f"{name}: damaged or truncated, its checksum is wrong")
    start = len(MAGIC) + 8
    stop = start + int.from_bytes(content[len(MAGIC) : start], "little")
    try:
        header = json.loads(bytes(content[start:stop]))
        return _Reader(header, content[stop:-32]).decode(header["root"])
    except (KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
        raise InvalidData(f"{name}: not written by this version of tacit ({error})") from None


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
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
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
            raise TacitError(f"an agent that holds an array of {array.dtype} cannot be saved")
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


def storable(kind: type) -> None:
    """Let files hold objects of this class, which may live anywhere; they are read where the class is known."""
    _STORABLE[f"{kind.__module__}:{kind.__qualname__}"] = kind


def _class_path(value: object) -> str:
    kind = type(value)
    path = f"{kind.__module__}:{kind.__qualname__}"
    if path in _STORABLE or kind.__module__.startswith(HOMES) or _is_estimator(kind):
        return path
    raise TacitError(f"an agent that holds a {kind.__name__} cannot be saved; parts of tacit, arrays and numbers can")


class _Reader:
    """Makes the objects first and fills them in after, so that they may refer to each other."""

    def __init__(self, header: dict[str, Any], content: memoryview) -> None:
        self._content = content
        self._layout = [_Layout(*entry) for entry in header["arrays"]]
        self._objects = [self._shell(entry) for entry in header["objects"]]
        for value, entry in zip(self._objects, header["objects"], strict=True):
            if "class" in entry:
                vars(value).update(self.decode(entry["state"]))

    def _shell(self, entry: dict[str, Any]) -> Any:
        if "generator" in entry:
            generator = np.random.default_rng()
            generator.bit_generator.state = self.decode(entry["generator"])
            return generator
        if "random_state" in entry:
            state = np.random.RandomState()
            state.set_state(self.decode(entry["random_state"]))
            return state
        kind = _class_at(entry["class"])
        return kind.__new__(kind)

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "record" in value:
            return _class_at(value["record"])(*map(self.decode, value["items"]))
        ((tag, body),) = value.items()
        decoders: dict[str, Callable[[Any], Any]] = {
            "float": float.fromhex,
            "array": self._array,
            "scalar": lambda index: self._array(index)[()],
            "tuple": lambda items: tuple(map(self.decode, items)),
            "list": lambda items: list(map(self.decode, items)),
            "dict": lambda items: {self.decode(key): self.decode(item) for key, item in items},
            "object": lambda place: self._objects[place],
        }
        return decoders[tag](body)

    def _array(self, index: int) -> np.ndarray[Any, Any]:
        entry = self._layout[index]
        dtype = np.dtype(entry.dtype)
        if dtype.kind not in KINDS:
            raise ValueError(f"an array of {dtype}")
        count = int(np.prod(entry.shape, dtype=np.int64))
        return np.frombuffer(self._content, dtype, count, entry.offset).reshape(entry.shape).copy()


def _class_at(path: str) -> Any:
    if path in _STORABLE:
        return _STORABLE[path]
    module, _, name = path.partition(":")
    if module.startswith((*HOMES, "sklearn.")):
        kind = getattr(importlib.import_module(module), name)
        if module.startswith(HOMES) or _is_estimator(kind):
            return kind
    raise ValueError(f"it holds a {path}; import the module that defines it first")


def _is_estimator(kind: Any) -> bool:
    return isinstance(kind, type) and kind.__module__.startswith("sklearn.") and hasattr(kind, "get_params")
