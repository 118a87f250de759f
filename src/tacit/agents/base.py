"""What all agents share: ids, arms, bookkeeping and the refusal of bad input. The maths is in their hooks."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents import storage
from tacit.agents.contexts import ContextReader, RowStore, room_for
from tacit.contracts import Arm, Context, Decision, SparseRow
from tacit.errors import AlreadyAnswered, InvalidReward, TacitError, UnknownArm, UnknownDecision
from tacit.kernels.border import best
from tacit.validate import check_choice, check_number, undirected_edges

Scores = tuple[NDArray[np.float64], NDArray[np.float64]]

TIE = 1e-9
"""How close two upper bounds must be to count as equal, relative to their size."""

PENDING, REWARDED, SILENT, GIVEN = range(4)


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
        names = _arm_names(self.arms)
        check_number("seed", self.seed, 0, whole=True)
        check_choice("one_right_arm", self.one_right_arm, (True, False))
        check_choice("ties", self.ties, ("balance", "first"))
        self._arm_names = names
        self._arm_index = {name: k for k, name in enumerate(names)}
        self._reader = ContextReader()
        self._rows = RowStore()
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
        self._make_room(reader.dimension or 0)
        self._reader = reader
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
                Without it the context joins the agent's own graph, by its nearest among those that came so.
        """
        reading = self._reader.read(x)
        near = self._check_neighbors(neighbors, self._rows.count)
        self._make_room(reading.dimension)
        self._reader.accept(reading)
        return self._decide(reading.row, near)

    def decide_batch(self, X: Any, neighbors: Sequence[Sequence[int] | None] | None = None) -> list[Decision]:
        """Choose an arm for each row of a matrix, or item of a list of contexts: as `decide` on one after the other.

        All rows are checked before the first is decided on. `neighbors` has a list of ids (or None) for each row.
        """
        rows, reader = self._reader.read_all(X)
        given = [None] * len(rows) if neighbors is None else list(neighbors)
        if len(given) != len(rows):
            raise TacitError(f"there are {len(rows)} contexts and {len(given)} lists of neighbors; each needs one")
        near = [self._check_neighbors(ids, self._rows.count + i) for i, ids in enumerate(given)]
        self._make_room(reader.dimension or 0)
        self._reader = reader
        return [self._decide(row, ids) for row, ids in zip(rows, near, strict=True)]

    def save(self, path: str | Path) -> None:
        """Write the agent to one file; `tacit.load` reads it back, and it goes on as if nothing had happened."""
        storage.save(self, path)

    def feedback(self, id: int, reward: float | None) -> None:
        """Say what came of a decision: a reward from 0 to 1, or None if none will ever come."""
        node = self._check_pending(id)
        value = None if reward is None else _check_reward(reward)
        self._learn(node, int(self._chosen[node]), value)
        self._state[node] = SILENT if value is None else REWARDED

    def _decide(self, row: SparseRow, neighbors: list[int] | None) -> Decision:
        node = self._admit(row, -1, PENDING)
        self._decisions += 1
        self._arrive(node, neighbors)
        scores, widths = self._score(node)
        arm = self._choose(scores + widths)
        self._chosen[node] = arm
        return Decision(node, self._arm_names[arm], scores, widths, 1.0)

    def _choose(self, bounds: NDArray[np.float64]) -> int:
        """The best arm. Bounds that differ by no more than rounding are equal: another machine breaks the same ties."""
        arm = best(bounds, TIE, self._times_chosen, self.ties == "balance")
        if arm < 0:
            raise TacitError(f"{type(self).__name__} scored an arm NaN; scores and widths must be numbers")
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

    def _make_room(self, dimension: int) -> None:
        """Make the state, or widen it; where that fails nothing has changed."""
        before = self._rows.dimension
        if dimension <= before:
            return
        self._rows.dimension = dimension
        try:
            if before == 0:
                self._begin()
            else:
                self._widen(dimension)
        except BaseException as error:
            self._rows.dimension = before
            if isinstance(error, MemoryError):
                arms = len(self._arm_names)
                raise TacitError(f"there is not enough memory for {arms} arms and {dimension} features") from None
            raise

    def _admit(self, row: SparseRow, arm: int, state: int) -> int:
        """Keep a row that passed all checks."""
        node = self._rows.append(row)
        self._chosen = room_for(self._chosen, node + 1, -1)
        self._state = room_for(self._state, node + 1, PENDING)
        self._chosen[node] = arm
        self._state[node] = state
        return node

    def _check_arms(self, y0: Any, count: int) -> list[int]:
        """The arms of a labelled start as places, given by name or as places."""
        if not isinstance(y0, Iterable) or isinstance(y0, str):
            raise UnknownArm(f"the arms of a labelled start are a list with one name a row, not {y0!r}")
        labels = [label.item() if isinstance(label, np.generic) else label for label in y0]
        if len(labels) != count:
            raise TacitError(f"there are {count} contexts and {len(labels)} arms; each context needs one")
        places = range(len(self._arm_names))
        if all(isinstance(label, Hashable) and label in self._arm_index for label in labels):
            return [self._arm_index[label] for label in labels]
        if all(isinstance(label, int) and label in places for label in labels):
            return labels
        row = next(i for i, label in enumerate(labels) if label not in self._arm_names)
        known = ", ".join(map(str, self._arm_names[:20]))
        raise UnknownArm(f"unknown arm {labels[row]!r} in row {row} (there are: {known})")

    def _check_edges(self, edges: Any, count: int) -> list[list[int] | None]:
        """For each row of a labelled start, the earlier ones next to it; None where no graph is given."""
        if edges is None:
            return [None] * count
        adjacent: list[list[int]] = [[] for _ in range(count)]
        for earlier, later in undirected_edges(edges, count).tolist():
            adjacent[later].append(earlier)
        return [*adjacent]

    def _check_neighbors(self, neighbors: Sequence[int] | None, count: int) -> list[int] | None:
        """The ids, each once; they must be below `count`."""
        if neighbors is None:
            return None
        if not isinstance(neighbors, Iterable):
            raise UnknownDecision(f"neighbors={neighbors!r} is not allowed; a list of ids is")
        return sorted({self._check_known(id, count) for id in neighbors})

    def _check_known(self, id: object, count: int) -> int:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= id < count:
            raise UnknownDecision(f"unknown decision {id!r}; there are {count} ids, from 0")
        return int(id)

    def _check_pending(self, id: object) -> int:
        node = self._check_known(id, self._rows.count)
        if self._state[node] != PENDING:
            what = ("", "had a reward", "was called silent", "is a labelled row of warm_start")[self._state[node]]
            raise AlreadyAnswered(f"decision {node} {what}; feedback comes once")
        return node


