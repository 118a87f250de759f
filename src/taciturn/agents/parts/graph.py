"""The graph over the contexts: given by the user, or grown as the k nearest neighbors of what was seen."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.parts.part import Nearby, Part, Sizes, in_range, is_array, require
from taciturn.agents.table import RowStore, Table
from taciturn.kernels import knn
from taciturn.kernels.adjacency import Graph, Neighborhood, neighborhood, normalized_adjacency
from taciturn.kernels.csr import CSR

SPARE = 16
"""How many more neighbors than k a row knows, so that most of those that lose one to eviction have k left."""


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

    def _restore_distances(self, listed: int) -> None:
        """Distances and squares from the rows, whatever a file says of them."""
        count = self._slots.count
        lists, distances = self._lists.data, self._distances.data
        knn.measure(self._knn_lists(), self._contexts.rows, self._nodes.data[:count], listed)
        self._reach.data[:] = distances[:, self._k - 1]
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
        """Slots with k neighbors each, and edges; Â, the index and further neighbors do not change what is decided."""
        k, slots = self._k, self._slots.state_dict()
        del slots["known"], slots["reach"]
        slots |= {name: slots[name][:, :k] for name in ("lists", "distances")}
        return {"slots": slots | {"kth_distance": slots["distances"][:, k - 1]}, "edges": self._edges.state_dict()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take them over: lists name slots; slots and edges name nodes."""
        slots, edges = dict(state["slots"]), state["edges"]
        count, k = len(slots["nodes"]), self._k
        listed = max(min(k, count - 1), 0)
        require(is_array(slots.pop("kth_distance"), np.float64, count), "the distances do not fit")
        require(is_array(slots["lists"], np.int32, count, k), "the lists of neighbors do not fit")
        require(is_array(slots["distances"], np.float64, count, k), "the distances do not fit")
        require(in_range(slots["lists"], -1, count), "slots do not fit")
        require(in_range(slots["lists"][:, :listed], 0, count), "the lists of neighbors are too short")
        require((slots["lists"][:, listed:] == -1).all(), "the lists of neighbors are too long")
        require((np.diff(slots["nodes"]) > 0).all(), "slots are not in the order of nodes")
        for name, fill in (("lists", -1), ("distances", np.inf)):
            slots[name] = np.pad(slots[name], ((0, 0), (0, SPARE)), constant_values=fill)
        slots["distances"][:, listed:] = np.inf
        slots |= {"known": np.full(count, listed, np.int32), "reach": np.full(count, np.inf)}
        self._slots.load_state_dict(slots, 0, count)
        self._edges.load_state_dict(edges, 0, len(edges["sources"]))
        require(in_range(slots["nodes"], 0, n_nodes), "slots do not fit")
        self._restore_distances(listed)
        require(in_range(edges["sources"], 0, n_nodes) and in_range(edges["targets"], 0, n_nodes), "edges do not fit")
        self._n_nodes = n_nodes
        self._adjacency = self._index = None
