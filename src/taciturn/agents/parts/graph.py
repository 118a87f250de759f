"""The graph over the contexts: given by the user, or grown as the k nearest neighbors of what was seen."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.parts.part import Nearby, Part, Sizes, in_range, is_array, require
from taciturn.agents.table import RowStore, Table
from taciturn.features.scale import Change
from taciturn.kernels import knn
from taciturn.kernels.adjacency import Graph, Neighborhood, neighborhood, normalized_adjacency
from taciturn.kernels.csr import CSR

SPARE = 16
"""How many more neighbors than k a row knows, so that most of those that lose one to eviction have k left."""

MAX_REBUILT, MAX_PRODUCTS = 512, 2**25
"""Up to so many rows and multiplications, all neighbors are found anew when rows move; later they move little."""


class NodeGraph(Part):
    """Nodes are the rows of a `RowStore`, in their order.

    A row that comes with neighbors has edges of weight 1 to them. A row that comes without enters the lists of nearest
    neighbors, under the next slot, and has edges by similarity to the nearest of the rows there. ``adjacency`` is
    ``Â = (𝒟+I)^(−1/2) (A+I) (𝒟+I)^(−1/2)``, made when it is first asked for after the graph changed; ``around`` is the
    part of it that a decision needs.

    Arguments:
        contexts: the rows that distances are taken of.
        k: how many neighbors a row has that comes without.
    """

    def __init__(self, contexts: RowStore, k: int) -> None:
        super().__init__()
        self._contexts = contexts
        self._k = k
        self._n_nodes = 0
        self._slots = Table()
        self._nodes = self._slots.column("nodes", np.int32, fill=-1)
        self._lists = self._slots.column("lists", np.int32, k + SPARE, fill=-1)  # the slots of the nearest
        self._distances = self._slots.column("distances", np.float64, k + SPARE, fill=np.inf)
        self._known = self._slots.column("known", np.int32)
        self._reach = self._slots.column("reach", np.float64, fill=np.inf)
        self._squares = self._slots.column("squares", np.float64)
        self._edges = Table()  # those that were given
        self._sources = self._edges.column("sources", np.int32)
        self._targets = self._edges.column("targets", np.int32)
        self._adjacency: CSR | None = None
        self._index: knn.Postings | None = None
        self._indexed = 0  # how many slots there were when the index was made

    def add(self, node: int, neighbors: list[int] | None) -> None:
        """Let a row join, with the edges given or else with its nearest neighbors."""
        self._n_nodes = node + 1
        self._adjacency = None
        if neighbors is None:
            slot = self._slots.extend()
            self._nodes.data[slot] = node
            index = self._up_to_date_index(slot)
            knn.insert(self._knn_lists(), index, self._contexts.rows, self._nodes.data[: slot + 1])
        else:
            first = self._edges.extend(len(neighbors))
            self._sources.data[first : self._edges.count] = node
            self._targets.data[first : self._edges.count] = neighbors

    def _knn_lists(self) -> knn.Lists:
        columns = self._lists, self._distances, self._known, self._reach, self._squares
        return knn.Lists(*(column.data for column in columns))

    def _up_to_date_index(self, slots: int) -> knn.Postings:
        """The index, made anew where it lacks features, or so many rows that going through those costs more."""
        index, n_features = self._index, self._contexts.n_features
        if index is None or n_features >= len(index.starts) or slots - self._indexed > 32 + slots // 32:
            self._indexed = slots
            self._index = index = knn.postings(self._contexts.rows, self._nodes.data[:slots], n_features)
        return index

    @property
    def adjacency(self) -> CSR:
        """``Â`` (T, T)."""
        if self._adjacency is None:
            self._adjacency = normalized_adjacency(self._edges_of_all())
        return self._adjacency

    def around(self, node: int, steps: int) -> Neighborhood:
        """The rows of ``Â`` less than `steps` from a node, bit for bit; the node is the first of the members."""
        return neighborhood(self._edges_of_all(), node, steps)

    def _edges_of_all(self) -> Graph:
        near = self._lists.data, self._distances.data, self._k, self._nodes.data[: self._slots.count]
        given = self._sources.data[: self._edges.count], self._targets.data[: self._edges.count]
        return Graph(*near, *given, self._n_nodes)

    def mask(self, node: int | None = None) -> NDArray[np.bool_]:
        """All nodes, or just one, as a mask (T,)."""
        if node is None:
            return np.ones(self._n_nodes, np.bool_)
        return np.asarray(np.arange(self._n_nodes) == node)

    def near(self, node: int) -> Nearby:
        """The nodes one or two steps away and their weights: a row of ``Â + Â²`` without the node itself."""
        indptr, columns, values = self.adjacency
        steps = sp.csr_matrix((values.astype(float), columns, indptr), shape=(self._n_nodes, self._n_nodes))
        one = steps[node]
        both = (one + one @ steps).tocoo()
        others = both.col != node
        return both.col[others].astype(np.int64), both.data[others]

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all nodes but these; the rows have been already.

        A row with fewer than k of its nearest left looks for them again, so that the graph is that of the rows that are
        left.
        """
        self._adjacency = None
        node_now = np.full(self._n_nodes, -1, np.int32)
        node_now[nodes] = np.arange(len(nodes))
        self._n_nodes = len(nodes)
        for ends in (self._sources.data, self._targets.data):
            ends[: self._edges.count] = node_now[ends[: self._edges.count]]
        both = (self._sources.data >= 0) & (self._targets.data >= 0)
        self._edges.keep(np.flatnonzero(both[: self._edges.count]))

        moved = node_now[self._nodes.data[: self._slots.count]]
        slots = np.flatnonzero(moved >= 0)
        slot_now = np.full(self._slots.count, -1, np.int32)
        slot_now[slots] = np.arange(len(slots))
        self._slots.keep(slots)
        self._nodes.data[: len(slots)] = moved[slots]
        self._keep_indexed(slots)
        self._refill(knn.remove(self._knn_lists(), slot_now, len(slots), self._k))

    def _keep_indexed(self, slots: NDArray[np.int64]) -> None:
        """The index covers those of its slots that are left."""
        self._indexed = int(np.searchsorted(slots, self._indexed))
        if self._index is not None:
            numbers = self._index.numbers
            self._index = self._index._replace(numbers=numbers[slots[: np.searchsorted(slots, len(numbers))]])

    def _refill(self, short: NDArray[np.int64]) -> None:
        """Find the nearest of some slots anew."""
        if len(short):
            nodes, rows = self._nodes.data[: self._slots.count], self._contexts.rows
            short = knn.equal_rows_together(rows, nodes, short)
            knn.refill(self._knn_lists(), self._up_to_date_index(len(nodes)), rows, nodes, short)

    def rescale(self, change: Change) -> None:
        """Distances are those of the moved rows. Neighbors are found anew while there are few rows, and stay later."""
        count = self._slots.count
        self._adjacency = self._index = None
        self._indexed = 0
        if count == 0:
            return
        lists = self._knn_lists()
        knn.measure(lists, self._contexts.rows, self._nodes.data[:count])
        if count <= MAX_REBUILT and count * self._contexts.n_entries <= MAX_PRODUCTS:
            self._refill(np.arange(count))
            return
        order = np.argsort(lists.distances[:count], axis=1, kind="stable")
        for part in (lists.neighbors, lists.distances):
            part[:count] = np.take_along_axis(part[:count], order, axis=1)
        last = np.maximum(lists.known[:count] - 1, 0)
        lists.reach[:count] = lists.distances[np.arange(count), last]

    def _restore_distances(self) -> None:
        """Distances and squares from the rows, whatever a file says of them."""
        count = self._slots.count
        lists, distances = self._lists.data, self._distances.data
        knn.measure(self._knn_lists(), self._contexts.rows, self._nodes.data[:count])
        require((distances[:, 1:] >= distances[:, :-1]).all(), "the lists of neighbors are not in order")
        own = np.arange(count)[:, None]
        require((lists != own).all(), "a context is its own neighbor")

    def nbytes(self, sizes: Sizes) -> float:
        """A slot a context, the edges that were given (as many a context as so far), Â and the index."""
        edges = sizes._replace(nodes=self._expected_edges(sizes))
        adjacency = 8.0 * (self._expected_nonzeros(sizes) + sizes.nodes)
        return self._slots.nbytes(sizes) + self._edges.nbytes(edges) + adjacency + self._index_nbytes(sizes)

    def working_nbytes(self, sizes: Sizes) -> float:
        """The largest of: weights and degrees while Â is made; the index beside the last; an eviction; `near`."""
        making = (8.0 * self._k + 24.0) * sizes.nodes
        evicting = (18.0 * self._k + 16.0) * sizes.nodes
        return max(making, self._index_nbytes(sizes), evicting, 8.0 * self._expected_nonzeros(sizes))

    def _expected_edges(self, sizes: Sizes) -> int:
        return self._edges.count * sizes.nodes // max(self._n_nodes, 1)

    def _expected_nonzeros(self, sizes: Sizes) -> int:
        """Entries of Â: the diagonal, and two for an edge; no two contexts list each other at worst."""
        return (1 + 2 * self._k) * sizes.nodes + 2 * self._expected_edges(sizes)

    def _index_nbytes(self, sizes: Sizes) -> float:
        indexed = 0 if 2 * sizes.entries > sizes.nodes * sizes.features else sizes.entries  # as in `knn.postings`
        return 12.0 * indexed + 8.0 * sizes.features

    def state_dict(self) -> dict[str, Any]:
        """Slots with their neighbors, and edges; Â, the index and distances are made from these."""
        slots = self._slots.state_dict()
        del slots["distances"], slots["squares"]
        return {"slots": slots, "edges": self._edges.state_dict()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take them over: lists name slots; slots and edges name nodes."""
        slots, edges = dict(state["slots"]), state["edges"]
        count, width = len(slots["nodes"]), self._k + SPARE
        listed = max(min(self._k, count - 1), 0)
        if "known" not in slots:  # a file of format 4 has k neighbors of each
            lists, distances = slots["lists"], slots["distances"]
            require(is_array(lists, np.int32, count, self._k), "the lists of neighbors do not fit")
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
        self._edges.load_state_dict(edges, 0, len(edges["sources"]))
        require(in_range(slots["nodes"], 0, n_nodes), "slots do not fit")
        self._restore_distances()
        require(in_range(edges["sources"], 0, n_nodes) and in_range(edges["targets"], 0, n_nodes), "edges do not fit")
        self._n_nodes = n_nodes
        self._adjacency = self._index = None
