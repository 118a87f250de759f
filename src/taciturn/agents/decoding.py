"""Reading the header of an agent's file: JSON into plain values, arrays, estimators and registered objects.

A file from others may be forged, so what it would take is known before anything is made: its header is short and says
few values (`MAX_HEADER_BYTES`, `MAX_VALUES`), nests little, and its arrays lie one behind another and are named once
each, so that together they are no larger than the file.
"""

import importlib
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

ARRAY_KINDS = frozenset("biufU")  # booleans, whole numbers, floats and text

MAX_HEADER_BYTES = 32_000_000
"""The longest header of a file from others; 100 000 features with names of 100 letters take a third of it."""

MAX_VALUES = 500_000
"""How many values the header of a file from others says: five for each of 100 000 features."""

MAX_DEPTH = 64
"""How deep values nest, in any file. Those of an agent nest about 20 deep."""

ALLOWED_ESTIMATORS = frozenset({"sklearn.cluster._kmeans:MiniBatchKMeans"})
"""The estimators of scikit-learn that files from others may hold."""


def is_estimator(kind: Any) -> bool:
    """Whether a class is an estimator of scikit-learn."""
    return isinstance(kind, type) and kind.__module__.startswith("sklearn.") and hasattr(kind, "get_params")


def parse_header(content: memoryview, *, trusted: bool) -> Any:
    """The header as JSON; `ValueError` where it is none, or would be too large in a file that is not trusted."""
    fits = trusted or len(content) <= MAX_HEADER_BYTES
    _require(fits, f"a header of {len(content)} bytes; {MAX_HEADER_BYTES} are allowed")
    text = bytes(content)
    if not trusted:
        values = sum(map(text.count, (b",", b"[", b"{"))) + 1  # at least as many as there are
        _require(values <= MAX_VALUES, f"a header of up to {values} values; {MAX_VALUES} are allowed")
    return json.loads(text, parse_float=_refuse_number, parse_constant=_refuse_number)


def _refuse_number(text: str) -> None:
    raise ValueError(f"a number {text[:40]} in the header; floats are written in hexadecimal")


def _require(condition: bool, problem: str) -> None:  # noqa: FBT001 - it is what is required
    if not condition:
        raise ValueError(problem)


class Arrays:
    """The arrays behind a header, which is to name each of them once.

    Arguments:
        layout: for each array its type, shape and offset, in the order in which they follow one another.
        content: their bytes.
    """

    def __init__(self, layout: list[Any], content: memoryview) -> None:
        self._content = content
        self._places: list[tuple[np.dtype[Any], list[int], int] | None] = []
        stop = 0
        for dtype_text, shape, offset in layout:
            dtype = np.dtype(str(dtype_text))
            _require(dtype.kind in ARRAY_KINDS and dtype.isnative and dtype.itemsize > 0, f"an array of {dtype_text!r}")
            _require(all(type(n) is int and n >= 0 for n in shape), f"an array of shape {shape}")
            _require(type(offset) is int and offset == stop, f"an array at {offset}, where {stop} is next")
            stop += math.prod(shape) * dtype.itemsize
            _require(stop <= len(content), f"an array of shape {shape}, which the file is too short for")
            self._places.append((dtype, shape, offset))
        _require(stop == len(content), f"{len(content)} bytes behind the header; its arrays take {stop}")

    def take(self, index: Any) -> np.ndarray[Any, Any]:
        """One of the arrays, as a copy."""
        _require(type(index) is int and 0 <= index < len(self._places), f"array {index} is not there")
        place = self._places[index]
        if place is None:
            raise ValueError(f"array {index} is named twice")
        self._places[index] = None
        dtype, shape, offset = place
        array = np.frombuffer(self._content, dtype, math.prod(shape), offset).reshape(shape).copy()
        if dtype.kind == "U":  # numbers that stand for no letter fail when they are read
            codes = array.reshape(-1).view(np.uint32)
            _require(not ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any(), "text of no letters")
        return array


class Decoder:
    """Makes the values that a header describes.

    Arguments:
        arrays: the arrays that it names by number.
        restorer: returns the function that makes an object of a tag from its state.
        trusted: False for a file from others, see `ALLOWED_ESTIMATORS` and `MAX_VALUES`.
    """

    def __init__(self, arrays: Arrays, restorer: Callable[[str], Callable[[Any], Any]], *, trusted: bool) -> None:
        self._arrays, self._restorer, self._trusted = arrays, restorer, trusted
        self._range_values = 0  # in all ranges so far: each is a few letters in the header
        self._depth = 0
        self._decoders: dict[str, Callable[[Any], Any]] = {
            "float": float.fromhex,
            "array": arrays.take,
            "scalar": self._scalar,
            "tuple": lambda items: tuple(map(self.decode, items)),
            "list": lambda items: list(map(self.decode, items)),
            "range": self._range,
            "dict": lambda items: {self.decode(key): self.decode(item) for key, item in items},
            "random_state": self._random_state,
        }

    def decode(self, value: Any) -> Any:
        """The value that a part of the header describes."""
        if isinstance(value, list):
            raise ValueError("a list without a tag")  # noqa: TRY004 - what a file says is no argument of a type
        if not isinstance(value, dict):
            return value
        self._depth += 1
        _require(self._depth <= MAX_DEPTH, f"values nest more than {MAX_DEPTH} deep")
        made = self._decode_tagged(value)
        self._depth -= 1
        return made

    def _decode_tagged(self, value: dict[str, Any]) -> Any:
        if "object" in value:
            return self._restorer(value["object"])(self.decode(value["state"]))
        if "estimator" in value:
            kind = self._estimator(value["estimator"])
            estimator = kind.__new__(kind)
            vars(estimator).update(self.decode(value["state"]))
            return estimator
        ((tag, body),) = value.items()
        return self._decoders[tag](body)

    def _estimator(self, path: str) -> Any:
        module, _, name = path.partition(":")
        if not module.startswith("sklearn.") or not (self._trusted or path in ALLOWED_ESTIMATORS):
            raise ValueError(f"it holds a {path}, which is not allowed here")
        kind = getattr(importlib.import_module(module), name, None)
        _require(is_estimator(kind), f"{path} is no estimator")
        return kind

    def _scalar(self, index: Any) -> Any:
        array = self._arrays.take(index)
        _require(array.shape == (), f"a scalar of shape {array.shape}")
        return array[()]

    def _range(self, limits: Any) -> range:
        made = range(*limits)
        length = max(0, -((made.start - made.stop) // made.step))  # `len` fails beyond 2⁶³
        self._range_values += length
        allowed = self._trusted or self._range_values <= MAX_VALUES
        _require(allowed, f"a range of {length} arms or names; {MAX_VALUES} are allowed")
        return made

    def _random_state(self, body: Any) -> np.random.RandomState:
        state = np.random.RandomState()
        state.set_state(self.decode(body))
        return state
