"""Ridge regressions over embeddings that move: a few are made again at each step, and the sums follow exactly."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.encoder import GraphEncoder
from taciturn.agents.parts.part import Array, Part, Scores, Sizes
from taciturn.agents.table import NodeTable
from taciturn.kernels import minibatch
from taciturn.kernels.csr import CSR

PIECE = 256
"""How many embeddings are made at once."""

MEAN_DEGREE = 10
"""About how many entries a row of Â has."""

TURN = 4
"""At each arrival the embeddings of so many times fewer contexts than a batch has are made again."""


class EmbeddedRidge(Part):
    """One ridge regression an arm over the embeddings of its own network, in time that does not grow.

    The table has columns for the hidden layers and embeddings of all contexts (T, K, L). A new context and its
    neighbors have theirs made when it arrives; of all others a few are made again then, in turn. The sums
    ``Σ g gᵀ`` (K, L, L) and ``Σ r g`` (K, L) over what is held are corrected for what has moved. They are whole
    numbers (see `minibatch.UNIT`), so they are exactly those of the columns, and files need not hold them.

    Arguments:
        table: the contexts.
        encoder: the networks.
        rewards: the column (T, K) of rewards, NaN where an arm has no example.
        hidden: L.
        batch_size: up to so many contexts, all embeddings are made again at each arrival; beyond, a quarter of it are.
    """

    SAVED: ClassVar[dict[str, str]] = {"next_refreshed": "_next"}

    def __init__(self, table: NodeTable, encoder: GraphEncoder, rewards: Array, hidden: int, batch_size: int) -> None:
        super().__init__()
        self._contexts, self._encoder, self._rewards, self._batch_size = table.contexts, encoder, rewards, batch_size
        self._hidden = table.column("hidden", np.float32, "arm", hidden)
        self._embeddings = table.column("embeddings", np.float32, "arm", hidden)
        self._size = hidden
        self._squares, self._products = self._no_sums(0)
        self._next = 0

    def _no_sums(self, n_arms: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.zeros((n_arms, self._size, self._size), np.int64), np.zeros((n_arms, self._size), np.int64)

    # What is learned.

    def add(self, nodes: NDArray[np.int64], sign: int = 1) -> None:
        """Add the examples of some contexts to the sums, or take them back."""
        minibatch.add_examples(self._embeddings.data, self._rewards.data, nodes, sign, self._squares, self._products)

    def set_rewards(self, node: int, arms: NDArray[np.int64], rewards: NDArray[np.float64] | float) -> None:
        """Give a context rewards of some arms in place of those it had; NaN is none."""
        here = np.array([node])
        self.add(here, -1)
        self._rewards.data[node, arms] = rewards
        self.add(here)

    def evicting(self, nodes: NDArray[np.int64]) -> None:
        """Take these contexts back; whose turn it is has another number then."""
        self.add(nodes, -1)
        self._next -= int(np.searchsorted(nodes, self._next))

    @property
    def sums(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``Σ g gᵀ`` (K, L, L) and ``Σ r g`` (K, L), in units of 1/UNIT²."""
        return self._squares, self._products

    # Embeddings.

    def refresh(self, node: int) -> None:
        """Make the embeddings of the next few contexts again, and those of a new one and its neighbors."""
        adjacency = self._encoder.snapshot()
        count = len(adjacency.indptr) - 1
        turn = count if count <= self._batch_size else -(-self._batch_size // TURN)
        rows = (self._next + np.arange(turn)) % count
        self._next = int(rows[-1]) + 1
        self._move(adjacency, np.arange(count), rows)
        members, around = self._encoder.graph.around(node, 2)
        self._move(around, members, np.flatnonzero(np.diff(around.indptr)))

    def after_warm_start(self) -> None:
        """Make all embeddings."""
        nodes = np.arange(self._contexts.count)
        self._move(self._encoder.graph.adjacency, nodes, nodes)

    def _move(self, adjacency: CSR, members: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Make the embeddings of some rows of an adjacency again, whose nodes are `members`; the sums follow."""
        first_layer, contexts = self._encoder.first_layer, self._contexts.rows
        hidden, embeddings = (column.data.reshape(len(column.data), -1) for column in (self._hidden, self._embeddings))
        pieces = [rows[first : first + PIECE] for first in range(0, len(rows), PIECE)]
        self.add(members[rows], -1)
        for piece in pieces:
            hidden[members[piece]] = minibatch.hidden_layers(adjacency, members, piece, contexts, first_layer)
        for piece in pieces:
            embeddings[members[piece]] = minibatch.embed(adjacency, members, piece, hidden)
        self.add(members[rows])

    def embedding(self, node: int) -> NDArray[np.float32]:
        """The embedding of a context (K, L), as it was last made."""
        embedding: NDArray[np.float32] = self._embeddings.data[node]
        return embedding

    @property
    def embeddings(self) -> NDArray[np.float32]:
        """All of them (T, K, L)."""
        return self._embeddings.data[: self._contexts.count]

    def solve(self, g: NDArray[np.float64], ridge: float, piece: int) -> Scores:
        """``θ_k = A_k⁻¹b_k`` and ``A_k⁻¹g_k`` of all arms, (K, L) each; A (L, L) is made for so many at a time."""
        solved = np.empty((*g.shape, 2))
        for first in range(0, len(g), piece):
            arms = slice(first, first + piece)
            A = self._squares[arms] * minibatch.UNIT**-2
            A[:, range(self._size), range(self._size)] += ridge
            b = self._products[arms] * minibatch.UNIT**-2
            solved[arms] = np.linalg.solve(A, np.stack([b, g[arms]], axis=-1))
        return solved[..., 0], solved[..., 1]

    # State.

    def allocate(self, n_arms: int, n_features: int) -> None:
        """No examples."""
        self._squares, self._products = self._no_sums(n_arms)

    def add_arm(self, like: int | None) -> None:
        """One arm more, with the examples of another or with none."""
        more = self._no_sums(1) if like is None else (self._squares[[like]], self._products[[like]])
        self._squares = np.concatenate([self._squares, more[0]])
        self._products = np.concatenate([self._products, more[1]])

    def nbytes(self, sizes: Sizes) -> float:
        """The sums."""
        return 8.0 * sizes.arms * self._size * (self._size + 1)

    def working_nbytes(self, sizes: Sizes) -> float:
        """A piece of the hidden layers, and the entries that they are made from; where all are made, their numbers."""
        piece, entries = min(sizes.nodes, PIECE), sizes.entries / max(sizes.nodes, 1)
        return piece * (4.0 * sizes.arms * self._size + 8.0 * MEAN_DEGREE * entries) + 24.0 * sizes.nodes

    def replaced_nbytes(self) -> float:
        """The sums."""
        return float(self._squares.nbytes)

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take over which context is next; the sums are made from the columns."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        self._squares, self._products = self._no_sums(n_arms)
        self.add(np.arange(n_nodes))
