"""The types that more than one room needs: what flows between them. No algorithms."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidData
from tacit.validate import arm_places, undirected_edges

if TYPE_CHECKING:
    import scipy.sparse as sp

Arm: TypeAlias = Hashable
"""An arm's own name, as its user gave it."""

Context: TypeAlias = "NDArray[Any] | Sequence[float] | Mapping[Hashable, float] | sp.spmatrix | sp.sparray"
"""What an agent decides on: a 1-d array, a sparse matrix of one row, or {feature: value}."""


class SparseRow(NamedTuple):
    """One context as its non-zero entries: sorted columns (n,) and their values (n,)."""

    columns: NDArray[np.int32]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """An agent's answer to one context.

    `scores` (K,) are the expected rewards μ and `widths` (K,) the confidence widths σ, in the order of the agent's
    arms; `propensity` is the probability with which this arm was chosen.
    """

    id: int
    arm: Arm
    scores: NDArray[np.float64]
    widths: NDArray[np.float64]
    propensity: float


class ContextSpace(NamedTuple):
    """What an agent sees: contexts (T, V, L), one view of each for all arms (V = 1) or for every arm, and θ (K, L)."""

    contexts: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Feedback:
    """What became of a decision: a reward from 0 to 1, or None for silence."""

    id: int
    reward: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One step of a stream.

    `position` counts all rows of the stream, the labelled start included; `neighbors` are positions of earlier rows,
    or None where the data set has no graph.
    """

    position: int
    context: sp.csr_matrix
    neighbors: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The labelled rows that a stream begins with; `edges` (E, 2) are pairs of their positions, or None."""

    contexts: sp.csr_matrix
    arms: list[Arm]
    edges: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What happened at each step of one evaluation.

    `choices` (T,) index `arm_names`; `rewards` (T,) are what the agent was told, NaN where it was told nothing;
    `correct` (T,) is the truth that accuracy counts; `step_seconds` (T,) is the time of decide and feedback.
    """

    arm_names: tuple[Arm, ...]
    choices: NDArray[np.int64]
    rewards: NDArray[np.float64]
    correct: NDArray[np.bool_]
    step_seconds: NDArray[np.float64]
    seconds: float
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def arms(self) -> NDArray[Any]:
        """The arms chosen, by name: of whole numbers or of text where all names are, else of Python objects."""
        names = np.empty(len(self.arm_names), dtype=object)
        names[:] = self.arm_names
        kinds = {type(name) for name in self.arm_names}
        return (names.astype(kinds.pop()) if kinds in ({int}, {str}) else names)[self.choices]

    @property
    def accuracy(self) -> float:
        """The share of right arms."""
        return float(self.correct.mean())

    @property
    def running_accuracy(self) -> NDArray[np.float64]:
        """The share of right arms up to each step."""
        return np.cumsum(self.correct) / np.arange(1, len(self.correct) + 1)


class Agent(Protocol):
    """What evaluates, serves and compares needs of an agent: two verbs, and an optional labelled start."""

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that it was made with."""

    @property
    def arm_names(self) -> tuple[Arm, ...]:
        """The arms by name, in the order of a decision's scores."""

    def warm_start(self, X0: Any, y0: Any, edges: Any = None) -> list[int]:
        """Learn from contexts whose right arm is known, and return their ids."""

    def decide(self, x: Context, neighbors: Sequence[int] | None = None) -> Decision:
        """Choose an arm for a context."""

    def feedback(self, id: int, reward: float | None) -> None:
        """Say what came of a decision; None is silence."""


@runtime_checkable
class Told(Protocol):
    """A reference that is told the right arm after each decision, in place of what came of it."""

    def reveal(self, id: int, arm: Arm) -> None:
        """Say which arm would have been right."""


@runtime_checkable
class Imputer(Protocol):
    """Fills in the reward that silence withheld. Contexts are known by their node, arms by their index."""

    def begin(self, rows: Any, arms: int, rng: np.random.Generator) -> None:
        """Start: `rows[node]` is a context, `arms` how many there are, `rng` the only source of randomness."""

    def widen(self, dimension: int) -> None:
        """Contexts have more features from now on."""

    def arrive(self, node: int, neighbors: list[int] | None) -> None:
        """A context came in."""

    def started(self) -> None:
        """The labelled start is in."""

    def learn(self, node: int, arm: int, reward: float) -> None:
        """A reward was observed."""

    def impute(self, node: int, arm: int) -> float:
        """The reward, from 0 to 1, that an arm would have earned at a context."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Contexts with their right arms, ready for a stream; what does not fit together is refused.

    `X` is (N, D) CSR; `y` (N,) indexes `arms`; `edges` (E, 2) are undirected pairs of rows, or None; `source` says
    which file it came from.
    """

    name: str
    X: sp.csr_matrix
    y: NDArray[np.int64]
    arms: list[Arm]
    edges: NDArray[np.int64] | None = None
    features: list[str] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        """Check that rows, labels, arms and edges fit together."""
        rows = self.X.shape[0]
        try:
            object.__setattr__(self, "y", arm_places(self.y, rows, len(self.arms)))
            if self.edges is not None:
                object.__setattr__(self, "edges", undirected_edges(self.edges, rows))
        except InvalidData as error:
            raise InvalidData(f"{self.name}: {error}") from None

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a stream can see: equal data has equal fingerprints."""
        digest = hashlib.sha256(repr((self.X.shape, self.arms)).encode())
        edges = np.full((1, 2), -1) if self.edges is None else self.edges
        for part in (self.X.indptr, self.X.indices, self.y, edges):
            digest.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
        digest.update(np.ascontiguousarray(self.X.data, dtype=np.float64).tobytes())
        return digest.hexdigest()[:16]
