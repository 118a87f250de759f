"""Checks of what users give an agent: arms, rewards, ids, edges. Errors are one line."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from taciturn.contracts import Arm
from taciturn.errors import InvalidReward, TaciturnError, UnknownArm, UnknownDecision
from taciturn.validate import WHOLE, shown, undirected_edges

MAX_ARMS = 1_000_000
"""How many arms there can be."""

MAX_NEIGHBORS = 1000
"""How many neighbors can be given with a context: views and networks read all of them at every step."""


def arm_names(arms: Any) -> tuple[Arm, ...]:
    """The names that the parameter `arms` stands for."""
    given = shown(arms)
    whole = isinstance(arms, WHOLE) and not isinstance(arms, bool)
    array = isinstance(arms, np.ndarray) and arms.ndim == 1
    if not (whole or array or (isinstance(arms, Sequence) and not isinstance(arms, str))):
        raise TaciturnError(f"arms={given} is not allowed; a list of names is, or how many there are")
    plain = arms.tolist() if array else range(int(arms)) if whole else arms
    if not plain[1:2]:  # the length of a range may be too large for `len`
        raise TaciturnError(f"arms={given} is not allowed; there must be at least 2 arms")
    if plain[MAX_ARMS : MAX_ARMS + 1]:
        raise TaciturnError(f"arms={given} is not allowed; there can be {MAX_ARMS} arms at most")
    names = tuple(plain)
    try:
        distinct = len(set(names))
    except TypeError:
        raise TaciturnError(f"arms={given} is not allowed; a name can be text, a number or a tuple of such") from None
    if distinct < len(names):
        raise TaciturnError(f"arms={given} is not allowed; each arm's name must be its own")
    return names


def arm_index(name: object, indices: Mapping[Arm, int]) -> int:
    """The index of an arm that exists."""
    if not isinstance(name, Hashable) or name not in indices:
        raise UnknownArm(f"unknown arm {shown(name)} (there are: {', '.join(map(str, list(indices)[:20]))})")
    return indices[name]


def label_indices(labels: Any, indices: Mapping[Arm, int], count: int) -> list[int]:
    """The arms of a labelled start as indices, given by name or as indices."""
    if not isinstance(labels, Iterable) or isinstance(labels, str) or getattr(labels, "ndim", 1) == 0:
        raise UnknownArm(f"the arms of a labelled start are a list with one name a row, not {shown(labels)}")
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if len(plain) != count:
        raise TaciturnError(f"there are {count} contexts and {len(plain)} arms; each context needs one")
    if all(isinstance(label, Hashable) and label in indices for label in plain):
        return [indices[label] for label in plain]
    if all(isinstance(label, int) and label in range(len(indices)) for label in plain):
        return plain
    row = next(i for i, label in enumerate(plain) if not isinstance(label, Hashable) or label not in indices)
    known = ", ".join(map(str, list(indices)[:20]))
    raise UnknownArm(f"unknown arm {shown(plain[row])} in row {row} (there are: {known})")


def earlier_ends(edges: Any, count: int) -> list[list[int] | None]:
    """For each row of a labelled start, the earlier ones next to it; None where no graph is given."""
    if edges is None:
        return [None] * count
    adjacent: list[list[int]] = [[] for _ in range(count)]
    for earlier, later in undirected_edges(edges, count).tolist():
        adjacent[later].append(earlier)
    return [*adjacent]


def known_id(id: object, count: int) -> int:
    """An id as an int; it must be below `count`."""
    if type(id) is int and 0 <= id < count:  # as nearly always
        return id
    if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= id < count:
        raise UnknownDecision(f"unknown decision {shown(id)}; there are {count} ids, from 0")
    return int(id)


def known_ids(neighbors: Sequence[int] | None, count: int) -> list[int] | None:
    """The ids of neighbors, sorted and each once; they must be below `count`."""
    if neighbors is None:
        return None
    if not isinstance(neighbors, Iterable):
        raise UnknownDecision(f"neighbors={shown(neighbors)} is not allowed; a list of ids is")
    ids = sorted({known_id(id, count) for id in neighbors})
    if len(ids) > MAX_NEIGHBORS:
        raise TaciturnError(f"a context with {len(ids)} neighbors; at most {MAX_NEIGHBORS} are allowed")
    return ids


def reward_of(reward: object) -> float | None:
    """A reward from 0 to 1, or None for silence."""
    if reward is None:
        return None
    if (type(reward) is float or type(reward) is int) and 0 <= reward <= 1:  # as nearly always
        return float(reward)
    if isinstance(reward, Real | np.bool_) and 0 <= reward <= 1:  # type: ignore[operator]
        return float(reward)
    raise InvalidReward(f"reward {shown(reward)} is not allowed; a number from 0 to 1 is, or None for silence")
