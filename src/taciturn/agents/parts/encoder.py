"""A stack of graph networks over an agent's contexts, trained a little at every arrival."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.parts.part import Part, Sizes, require
from taciturn.agents.parts.snapshot import AdjacencySnapshot
from taciturn.agents.table import NodeTable
from taciturn.features.scale import Change
from taciturn.kernels import gcn, minibatch
from taciturn.kernels.csr import CSR
from taciturn.validate import MANY, check_number

MOMENTS = ("first", "second")

MAX_PENDING_STEPS = 100
"""Training steps that can be deferred; more are not caught up on."""

FANS = 3, 4
"""How many neighbors of a labelled context of a batch take part at most, and how many of theirs."""

MAX_DRAWS = 8
"""How many contexts are drawn for a batch at most, for each that it can have: few may have a label."""


@dataclass(kw_only=True, eq=False)
class NetworkSettings:
    """The parameters of graph networks; the defaults are the paper's.

    Arguments:
        hidden: units in the hidden layer.
        learning_rate, weight_decay: Adam's step, and the L2 penalty on the first layer's weights.
        dropout: the share of inputs and of hidden units left out of each training step.
        neighbors: k of the k-nearest-neighbor graph, where no graph is given.
        start_epochs, steps_per_arrival: training steps on the labelled start, and at every context after it.
        batch_size: how many contexts a training step takes once there are more: a quarter of them labelled ones, and a
            sample of their neighbors. Then a step takes as long however many there are. None takes all, as the paper.
    """

    hidden: int = 16
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    dropout: float = 0.5
    neighbors: int = 5
    start_epochs: int = 100
    steps_per_arrival: int = 1
    batch_size: int | None = None

    def network_settings(self) -> "NetworkSettings":
        """These settings alone, checked, without the rest of an agent."""
        check_number("hidden", self.hidden, 1, 4096, whole=True)
        check_number("learning_rate", self.learning_rate, 0, 100)
        check_number("weight_decay", self.weight_decay, 0, 100)
        check_number("dropout", self.dropout, 0, 0.99)
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)
        check_number("start_epochs", self.start_epochs, 0, 1_000_000, whole=True)
        check_number("steps_per_arrival", self.steps_per_arrival, 0, 10_000, whole=True)
        if self.batch_size is not None:
            check_number("batch_size", self.batch_size, 1, MANY, whole=True)
        return NetworkSettings(**{field.name: getattr(self, field.name) for field in fields(NetworkSettings)})


class GraphEncoder(Part):
    """Graph networks over one graph: either one with a class per arm, or one binary network per arm.

    ``labels`` is a column (T,) or (T, H) of the table: the class that each network is trained with, −1 for none. The
    weights of H networks with L hidden units and C classes are W1 (D, H, L) and W2 (H, L, C).

    Arguments:
        table: the contexts.
        settings: the networks' parameters.
        rng: the weights, and the dropout of every training step.
        per_arm: a binary network for each arm (H = K, C = 2); otherwise one for all (H = 1, C = K).
    """

    SAVED: ClassVar[dict[str, str]] = {"steps": "_steps", "pending_steps": "_pending_steps"}

    def __init__(self, table: NodeTable, settings: NetworkSettings, rng: np.random.Generator, *, per_arm: bool) -> None:
        super().__init__()
        self._contexts, self._settings, self._rng, self._per_arm = table.contexts, settings, rng, per_arm
        self.graph = self.child("graph", NodeGraph(table.contexts, settings.neighbors))
        self._snapshot: AdjacencySnapshot | None = None
        if settings.batch_size is not None:
            self._snapshot = self.child("snapshot", AdjacencySnapshot(self.graph))
        heads, classes, hidden = ("arm", 2, settings.hidden) if per_arm else (1, "arm", settings.hidden)
        label_axes = ("arm",) if per_arm else ()
        self.labels = table.column("labels", np.int32, *label_axes, fill=-1, below=classes)
        axes: tuple[tuple[str | int, ...], ...] = (("feature", heads, hidden), (heads, hidden, classes))
        self._w1, self._w2 = (self.array(f"w{i}", np.float32, *axes[i - 1]) for i in (1, 2))
        self._moments = [  # Adam's, of W1 and of W2; a new arm's begin anew
            tuple(self.array(f"{name}_moment_w{i}", np.float32, *axes[i - 1], new_arm=0) for name in MOMENTS)
            for i in (1, 2)
        ]
        self._steps = 0
        self._pending_steps = 0
        self._workspace: gcn.Workspace | None = None
        self._label_counts: NDArray[np.int64] | None = None  # of each head, and of contexts with any; None if not known

    # Training.

    def add_context(self, node: int, neighbors: list[int] | None) -> None:
        """Let a context join the graph, unlabelled."""
        self.graph.add(node, neighbors)

    def schedule_training(self) -> None:
        """Train as an arrival asks for, or defer it."""
        if self.deferred:
            self._pending_steps = min(self._pending_steps + self._settings.steps_per_arrival, MAX_PENDING_STEPS)
        else:
            self.train(self._settings.steps_per_arrival)

    def train_step(self) -> bool:
        """A step that was deferred; False if there is none."""
        if self._pending_steps == 0:
            return False
        self._pending_steps -= 1
        self.train(1)
        return True

    def after_warm_start(self) -> None:
        """Train on the labelled start."""
        self.train(self._settings.start_epochs)

    def train(self, steps: int) -> None:
        """Gradient steps on all labels, or on batches of them; nothing happens while there are none."""
        if steps == 0 or not self._counts()[-1]:
            return
        w1, w2, rate = self._flat_w1, self._w2.data, self._settings.learning_rate
        for grads in islice(self._batch_gradients() if self._in_batches else self._full_gradients(), steps):
            self._steps += 1
            for weights, grad, (first, second) in zip((w1, w2), grads, self._moments, strict=True):
                flat = weights.ravel(), grad.ravel(), first.data.ravel(), second.data.ravel()
                gcn.adam(*flat, self._steps, rate)

    @property
    def _in_batches(self) -> bool:
        """Whether there are more contexts than a training step takes."""
        return self._settings.batch_size is not None and self._contexts.count > self._settings.batch_size

    def _full_gradients(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """The gradients of W1 and W2 over all labels, each time with another dropout."""
        count, settings = self._contexts.count, self._settings
        work = self._sized_workspace(count, self._contexts.n_entries)
        given = self.graph.adjacency, self._contexts.rows, self._label_rows[:count], self._flat_w1, self._w2.data
        while True:
            keys = self._rng.bit_generator.random_raw(2)  # 64 bits each, in a tenth of the time of `integers`
            yield gcn.gradients(*given, settings.weight_decay, settings.dropout, keys, work)

    def _batch_gradients(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """The same, estimated from a few labelled contexts and a sample of their neighbors."""
        settings, adjacency, labels = self._settings, self.snapshot(), self._label_rows
        work, w2_t = self._sized_workspace(0, 0), np.empty_like(self._w2.data.transpose(0, 2, 1), order="C")
        grad2_t = np.empty_like(w2_t)
        while True:
            w2_t[...] = self._w2.data.transpose(0, 2, 1)
            seeds, scales = self._draw_batch(len(adjacency.indptr) - 1)
            key = np.uint64(self._rng.bit_generator.random_raw())
            given = adjacency, self._contexts.rows, labels, seeds, scales, self._flat_w1, w2_t
            minibatch.gradients(*given, settings.weight_decay, settings.dropout, FANS, key, work.grad1, grad2_t)
            yield work.grad1, np.ascontiguousarray(grad2_t.transpose(0, 2, 1))

    def _draw_batch(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Contexts with labels, out of the first `count`, and how much a label of each head counts (H,).

        A label counts as many times as there are labels for one that is drawn, on average, divided by their number: so
        the loss is that of `gcn.gradients` on average, also for heads that have few labels.
        """
        seeds, counts = max((self._settings.batch_size or count) // (1 + FANS[0]), 1), self._counts()
        wanted = -(-seeds * self._contexts.count // max(int(counts[-1]), 1))
        draws = min(count, wanted, MAX_DRAWS * seeds)
        drawn = self._rng.choice(count, draws, replace=False, shuffle=False)
        scales = self._contexts.count / (draws * np.maximum(counts[:-1], 1.0))
        return drawn[(self._label_rows[drawn] >= 0).any(axis=1)], scales.astype(np.float32)

    @property
    def _flat_w1(self) -> NDArray[np.float32]:
        return self._w1.data.reshape(len(self._w1.data), -1)

    def _sized_workspace(self, count: int, entries: int) -> gcn.Workspace:
        """Memory for passes over so many nodes and entries, with some to spare when it must grow; little for none."""
        work = self._workspace
        if (
            work is None
            or (len(work.hidden) == 0) != (count == 0)
            or not (len(work.hidden) >= count and len(work.values) > entries)
        ):
            sizes = (count * 5 // 4 + 16, entries * 5 // 4 + 256) if count else (0, 0)
            self._workspace = work = gcn.new_workspace(*sizes, self._flat_w1, self._w2.data)
        return work

    # Labels.

    def label(self, node: int, heads: NDArray[np.int64] | int, classes: NDArray[Any] | int) -> None:
        """Train some heads with these classes of a context from now on; −1 is none."""
        row, counts = self._label_rows[node], self._label_counts
        before = row >= 0
        row[heads] = classes
        if counts is not None:
            after = row >= 0
            counts[:-1] += after.astype(np.int64) - before
            counts[-1] += int(after.any()) - int(before.any())

    @property
    def _label_rows(self) -> NDArray[np.int32]:
        """The labels (T, H), with spare rows."""
        return self.labels.data.reshape(len(self.labels.data), self._w1.data.shape[1])

    def _counts(self) -> NDArray[np.int64]:
        """How many contexts have a label of each head (H,), and of any: H + 1 numbers."""
        if self._label_counts is None:
            known = self._label_rows[: self._contexts.count] >= 0
            self._label_counts = np.append(known.sum(axis=0), known.any(axis=1).sum())
        return self._label_counts

    # Reading.

    def snapshot(self) -> CSR:
        """``Â`` of all contexts but the latest few; see `AdjacencySnapshot`."""
        return self.graph.adjacency if self._snapshot is None else self._snapshot.up_to(self._contexts.count)

    @property
    def first_layer(self) -> NDArray[np.float32]:
        """W1 as a matrix (D, H·L)."""
        return self._flat_w1

    def embeddings(self) -> NDArray[np.float32]:
        """``Â ReLU(ÂX W1)`` (T, H, L) of all nodes; valid until the next call."""
        return self._embedded(self.graph.mask())

    def _embedded(self, rows: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The same of some rows, with any content in the others."""
        work = self._sized_workspace(self._contexts.count, self._contexts.n_entries)
        flat = gcn.embed(self.graph.adjacency, self._contexts.rows, self._flat_w1, rows, work)
        return flat.reshape(self._contexts.count, *self._w1.data.shape[1:])

    def embedding(self, node: int) -> NDArray[np.float32]:
        """``Â ReLU(ÂX W1)`` (H, L) of one node."""
        if self._settings.batch_size is None:
            return np.asarray(self._embedded(self.graph.mask(node))[node])
        members, around = self.graph.around(node, 2)
        near = slice(0, int(around.indptr[1]))  # the first row: the node and its neighbors
        rows = around.columns[near].astype(np.int64)
        hidden = minibatch.hidden_layers(around, members, rows, self._contexts.rows, self._flat_w1)
        return np.asarray(around.values[near] @ hidden).reshape(self._w1.data.shape[1:])

    def probabilities(self, embedding: NDArray[np.float32]) -> NDArray[np.float64]:
        """Class probabilities (H, C) of a context with an embedding."""
        logits = np.einsum("hl,hlc->hc", embedding, self._w2.data).astype(float)
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    # Weights.

    def _glorot(self, shape: tuple[int, ...], fans: int) -> NDArray[np.float64]:
        """Uniform weights of variance 2/fans (Glorot and Bengio 2010)."""
        limit = np.sqrt(6.0 / fans)
        return self._rng.uniform(-limit, limit, shape)

    def _fill_glorot(self, weights: NDArray[np.float32], fans: int) -> None:
        """Draw all weights, row by row: they are drawn in double precision, which takes twice their memory."""
        for row in weights:
            row[...] = self._glorot(row.shape, fans)

    def allocate(self, n_arms: int, n_features: int) -> None:
        """Random weights."""
        super().allocate(n_arms, n_features)
        w1, w2, hidden = self._w1.data, self._w2.data, self._settings.hidden
        self._fill_glorot(w1, n_features + hidden)
        self._fill_glorot(w2, hidden + w2.shape[2])

    def add_features(self, n_features: int) -> None:
        """New rows of the first layer."""
        before, self._workspace = len(self._w1.data), None
        super().add_features(n_features)
        self._fill_glorot(self._w1.data[before:], n_features + self._settings.hidden)

    def add_arm(self, like: int | None) -> None:
        """A network or a class more: fresh, or with the weights of another."""
        self._workspace = self._label_counts = None
        super().add_arm(like)
        if like is None:
            w1, w2, hidden = self._w1.data, self._w2.data, self._settings.hidden
            if self._per_arm:
                w1[:, -1] = self._glorot((len(w1), hidden), len(w1) + hidden)
                w2[-1] = self._glorot(w2.shape[1:], hidden + w2.shape[2])
            else:
                w2[:, :, -1] = self._glorot(w2.shape[:2], hidden + w2.shape[2])

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all nodes but these."""
        super().keep(nodes)
        self._label_counts = None

    def rescale(self, change: Change) -> None:
        """The first layer says the same of the moved contexts: ``W1' = S⁻ᵀW1``."""
        for part in self._children.values():
            part.rescale(change)
        w1 = self._flat_w1
        w1[change.slots] = change.of_weights(w1[change.slots])

    def nbytes(self, sizes: Sizes) -> float:
        """Weights and moments, the graph, and the `Workspace` of the kernels."""
        heads, classes = (sizes.arms, 2) if self._per_arm else (1, sizes.arms)
        units = heads * self._settings.hidden
        gradients = 4.0 * units * (sizes.features + classes)
        held = super().nbytes(sizes) + gradients
        if self._settings.batch_size is not None and sizes.nodes > self._settings.batch_size:
            return held
        return held + 8.0 * sizes.nodes * (units + heads * classes) + 8.0 * sizes.entries

    def released_at(self) -> list[int]:
        """The number of contexts from which on it trains in batches."""
        return [*super().released_at(), *([] if self._settings.batch_size is None else [self._settings.batch_size])]

    def working_nbytes(self, sizes: Sizes) -> float:
        """A training step's masks and offsets of rows, and two copies of W2; or the hidden layers of a batch."""
        heads, classes = (sizes.arms, 2) if self._per_arm else (1, sizes.arms)
        units, batch_size = heads * self._settings.hidden, self._settings.batch_size
        if batch_size is None or sizes.nodes <= batch_size:
            step = (heads + 12.0) * sizes.nodes
        else:
            entries = (1 + FANS[1]) * sizes.entries / sizes.nodes  # of a row, which are copied where there are too many
            step = batch_size * (5.0 * units + 16.0 * entries)
        return max(step + 8.0 * units * classes, super().working_nbytes(sizes))

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take weights and counts over."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        self._workspace = self._label_counts = None
        require(min(self._steps, self._pending_steps) >= 0, "steps are not sound")
