"""A stack of graph networks over an agent's contexts, trained a little at every arrival."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.parts.part import Part, Sizes, require
from taciturn.agents.table import NodeTable
from taciturn.features.scale import Change
from taciturn.kernels import gcn
from taciturn.validate import check_number

MOMENTS = ("first", "second")

MAX_PENDING_STEPS = 100
"""Training steps that can be deferred; more are not caught up on."""


@dataclass(kw_only=True, eq=False)
class NetworkSettings:
    """The parameters of graph networks; the defaults are the paper's.

    Arguments:
        hidden: units in the hidden layer.
        learning_rate, weight_decay: Adam's step, and the L2 penalty on the first layer's weights.
        dropout: the share of inputs and of hidden units left out of each training step.
        neighbors: k of the k-nearest-neighbor graph, where no graph is given.
        start_epochs, steps_per_arrival: training steps on the labelled start, and at every context after it.
    """

    hidden: int = 16
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    dropout: float = 0.5
    neighbors: int = 5
    start_epochs: int = 100
    steps_per_arrival: int = 1

    def network_settings(self) -> "NetworkSettings":
        """These settings alone, checked, without the rest of an agent."""
        check_number("hidden", self.hidden, 1, 4096, whole=True)
        check_number("learning_rate", self.learning_rate, 0, 100)
        check_number("weight_decay", self.weight_decay, 0, 100)
        check_number("dropout", self.dropout, 0, 0.99)
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)
        check_number("start_epochs", self.start_epochs, 0, 1_000_000, whole=True)
        check_number("steps_per_arrival", self.steps_per_arrival, 0, 10_000, whole=True)
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
        """Gradient steps on all labels; nothing happens while there are none."""
        count, settings = self._contexts.count, self._settings
        labels = self.labels.data[:count].reshape(count, self._w1.data.shape[1])
        if steps == 0 or not (labels >= 0).any():
            return
        adjacency, contexts, work = self.graph.adjacency, self._contexts.rows, self._sized_workspace()
        w1, w2 = self._flat_w1, self._w2.data
        for _ in range(steps):
            keys = self._rng.integers(0, 2**64, size=2, dtype=np.uint64)
            grads = gcn.gradients(
                adjacency, contexts, labels, w1, w2, settings.weight_decay, settings.dropout, keys, work
            )
            self._steps += 1
            for weights, grad, (first, second) in zip((w1, w2), grads, self._moments, strict=True):
                flat = weights.ravel(), grad.ravel(), first.data.ravel(), second.data.ravel()
                gcn.adam(*flat, self._steps, settings.learning_rate)

    @property
    def _flat_w1(self) -> NDArray[np.float32]:
        return self._w1.data.reshape(len(self._w1.data), -1)

    def _sized_workspace(self) -> gcn.Workspace:
        """Memory for all nodes there are, with some to spare when it must grow."""
        count, entries, work = self._contexts.count, len(self._contexts.rows.columns), self._workspace
        if work is None or len(work.hidden) < count or len(work.values) <= entries:
            sizes = count * 5 // 4 + 16, entries * 5 // 4 + 256
            self._workspace = work = gcn.new_workspace(*sizes, self._flat_w1, self._w2.data)
        return work

    # Reading.

    def embeddings(self, node: int | None = None) -> NDArray[np.float32]:
        """``Â ReLU(ÂX W1)`` (T, H, L) of all nodes, or of one with zeros elsewhere; valid until the next call."""
        rows = self.graph.mask(node)
        flat = gcn.embed(self.graph.adjacency, self._contexts.rows, self._flat_w1, rows, self._sized_workspace())
        return flat.reshape(self._contexts.count, *self._w1.data.shape[1:])

    def probabilities(self, node: int) -> NDArray[np.float64]:
        """Class probabilities of a context (H, C)."""
        logits = np.einsum("hl,hlc->hc", self.embeddings(node)[node], self._w2.data).astype(float)
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
        self._workspace = None
        super().add_arm(like)
        if like is None:
            w1, w2, hidden = self._w1.data, self._w2.data, self._settings.hidden
            if self._per_arm:
                w1[:, -1] = self._glorot((len(w1), hidden), len(w1) + hidden)
                w2[-1] = self._glorot(w2.shape[1:], hidden + w2.shape[2])
            else:
                w2[:, :, -1] = self._glorot(w2.shape[:2], hidden + w2.shape[2])

    def rescale(self, change: Change) -> None:
        """The first layer says the same of the moved contexts: ``W1' = S⁻ᵀW1``."""
        self.graph.rescale(change)
        w1 = self._flat_w1
        w1[change.slots] = change.of_weights(w1[change.slots])

    def nbytes(self, sizes: Sizes) -> float:
        """Weights and moments, the graph, and the `Workspace` of the kernels."""
        heads, classes = (sizes.arms, 2) if self._per_arm else (1, sizes.arms)
        units = heads * self._settings.hidden
        layers = 8.0 * sizes.nodes * (units + heads * classes)
        gradients = 4.0 * units * (sizes.features + classes)
        return super().nbytes(sizes) + layers + gradients + 8.0 * sizes.entries

    def working_nbytes(self, sizes: Sizes) -> float:
        """A training step's masks and offsets of rows, and two copies of W2."""
        heads, classes = (sizes.arms, 2) if self._per_arm else (1, sizes.arms)
        step = (heads + 12.0) * sizes.nodes + 8.0 * heads * self._settings.hidden * classes
        return max(step, super().working_nbytes(sizes))

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take weights and counts over."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        self._workspace = None
        require(min(self._steps, self._pending_steps) >= 0, "steps are not sound")
