"""A part of an agent: growth, new arms, validation, size and saving of its arrays and children, written once."""

import math
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import TaciturnError
from taciturn.features.scale import Change

Scores = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Expected rewards (K,) and confidence widths (K,)."""

AXES = ("node", "arm", "feature")

MAX_COUNT = 2**62
"""Counts in files are below this, so that sums of them are exact in 64 bits."""

Nearby = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Nodes and how close they are."""


class Sizes(NamedTuple):
    """How large an agent is, or will be: what its memory is estimated from."""

    arms: int
    features: int
    nodes: int
    entries: int  # that are not zero, in all contexts together

    @property
    def axes(self) -> dict[str, int]:
        """The lengths of the axes of an `Array`."""
        return {"arm": self.arms, "feature": self.features, "node": self.nodes}


def with_spare(length: int) -> int:
    """How long an array is made that must hold `length` entries and grows at its end: an eighth more.

    Growing n entries one by one copies about 9n of them in all; while one is copied, old and new are both in memory.
    """
    return length + max(length // 8, 16)


def is_array(array: object, dtype: Any, *shape: int) -> bool:
    """Whether something is an array of a type and shape; −1 stands for any length."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != len(shape):
        return False
    return all(wanted in (-1, length) for wanted, length in zip(shape, array.shape, strict=True))


def in_range(array: NDArray[Any], low: int, high: int) -> bool:
    """Whether all of an array is from `low` to below `high`."""
    return bool(((array >= low) & (array < high)).all())


def require(condition: object, problem: str) -> None:
    """Raise `ValueError` unless a condition holds: what a file says does not fit together."""
    if not condition:
        raise ValueError(problem)


def check_plain(name: str, value: object, held: object) -> None:
    """Raise `ValueError` unless a plain value in a file can take the place of one: a count, a float or a truth."""
    if isinstance(held, bool | int | float):
        require(type(value) is type(held), f"{name} is {value!r:.40}; a {type(held).__name__} is needed")
    if isinstance(held, int):
        require(isinstance(value, int) and 0 <= value < MAX_COUNT, f"{name} is not a count")
    if isinstance(held, float):
        require(isinstance(value, float) and math.isfinite(value), f"{name} is not finite")


class Array:
    """An array (``data``) whose axes follow the number of arms ("arm") and of features ("feature"), or are fixed.

    A first axis "node" has a row for each row of a `Table`, and spare ones.

    Arguments:
        fill: what new features and rows begin with.
        new_arm: what a new arm begins with; None copies the arm given as `like`, or is `fill` without one.
        below: whole numbers in a file must be from `fill` to below this; "arm" is the number of arms.
    """

    def __init__(
        self, dtype: Any, axes: tuple[str | int, ...], *, fill: float, new_arm: float | None, below: int | str | None
    ) -> None:
        known = all(isinstance(axis, int) or axis in AXES for axis in axes)
        if not known or axes.count("arm") > 1 or axes.count("node") > 1:
            raise TaciturnError(f"axes {axes!r} are not allowed; lengths, 'feature' and one 'arm' are")
        self.axes, self.fill, self._new_arm, self._below = axes, fill, new_arm, below
        self.data: NDArray[Any] = np.zeros(self.shape({}), dtype)
        self._room: NDArray[Any] | None = None  # what `data` is the first rows of, where there are spare ones

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """Its shape for so many nodes, arms and features."""
        return tuple(axis if isinstance(axis, int) else sizes.get(axis, 0) for axis in self.axes)

    def allocate(self, sizes: dict[str, int]) -> None:
        """Make it anew, full of `fill`."""
        self.data = np.full(self.shape(sizes), self.fill, self.data.dtype)

    def extend(self, axis: str, length: int) -> None:
        """More entries along an axis, wherever it has it; a first axis has spare ones, so that few extensions copy."""
        if self.axes[:1] == (axis,):
            if self._room is None or self.data.base is not self._room or len(self._room) < length:
                self._room = np.full((with_spare(length), *self.data.shape[1:]), self.fill, self.data.dtype)
                self._room[: len(self.data)] = self.data
            self.data = self._room[:length]
        elif axis in self.axes:
            more = [(0, length - n if name == axis else 0) for name, n in zip(self.axes, self.data.shape, strict=True)]
            self.data = np.pad(self.data, more, constant_values=self.fill)

    def add_arm(self, like: int | None) -> None:
        """One entry more along the axis of arms, if it has one."""
        if "arm" in self.axes:
            along = self.axes.index("arm")
            more = self.data.take([like or 0], along)
            if like is None or self._new_arm is not None:
                more[...] = self.fill if self._new_arm is None else self._new_arm
            self.data = np.concatenate([self.data, more], along)

    def rescale(self, change: Change) -> None:
        """Move sums or means of contexts with these, along the axis of features: ``x' = S x``."""
        for axis, name in enumerate(self.axes):
            if name == "feature" and self.data.dtype.kind == "f":
                by_feature = np.moveaxis(self.data, axis, 0)
                moving = by_feature[change.slots]
                by_feature[change.slots] = (change.block @ moving.reshape(len(moving), -1)).reshape(moving.shape)

    def nbytes(self, sizes: dict[str, int]) -> float:
        """Bytes for so many nodes, arms and features."""
        return float(math.prod(self.shape(sizes)) * self.data.itemsize)

    def load(self, name: str, data: Any, sizes: dict[str, int]) -> None:
        """Take over an array of its type and shape, or of single precision; `ValueError` if it is another."""
        if self.data.dtype == np.float64 and getattr(data, "dtype", None) == np.float32:  # a file of an earlier version
            data = data.astype(np.float64)
        require(is_array(data, self.data.dtype, *self.shape(sizes)), f"array {name} does not fit")
        if self._below is not None:
            below = sizes["arm"] if isinstance(self._below, str) else self._below
            require(in_range(data, int(self.fill), below), f"array {name} is out of range")
        if data.dtype.kind == "f":
            known = np.isfinite(data) if "node" in self.axes else ~np.isnan(data)  # moments of networks may overflow
            kept = np.isnan(data) if np.isnan(self.fill) else data == self.fill
            require((known | kept).all(), f"array {name} is not finite")
        self.data = data


AnyPart = TypeVar("AnyPart", bound="Part")


class Part:
    """State of an agent beside the columns of its table: arrays, children, and attributes named in `SAVED`.

    A constructor takes no memory yet; `allocate` follows when the number of features is known. Names of arrays,
    children and `SAVED` are the file format: they stay when attributes are renamed. A part overrides what it does
    differently.
    """

    SAVED: ClassVar[dict[str, str]] = {}
    """Attributes with plain values that files hold: the name there, and that of the attribute."""

    def __init__(self) -> None:
        self.deferred = False
        self._arrays: dict[str, Array] = {}
        self._children: dict[str, Part] = {}

    def array(self, name: str, dtype: Any, *axes: str | int, new_arm: float | None = None) -> Array:
        """A new array of zeros, under a `name` of its own in files.

        Arguments:
            name: its key in `state_dict`.
            dtype: the type of its numbers.
            axes: each is "arm", "feature" or a fixed length.
            new_arm: what a new arm begins with; see `Array`.
        """
        if "node" in axes:
            raise TaciturnError(f"array {name!r} cannot have the axis 'node'; use self._table.column({name!r}, …)")
        if name in self._arrays or name in self._children or name in self.SAVED:
            raise TaciturnError(f"a part has {name!r} already; names in a file are used once")
        self._arrays[name] = array = Array(dtype, axes, fill=0, new_arm=new_arm, below=None)
        return array

    def child(self, name: str, part: AnyPart) -> AnyPart:
        """Add a `part` to this one, under a `name` in files, and return it."""
        if not isinstance(part, Part) or any(part is other for other in self._children.values()):
            raise TaciturnError(f"{name!r} must be a Part of its own, not {part!r}")
        self._children[name] = part
        return part

    def allocate(self, n_arms: int, n_features: int) -> None:
        """Make the state: zeros for `n_arms` arms and `n_features` features."""
        for array in self._arrays.values():
            array.allocate({"arm": n_arms, "feature": n_features})
        for part in self._children.values():
            part.allocate(n_arms, n_features)

    def add_features(self, n_features: int) -> None:
        """Contexts have `n_features` features from now on: more than before."""
        for array in self._arrays.values():
            array.extend("feature", n_features)
        for part in self._children.values():
            part.add_features(n_features)

    def add_arm(self, like: int | None) -> None:
        """One arm more, which begins with the state of the arm `like`, or with none."""
        for array in self._arrays.values():
            array.add_arm(like)
        for part in self._children.values():
            part.add_arm(like)

    def evicting(self, nodes: NDArray[np.int64]) -> None:
        """Contexts at these `nodes` are about to be evicted; they are still held."""
        for part in self._children.values():
            part.evicting(nodes)

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all contexts but these nodes, which are renumbered in their order; called after the table has."""
        for part in self._children.values():
            part.keep(nodes)

    def rescale(self, change: Change) -> None:
        """The features of all contexts have moved linearly by a `change`, ``x' = S x``; the contexts are those of now.

        What was learned must follow, so that it says the same of the moved contexts. Arrays of numbers with an axis of
        features are taken for sums or means of contexts, which move as contexts do; a part whose arrays are weights of
        features, or whose state is elsewhere, overrides this.
        """
        for array in self._arrays.values():
            array.rescale(change)
        for part in self._children.values():
            part.rescale(change)

    def after_warm_start(self) -> None:
        """The labelled rows are learned."""
        for part in self._children.values():
            part.after_warm_start()

    def defer(self, *, on: bool) -> None:
        """Leave training to `train_step` if `on`, or no longer."""
        self.deferred = on
        for part in self._children.values():
            part.defer(on=on)

    def train_step(self) -> bool:
        """Do a bounded piece of the training that was deferred; False if there is none."""
        return any(part.train_step() for part in self._children.values())

    def near(self, node: int) -> Nearby | None:
        """The nodes that the context `node` is judged by, for `explain`; None where there is no graph."""
        found = (part.near(node) for part in self._children.values())
        return next((nearby for nearby in found if nearby is not None), None)

    def approximations(self, *, measured: bool) -> dict[str, Any]:
        """What is not exact, or might not be, by the names of `Health`; if `measured`, also how far it is off."""
        found = (part.approximations(measured=measured) for part in self._children.values())
        return {name: what for of_part in found for name, what in of_part.items()}

    def nbytes(self, sizes: Sizes) -> float:
        """Bytes that it holds between calls with such `sizes`, once all arms have learned."""
        arrays = sum(array.nbytes(sizes.axes) for array in self._arrays.values())
        return arrays + sum(part.nbytes(sizes) for part in self._children.values())

    def working_nbytes(self, sizes: Sizes) -> float:
        """Bytes that the operation which needs most takes while it runs with such `sizes`, beside what is held."""
        return max((part.working_nbytes(sizes) for part in self._children.values()), default=0.0)

    def replaced_nbytes(self) -> float:
        """Bytes that are held twice while arms or features are added: old arrays, until they are copied."""
        arrays = (float(array.data.nbytes) for array in self._arrays.values())
        return max((*arrays, *(part.replaced_nbytes() for part in self._children.values())), default=0.0)

    def released_at(self) -> list[int]:
        """The numbers of contexts from which on it holds less than before."""
        return [nodes for part in self._children.values() for nodes in part.released_at()]

    def state_dict(self) -> dict[str, Any]:
        """What a file holds: plain values, arrays, scikit-learn's estimators, and dicts and lists of these."""
        state = {key: getattr(self, attribute) for key, attribute in self.SAVED.items()}
        state |= {name: array.data for name, array in self._arrays.items()}
        return state | {name: part.state_dict() for name, part in self._children.items()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take over the `state` that `state_dict` returned.

        `ValueError` unless it is for `n_arms` arms, `n_features` features and `n_nodes` contexts: kernels trust arrays,
        so what a file says must be checked here.
        """
        missing = (self.SAVED.keys() | self._arrays.keys() | self._children.keys()) - state.keys()
        require(not missing, f"{', '.join(sorted(missing))} is missing")
        for key, attribute in self.SAVED.items():
            check_plain(key, state[key], getattr(self, attribute, None))
            setattr(self, attribute, state[key])
        for name, array in self._arrays.items():
            array.load(name, state[name], {"arm": n_arms, "feature": n_features})
        for name, part in self._children.items():
            part.load_state_dict(state[name], n_arms, n_features, n_nodes)
