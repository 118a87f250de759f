"""The lists of nearest neighbors reversed: who has each node among the first R of its list.

`follow` and `reverse_all` leave the same: the former goes along with an insertion, at the cost of what changed, and the
latter makes everything from the lists.
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
def _follow(
    targets: Columns,
    following: Columns,
    preceding: Columns,
    first: Columns,
    last: Columns,
    neighbors: Columns,
    near: int,
    start: int,
    stop: int,
    changed: Ints,
    lost: Columns,
) -> None:
    """See `follow`, of each node from `start` to `stop`; the arrays of a `Reverse` come first."""
    for new in range(start, stop):
        for e in range(near + changed.shape[0]):
            entry, target = new * near + e, new
            if e < near:
                target = int(neighbors[new, e])
                if target < 0:
                    continue
            else:
                entry = changed[e - near] * near
                while targets[entry] != lost[e - near]:
                    entry += 1
            old, before, after = targets[entry], preceding[entry], following[entry]
            if old >= 0:  # it is taken out of those of its target
                if before < 0:
                    first[old] = after
                else:
                    following[before] = after
                if after < 0:
                    last[old] = before
                else:
                    preceding[after] = before
            before = last[target]
            targets[entry], following[entry], preceding[entry], last[target] = target, -1, before, entry
            if before < 0:
                first[target] = entry
            else:
                following[before] = entry


def follow(reverse: Reverse, neighbors: Columns, near: int, new: int, changed: Ints, lost: Columns) -> None:
    """Follow the insertion of `new`, the last node; see `knn.Changes`. The first `near` of all lists are reversed."""
    _follow(*reverse, neighbors, near, new, new + 1, changed, lost)


def reverse_all(reverse: Reverse, neighbors: Columns, near: int, count: int) -> None:
    """Reverse the lists of `count` nodes; everything in ``reverse`` is −1."""
    _follow(*reverse, neighbors, near, 0, count, np.zeros(0, np.int64), np.zeros(0, np.int32))
