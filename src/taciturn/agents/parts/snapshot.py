"""The adjacency of a growing graph as it was a little while ago, so that it is seldom made."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.parts.part import Part, Sizes, in_range, is_array, require
from taciturn.features.scale import Change
from taciturn.kernels.csr import CSR

SHARE = 256
"""Â is made again once there are so many times fewer new contexts than it has: at a constant cost for each."""


class AdjacencySnapshot(Part):
    """Rows of ``Â`` of all contexts but the latest few, made again each time that the contexts have grown by 1/SHARE.

    Arguments:
        graph: the graph.
    """

    def __init__(self, graph: NodeGraph) -> None:
        super().__init__()
        self._graph = graph
        self._adjacency: CSR | None = None

    def up_to(self, count: int) -> CSR:
        """``Â`` of the first contexts of `count`, as it was when the last of them came."""
        held = self._adjacency
        if held is None or count - (len(held.indptr) - 1) > count // SHARE:
            self._adjacency = held = self._graph.adjacency
        return held

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Contexts were evicted: it is made again."""
        self._adjacency = None

    def rescale(self, change: Change) -> None:
        """Distances have changed: it is made again."""
        self._adjacency = None

    def working_nbytes(self, sizes: Sizes) -> float:
        """The last one, while the next is made: the graph counts one."""
        return 0.0 if self._adjacency is None else float(sum(array.nbytes for array in self._adjacency))

    def state_dict(self) -> dict[str, Any]:
        """Its arrays; none where it is to be made."""
        return {} if self._adjacency is None else self._adjacency._asdict()

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take the rows over; each has its diagonal first."""
        if not state:
            self._adjacency = None
            return
        indptr, columns, values = held = CSR(state["indptr"], state["columns"], state["values"])
        require(is_array(indptr, np.int64, -1) and 2 <= len(indptr) <= n_nodes + 1, "the adjacency does not fit")
        require(indptr[0] == 0 and (np.diff(indptr) > 0).all(), "a row of the adjacency has no diagonal")
        size, rows = int(indptr[-1]), len(indptr) - 1
        require(is_array(columns, np.int32, size) and in_range(columns, 0, rows), "the adjacency does not fit")
        require((columns[indptr[:-1]] == np.arange(rows)).all(), "a row of the adjacency has no diagonal")
        require(is_array(values, np.float32, size) and np.isfinite(values).all(), "the adjacency is not finite")
        self._adjacency = held
