"""The nearest neighbors of some rows of a `RowStore`: lists that insertions and evictions keep up to date."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts import wide_neighbors
from taciturn.agents.parts.followed_lists import ListedEdges, ReversedLists
from taciturn.agents.parts.part import Sizes, in_range, is_array, require
from taciturn.agents.rows import RowStore
from taciturn.agents.table import Table
from taciturn.errors import TaciturnError
from taciturn.kernels import knn
from taciturn.kernels.adjacency import ListEdges
from taciturn.kernels.reverse import Reverse

SPARE = 16
"""How many more neighbors than k a row knows, so that most of those that lose one to eviction have k left."""

MAX_REBUILT, MAX_PRODUCTS = 512, 2**25
"""Up to so many rows and multiplications, all neighbors are found anew when rows move; later they move little."""

MOST_LISTED = np.iinfo(np.int32).max
"""So many entries of lists can be reversed."""

Ints = NDArray[np.int64]


class NeighborLists:
    """A slot for each row that joined, in the order of arrival, with the slots of its k + `SPARE` nearest.

    Arguments:
        contexts: the rows that distances are taken of.
        k: how many neighbors are asked for.
    """

    def __init__(self, contexts: RowStore, k: int) -> None:
        self._contexts, self.k = contexts, k
        self._slots = Table()
        self._nodes = self._slots.column("nodes", np.int32, fill=-1)
        self._lists = self._slots.column("lists", np.int32, k + SPARE, fill=-1)  # the slots of the nearest
        self._distances = self._slots.column("distances", np.float64, k + SPARE, fill=np.inf)
        self._known = self._slots.column("known", np.int32)
        self._reach = self._slots.column("reach", np.float64, fill=np.inf)
        self._squares = self._slots.column("squares", np.float64)
        self._nearest_reversed, self._edges = ReversedLists(k), ListedEdges(k)
        self._postings: knn.Postings | None = None
        self._indexed = 0  # how many slots there were when the postings were made

    @property
    def count(self) -> int:
        """How many slots there are."""
        return self._slots.count

    @property
    def nodes(self) -> NDArray[np.int32]:
        """The row of each slot (S,), rising."""
        return self._nodes.data[: self._slots.count]

    @property
    def lists(self) -> knn.Lists:
        """The lists of all slots, and of spare ones."""
        near, at = self._lists.data, self._distances.data
        return knn.Lists(near, at, self._known.data, self._reach.data, self._squares.data)

    # Insertion.

    def insert(self, node: int) -> Ints:
        """Let a row join, compared with all others; returns the slots whose k nearest have changed."""
        slot = self._append(node)
        if self._contexts.dense_singles is not None:
            changes = wide_neighbors.insert(self.lists, self._contexts, self.nodes, self.k)
            if changes is not None:
                return self._follow(changes)
        index = self._up_to_date_postings(slot)
        return self._follow(knn.insert(self.lists, index, self._contexts.rows, self.nodes, self.k))

    def offer(self, node: int, candidates: Ints) -> Ints:
        """Let a row join, compared with some slots, which rise."""
        self._append(node)
        return self._follow(knn.offer(self.lists, self._contexts.rows, self.nodes, self.k, candidates))

    def _append(self, node: int) -> int:
        if (self.count + 1) * self.k > MOST_LISTED:
            raise TaciturnError(f"lists of {self.k} neighbors for {self.count} contexts are more than can be reversed")
        slot = self._slots.extend()
        self._nodes.data[slot] = node
        return slot

    def _follow(self, changes: knn.Changes) -> Ints:
        """Let what is made of the lists follow the last insertion; returns the slots whose k nearest have changed."""
        lists, slot = self.lists, self.count - 1
        self._nearest_reversed.follow(lists, slot, changes)
        self._edges.follow(lists, slot, changes)
        return changes.nodes

    def forget_edges(self) -> None:
        """Hold no edges, nor follow insertions with them, until they are asked for."""
        if self._edges.table.count:
            self._edges = ListedEdges(self.k)

    def _forget_made(self) -> None:
        """Lists have changed otherwise than by an insertion."""
        self._nearest_reversed.forget()
        self.forget_edges()

    @property
    def reverse(self) -> Reverse:
        """The k nearest of all slots, reversed."""
        self._nearest_reversed.bring_up_to(self.lists, self.count)
        return self._nearest_reversed.arrays

    @property
    def edges(self) -> ListEdges:
        """The edges between all slots and their k nearest."""
        self._edges.bring_up_to(self.lists, self.count)
        return self._edges.arrays

    def _up_to_date_postings(self, slots: int) -> knn.Postings:
        """The inverted index, made anew where it lacks features, or so many rows that these would cost more."""
        index, n_features = self._postings, self._contexts.n_features
        if index is None or n_features >= len(index.starts) or slots - self._indexed > 32 + slots // 32:
            self._indexed = slots
            self._postings = index = knn.postings(self._contexts.rows, self._nodes.data[:slots], n_features)
        return index

    # Eviction, and rows that move.

    def keep(self, node_now: NDArray[np.int32]) -> Ints:
        """Keep the rows that have a number now; the others' is −1. Returns the slots that know fewer than k."""
        moved = node_now[self.nodes]
        slots = np.flatnonzero(moved >= 0)
        slot_now = np.full(self.count, -1, np.int32)
        slot_now[slots] = np.arange(len(slots))
        self._slots.keep(slots)
        self._nodes.data[: len(slots)] = moved[slots]
        self._indexed = int(np.searchsorted(slots, self._indexed))
        if self._postings is not None:
            numbers = self._postings.numbers
            self._postings = self._postings._replace(numbers=numbers[slots[: np.searchsorted(slots, len(numbers))]])
        self._forget_made()
        return knn.remove(self.lists, slot_now, len(slots), self.k)

    def refill(self, short: Ints) -> None:
        """Find the nearest of some slots anew, among all others."""
        if len(short) and wide_neighbors.refill(self.lists, self._contexts, self.nodes, short):
            self._forget_made()
        elif len(short):
            rows = self._contexts.rows
            short = knn.equal_rows_together(rows, self.nodes, short)
            knn.refill(self.lists, self._up_to_date_postings(self.count), rows, self.nodes, short)
            self._forget_made()

    def fill(self, slot: int, candidates: Ints, *, reverse: bool = True) -> None:
        """Find the nearest of a slot anew, among the candidates, which rise; nothing is reversed if it is undone."""
        knn.fill(self.lists, self._contexts.rows, self.nodes, slot, candidates)
        if reverse:
            self._forget_made()

    def rescale(self) -> None:
        """Distances are those of the moved rows. Neighbors are found anew while there are few rows, and stay later."""
        count, lists = self.count, self.lists
        self._postings, self._indexed = None, 0
        self._forget_made()
        if count == 0:
            return
        self._measure()
        if count <= MAX_REBUILT and count * self._contexts.n_entries <= MAX_PRODUCTS:
            self.refill(np.arange(count))
            return
        order = np.argsort(lists.distances[:count], axis=1, kind="stable")
        for part in (lists.neighbors, lists.distances):
            part[:count] = np.take_along_axis(part[:count], order, axis=1)
        known = lists.known[:count]
        farthest = lists.distances[np.arange(count), np.maximum(known - 1, 0)]
        has_all = (known == count - 1) & (known < lists.distances.shape[1])
        lists.reach[:count] = np.where(has_all, np.inf, farthest)

    def _measure(self) -> None:
        if self._contexts.dense_singles is None:
            knn.measure(self.lists, self._contexts.rows, self.nodes)
        else:
            wide_neighbors.measure(self.lists, self._contexts, self.nodes)

    # Size and files.

    def nbytes(self, sizes: Sizes) -> float:
        """The slots, their lists reversed or as edges, which take about the same, and the postings."""
        return self._slots.nbytes(sizes) + self._nearest_reversed.table.nbytes(sizes) + self._postings_nbytes(sizes)

    def working_nbytes(self, sizes: Sizes) -> float:
        """The larger of the postings beside the last, and an eviction."""
        return max(2.0 * self._postings_nbytes(sizes), (18.0 * self.k + 16.0) * sizes.nodes)

    def _postings_nbytes(self, sizes: Sizes) -> float:
        indexed = 0 if 2 * sizes.entries > sizes.nodes * sizes.features else sizes.entries  # as in `knn.postings`
        return 12.0 * indexed + 8.0 * sizes.features

    def state_dict(self) -> dict[str, Any]:
        """Slots with their neighbors; all else is made from these."""
        slots = self._slots.state_dict()
        del slots["distances"], slots["squares"]
        return slots

    def load_state_dict(self, state: dict[str, Any], n_nodes: int) -> None:
        """Take them over: lists name slots, and slots name rows."""
        slots = dict(state)
        count, width = len(slots["nodes"]), self.k + SPARE
        listed = max(min(self.k, count - 1), 0)
        if "known" not in slots:  # a file of format 4 has k neighbors of each
            lists, distances = slots["lists"], slots["distances"]
            require(is_array(lists, np.int32, count, self.k), "the lists of neighbors do not fit")
            slots = {"nodes": slots["nodes"], "lists": np.pad(lists, ((0, 0), (0, SPARE)), constant_values=-1)}
            slots |= {"known": np.full(count, listed, np.int32), "reach": distances[:, -1]}
        lists, known, reach = slots["lists"], slots["known"], slots["reach"]
        require(is_array(lists, np.int32, count, width), "the lists of neighbors do not fit")
        require(is_array(known, np.int32, count) and in_range(known, listed, width + 1), "the lists are too short")
        require(is_array(reach, np.float64, count) and (reach >= 0).all(), "the reach of the lists does not fit")
        filled = np.arange(width) < known[:, None]
        require(in_range(lists, -1, count) and (filled == (lists >= 0)).all(), "the lists of neighbors do not fit")
        require((np.diff(slots["nodes"]) > 0).all(), "slots are not in the order of nodes")
        distances = np.where(filled, 0.0, np.inf)
        self._slots.load_state_dict(slots | {"distances": distances, "squares": np.zeros(count)}, 0, count)
        require(in_range(slots["nodes"], 0, n_nodes), "slots do not fit")
        self._restore_distances()
        self._postings = None
        self._forget_made()

    def _restore_distances(self) -> None:
        """Distances and squares from the rows, whatever a file says of them."""
        lists, distances = self._lists.data, self._distances.data
        self._measure()
        require((distances[:, 1:] >= distances[:, :-1]).all(), "the lists of neighbors are not in order")
        require((lists != np.arange(self.count)[:, None]).all(), "a context is its own neighbor")
