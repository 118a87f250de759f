"""The types that more than one room needs: what flows between them. No algorithms."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taciturn.display import Displayed, Summary, brief, counted, name_text, numbers, percent
from taciturn.errors import InvalidData
from taciturn.plotting import plot
from taciturn.validate import LARGEST, arm_indices, arm_values, undirected_edges

if TYPE_CHECKING:
    import scipy.sparse as sp
    from matplotlib.axes import Axes

Arm: TypeAlias = Hashable
"""An arm's own name, as its user gave it."""

Context: TypeAlias = "NDArray[Any] | Sequence[float] | Mapping[Hashable, float] | sp.spmatrix | sp.sparray"
"""What an agent decides on: a 1-d array, a sparse matrix of one row, or {feature: value}."""


Contexts: TypeAlias = "NDArray[Any] | sp.csr_matrix | Sequence[Mapping[str, Any]] | Sequence[str]"
"""The contexts of a data set: an (N, D) array or CSR matrix, or a sequence of mappings or of texts."""


class SparseRow(NamedTuple):
    """One context as its non-zero entries: sorted columns (n,) and their values (n,)."""

    columns: NDArray[np.int32]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
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

    def __init__(
        self, id: int, arm: Arm, scores: NDArray[np.float64], widths: NDArray[np.float64], propensity: float
    ) -> None:
        """Take the parts; see the class."""
        # By the descriptors of the slots, which is quicker than object.__setattr__: every step makes a decision.
        put_id, put_arm, put_scores, put_widths, put_propensity = _PUT
        put_id(self, id)
        put_arm(self, arm)
        put_scores(self, scores)
        put_widths(self, widths)
        put_propensity(self, propensity)

    def _summary(self) -> Summary:
        scores = {"scores": numbers(self.scores), "widths": numbers(self.widths)}
        return Summary(f"Decision {self.id}: {brief(self.arm)}", scores | {"propensity": f"{self.propensity:.3g}"})


_PUT = tuple(getattr(Decision, part.name).__set__ for part in fields(Decision))
"""What writes the attributes of a `Decision`, which is frozen afterwards."""

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


