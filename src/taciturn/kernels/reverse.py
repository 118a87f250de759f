"""The lists of nearest neighbors reversed: who has each node among the first R of its list.

Both kernels leave the same: `follow` goes along with an insertion, at the cost of what changed, and `reverse_all` makes
everything from the lists.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.jit import kernel

Ints = NDArray[np.int64]
Columns = NDArray[np.int32]


class Reverse(NamedTuple):
    """Doubly linked lists of entries.

    Entry ``R·i + a`` of node i is one of the first R of its list, in any order, and ``targets`` of it is that neighbor,
    or −1. The entries with the target j are ``first[j]``, ``following[first[j]]`` and so on up to −1: i rises.
    """

    targets: Columns  # (S·R,)
    following: Columns  # (S·R,)
    preceding: Columns  # (S·R,)
    first: Columns  # (S,)
    last: Columns  # (S,)


@kernel
def _append(reverse: Reverse, entry: int, target: int) -> None:
    """Add an entry at the end of those of a target."""
    last = reverse.last[target]
    reverse.targets[entry] = target
    reverse.following[entry] = -1
    reverse.preceding[entry] = last
    if last < 0:
        reverse.first[target] = entry
    else:
        reverse.following[last] = entry
    reverse.last[target] = entry


@kernel
def _take_out(reverse: Reverse, entry: int) -> None:
    """Take an entry out of those of its target."""
    target, before, after = reverse.targets[entry], reverse.preceding[entry], reverse.following[entry]
    if before < 0:
        reverse.first[target] = after
    else:
        reverse.following[before] = after
    if after < 0:
        reverse.last[target] = before
    else:
        reverse.preceding[after] = before


@kernel
def follow(reverse: Reverse, neighbors: Columns, near: int, new: int, changed: Ints, lost: Columns) -> None:
    """Follow the insertion of `new`, the last node; see `knn.Changes`. The first `near` of all lists are reversed."""
    for a in range(near):
        target = int(neighbors[new, a])
        if target >= 0:
            _append(reverse, new * near + a, target)
    for c in range(changed.shape[0]):
        entry = changed[c] * near
        while reverse.targets[entry] != lost[c]:
            entry += 1
        if lost[c] >= 0:
            _take_out(reverse, entry)
        _append(reverse, entry, new)


@kernel
def reverse_all(reverse: Reverse, neighbors: Columns, near: int, count: int) -> None:
    """Reverse the lists of `count` nodes; everything in ``reverse`` is −1."""
    for i in range(count):
        for a in range(near):
            target = int(neighbors[i, a])
            if target >= 0:
                _append(reverse, i * near + a, target)
