"""What all agents share: ids, arms, bookkeeping and the refusal of bad input. The maths is in their hooks."""

import contextlib
import copy
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from taciturn.agents import account, border, storage
from taciturn.agents.contexts import ContextReader
from taciturn.agents.decisions import Decisions
from taciturn.agents.ledger import LABELLED, PENDING
from taciturn.agents.life import DecisionLife
from taciturn.contracts import Arm, Context, Decision, Explanation, Health, SparseRow
from taciturn.errors import AlreadyAnswered, TaciturnError, UnknownArm
from taciturn.kernels.select import argmax_tied
from taciturn.system import format_bytes, machine_memory
from taciturn.validate import check_choice, check_number

Scores = tuple[NDArray[np.float64], NDArray[np.float64]]

TIE = 1e-9
"""How close two upper bounds must be to count as equal, relative to their size."""

PURPOSES = (1, 6, 7)
"""Of the agent's own randomness: learning, choosing, forgetting. A stream of the same seed has other purposes."""


@dataclass(kw_only=True, eq=False)
class BaseAgent(DecisionLife):
    """An agent with two verbs: `decide` on a context, give `feedback` on what came of it.

    Arguments, beside those of `DecisionLife`:
        arms: the arms' names, or how many there are (then they are called 0 … K−1).
        seed: determines all randomness of the agent.
        ties: among equally good arms "balance" takes the one chosen least so far, which spreads the decisions that come
            before any feedback; "first" takes the first.
        epsilon, temperature: chance, so that logs can be evaluated later: with probability `epsilon` any arm, else the
            best, or, with a temperature τ > 0, arm k in proportion to exp(bound_k / τ).
        memory_limit: in bytes; the agent refuses to begin, or to take in more features or arms, where its estimate is
            above. None is what the machine has.

    A subclass stores its parameters as dataclass fields and fills in the hooks: `_begin` makes its state when the
    number of features is known, `_arrive` takes in a context, `_score` judges the arms there, `_learn` takes what is
    known, or supposed, of the arm chosen there and `_unlearn` takes the same back. A context is known by its `node`,
    the number under which `self._rows` and `self._ledger` keep it.
    """

    arms: Sequence[Arm] | int
    seed: int = 0
    ties: str = "balance"
    epsilon: float = 0.0
    temperature: float = 0.0
    memory_limit: float | None = None

    def __init_subclass__(cls) -> None:
        """Agents that are defined elsewhere can be saved too."""
        storage.storable(cls)

    def __post_init__(self) -> None:
        """Refuse wrong parameters; everything else waits until the first context."""
        names = border.arm_names(self.arms)
        self._check_life()
        check_number("seed", self.seed, 0, whole=True)
        check_choice("ties", self.ties, ("balance", "first"))
        check_number("epsilon", self.epsilon, 0, 1)
        check_number("temperature", self.temperature, 0)
        if self.memory_limit is not None:
            check_number("memory_limit", self.memory_limit, 0)
        self._arm_names = names
        self._arm_index = {name: k for k, name in enumerate(names)}
        self._active = np.ones(len(names), np.bool_)
        self._choice: NDArray[np.bool_] | None = None  # the same where an arm is retired
        self._reader = ContextReader()
        self._begin_life(len(names))
        self.deferred = False
        self._rng, self._chance, self._lots = (np.random.default_rng([self.seed, purpose]) for purpose in PURPOSES)

    # The public face: deciding.

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that this agent was made with."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def arm_names(self) -> tuple[Arm, ...]:
        """The arms by name, in the order of `Decision.scores`; retired ones keep their place."""
        return self._arm_names

    @property
    def active_arms(self) -> tuple[Arm, ...]:
        """The arms that can be chosen."""
        return tuple(name for name, active in zip(self._arm_names, self._active, strict=True) if active)

    @property
    def n_features(self) -> int:
        """How many features the contexts have so far; 0 before the first."""
        return self._rows.dimension

    @property
    def feature_names(self) -> Mapping[Hashable, int] | None:
        """The columns of named features, read-only; None where features go by position."""
        return None if self._reader.names is None else MappingProxyType(self._reader.names)

    @property
    def next_id(self) -> int:
        """The id that the next decision will have; ids are never used twice."""
        return self._ledger.given_out

    @property
    def clock(self) -> float | None:
        """The latest time that was given; None where decisions count themselves."""
        return self._clock

    @property
    def decisions(self) -> Decisions:
        """What is held of all decisions, by id and as columns, read-only."""
        return Decisions(self._ledger, self._rows, self._arm_names)

    def warm_start(self, X0: Any, y0: Any, edges: Any = None) -> list[int]:
        """Learn from contexts whose right arm is known, and return the ids of these rows.

        Arguments:
            X0: the contexts: a matrix, dense or sparse, or a list of contexts.
            y0: their arms, by name (or 0 … K−1).
            edges: where you have a graph, pairs of rows of X0 that it connects (an empty list is a graph too).
        """
        rows, reader = self._reader.read_all(X0)
        labels = border.label_places(y0, self._arm_index, len(rows))
        adjacent = border.earlier_ends(edges, len(rows))
        if self.max_nodes is not None and len(rows) > self.max_nodes:
            raise TaciturnError(f"{len(rows)} labelled rows do not fit into max_nodes={self.max_nodes}")
        self._make_room(reader.dimension or 0)
        self._reader = reader
        self._make_space(len(rows))
        nodes: list[int] = []
        for row, label, near in zip(rows, labels, adjacent, strict=True):
            node = self._admit(row, LABELLED, -np.inf)
            self._ledger.arm[node] = label
            self._arrive(node, None if near is None else [nodes[i] for i in near])
            nodes.append(node)
        try:
            for node in nodes:
                self._know(node, 1.0, imputed=False)
        except BaseException:
            for node in nodes:
                with contextlib.suppress(AlreadyAnswered):  # who cannot unlearn cannot be helped
                    self._take_back(node)
            self._forget_all_but(np.arange(nodes[0]))
            raise
        self._started()
        return self._ledger.id[nodes].tolist()  # type: ignore[no-any-return]

    def decide(
        self,
        x: Context,
        neighbors: Sequence[int] | None = None,
        *,
        allowed: Sequence[Arm] | None = None,
        at: float | None = None,
    ) -> Decision:
        """Choose an arm for a context.

        Arguments:
            x: a 1-d array, a sparse matrix of one row, or {feature: value}.
            neighbors: where you have a graph, the ids of earlier decisions and `warm_start` rows next to this one.
                Without it the context joins the agent's own graph, by its nearest among those that came so.
            allowed: the arms that can be chosen this time; all that are not retired if None.
            at: the time, in any unit, if `expire_after` is to be counted in it; otherwise decisions are counted.
        """
        reading = self._reader.read(x)
        near = border.known_ids(neighbors, self._ledger.given_out)
        choice = self._check_allowed(allowed)
        clock = self._time(at)
        self._make_room(reading.dimension)
        self._clock = clock
        self._reader.accept(reading)
        return self._decide(reading.row, near, choice)

    def decide_batch(
        self,
        X: Any,
        neighbors: Sequence[Sequence[int] | None] | None = None,
        *,
        allowed: Sequence[Arm] | None = None,
        at: float | None = None,
    ) -> list[Decision]:
        """Choose an arm for each row of a matrix, or item of a list of contexts: as `decide` on one after the other.

        All rows are checked before the first is decided on, and features that are new in any of them are there from
        the first. `neighbors` has a list of ids (or None) for each row.
        """
        rows, reader = self._reader.read_all(X)
        given = [None] * len(rows) if neighbors is None else list(neighbors)
        if len(given) != len(rows):
            raise TaciturnError(f"there are {len(rows)} contexts and {len(given)} lists of neighbors; each needs one")
        near = [border.known_ids(ids, self._ledger.given_out + i) for i, ids in enumerate(given)]
        choice = self._check_allowed(allowed)
        clock = self._time(at)
        self._make_room(reader.dimension or 0)
        self._clock = clock
        self._reader = reader
        ahead: Sequence[Scores | None] = self._score_ahead(rows) or [None] * len(rows)
        return [self._decide(row, ids, choice, said) for row, ids, said in zip(rows, near, ahead, strict=True)]

    def _decide(
        self,
        row: SparseRow,
        neighbors: list[int] | None,
        choice: NDArray[np.bool_] | None,
        ahead: Scores | None = None,
    ) -> Decision:
        if self.expire_after is not None:
            self._expire()
        if self.max_nodes is not None:
            self._make_space(1)
        node = self._admit(row, PENDING, self._now())
        near = None if neighbors is None else [n for n in map(self._ledger.find, neighbors) if n >= 0]
        self._decisions += 1
        try:
            self._arrive(node, near)
            scores, widths = ahead or self._score(node)
            arm, propensity = self._choose(scores + widths, choice)
        except BaseException:
            self._decisions -= 1
            self._forget_all_but(np.arange(node))  # a decision that was not made leaves nothing behind
            raise
        ledger = self._ledger
        ledger.arm[node], ledger.propensity[node] = arm, propensity
        ledger.scores[node], ledger.widths[node] = scores, widths
        return Decision(ledger.given_out - 1, self._arm_names[arm], scores, widths, propensity)

    def _choose(self, bounds: NDArray[np.float64], choice: NDArray[np.bool_] | None) -> tuple[int, float]:
        """The arm, and how probable it was.

        Bounds that differ by no more than rounding are equal: another machine breaks the same ties.
        """
        if choice is not None:
            bounds = np.where(choice, bounds, -np.inf)
        arm = argmax_tied(bounds, TIE, self._times_chosen, self.ties == "balance")
        if arm < 0:
            raise TaciturnError(f"{type(self).__name__} scored an arm NaN; scores and widths must be numbers")
        propensity = 1.0
        if self.epsilon > 0 or self.temperature > 0:
            policy = self._policy(bounds, arm)
            arm = int(self._chance.choice(len(policy), p=policy))
            propensity = float(policy[arm])
        self._times_chosen[arm] += 1
        return arm, propensity

    def _policy(self, bounds: NDArray[np.float64], arm: int) -> NDArray[np.float64]:
        """The probability of each arm (K,), where `arm` is the best; arms at −∞ cannot be chosen."""
        if self.temperature > 0:
            policy = np.exp((bounds - bounds.max()) / self.temperature)
            policy /= policy.sum()
        else:
            policy = np.zeros(len(bounds))
            policy[arm] = 1.0
        possible = bounds > -np.inf
        return np.asarray((1.0 - self.epsilon) * policy + self.epsilon * possible / possible.sum())

    # Arms.

    def add_arm(self, name: Arm, like: Arm | None = None) -> None:
        """A new arm, of which nothing is known, or all that is known of another; or one that was retired, as it was.

        Arguments:
            name: what it is called.
            like: the arm whose knowledge it begins with. Corrections that come later reach only the original.
        """
        model = None if like is None else border.arm_place(like, self._arm_index)
        if isinstance(name, Hashable) and name in self._arm_index:
            place = self._arm_index[name]
            if self._active[place]:
                raise TaciturnError(f"there is an arm {name!r} already")
            self._active[place] = True
            self._choice = None if self._active.all() else self._active
            return
        border.arm_names([*self._arm_names, name])
        self._check_memory(len(self._arm_names) + 1, self._rows.dimension)
        if self._rows.dimension:
            self._add_arm(model)
        self._arm_names = (*self._arm_names, name)
        self._arm_index[name] = len(self._arm_index)
        self._active = np.append(self._active, True)
        self._choice = None if self._active.all() else self._active
        # Chosen as often as the least chosen: it need not catch up with all that was decided before it came.
        self._times_chosen = np.append(self._times_chosen, self._times_chosen.min())
        self._ledger.add_arm()

    def retire_arm(self, name: Arm) -> None:
        """Never choose an arm again; decisions for it that are pending still learn, and `add_arm` brings it back."""
        place = border.arm_place(name, self._arm_index)
        if self._active[place] and self._active.sum() == 1:
            raise TaciturnError(f"{name!r} is the last arm; there must be one to choose")
        self._active[place] = False
        self._choice = self._active

    # Copies and accounts.

    def defer_training(self, *, on: bool = True) -> None:
        """Leave training and solving to `train_pending` from now on, so that `decide` need not wait; or no longer."""
        self.deferred = on

    def train_pending(self, steps: int = 1) -> int:
        """Run up to `steps` pieces of deferred training, each of bounded size; returns how many were run."""
        check_number("steps", steps, 0, whole=True)
        done = 0
        while done < steps and self._rows.dimension and self._train_step():
            done += 1
        return done

    def save(self, path: str | Path) -> None:
        """Write the agent to one file; `taciturn.load` reads it back, and it goes on as if nothing had happened."""
        storage.save(self, path)

    def fork(self, seed: int | None = None) -> Self:
        """A copy that goes on apart from this one: exactly as this one would, or with the chance of another seed."""
        other = copy.deepcopy(self)
        if seed is not None:
            check_number("seed", seed, 0, whole=True)
            other._reseed(seed)  # noqa: SLF001 - one of us
        return other

    def _reseed(self, seed: int) -> None:
        self.seed = seed
        for purpose, generator in zip(PURPOSES, (self._rng, self._chance, self._lots), strict=True):
            generator.bit_generator.state = np.random.default_rng([seed, purpose]).bit_generator.state

    def explain(self, id: int) -> Explanation:
        """Why this arm: scores and widths, who spoke for and against it, and what would have been second."""
        node = self._find(id)
        return account.explain(self._ledger, node, self._near(node), self._arm_names, exclusive=self.one_right_arm)

    def health(self) -> Health:
        """How the agent is doing: what waits, what was supposed and how right that was, drift, memory."""
        return account.health(self._ledger, self._tally, self._decisions, storage.size(self))

    def memory_estimate(self, dimension: int, arms: int | None = None) -> int:
        """How many bytes the agent holds once it has learned of all arms, with `max_nodes` contexts if it is set."""
        check_number("dimension", dimension, 0, whole=True)
        return int(self._estimate(len(self._arm_names) if arms is None else arms, dimension, self.max_nodes or 0))

    # The hooks; those of learning are in `DecisionLife`.

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

    def _score_ahead(self, rows: list[SparseRow]) -> list[Scores] | None:
        """The scores of a batch before the first is decided on, where that makes no difference; None where it does."""
        return None

    def _train_step(self) -> bool:
        """Do a piece of what was deferred; False if there is none."""
        return False

    def _add_arm(self, like: int | None) -> None:
        """Make room for one arm more, which begins with what is known of another, or with nothing."""
        raise TaciturnError(f"{type(self).__name__} cannot take in an arm later")

    def _near(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The contexts that a context is judged by, for `explain`, and how close they are."""
        return account.nearest(self._rows, node)

    def _estimate(self, arms: int, dimension: int, nodes: int) -> float:
        """How many bytes the state takes."""
        return nodes * (self._rows.entries_a_row(dimension) * 12.0 + 8.0 * arms + 64.0)

    # The border.

    def _sound(self) -> bool:
        """Whether what a file says of an agent fits together; `_parts_fit` is asked once it has begun."""
        arms, ledger = len(self._arm_names), self._ledger
        return (
            self._arm_index == {name: k for k, name in enumerate(self._arm_names)}
            and storage.fits(self._active, np.bool_, arms)
            and storage.fits(self._times_chosen, np.int64, arms)
            and (self._choice is None or storage.fits(self._choice, np.bool_, arms))
            and ledger.scores.shape[1] == arms
            and ledger.count == self._rows.count
            and (self._rows.dimension == 0 or self._parts_fit(arms, self._rows.dimension, ledger.count))
        )

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        """Whether an agent's own parts are for so many arms, features and contexts."""
        return True

    def _make_room(self, dimension: int) -> None:
        """Make the state, or widen it; where that fails nothing has changed."""
        before = self._rows.dimension
        if dimension <= before:
            return
        self._check_memory(len(self._arm_names), dimension)
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
                raise TaciturnError(f"there is not enough memory for {arms} arms and {dimension} features") from None
            raise

    def _check_memory(self, arms: int, dimension: int) -> None:
        limit = machine_memory() if self.memory_limit is None else self.memory_limit
        needed = self.memory_estimate(dimension, arms)
        if needed > limit:
            name = type(self).__name__
            raise TaciturnError(
                f"{name} with {arms} arms and {dimension} features takes about {format_bytes(needed)}; "
                f"memory_limit is {format_bytes(limit)}"
            )

    def _admit(self, row: SparseRow, state: int, at: float) -> int:
        """Keep a row that passed all checks."""
        node = self._rows.append(row)
        by_lot = self.max_nodes is not None and self.forget == "reservoir"
        self._ledger.open(state, at, self._lots.random() if by_lot else self._ledger.given_out)
        return node

    def _check_allowed(self, allowed: Any) -> NDArray[np.bool_] | None:
        """Which arms can be chosen (K,); None for all."""
        if allowed is None:
            return self._choice
        if not isinstance(allowed, Iterable) or isinstance(allowed, str):
            raise UnknownArm(f"allowed={allowed!r} is not allowed; a list of arms is")
        choice = np.zeros(len(self._arm_names), np.bool_)
        choice[[border.arm_place(name, self._arm_index) for name in allowed]] = True
        choice &= self._active
        if not choice.any():
            raise UnknownArm(f"allowed={allowed!r} names no arm that is not retired; at least one is needed")
        return choice
