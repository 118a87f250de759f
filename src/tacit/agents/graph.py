"""The graph over the contexts: given by the user, or grown as the k nearest neighbours of what was seen."""

import numpy as np
from numpy.typing import NDArray

from tacit.agents.contexts import RowStore, room_for
from tacit.agents.storage import storable
from tacit.kernels import knn
from tacit.kernels.gcn import Rows, aggregate


@storable
class ContextGraph:
    """Nodes are the rows of a `RowStore`, in their order.

    A row that comes with neighbours has edges of weight 1 to them; a row that comes without joins by similarity to the
    nearest of those that came without. ``adjacency`` is ``Â = (𝒟+I)^(−1/2) (A+I) (𝒟+I)^(−1/2)``; ``aggregated`` is
    ``ÂX``. Both are made when they are first asked for after the graph changed.
    """

    _remade = ("_adjacency", "_aggregated")  # not worth a place in a file

    def __init__(self, rows: RowStore, k: int) -> None:
        self._contexts = rows
        self._nodes = 0
        self._near_nodes = np.zeros(0, np.int32)  # those that came without neighbours, and their nearest among them
        self._near_count = 0
        self._neighbors = np.zeros((0, k), np.int32)
        self._distances = np.zeros((0, k))
        self._sources = np.zeros(0, np.int32)  # edges that were given
        self._targets = np.zeros(0, np.int32)
        self._edges = 0
        self._adjacency: Rows | None = None
        self._aggregated: Rows | None = None

    def add(self, node: int, neighbors: list[int] | None) -> None:
        """Let a row join, with the edges given or else with its nearest neighbours."""
        self._nodes = node + 1
        self._adjacency = self._aggregated = None
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
        self._near_nodes[place] = node
        to_all = knn.squared_distances(*self._contexts.rows, node)
        knn.insert(self._neighbors, self._distances, place, to_all[self._near_nodes[:place]])

    @property
    def adjacency(self) -> Rows:
        """``Â`` (T, T)."""
        if self._adjacency is None:
            sources, targets, weights = knn.similarity_edges(self._neighbors, self._distances, self._near_count)
            edges = (
                np.concatenate([self._near_nodes[sources], self._sources[: self._edges]]),
                np.concatenate([self._near_nodes[targets], self._targets[: self._edges]]),
                np.concatenate([weights, np.ones(self._edges)]),
            )
            self._adjacency = Rows(*knn.normalized_adjacency(*edges, self._nodes))
        return self._adjacency

    @property
    def aggregated(self) -> Rows:
        """``ÂX`` (T, D)."""
        if self._aggregated is None:
            self._aggregated = aggregate(self.adjacency, self._contexts.rows, self._contexts.dimension)
        return self._aggregated

    def mask(self, node: int | None = None) -> NDArray[np.bool_]:
        """All nodes, or just one, as a mask."""
        if node is None:
            return np.ones(self._nodes, np.bool_)
        return np.asarray(np.arange(self._nodes) == node)
