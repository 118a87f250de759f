"""What all agents share: ids, arms, bookkeeping and the refusal of bad input. The maths is in their hooks."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tacit.agents import storage
from tacit.agents.contexts import ContextReader, RowStore, room_for
from tacit.contracts import (
    AlreadyAnswered,
    Arm,
    Context,
    Decision,
    InvalidReward,
    SparseRow,
    TacitError,
    UnknownArm,
    UnknownDecision,
)

Scores = tuple[NDArray[np.float64], NDArray[np.float64]]

TIE = 1e-9
"""How close two upper bounds must be to count as equal."""

PENDING, REWARDED, SILENT, GIVEN = range(4)


def check_number(
    name: str, value: object, low: float, high: float, *, whole: bool = False, above: bool = False
) -> None:
    """Raise unless a parameter is a number from `low` (or above it) to `high`."""
    kind = int | np.integer if whole else Real
    good = isinstance(value, kind) and not isinstance(value, bool)
    if not good or not (low < value if above else low <= value) or not value <= high:  # type: ignore[operator]
        what = "a whole number" if whole else "a number"
        limits = f"{'above' if above else 'at least'} {low:g}" + (f" and at most {high:g}" if high < np.inf else "")
        raise TacitError(f"{name}={value!r} is not allowed; {what} {limits} is")


@dataclass(kw_only=True, eq=False)
class BaseAgent(ABC):
    """An agent with two verbs: `decide` on a context, give `feedback` on what came of it.

    Arguments:
        arms: the arms' names, or how many there are (then they are called 0 … K−1).
        seed: determines all randomness of the agent.
        one_right_arm: a reward of 1 for one arm means 0 for all others.
        ties: among equally good arms "balance" takes the one chosen least so far, which spreads the decisions that come
            before any feedback; "first" takes the first.

    A subclass stores its parameters as dataclass fields and fills in the hooks: `_begin` makes its state when the
    number of features is known, `_arrive` takes in a context, `_score` judges the arms there, `_learn` takes the
    feedback, `_widen` makes room for features that were not named before. A context is known by its `node`, the
    number under which `self._rows` keeps it and which is also the id of the decision.
    """

    arms: Sequence[Arm] | int
    seed: int = 0
    one_right_arm: bool = True
    ties: str = "balance"

    def __init_subclass__(cls) -> None:
        """Agents that are defined elsewhere can be saved too."""
        storage.storable(cls)

    def __post_init__(self) -> None:
        """Refuse wrong parameters; everything else waits until the first context."""
        names = list(range(self.arms)) if isinstance(self.arms, int) else list(self.arms)
        if len(names) < 2:
            raise TacitError(f"arms={self.arms!r} is not allowed; there must be at least 2 arms")
        if len(set(names)) < len(names):
            raise TacitError(f"arms={self.arms!r} is not allowed; each arm's name must be its own")
        check_number("seed", self.seed, 0, np.inf, whole=True)
        if not isinstance(self.one_right_arm, bool):
            raise TacitError(f"one_right_arm={self.one_right_arm!r} is not allowed; True or False is")
        if self.ties not in ("balance", "first"):
            raise TacitError(f"ties={self.ties!r} is not allowed; 'balance' or 'first' is")
        self._arm_names: tuple[Arm, ...] = tuple(names)
        self._arm_index = {name: k for k, name in enumerate(names)}
        self._reader = ContextReader()
        self._rows = RowStore()
        self._has_graph: bool | None = None
        self._chosen = np.zeros(0, np.int32)
        self._state = np.zeros(0, np.int8)
        self._decisions = 0
        self._times_chosen = np.zeros(len(names), np.int64)
        # Purpose 1: a stream of the same seed has other purposes and draws other numbers.
        self._rng = np.random.default_rng([self.seed, 1])

    # The public face.

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that this agent was made with."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def arm_names(self) -> tuple[Arm, ...]:
        """The arms by name, in the order of `Decision.scores`."""
        return self._arm_names

    def warm_start(self, X0: Any, y0: Any, edges: Any = None) -> list[int]:
        """Learn from contexts whose right arm is known, and return the ids of these rows.

        Arguments:
            X0: the contexts: a matrix, dense or sparse, or a list of contexts.
            y0: their arms, by name (or 0 … K−1).
            edges: where you have a graph, pairs of rows of X0 that it connects (an empty list is a graph too).
        """
        rows, reader = self._reader.read_all(X0)
        labels = self._check_arms(y0, len(rows))
        adjacent = self._check_edges(edges, len(rows))
        self._reader = reader
        self._has_graph = adjacent[0] is not None
        nodes: list[int] = []
        for row, label, near in zip(rows, labels, adjacent, strict=True):
            node = self._admit(row, label, GIVEN)
            self._arrive(node, None if near is None else [nodes[i] for i in near])
            nodes.append(node)
        for node, label in zip(nodes, labels, strict=True):
            self._learn(node, label, 1.0)
        self._started()
        return nodes

    def decide(self, x: Context, neighbors: Sequence[int] | None = None) -> Decision:
        """Choose an arm for a context.

        Arguments:
            x: a 1-d array, a sparse matrix of one row, or {feature: value}.
            neighbors: where you have a graph, the ids of earlier decisions and `warm_start` rows next to this one.
                Without it the agent grows a graph of its own from the contexts.
        """
        reading = self._reader.read(x)
        near = self._check_neighbors(neighbors)
        self._reader.accept(reading)
        self._has_graph = near is not None
        node = self._admit(reading.row, -1, PENDING)
        self._decisions += 1
        self._arrive(node, near)
        scores, widths = self._score(node)
        arm = self._choose(scores + widths)
        self._chosen[node] = arm
        return Decision(node, self._arm_names[arm], scores, widths, 1.0)

    def decide_batch(self, X: Any, neighbors: Sequence[Sequence[int]] | None = None) -> list[Decision]:
        """Choose an arm for each row of a matrix, or item of a list of contexts: as `decide` on one after the other.

        All rows are checked before the first is decided on. `neighbors` has a list of ids for each row.
        """
        rows, _ = self._reader.read_all(X)
        near = [None] * len(rows) if neighbors is None else [() if ids is None else ids for ids in neighbors]
        if len(near) != len(rows):
            raise TacitError(f"there are {len(rows)} contexts and {len(near)} lists of neighbors; each needs one")
        for ids in near:
            self._check_neighbors(ids)
        contexts = sp.csr_matrix(X) if sp.issparse(X) else X
        return [self.decide(context, ids) for context, ids in zip(contexts, near, strict=True)]

    def save(self, path: str | Path) -> None:
        """Write the agent to one file; `tacit.load` reads it back, and it goes on as if nothing had happened."""
        storage.save(self, path)

    def feedback(self, id: int, reward: float | None) -> None:
        """Say what came of a decision: a reward from 0 to 1, or None if none will ever come."""
        node = self._check_pending(id)
        value = None if reward is None else _check_reward(reward)
        self._learn(node, int(self._chosen[node]), value)
        self._state[node] = SILENT if value is None else REWARDED

    def _choose(self, bounds: NDArray[np.float64]) -> int:
        """The best arm. Bounds that differ by no more than rounding are equal: another machine breaks the same ties."""
        best = np.flatnonzero(bounds >= bounds.max() - TIE)
        arm = int(best[np.argmin(self._times_chosen[best])] if self.ties == "balance" else best[0])
        self._times_chosen[arm] += 1
        return arm

    # The hooks.

    @abstractmethod
    def _begin(self) -> None:
        """Make the state: `self._rows.dimension` is known now."""

    def _widen(self, dimension: int) -> None:
        """Make room for new features. Agents whose state does not depend on their number need not."""

    def _arrive(self, node: int, neighbors: list[int] | None) -> None:
        """A context came in. `neighbors` is None where no graph is given."""

    def _started(self) -> None:
        """The labelled start is in."""

    @abstractmethod
    def _score(self, node: int) -> Scores:
        """The expected rewards (K,) and their widths (K,) at a context."""

    @abstractmethod
    def _learn(self, node: int, arm: int, reward: float | None) -> None:
        """Learn what `arm` earned at a context; None is silence."""

    # The border.

    def _admit(self, row: SparseRow, arm: int, state: int) -> int:
        """Keep a row that passed all checks, and make room for what it brings."""
        dimension = self._reader.dimension or 0
        if self._rows.dimension == 0:
            self._rows.dimension = dimension
            self._begin()
        elif dimension > self._rows.dimension:
            self._rows.dimension = dimension
            self._widen(dimension)
        node = self._rows.append(row)
        self._chosen = room_for(self._chosen, node + 1, -1)
        self._state = room_for(self._state, node + 1, PENDING)
        self._chosen[node] = arm
        self._state[node] = state
        return node

    def _check_arms(self, y0: Any, count: int) -> list[int]:
        labels = y0.tolist() if isinstance(y0, np.ndarray) else list(y0)
        if len(labels) != count:
            raise TacitError(f"there are {count} contexts and {len(labels)} arms; each context needs one")
        places = range(len(self._arm_names))
        if all(label in self._arm_index for label in labels):
            return [self._arm_index[label] for label in labels]
        if all(isinstance(label, int) and label in places for label in labels):
            return labels
        row, label = next((i, label) for i, label in enumerate(labels) if label not in self._arm_index)
        raise UnknownArm(f"unknown arm {label!r} in row {row} (there are: {', '.join(map(str, self._arm_names[:20]))})")

    def _check_edges(self, edges: Any, count: int) -> list[list[int] | None]:
        """For each row of a labelled start, the earlier ones next to it; None where no graph is given."""
        if edges is None and not self._has_graph:
            return [None] * count
        self._check_graph("edges")
        pairs = np.asarray([] if edges is None else edges, dtype=np.int64).reshape(-1, 2)
        wrong = ((pairs < 0) | (pairs >= count)).any(axis=1)
        if wrong.any():
            edge = pairs[wrong][0].tolist()
            raise UnknownDecision(f"edge {edge} names a row that does not exist; there are 0 to {count - 1}")
        adjacent: list[set[int]] = [set() for _ in range(count)]
        for a, b in pairs[pairs[:, 0] != pairs[:, 1]].tolist():
            adjacent[max(a, b)].add(min(a, b))
        return [sorted(near) for near in adjacent]

    def _check_neighbors(self, neighbors: Sequence[int] | None) -> list[int] | None:
        if neighbors is None:
            return [] if self._has_graph else None
        if not isinstance(neighbors, Iterable):
            raise UnknownDecision(f"neighbors={neighbors!r} is not allowed; a list of ids is")
        ids = sorted({self._check_known(id) for id in neighbors})
        self._check_graph("neighbors")
        return ids

    def _check_graph(self, name: str) -> None:
        """The first row settles whether the graph is the user's or grown here: the two do not mix."""
        if self._has_graph is False:
            raise TacitError(
                f"{name} came after rows without any: this agent grows its own graph; "
                "give edges or neighbors (empty where there are none) from the first row on"
            )

    def _check_known(self, id: object) -> int:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= id < self._rows.count:
            raise UnknownDecision(f"unknown decision {id!r}; this agent has given out {self._rows.count} ids, from 0")
        return int(id)

    def _check_pending(self, id: object) -> int:
        node = self._check_known(id)
        if self._state[node] != PENDING:
            what = ("", "had a reward", "was called silent", "is a labelled row of warm_start")[self._state[node]]
            raise AlreadyAnswered(f"decision {node} {what}; feedback comes once")
        return node


def _check_reward(reward: object) -> float:
    if isinstance(reward, Real | np.bool_) and 0 <= reward <= 1:  # type: ignore[operator]
        return float(reward)
    raise InvalidReward(f"reward {reward!r} is not allowed; a number from 0 to 1 is, or None for silence")
