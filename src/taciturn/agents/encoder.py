"""A stack of graph networks over an agent's contexts, trained a little at every arrival."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.contexts import RowStore, keep_rows, room_for
from taciturn.agents.graph import ContextGraph
from taciturn.agents.storage import fits, storable, within
from taciturn.kernels import gcn
from taciturn.validate import check_number

MOST_OWED = 100
"""Training steps that can be put off; what is more is not caught up on."""


@dataclass(kw_only=True, eq=False)
class NetworkSettings:
    """The parameters of graph networks; the defaults are the paper's.

    Arguments:
        hidden: units in the hidden layer.
        learning_rate, weight_decay: Adam's step, and the pull of the first layer's weights towards zero.
        dropout: the share of inputs and of hidden units left out of each training step.
        neighbors: k of the k-nearest-neighbour graph, where no graph is given.
        start_epochs, steps_per_arrival: training steps on the labelled start, and at every context after it.
    """

    hidden: int = 16
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    dropout: float = 0.5
    neighbors: int = 5
    start_epochs: int = 100
    steps_per_arrival: int = 1

    def check_network(self) -> None:
        """Refuse wrong parameters."""
        check_number("hidden", self.hidden, 1, 4096, whole=True)
        check_number("learning_rate", self.learning_rate, 0, 100)
        check_number("weight_decay", self.weight_decay, 0, 100)
        check_number("dropout", self.dropout, 0, 0.99)
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)
        check_number("start_epochs", self.start_epochs, 0, whole=True)
        check_number("steps_per_arrival", self.steps_per_arrival, 0, whole=True)

    def estimate_network(self, heads: int, classes: int, dimension: int, nodes: int) -> float:
        """Bytes for the weights with their moments, and for the graph with its labels."""
        weights = heads * self.hidden * (dimension + classes)
        return 12.0 * weights + nodes * (4.0 * heads + 12.0 * self.neighbors + 20.0)


@storable
class GraphEncoder:
    """H networks with C classes each over one graph; `labels` (T, H) says what each was told, −1 for nothing."""

    _remade = ("_room",)  # not worth a place in a file

    def __init__(
        self, settings: NetworkSettings, rows: RowStore, heads: int, classes: int, rng: np.random.Generator
    ) -> None:
        self._settings = settings
        self._rng = rng
        self._heads = heads
        self._contexts = rows
        self._room: gcn.Workspace | None = None
        self.graph = ContextGraph(rows, settings.neighbors)
        self.labels = np.zeros((0, heads), np.int32)
        self._nodes = 0
        self._steps = 0
        self._owed = 0  # training steps that were put off
        self._w1 = self._glorot(rows.dimension, rows.dimension + settings.hidden, heads * settings.hidden)
        self._w2 = self._glorot(heads * settings.hidden, settings.hidden + classes, classes)
        self._w2 = self._w2.reshape(heads, settings.hidden, classes)
        self._moments = [np.zeros_like(weights) for weights in (self._w1, self._w1, self._w2, self._w2)]

    def _sound(self) -> bool:
        heads, hidden, classes = self._w2.shape
        dimension, units = self._contexts.dimension, heads * hidden
        weights = [((dimension, units), 2), ((heads, hidden, classes), 2)]
        moments = [shape for shape, twice in weights for _ in range(twice)]
        return (
            (heads, hidden) == (self._heads, self._settings.hidden)
            and self._w1.shape == (dimension, units)
            and fits(self._w1, np.float32, *self._w1.shape)
            and fits(self._w2, np.float32, *self._w2.shape)
            and [held.shape for held in self._moments] == moments
            and all(fits(held, np.float32, *held.shape) for held in self._moments)
            and self._nodes == self._contexts.count
            and fits(self.labels, np.int32, self._nodes, heads)
            and within(self.labels, -1, classes)
        )

    @property
    def classes(self) -> int:
        """How many classes each network has."""
        return int(self._w2.shape[2])

    @property
    def heads(self) -> int:
        """How many networks there are."""
        return self._heads

    def _glorot(self, rows: int, fans: int, columns: int) -> NDArray[np.float32]:
        """Uniform weights of variance 2/fans (Glorot and Bengio 2010)."""
        limit = np.sqrt(6.0 / fans)
        return self._rng.uniform(-limit, limit, (rows, columns)).astype(np.float32)

    def widen(self, dimension: int) -> None:
        """New rows of the first layer for features that were not there before."""
        more = dimension - len(self._w1)
        fresh = self._glorot(more, dimension + self._settings.hidden, self._w1.shape[1])
        self._grow(0, fresh, 0, self._w2[:0])

    def arrive(self, node: int, neighbors: list[int] | None) -> None:
        """Let a context join the graph, unlabelled."""
        self.graph.add(node, neighbors)
        self.labels = room_for(self.labels, node + 1, -1)
        self._nodes = node + 1

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Forget all contexts but these, which are renumbered in their order."""
        self.graph.keep(kept)
        keep_rows(self.labels, kept, -1)
        self._nodes = len(kept)

    def add_head(self, like: int | None) -> None:
        """One network more: fresh, or a copy of another with its labels; its optimiser begins anew."""
        hidden = self._settings.hidden
        rows, _, classes = len(self._w1), *self._w2.shape[1:]
        if like is None:
            first = self._glorot(rows, rows + hidden, hidden)
            second = self._glorot(hidden, hidden + classes, classes)[None]
            told = np.full((len(self.labels), 1), -1, np.int32)
        else:
            first = self._w1[:, like * hidden : (like + 1) * hidden]
            second, told = self._w2[like : like + 1], self.labels[:, like : like + 1]
        self._grow(1, first, 0, second)
        self.labels = np.concatenate([self.labels, told], axis=1)
        self._heads += 1

    def add_class(self, like: int | None) -> None:
        """One class more for every network: fresh, or with the weights of another."""
        heads, hidden, classes = self._w2.shape
        if like is None:
            fresh = self._glorot(heads * hidden, hidden + classes + 1, 1).reshape(heads, hidden, 1)
        else:
            fresh = self._w2[:, :, like : like + 1]
        self._grow(1, self._w1[:, :0], 2, fresh)

    def _grow(self, axis: int, first: NDArray[np.float32], axis_2: int, second: NDArray[np.float32]) -> None:
        """Put new weights behind those of both layers; nothing has moved them yet."""
        self._room = None
        self._w1 = np.ascontiguousarray(np.concatenate([self._w1, first], axis=axis))
        self._w2 = np.ascontiguousarray(np.concatenate([self._w2, second], axis=axis_2))
        for i, (new, along) in enumerate([(first, axis)] * 2 + [(second, axis_2)] * 2):
            self._moments[i] = np.concatenate([self._moments[i], np.zeros_like(new)], axis=along)

    def train_now_or_later(self, *, later: bool) -> None:
        """The steps that an arrival asks for; of those put off, only so many as make a difference are remembered."""
        if later:
            self._owed = min(self._owed + self._settings.steps_per_arrival, MOST_OWED)
        else:
            self.train(self._settings.steps_per_arrival)

    def train_step(self) -> bool:
        """A step that was put off; False if there is none."""
        if self._owed == 0:
            return False
        self._owed -= 1
        self.train(1)
        return True

    def train(self, steps: int) -> None:
        """Gradient steps on all labels there are; nothing happens while there are none."""
        labels = self.labels[: self._nodes]
        if steps == 0 or not (labels >= 0).any():
            return
        settings = self._settings
        adjacency, contexts, room = self.graph.adjacency, self._contexts.rows, self._working_room()
        for _ in range(steps):
            keys = self._rng.integers(0, 2**64, size=2, dtype=np.uint64)
            grads = gcn.gradients(
                adjacency, contexts, labels, self._w1, self._w2, settings.weight_decay, settings.dropout, keys, room
            )
            self._steps += 1
            for i, (weights, grad) in enumerate(zip((self._w1, self._w2), grads, strict=True)):
                first, second = self._moments[2 * i : 2 * i + 2]
                flat = weights.ravel(), grad.ravel(), first.ravel(), second.ravel()
                gcn.adam(*flat, self._steps, settings.learning_rate)

    def embeddings(self, node: int | None = None) -> NDArray[np.float32]:
        """``Â ReLU(ÂX W1)`` (T, H, L) of all nodes, or of one with zeros elsewhere; valid until the next call."""
        rows = self.graph.mask(node)
        flat = gcn.embed(self.graph.adjacency, self._contexts.rows, self._w1, rows, self._working_room())
        return flat.reshape(self._nodes, self._heads, self._settings.hidden)

    def _working_room(self) -> gcn.Workspace:
        """Memory for all nodes there are, with some to spare when it must grow."""
        entries = len(self._contexts.rows.columns)
        room = self._room
        if room is None or len(room.hidden) < self._nodes or len(room.values) <= entries:
            self._room = room = gcn.new_workspace(self._nodes * 5 // 4 + 16, entries * 5 // 4 + 256, self._w1, self._w2)
        return room

    def probabilities(self, node: int) -> NDArray[np.float64]:
        """What each network says of a context now: class probabilities (H, C)."""
        logits = np.einsum("hl,hlc->hc", self.embeddings(node)[node], self._w2).astype(float)
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))