class EncodedContexts(NamedTuple):
    """Contexts as a matrix (N, D), and the names of its columns or None."""

    matrix: sp.csr_matrix
    names: list[str] | None


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One step of a stream.

    `position` is the index among all rows of the stream, the labelled start included; `context` is a row of the data
    set's contexts: a 1-d array (D,), a CSR matrix (1, D), a mapping or a text; `neighbors` are positions of earlier
    rows, or None where the data set has no graph.
    """

    position: int
    context: Any
    neighbors: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class LabelledStart:
    """The labelled rows at the start of a stream: K `contexts`, as the data set has them, and the right arm of each.

    There are none where every arm has a reward. `edges` (E, 2) are pairs of their positions, or None where the data set
    has no graph.
    """

    contexts: Contexts
    arms: list[Arm]
    edges: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace(Displayed):
    """The result of one evaluation, step by step.

    `choices` (T,) index `arm_names`; `rewards` (T,) are those the agent received, NaN for silence; `correct` (T,) says
    whether the arm chosen was right; `step_seconds` (T,) is the time of decide and feedback; `seconds` that of the
    whole evaluation; `params` are the agent's. `best_constant_arm` is the arm that is right most often and the share of
    steps at which it is, None where it is not known.

    `earned` (T,) are the true rewards of the arms chosen, silent ones included, and `best_earned` (T,) those of the
    best arms; by default 1 or 0 as `correct` says, and 1. Where every arm has a reward, `graded` is True, all the best
    arms of a step are right, and `best_constant_arm` is the arm of the highest mean reward, and that mean. `drift_step`
    is the first step after the stream drifted, None where it did not.
    """

    arm_names: tuple[Arm, ...]
    choices: NDArray[np.int64]
    rewards: NDArray[np.float64]
    correct: NDArray[np.bool_]
    step_seconds: NDArray[np.float64]
    seconds: float
    params: dict[str, Any] = field(default_factory=dict)
    best_constant_arm: tuple[Arm, float] | None = None
    earned: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    best_earned: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    graded: bool = False
    drift_step: int | None = None

    def __post_init__(self) -> None:
        """Fill in what one right arm at each step earns."""
        for name, default in (("earned", self.correct), ("best_earned", np.ones(len(self.correct)))):
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, np.asarray(default, np.float64))

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

    @property
    def mean_reward(self) -> float:
        """The mean of what was earned, silent steps included; the accuracy where one arm is right."""
        return float(self.earned.mean())

    @property
    def running_reward(self) -> NDArray[np.float64]:
        """The mean of what was earned up to and including each step (T,)."""
        return np.cumsum(self.earned) / np.arange(1, len(self.earned) + 1)

    @property
    def regret(self) -> float:
        """How much more the best arm of every step would have earned in all."""
        return float((self.best_earned - self.earned).sum())

    def plot(self, *, label: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the running accuracy, the silent steps and the best constant arm, and return the axes.

        Where rewards are graded, it is the mean reward so far.

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
        if self.graded:
            facts = {"regret": f"{self.regret:.1f}"} | facts
        if self.drift_step is not None:
            facts["drift"] = f"at step {self.drift_step}"
        if self.best_constant_arm is not None:
            arm, share = self.best_constant_arm
            facts["best constant arm"] = f"{brief(arm)}, {f'reward {share:.3f}' if self.graded else percent(share)}"
        if self.graded and steps:
            return Summary(f"Trace of {steps} steps, mean reward {self.mean_reward:.3f}", facts)
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


class _MatrixOfContexts:
    """The attribute `X` of a data set: what is given is kept as `contexts`; the matrix is made when it is asked for."""

    def __get__(self, dataset: Dataset | None, owner: type) -> sp.csr_matrix:
        if dataset is None:
            raise AttributeError("X")  # so that the field has no default
        return dataset.encoded.matrix

    def __set__(self, dataset: Dataset, contexts: Contexts) -> None:
        vars(dataset)["contexts"] = contexts


@dataclass(frozen=True, eq=False, repr=False)  # the matrix, which a repr would make, can take long
class Dataset(Displayed):
    """Contexts with their right arms; inconsistent parts raise `InvalidData`.

    Arguments, and attributes of the same names:
        name: what tables call it.
        X: what agents are given row by row, kept as `contexts`: an (N, D) array, an (N, D) CSR matrix, or a sequence of
            N mappings {column: value} or texts. The attribute `X` is the same as a CSR matrix.
        y: the index of each row's right arm (N,).
        arms: the arms by name.
        edges: undirected pairs of rows (E, 2), or None.
        features: the names of the columns of a matrix or table, or None.
        source: the file that it was read from.
        scaling: the norm that rows were scaled to, "l1" or "l2", or "none".
        rewards, costs: the reward from 0 to 1 and the cost of every arm (N, K), where they are known.
        encode: makes the matrix where the contexts are not one.
    """

    name: str
    X: _MatrixOfContexts = _MatrixOfContexts()
    y: NDArray[np.int64]  # type: ignore[misc]  # X has no default, though it looks so
    arms: list[Arm]  # type: ignore[misc]
    edges: NDArray[np.int64] | None = None
    features: list[str] | None = None
    source: str = ""
    scaling: str = "none"
    rewards: NDArray[np.float64] | None = None
    costs: NDArray[np.float64] | None = None
    encode: Callable[[Any], EncodedContexts] | None = None
    contexts: Contexts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Validate labels, edges, rewards and costs."""
        rows, arms = len(self), len(self.arms)
        checked: dict[str, Any] = {}
        try:
            checked["y"] = arm_indices(self.y, rows, arms)
            if self.edges is not None:
                checked["edges"] = undirected_edges(self.edges, rows)
            if self.rewards is not None:
                checked["rewards"] = arm_values("rewards", self.rewards, rows, arms, 0.0, 1.0)
            if self.costs is not None:
                checked["costs"] = arm_values("costs", self.costs, rows, arms, -LARGEST, LARGEST)
        except InvalidData as error:
            raise InvalidData(f"{self.name}: {error}") from None
        vars(self).update(checked)

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.contexts.shape[0]) if hasattr(self.contexts, "shape") else len(self.contexts)

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns of `X`, or None where there are none."""
        return self.encoded.names

    @cached_property
    def encoded(self) -> EncodedContexts:
        """The contexts as a matrix, and the names of its columns; words become columns as agents read them."""
        if hasattr(self.contexts, "shape"):
            return EncodedContexts(_csr(self.contexts), self.features)
        if self.encode is None:
            raise InvalidData(
                f"{self.name}: these contexts are not a matrix; load_dataset makes data sets that have one"
            )
        return self.encode(self.contexts)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of contexts, labels, arms, edges, rewards and costs: equal data has equal fingerprints."""
        digest = hashlib.sha256()
        if hasattr(self.contexts, "shape"):
            _hash_matrix(digest, _csr(self.contexts), self.arms)
        else:
            digest.update(repr((len(self), self.arms)).encode())
            for part in _hash_parts(self.contexts):
                digest.update(part)
        edges = np.full((1, 2), -1) if self.edges is None else self.edges
        digest.update(np.ascontiguousarray(self.y).tobytes() + np.ascontiguousarray(edges, dtype=np.int64).tobytes())
        for values in (self.rewards, self.costs):
            digest.update(b"-" if values is None else values.tobytes())
        return digest.hexdigest()[:16]

    def _summary(self) -> Summary:
        facts = {"arms": counted(self.arms)}
        facts["features"] = self._features_text()
        if self.edges is not None:
            facts["edges"] = str(len(self.edges))
        facts |= {name: "for every arm" for name in ("rewards", "costs") if getattr(self, name) is not None}
        if self.source:
            facts["source"] = name_text(self.source)
        return Summary(f"Dataset {name_text(self.name)}: {len(self)} rows", facts)

    def _features_text(self) -> str:
        """The columns; of texts there are as many features as words, which are not counted to show them."""
        if self.features is not None:
            return counted(self.features)
        return str(self.contexts.shape[1]) if hasattr(self.contexts, "shape") else "text"


def _csr(matrix: Any) -> sp.csr_matrix:
    """Return a dense or sparse matrix as CSR."""
    import scipy.sparse as sp  # noqa: PLC0415 - `import taciturn.contracts` must not load scipy

    return matrix if sp.issparse(matrix) and matrix.format == "csr" else sp.csr_matrix(matrix, dtype=float)


def _hash_parts(contexts: Any) -> Iterator[bytes]:
    """Yield bytes that differ for different mappings or texts; a table of columns has a faster way."""
    if hasattr(contexts, "hash_parts"):
        return iter(contexts.hash_parts())
    return (repr(context).encode(errors="surrogatepass") for context in contexts)


def _hash_matrix(digest: hashlib._Hash, matrix: sp.csr_matrix, arms: list[Arm]) -> None:
    digest.update(repr((matrix.shape, arms)).encode())
    for part in (matrix.indptr, matrix.indices):
        digest.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(matrix.data, dtype=np.float64).tobytes())