def _check_reward(reward: object) -> float:
    if isinstance(reward, Real | np.bool_) and 0 <= reward <= 1:  # type: ignore[operator]
        return float(reward)
    raise InvalidReward(f"reward {reward!r} is not allowed; a number from 0 to 1 is, or None for silence")


def _arm_names(arms: Any) -> tuple[Arm, ...]:
    """The names that the parameter `arms` stands for."""
    shown = " ".join(repr(arms).split())[:100]
    if isinstance(arms, int | np.integer) and not isinstance(arms, bool):
        names = tuple(range(int(arms)))
    elif (isinstance(arms, Sequence) and not isinstance(arms, str)) or (
        isinstance(arms, np.ndarray) and arms.ndim == 1
    ):
        names = tuple(arms.tolist() if isinstance(arms, np.ndarray) else arms)
    else:
        raise TacitError(f"arms={shown} is not allowed; a list of names is, or how many there are")
    if not all(isinstance(name, Hashable) for name in names):
        raise TacitError(f"arms={shown} is not allowed; a name can be text, a number or a tuple of such")
    if len(names) < 2:
        raise TacitError(f"arms={shown} is not allowed; there must be at least 2 arms")
    if len(set(names)) < len(names):
        raise TacitError(f"arms={shown} is not allowed; each arm's name must be its own")
    return names
