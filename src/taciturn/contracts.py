"""The types that more than one room needs: what flows between them. No algorithms."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taciturn.display import Displayed, Summary, brief, counted, name_text, numbers, percent
from taciturn.errors import InvalidData
from taciturn.plotting import plot
from taciturn.validate import arm_indices, undirected_edges

if TYPE_CHECKING:
    import scipy.sparse as sp
    from matplotlib.axes import Axes

Arm: TypeAlias = Hashable
"""An arm's own name, as its user gave it."""

Context: TypeAlias = "NDArray[Any] | Sequence[float] | Mapping[Hashable, float] | sp.spmatrix | sp.sparray"
"""What an agent decides on: a 1-d array, a sparse matrix of one row, or {feature: value}."""


class SparseRow(NamedTuple):
    """One context as its non-zero entries: sorted columns (n,) and their values (n,)."""

    columns: NDArray[np.int32]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decision(Displayed):
    """An agent's answer to one context.

    `id` is what its feedback is given for and `arm` the name of the arm that was chosen; `scores` (K,) are the expected
    rewards μ and `widths` (K,) the confidence widths σ, in the order of the agent's arms; `propensity` is the
    probability with which this arm was chosen.
    """

    id: int
    arm: Arm
    scores: NDArray[np.float64]
    widths: NDArray[np.float64]
    propensity: float

    def _summary(self) -> Summary:
        scores = {"scores": numbers(self.scores), "widths": numbers(self.widths)}
        return Summary(f"Decision {self.id}: {brief(self.arm)}", scores | {"propensity": f"{self.propensity:.3g}"})


STATES = ("pending", "rewarded", "silent", "labelled")
"""The states of a decision; a row of `warm_start` is labelled from the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """What an agent holds of one decision: `reward` is what was observed, `imputed_reward` what was learned in silence.

    `time` is what `decide` was given, or the number of the decision where no times are given.
    """

    id: int
    arm: Arm
    state: str
    reward: float | None
    imputed_reward: float | None
    propensity: float
    time: float


class ContextSpace(NamedTuple):
    """What an agent sees: contexts (T, V, L), one view of each for all arms (V = 1) or for every arm, and θ (K, L)."""

    contexts: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Feedback:
    """The feedback for the decision `id`: a `reward` from 0 to 1, or None for silence."""

    id: int
    reward: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One step of a stream.

    `position` is the index among all rows of the stream, the labelled start included; `context` is (1, D) CSR;
    `neighbors` are positions of earlier rows, or None where the data set has no graph.
    """

    position: int
    context: sp.csr_matrix
    neighbors: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class LabelledStart:
    """The labelled rows at the start of a stream: `contexts` (K, D) CSR, and the right arm of each.

    `edges` (E, 2) are pairs of their positions, or None where the data set has no graph.
    """

    contexts: sp.csr_matrix
    arms: list[Arm]
    edges: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace(Displayed):
    """The result of one evaluation, step by step.

    `choices` (T,) index `arm_names`; `rewards` (T,) are those the agent received, NaN for silence; `correct` (T,) says
    whether the arm chosen was right; `step_seconds` (T,) is the time of decide and feedback; `seconds` that of the
    whole evaluation; `params` are the agent's. `best_constant_arm` is the arm that is right most often and the share of
    steps at which it is, None where it is not known.
    """

    arm_names: tuple[Arm, ...]
    choices: NDArray[np.int64]
    rewards: NDArray[np.float64]
    correct: NDArray[np.bool_]
    step_seconds: NDArray[np.float64]
    seconds: float
    params: dict[str, Any] = field(default_factory=dict)
    best_constant_arm: tuple[Arm, float] | None = None

    @property
    def arms(self) -> NDArray[Any]:
        """The names of the arms chosen (T,): as integers or text where all names are, otherwise as Python objects."""
        names = np.empty(len(self.arm_names), dtype=object)
        names[:] = self.arm_names
        kinds = {type(name) for name in self.arm_names}
        return (names.astype(kinds.pop()) if kinds in ({int}, {str}) else names)[self.choices]

    @property
    def accuracy(self) -> float:
        """The share of steps at which the right arm was chosen."""
        return float(self.correct.mean())

    @property
    def running_accuracy(self) -> NDArray[np.float64]:
        """The share of right arms up to and including each step (T,)."""
        return np.cumsum(self.correct) / np.arange(1, len(self.correct) + 1)

    def plot(self, *, label: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the running accuracy, the silent steps and the best constant arm, and return the axes.

        Arguments:
            label: the name of the line.
            ax: the axes to draw on; None makes a new figure. Needs matplotlib.
        """
        return plot([self], labels=None if label is None else [label], ax=ax)

    def _summary(self) -> Summary:
        steps, silent = len(self.correct), int(np.isnan(self.rewards).sum())
        facts = {
            "arms": counted(self.arm_names),
            "silent": f"{silent} steps",
            "seconds": f"{self.seconds:.3g}",
        }
        if self.best_constant_arm is not None:
            arm, share = self.best_constant_arm
            facts["best constant arm"] = f"{brief(arm)}, {percent(share)}"
        return Summary(f"Trace of {steps} steps, {percent(self.accuracy if steps else None)} right", facts)


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
class FullFeedbackAgent(Protocol):
    """A reference that gets the right arm after each decision, in place of a reward."""

    def reveal(self, id: int, arm: Arm) -> None:
        """Say which arm would have been right."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Displayed):
    """Contexts with their right arms; inconsistent parts raise `InvalidData`.

    `X` is (N, D) CSR; `y` (N,) indexes `arms`; `edges` (E, 2) are undirected pairs of rows, or None; `features` are the
    names of the columns, or None; `name` is what tables call it; `source` is the file that it was read from.
    """

    name: str
    X: sp.csr_matrix
    y: NDArray[np.int64]
    arms: list[Arm]
    edges: NDArray[np.int64] | None = None
    features: list[str] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        """Validate labels and edges."""
        rows = self.X.shape[0]
        try:
            object.__setattr__(self, "y", arm_indices(self.y, rows, len(self.arms)))
            if self.edges is not None:
                object.__setattr__(self, "edges", undirected_edges(self.edges, rows))
        except InvalidData as error:
            raise InvalidData(f"{self.name}: {error}") from None

    @cached_property
    def fingerprint(self) -> str:
        """A hash of features, labels, arms and edges: equal data has equal fingerprints."""
        digest = hashlib.sha256(repr((self.X.shape, self.arms)).encode())
        edges = np.full((1, 2), -1) if self.edges is None else self.edges
        for part in (self.X.indptr, self.X.indices, self.y, edges):
            digest.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
        digest.update(np.ascontiguousarray(self.X.data, dtype=np.float64).tobytes())
        return digest.hexdigest()[:16]

    def _summary(self) -> Summary:
        facts = {"arms": counted(self.arms)}
        facts["features"] = str(self.X.shape[1]) if self.features is None else counted(self.features)
        if self.edges is not None:
            facts["edges"] = str(len(self.edges))
        if self.source:
            facts["source"] = name_text(self.source)
        return Summary(f"Dataset {name_text(self.name)}: {len(self.y)} rows", facts)
