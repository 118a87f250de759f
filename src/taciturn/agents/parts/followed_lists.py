"""What is made of lists of nearest neighbors, the lists reversed and the edges of a graph, and follows insertions."""

from abc import ABC, abstractmethod

import numpy as np

from taciturn.agents.table import Table
from taciturn.kernels import knn
from taciturn.kernels.adjacency import ListEdges, note_edges
from taciturn.kernels.reverse import Reverse, follow, reverse_all


class Followed(ABC):
    """What is made of the first `near` of some lists: up to date with insertions, or to be made anew.

    It follows insertions while it is asked for, and then as many more as there were slots: together these take about as
    long as to make it anew.
    """

    def __init__(self, near: int) -> None:
        self.near = near
        self.table = Table()  # of fewer slots than there are, where lists have changed since
        self._unasked = 0  # how many insertions it has followed since it was asked for

    @abstractmethod
    def _make(self, lists: knn.Lists, count: int) -> None:
        """Make it of so many slots."""

    @abstractmethod
    def _insert(self, lists: knn.Lists, slot: int, changes: knn.Changes) -> None:
        """Follow the insertion of a slot, the last."""

    def follow(self, lists: knn.Lists, slot: int, changes: knn.Changes) -> None:
        """Follow the insertion of a slot, the last, if it is up to date with those before."""
        if self.table.count != slot:
            return
        self._unasked += 1
        if 2 * self._unasked > slot + 1:
            self.forget()
        else:
            self.table.extend()
            self._insert(lists, slot, changes)

    def bring_up_to(self, lists: knn.Lists, count: int) -> None:
        """Be up to date with so many slots."""
        self._unasked = 0
        if self.table.count != count:
            self.forget()
            self.table.extend(count)
            try:
                self._make(lists, count)
            except BaseException:
                self.forget()
                raise

    def forget(self) -> None:
        """Lists have changed otherwise than by an insertion."""
        if self.table.count:
            self.table.keep(np.arange(0))


class ReversedLists(Followed):
    """Which slots list each one; see `kernels.reverse`."""

    def __init__(self, near: int) -> None:
        super().__init__(near)
        self._columns = [self.table.column(name, np.int32, near, fill=-1) for name in Reverse._fields[:3]]
        self._columns += [self.table.column(name, np.int32, fill=-1) for name in Reverse._fields[3:]]

    @property
    def arrays(self) -> Reverse:
        """The lists reversed, and room for spare slots."""
        return Reverse(*(column.data.reshape(-1) for column in self._columns))

    def _make(self, lists: knn.Lists, count: int) -> None:
        reverse_all(self.arrays, lists.neighbors, self.near, count)

    def _insert(self, lists: knn.Lists, slot: int, changes: knn.Changes) -> None:
        follow(self.arrays, lists.neighbors, self.near, slot, *changes)


class ListedEdges(Followed):
    """The edges between slots, each at the one it belongs to; see `kernels.adjacency`."""

    def __init__(self, near: int) -> None:
        super().__init__(near)
        self._others = self.table.column("others", np.int32, near)
        self._distances = self.table.column("distances", np.float64, near)
        self._counts = self.table.column("counts", np.bool_, near)

    @property
    def arrays(self) -> ListEdges:
        """The edges of all slots, and of spare ones."""
        return ListEdges(self._others.data, self._distances.data, self._counts.data)

    def _make(self, lists: knn.Lists, count: int) -> None:
        note_edges(lists.neighbors, lists.distances, np.arange(count), *self.arrays)

    def _insert(self, lists: knn.Lists, slot: int, changes: knn.Changes) -> None:
        # Of a pair, one of which no longer lists the other, the edge belongs to this other.
        slots = np.concatenate([changes.nodes, changes.lost, [slot]])
        note_edges(lists.neighbors, lists.distances, slots, *self.arrays)
