"""The graph over the contexts: given by the user, or grown as the k nearest neighbors of what was seen."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.arrays import grown
from taciturn.agents.parts.neighbor_index import NeighborIndex
from taciturn.agents.parts.neighbor_lists import NeighborLists
from taciturn.agents.parts.part import Nearby, Part, Sizes, in_range, is_array, require, with_spare
from taciturn.agents.rows import RowStore
from taciturn.agents.table import Table
from taciturn.features.scale import Change
from taciturn.kernels import adjacency
from taciturn.kernels.adjacency import Graph, Neighborhood
from taciturn.kernels.csr import CSR

MANY = 4096
"""From so many rows without given neighbors on there is an index for them; and of so many rows, degrees are kept."""


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
        self._near = NeighborLists(contexts, k)
        self._index: NeighborIndex | None = None
        self._by_node = Table()
        self._slot_of = self._by_node.column("slot", np.int32, fill=-1)
        self._number = self._by_node.column("number", np.int32, fill=-1)  # for `neighborhood`
        self._first_edge = self._by_node.column("first_edge", np.int64, fill=-1)
        self._last_edge = self._by_node.column("last_edge", np.int64, fill=-1)
        self._edges = Table()  # those that were given
        self._sources = self._edges.column("sources", np.int32)
        self._targets = self._edges.column("targets", np.int32)
        self._following = self._edges.column("following", np.int64, 2, fill=-1)
        self._farthest = np.zeros(0)  # squared distances of all slots to their k-th neighbors, side by side
        self._sums = np.full(1, np.nan)  # of these distances, by blocks; NaN where they changed
        self._adjacency: CSR | None = None
        self._room = adjacency.FEW_ENTRIES  # of a neighborhood
        self._degrees = adjacency.NO_DEGREES  # of the first rows, as they were when they were measured

    def add(self, node: int, neighbors: list[int] | None) -> None:
        """Let a row join, with the edges given or else with its nearest neighbors."""
        self._by_node.extend()
        if self._adjacency is None:  # Â is not asked for after every insertion
            self._near.forget_edges()
        self._adjacency = None
        if neighbors is None:
            slot = self._near.count
            self._slot_of.data[node] = slot
            if self._index is None and slot >= MANY:
                self._index = NeighborIndex(self._contexts, self._near)
            self._note_farthest(slot, self._near.insert(node) if self._index is None else self._index.add(node))
        else:
            first = self._edges.extend(len(neighbors))
            self._sources.data[first : self._edges.count] = node
            self._targets.data[first : self._edges.count] = neighbors
            self._link_edges(first)

    def _note_farthest(self, slot: int, changed: NDArray[np.int64]) -> None:
        """A slot is new, and the k-th neighbors of others have changed; while lists are shorter, those of all."""
        if slot <= self._k:
            self._note_all_farthest()
            return
        changed = np.concatenate([changed, [slot]])
        self._farthest = grown(self._farthest, slot + 1, 0)
        self._farthest[changed] = self._near.lists.distances[changed, self._k - 1]
        if slot // adjacency.BLOCK >= len(self._sums):
            self._sums = np.append(self._sums, np.nan)
        self._sums[changed // adjacency.BLOCK] = np.nan

    def _note_all_farthest(self) -> None:
        """While there are fewer than k others, the last of these counts."""
        count = self._near.count
        last = max(min(self._k, count - 1), 1) - 1
        self._farthest = self._near.lists.distances[:count, last].copy()
        self._sums = np.full(count // adjacency.BLOCK + 1, np.nan)

    def _link_edges(self, start: int) -> None:
        if start < self._edges.count:
            following = self._following.data.reshape(-1)
            adjacency.link_edges(self._first_edge.data, self._last_edge.data, following, *self._given_edges(), start)

    @property
    def adjacency(self) -> CSR:
        """``Â`` (T, T)."""
        if self._adjacency is None:
            lists = self._near.edges, self._bandwidth(), self._near.nodes
            self._adjacency = adjacency.normalized_adjacency(*lists, *self._given_edges(), self._n_nodes)
        return self._adjacency

    def shortened(self, most: int) -> CSR:
        """``Â`` with about as many entries in a row as `around` follows, if degrees are kept; else all of it."""
        return adjacency.heaviest(self.adjacency, 1 + self._k + most) if len(self._degrees) else self.adjacency

    def measure_degrees(self) -> None:
        """Keep the degrees as they are now, if there are many rows, for `around` to follow some edges only."""
        self._degrees = adjacency.NO_DEGREES
        if self._n_nodes >= MANY:
            indptr, _, values = self.adjacency
            self._degrees = (1.0 / values[indptr[:-1]]).astype(np.float32)  # of the diagonal of Â

    def around(self, node: int, steps: int, most: int | None = None) -> Neighborhood:
        """The rows of ``Â`` less than `steps` from a node, bit for bit; the node is the first of the members.

        Among many rows some are near to thousands. If `most` is given and degrees are kept, these are taken, and of the
        rows that have another among their nearest the first so many count, beside its own nearest.
        """
        graph = self._edges_of_all()
        if most is not None and len(self._degrees):
            graph = graph._replace(most=most, degrees=self._degrees)
        found = adjacency.neighborhood(graph, node, steps, self._number.data[: self._n_nodes], self._room)
        self._room = max(self._room, 2 * len(found.adjacency.columns))
        return found

    def _bandwidth(self) -> float:
        return adjacency.bandwidth(self._farthest[: self._near.count], self._sums)

    def _given_edges(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self._sources.data[: self._edges.count], self._targets.data[: self._edges.count]

    def _edges_of_all(self) -> Graph:
        lists, reverse = self._near.lists, self._near.reverse
        return Graph(
            lists.neighbors,
            lists.distances,
            self._k,
            self._bandwidth(),
            self._near.nodes,
            self._slot_of.data[: self._n_nodes],
            reverse.first,
            reverse.following,
            *self._given_edges(),
            self._first_edge.data,
            self._following.data.reshape(-1),
        )

    @property
    def recall(self) -> float:
        """The share of nearest neighbors that were found of late: 1 while all rows are compared."""
        return 1.0 if self._index is None or self._index.is_exact else self._index.recall

    def approximations(self, *, measured: bool) -> dict[str, Any]:
        """The recall, where neighbors are searched for."""
        return {} if self._index is None or self._index.is_exact else {"recall": self.recall}

    @property
    def _n_nodes(self) -> int:
        return self._by_node.count

    def mask(self, node: int | None = None) -> NDArray[np.bool_]:
        """All nodes, or just one, as a mask (T,)."""
        if node is None:
            return np.ones(self._n_nodes, np.bool_)
        mask = np.zeros(self._n_nodes, np.bool_)
        mask[node] = True
        return mask

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
        for ends in (self._sources.data, self._targets.data):
            ends[: self._edges.count] = node_now[ends[: self._edges.count]]
        both = (self._sources.data >= 0) & (self._targets.data >= 0)
        self._edges.keep(np.flatnonzero(both[: self._edges.count]))
        self._by_node.keep(nodes)
        self._degrees = self._degrees[nodes[nodes < len(self._degrees)]]
        if self._index is None:
            self._near.refill(self._near.keep(node_now))
        else:
            self._index.keep(node_now)
        if self._near.count < MANY // 2:
            self._index = None
        self._link_all()

    def _link_all(self) -> None:
        """All that is held for each node, from the edges and lists."""
        count = self._n_nodes
        for column in (self._slot_of, self._first_edge, self._last_edge):
            column.data[:count] = -1
        self._slot_of.data[self._near.nodes] = np.arange(self._near.count)
        self._link_edges(0)
        self._note_all_farthest()

    def rescale(self, change: Change) -> None:
        """Distances are those of the moved rows; degrees are not known before they are measured again."""
        self._adjacency, self._degrees = None, self._degrees[:0]
        if self._index is None:
            self._near.rescale()
        else:
            self._index.rescale()
        self._note_all_farthest()

    def nbytes(self, sizes: Sizes) -> float:
        """A slot a context and how far it lists, the edges given (as many a context as so far), Â and the index."""
        edges = sizes._replace(nodes=self._expected_edges(sizes))
        adjacency = 8.0 * (self._expected_nonzeros(sizes) + sizes.nodes)
        held = self._near.nbytes(sizes) + self._by_node.nbytes(sizes) + self._edges.nbytes(edges) + adjacency
        held += 8.0 * with_spare(sizes.nodes) + 4.0 * sizes.nodes * (sizes.nodes >= MANY)
        many = self._near.count * sizes.nodes // max(self._n_nodes, 1) >= MANY
        return held + NeighborIndex(self._contexts, self._near).nbytes(sizes) if many else held

    def working_nbytes(self, sizes: Sizes) -> float:
        """The largest of: weights and degrees while Â is made; the index beside the last; an eviction; `near`."""
        making = 8.0 * self._expected_nonzeros(sizes) + 28.0 * sizes.nodes
        return max(making, self._near.working_nbytes(sizes), 8.0 * self._expected_nonzeros(sizes))

    def _expected_edges(self, sizes: Sizes) -> int:
        return self._edges.count * sizes.nodes // max(self._n_nodes, 1)

    def _expected_nonzeros(self, sizes: Sizes) -> int:
        """Entries of Â: the diagonal, and two for an edge; no two contexts list each other at worst."""
        return (1 + 2 * self._k) * sizes.nodes + 2 * self._expected_edges(sizes)

    def state_dict(self) -> dict[str, Any]:
        """Slots with their neighbors, edges, degrees and the index; Â and what else a node has are made from these."""
        edges = self._edges.state_dict()
        del edges["following"]
        index = None if self._index is None else self._index.state_dict()
        return {"slots": self._near.state_dict(), "edges": edges, "index": index, "degrees": self._degrees}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take them over: slots and edges name nodes."""
        edges = state["edges"]
        self._near.load_state_dict(state["slots"], n_nodes)
        self._index, index = None, state.get("index")  # a file of before has none
        if index is not None:
            self._index = NeighborIndex(self._contexts, self._near)
            self._index.load_state_dict(index, n_nodes)
        degrees = state.get("degrees", np.zeros(0, np.float32))  # a file of before has none
        require(is_array(degrees, np.float32, -1) and len(degrees) <= n_nodes, "degrees do not fit")
        require(((degrees >= 1.0) & np.isfinite(degrees)).all(), "degrees are not sound")
        self._degrees = degrees
        count = len(edges["sources"])
        self._edges.load_state_dict(edges | {"following": np.zeros((count, 2), np.int64)}, 0, count)
        require(in_range(edges["sources"], 0, n_nodes) and in_range(edges["targets"], 0, n_nodes), "edges do not fit")
        require((edges["sources"] != edges["targets"]).all(), "a context is its own neighbor")
        self._by_node.keep(np.arange(0))
        self._by_node.extend(n_nodes)
        self._adjacency = None
        self._link_all()
