"""The graph over the contexts: given by the user, or grown as the k nearest neighbours of what was seen."""

import numpy as np
from numpy.typing import NDArray

from tacit.agents.contexts import RowStore, room_for
from tacit.agents.storage import storable
from tacit.kernels import knn
from tacit.kernels.gcn import Rows


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
        self._adjacency: Rows | None = None
        self._index: knn.Postings | None = None
        self._indexed = 0  # how many rows there were when the index was made

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
        knn.join(*lists, index, *self._contexts.rows, self._near_nodes[: place + 1])

    def _up_to_date_index(self, places: int) -> knn.Postings:
        """The index, made anew where it lacks features, or so many rows that looking through those costs more."""
        index, dimension = self._index, self._contexts.dimension
        if index is None or dimension >= len(index.starts) or places - self._indexed > 32 + places // 32:
            self._indexed = places
            self._index = index = knn.postings(*self._contexts.rows, self._near_nodes[:places], dimension)
        return index

    @property
    def adjacency(self) -> Rows:
        """``Â`` (T, T)."""
        if self._adjacency is None:
            near = self._neighbors, self._distances, self._near_nodes[: self._near_count]
            given = self._sources[: self._edges], self._targets[: self._edges]
            self._adjacency = Rows(*knn.normalized_adjacency(*near, *given, self._nodes))
        return self._adjacency

    def mask(self, node: int | None = None) -> NDArray[np.bool_]:
        """All nodes, or just one, as a mask."""
        if node is None:
            return np.ones(self._nodes, np.bool_)
        return np.asarray(np.arange(self._nodes) == node)
