"""Lists of nearest neighbors that can be searched."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.neighbor_lists import NeighborLists
from taciturn.agents.parts.part import Sizes, in_range, is_array, require
from taciturn.agents.table import Table
from taciturn.kernels.search import (
    LISTERS,
    UNKNOWN,
    Found,
    Layer,
    Listers,
    Points,
    follow,
    keep_listers,
    marks_of,
    search,
)

Ints = NDArray[np.int64]

STALE = 8
"""Bounds of reaches are taken anew once there are an eighth more slots: insertions only make reaches shorter."""


class SearchLevel:
    """Lists, with some that have listed each slot: see `kernels.search`.

    These are noted when a search needs it, in the order in which slots joined.

    Arguments:
        lists: the lists of some rows.
    """

    def __init__(self, lists: NeighborLists) -> None:
        self.lists = lists
        self._noted = Table()  # of fewer slots than there are, where some have joined since
        self._by = self._noted.column("by", np.int32, LISTERS, fill=-1)
        self._times = self._noted.column("times", np.int32)
        self._marked = Table()
        self._marks = self._marked.column("marks", np.uint8, fill=UNKNOWN)
        self._bounded = 0  # how many slots are left of those whose bounds were taken last
        self._dense = np.zeros(0)

    @property
    def _listers(self) -> Listers:
        return Listers(self._by.data, self._times.data)

    @property
    def count(self) -> int:
        """How many slots there are."""
        return self.lists.count

    @property
    def nodes(self) -> NDArray[np.int32]:
        """The row of each slot (S,), rising."""
        return self.lists.nodes

    def search(self, points: Points, node: int, starts: Ints, width: int) -> Found:
        """What is near a row, from some slots on, with such a beam."""
        if self._noted.count < self.count or self._marked.count < self.count:
            self._note_new()
            self._bound_reaches()
        if len(self._dense) != points.matrix.shape[1]:
            self._dense = np.zeros(points.matrix.shape[1])
        lists = self.lists.lists
        layer = Layer(self.nodes, lists.neighbors, self._by.data, lists.reach, self._marks.data)
        return search(layer, points, node, starts, width, lists.neighbors.shape[1], self._dense)

    def _bound_reaches(self) -> None:
        """Take bounds of all reaches where there are many more slots."""
        if self._marked.count < self.count:
            self._marked.extend(self.count - self._marked.count)
        if self._bounded + self._bounded // STALE < self.count:
            self._bounded = self.count
            self._marks.data[: self.count] = marks_of(self.lists.lists.reach[: self.count])

    def rescale(self) -> None:
        """Distances are those of the moved rows, so that all reaches are others."""
        self.lists.rescale()
        self._marks.data[...], self._bounded = UNKNOWN, 0

    def _note_new(self) -> None:
        """Note whom the slots list that have joined since the last search."""
        first = self._noted.count
        if first < self.count:
            self._noted.extend(self.count - first)
            follow(self._listers, self.lists.lists.neighbors, np.arange(first, self.count))

    def join(self, node: int, found: Found) -> Ints:
        """Let a row join, compared with what was found, if that is enough; returns the slots whose k nearest change."""
        if len(found.candidates) < min(self.lists.k, self.count):
            return self.lists.insert(node)
        return self.lists.offer(node, np.sort(found.candidates))

    def is_in(self, nodes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of some rows are here."""
        places = np.minimum(np.searchsorted(self.nodes, nodes), self.count - 1)
        return np.asarray(self.nodes[places] == nodes)

    # Eviction.

    def keep(self, node_now: NDArray[np.int32]) -> Ints:
        """Keep the rows that have a number now; the others' is −1. Returns the slots that know fewer than k."""
        is_kept = node_now[self.nodes[: self._noted.count]] >= 0
        slots, slot_now = np.flatnonzero(is_kept), np.where(is_kept, np.cumsum(is_kept) - 1, -1).astype(np.int32)
        keep_listers(self._listers, slots, slot_now)
        self._noted.count = len(slots)  # what is behind is as if it had never been
        self._by.data[len(slots) :], self._times.data[len(slots) :] = -1, 0
        self._marked.keep(np.flatnonzero(node_now[self.nodes[: self._marked.count]] >= 0))
        self._bounded = int((node_now[self.nodes[: self._bounded]] >= 0).sum())
        short = self.lists.keep(node_now)
        if self.count <= self.lists.lists.neighbors.shape[1]:  # lists of all others have no end
            self._marks.data[...] = UNKNOWN
        return short

    def note(self, slots: Ints) -> None:
        """Note whom slots list whose lists were found anew, and may reach farther."""
        self._marks.data[slots[slots < self._marked.count]] = UNKNOWN
        if self._noted.count:
            self._note_new()  # lists may name them
            follow(self._listers, self.lists.lists.neighbors, slots)

    # Size and files.

    def nbytes(self, sizes: Sizes) -> float:
        """Of what was noted, and of marks."""
        return self._noted.nbytes(sizes) + self._marked.nbytes(sizes)

    def state_dict(self) -> dict[str, Any]:
        """What was noted; the lists are saved by their owner."""
        return self._noted.state_dict()

    def load_state_dict(self, noted: dict[str, Any]) -> None:
        """Take it over: it names slots."""
        require(noted.keys() == {"by", "times"}, "the listers do not fit")
        by, times, count = noted["by"], noted["times"], len(noted["times"])
        require(is_array(times, np.int32, count) and count <= self.count, "the listers do not fit")
        require(is_array(by, np.int32, count, LISTERS) and in_range(by, -1, count), "the listers do not fit")
        filled = np.arange(LISTERS) < times[:, None]
        require((times >= 0).all() and (filled == (by >= 0)).all(), "the listers do not fit")
        self._noted.load_state_dict(noted, 0, count)
