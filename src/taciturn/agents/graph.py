"""The graph over the contexts: given by the user, or grown as the k nearest neighbours of what was seen."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.contexts import RowStore, keep_rows, room_for
from taciturn.agents.storage import fits, storable, within
from taciturn.kernels import knn
from taciturn.kernels.csr import CSR


@storable
class ContextGraph:
    """Nodes are the rows of a `RowStore`, in their order.

    A row that comes with neighbours has edges of weight 1 to them; a row that comes without joins by similarity to the
    nearest of those that came without. ``adjacency`` is ``Â = (𝒟+I)^(−1/2) (A+I) (𝒟+I)^(−1/2)``, made when it is first
    asked for after the graph changed.
    """

    _remade = ("_adjacency", "_index")  # not worth a place in a file

    def __init__(self, rows: RowStore, k: int) -> None:
        self._contexts = rows
        self._nodes = 0
        self._near_nodes = np.zeros(0, np.int32)  # those that came without neighbours, and their nearest among them
        self._near_count = 0
        self._neighbors = np.zeros((0, k), np.int32)
        self._distances = np.zeros((0, k))
        self._reach = np.zeros(0)
        self._squares = np.zeros(0)
        self._sources = np.zeros(0, np.int32)  # edges that were given
        self._targets = np.zeros(0, np.int32)
        self._edges = 0
        self._adjacency: CSR | None = None
        self._index: knn.Postings | None = None
        self._indexed = 0  # how many rows there were when the index was made

    def _sound(self) -> bool:
        places, nodes, k = self._near_count, self._nodes, self._neighbors.shape[1]
        listed = min(k, places - 1)
        return (
            nodes == self._contexts.count
            and fits(self._near_nodes, np.int32, places)
            and within(self._near_nodes[:places], 0, nodes)
            and fits(self._neighbors, np.int32, places, k, least=-1)
            and k >= 1
            and (listed < 1 or within(self._neighbors[:places, :listed], 0, places))
            and fits(self._distances, np.float64, places, k)
            and fits(self._reach, np.float64, places)
            and fits(self._squares, np.float64, places)
            and all(fits(ends, np.int32, self._edges) for ends in (self._sources, self._targets))
            and all(within(ends[: self._edges], 0, nodes) for ends in (self._sources, self._targets))
        )

    def add(self, node: int, neighbors: list[int] | None) -> None:
        """Let a row join, with the edges given or else with its nearest neighbours."""
        self._nodes = node + 1
        self._adjacency = None
        if neighbors is None:
            self._join_nearest(node)
        else:
            self._join_given(node, neighbors)

    def _join_given(self, node: int, neighbors: list[int]) -> None:
        stop = self._edges + len(neighbors)
        self._sources = room_for(self._sources, stop, 0)
        self._targets = room_for(self._targets, stop, 0)
        self._sources[self._edges : stop] = node
        self._targets[self._edges : stop] = neighbors
        self._edges = stop

    def _join_nearest(self, node: int) -> None:
        place = self._near_count
        self._near_count += 1
        self._near_nodes = room_for(self._near_nodes, place + 1, -1)
        self._neighbors = room_for(self._neighbors, place + 1, -1)
        self._distances = room_for(self._distances, place + 1, np.inf)
        self._reach = room_for(self._reach, place + 1, np.inf)
        self._squares = room_for(self._squares, place + 1, 0.0)
        self._near_nodes[place] = node
        index = self._up_to_date_index(place)
        lists = self._neighbors, self._distances, self._reach, self._squares
        knn.insert(*lists, index, *self._contexts.rows, self._near_nodes[: place + 1])

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Forget all nodes but these, which are renumbered in their order; the rows have been so already.

        Whoever had one of the forgotten among its nearest looks for its nearest again, so that the graph is that of the
        rows that are left.
        """
        self._adjacency = self._index = None
        node_now = np.full(self._nodes, -1, np.int32)
        node_now[kept] = np.arange(len(kept))
        sources, targets = node_now[self._sources[: self._edges]], node_now[self._targets[: self._edges]]
        both = (sources >= 0) & (targets >= 0)
        self._nodes, self._edges = len(kept), int(both.sum())
        self._sources[: self._edges], self._targets[: self._edges] = sources[both], targets[both]

        moved = node_now[self._near_nodes[: self._near_count]]
        places = np.flatnonzero(moved >= 0)
        place_now = np.full(self._near_count + 1, -1, np.int32)  # the last stands for no neighbour
        place_now[places] = np.arange(len(places))
        self._near_nodes[: len(places)] = moved[places]
        self._near_nodes[len(places) :] = -1
        listed = self._neighbors[places]
        lost = (listed >= 0) & (place_now[listed] < 0)
        for array, fill in (
            (self._neighbors, -1),
            (self._distances, np.inf),
            (self._reach, np.inf),
            (self._squares, 0),
        ):
            keep_rows(array, places, fill)
        self._neighbors[: len(places)] = place_now[listed]
        self._near_count = len(places)
        index = self._up_to_date_index(len(places))
        lists = self._neighbors, self._distances, self._reach, self._squares
        again = np.flatnonzero(lost.any(axis=1))
        knn.recompute(*lists, index, *self._contexts.rows, self._near_nodes[: len(places)], again)

    def near(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Who is one or two steps from a node, and with what weight: its row of ``Â + Â²``."""
        indptr, columns, values = self.adjacency
        steps = sp.csr_matrix((values.astype(float), columns, indptr), shape=(self._nodes, self._nodes))
        one = steps[node]
        both = (one + one @ steps).tocoo()
        others = both.col != node
        return both.col[others].astype(np.int64), both.data[others]

    def _up_to_date_index(self, places: int) -> knn.Postings:
        """The index, made anew where it lacks features, or so many rows that looking through those costs more."""
        index, dimension = self._index, self._contexts.dimension
        if index is None or dimension >= len(index.starts) or places - self._indexed > 32 + places // 32:
            self._indexed = places
            self._index = index = knn.postings(*self._contexts.rows, self._near_nodes[:places], dimension)
        return index

    @property
    def adjacency(self) -> CSR:
        """``Â`` (T, T)."""
        if self._adjacency is None:
            near = self._neighbors, self._distances, self._near_nodes[: self._near_count]
            given = self._sources[: self._edges], self._targets[: self._edges]
            self._adjacency = CSR(*knn.normalized_adjacency(*near, *given, self._nodes))
        return self._adjacency

    def mask(self, node: int | None = None) -> NDArray[np.bool_]:
        """All nodes, or just one, as a mask."""
        if node is None:
            return np.ones(self._nodes, np.bool_)
        return np.asarray(np.arange(self._nodes) == node)
