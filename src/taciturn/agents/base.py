"""What all agents share: ids, arms, the table of contexts, and the refusal of bad input. The maths is in the hooks."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from taciturn.agents import diagnostics, display, memory, storage, validation
from taciturn.agents.decisions import Decisions
from taciturn.agents.intake import SCALINGS, Intake, Taken
from taciturn.agents.lifecycle import Example, Lifecycle, check_settings
from taciturn.agents.parts.part import MAX_COUNT, Part, Scores, Sizes, require
from taciturn.agents.policy import Policy
from taciturn.agents.replay import Replay
from taciturn.agents.table import LABELLED, PENDING, REWARDED, NodeTable
from taciturn.contracts import STATES, Arm, Context, Decision, SparseRow
from taciturn.display import Displayed, Summary
from taciturn.errors import AlreadyAnswered, InvalidContext, TaciturnError, UnknownArm, UnknownDecision
from taciturn.features.encode import MAX_FEATURES
from taciturn.features.scale import most_slots
from taciturn.features.schema import NUMBER, Features
from taciturn.introspection import Explanation, Health
from taciturn.kernels.select import argmax_tied
from taciturn.system import Uninterrupted, format_bytes, machine_memory
from taciturn.tracking import track
from taciturn.validate import LARGEST_SEED, MANY, check_choice, check_number, shown

TIE = 1e-9
"""How close two upper bounds must be, relative to their size, to count as equal on every machine."""

MAX_EXPIRED = 100
"""How many decisions one decision can make silent, so that it is quick also after a long pause."""

RNG_STREAMS = {"learn": 1, "policy": 6, "evict": 7}
"""An agent's sources of randomness, each seeded by (seed, number); data streams use other numbers."""


@dataclass(kw_only=True, eq=False, repr=False)
class BaseAgent(Displayed, ABC):
    """A contextual bandit with two verbs: `decide` on a context, give `feedback` on what came of it.

    Arguments:
        arms: the arms' names, or how many there are (then they are called 0 … K−1).
        seed: determines all randomness of the agent.
        one_right_arm: a reward of 1 for one arm means 0 for all others: True where one answer is right (which queue a
            ticket belongs to), False where several can be good (which of three articles gets a click: another might
            have got one too).
        expire_after: a decision without feedback is silent once it is this old: in decisions, or in the unit of the
            times given to `decide` and `expire`. None never expires.
        silence: what is learned in silence: "impute" the reward that the agent imputes, if it does; "ignore"; or a
            constant reward.
        max_nodes, forget: how many contexts are held, and which are evicted first: the "oldest", or at random so that
            those held are an even sample of all ("reservoir"). None holds all.
        ties: among arms with equal bounds "balance" takes the one chosen least so far, which spreads the decisions
            before any feedback; "first" takes the first.
        epsilon, temperature: random choices, so that logs can be evaluated later: with probability `epsilon` any arm,
            else the best, or, with a temperature τ > 0, arm k in proportion to exp(bound_k / τ).
        features: what the columns of contexts are, as `taciturn.Features` or a mapping of its arguments; what is not
            said is inferred.
        scaling: "auto" brings numbers to a common scale by their mean and standard deviation so far, so that units do
            not matter; "l1" and "l2" divide each context by its norm, "none" takes contexts as they are.
        memory_limit: in bytes; the agent refuses to begin, or to take in more features, arms or contexts, where it
            would need more (see `memory_estimate`). None is what the machine has.

    A subclass stores its parameters as dataclass fields and fills in three hooks: `_build` makes its parts, `_score`
    returns the expected rewards and widths of all arms at a context, `_learn` learns an example. Optional: `_unlearn`
    takes the same example back (without it feedback is final), `_add_context` sees every context that arrives,
    `_impute` returns a reward for silence, `_score_batch` scores many contexts at once. Parts and the columns of
    ``self._table`` grow, are evicted from, gain arms and are saved without further code. In hooks a context is known by
    its `node`; ``self._contexts[node]`` is its sparse row.
    """

    tag: ClassVar[str]
    """The name of the class in files. It is the module and name unless a class sets it."""

    arms: Sequence[Arm] | int
    seed: int = 0
    one_right_arm: bool = True
    expire_after: float | None = None
    silence: str | float = "impute"
    max_nodes: int | None = None
    forget: str = "oldest"
    ties: str = "balance"
    epsilon: float = 0.0
    temperature: float = 0.0
    features: Features | Mapping[str, Any] | None = None
    scaling: str = "auto"
    memory_limit: float | None = None

    def __init_subclass__(cls) -> None:
        """Register the class, so that files of agents that are defined elsewhere can be read too."""
        storage.register(cls)
        display.keep_repr(cls)
        display.document_arguments(cls)

    def __post_init__(self) -> None:
        """Check the parameters; state is made with the first context."""
        names = validation.arm_names(self.arms)
        check_settings(self)
        check_number("seed", self.seed, 0, LARGEST_SEED, whole=True)
        check_choice("ties", self.ties, ("balance", "first"))
        check_number("epsilon", self.epsilon, 0, 1)
        check_number("temperature", self.temperature, 0, 1e6)
        check_choice("scaling", self.scaling, SCALINGS)
        if self.memory_limit is not None:
            check_number("memory_limit", self.memory_limit, 0, 1e18)
        self._generators = {name: np.random.default_rng([self.seed, number]) for name, number in RNG_STREAMS.items()}
        self._rng = self._generators["learn"]
        self._set_arms(names)
        self._table = NodeTable(len(names))
        self._intake = Intake(Features.of(self.features), self.scaling, self._table, self._make_room, self._has_room)
        self._contexts = self._table.contexts
        self._policy = Policy(len(names), self.epsilon, self.temperature, self._generators["policy"])
        self._lifecycle = Lifecycle(
            self._table,
            self,
            self._generators["evict"],
            learn=self._learn,
            unlearn=self._unlearn,
            impute=self._impute,
            keep=self._keep,
        )
        self._root: Part | None = None

    # The hooks.

    @abstractmethod
    def _build(self) -> dict[str, Part]:
        """Make the agent's parts, by the names that files hold them under, and the columns it adds to the table."""

    @abstractmethod
    def _score(self, node: int) -> Scores:
        """The expected rewards (K,) and their confidence widths (K,) at a context."""

    @abstractmethod
    def _learn(self, example: Example) -> None:
        """Learn a reward, observed or imputed."""

    def _unlearn(self, example: Example) -> None:
        """Take back what `_learn` learned of the same example."""
        id, name = self._table.id.data[example.node], type(self).__name__
        raise AlreadyAnswered(f"decision {id} had its feedback, and {name} cannot take it back")

    def _add_context(self, node: int, neighbors: list[int] | None) -> None:
        """A context arrived; `neighbors` are nodes, or None where no graph is given."""

    def _impute(self, node: int, arm: int) -> float | None:
        """The reward to learn for an arm at a silent context; None for nothing."""

    def _score_batch(self, rows: list[SparseRow]) -> list[Scores] | None:
        """The scores of all rows of a batch up front; None if deciding one row can change the scores of a later one."""
        return None

    def _working_nbytes(self, sizes: Sizes) -> float:
        """Bytes that the hooks take while they run, beside what parts and table hold and need."""
        return 0.0

    # Read-only views.

    def _summary(self) -> Summary:
        return display.summary(self)

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that this agent was made with."""
        params = {field.name: getattr(self, field.name) for field in fields(self)}
        return params | {"features": Features.of(self.features).as_dict() or None}

    @property
    def arm_names(self) -> tuple[Arm, ...]:
        """The arms by name, in the order of `Decision.scores`; retired ones keep their index."""
        return self._arm_names

    @property
    def active_arms(self) -> tuple[Arm, ...]:
        """The arms that can be chosen."""
        return tuple(name for name, active in zip(self._arm_names, self._policy.active, strict=True) if active)

    @property
    def times_chosen(self) -> tuple[int, ...]:
        """How often each arm was chosen, in the order of `arm_names`, without decisions that were withdrawn.

        An arm that was added later begins with as many as the least chosen had then.
        """
        return tuple(self._policy.times_chosen.data.tolist())

    @property
    def n_features(self) -> int:
        """How many features the contexts have so far; 0 before the first."""
        return self._intake.reader.n_features or 0

    @property
    def feature_names(self) -> Mapping[Hashable, int] | None:
        """The columns of named features, read-only; None where features go by position."""
        names = self._intake.reader.names
        return None if names is None else MappingProxyType(names)

    @property
    def feature_kinds(self) -> Mapping[Hashable, str]:
        """What each named column of the contexts is: "number", "category", "text", "tags", "date" or "vector"."""
        return MappingProxyType(self._intake.reader.kinds)

    @property
    def next_id(self) -> int:
        """The id that the next decision will have; ids are never used twice."""
        return self._table.next_id

    @property
    def clock(self) -> float | None:
        """The latest time that was given; None where decisions are counted."""
        return self._lifecycle.clock

    @property
    def decisions(self) -> Decisions:
        """What is held of all decisions, by id and as columns."""
        return Decisions.of(self._table, self._arm_names)

    @property
    def deferred(self) -> bool:
        """Whether training waits for `train_pending`."""
        return self._parts.deferred

    def state(self, id: int) -> str:
        """The state of the decision `id`: "pending", "rewarded" or "silent"; "labelled" for a row of `warm_start`."""
        return STATES[self._table.state.data[self._lifecycle.find(id)]]

    def decision(self, id: int) -> Decision:
        """The decision `id` as `decide` returned it, with NaN for arms that were added later."""
        table, node = self._table, self._lifecycle.find(id)
        if table.state.data[node] == LABELLED:
            raise UnknownDecision(f"decision {id} is a labelled row of warm_start; it was never decided on")
        columns = (table.scores, table.widths)
        scores, widths = (column.data[node].copy() for column in columns)
        return Decision(
            int(id), self._arm_names[table.arm.data[node]], scores, widths, float(table.propensity.data[node])
        )

    def log(self) -> dict[str, NDArray[Any]]:
        """All decisions that are held, as arrays: what off-policy evaluation needs.

        ``ids``, ``arms`` (indices), ``rewards`` (NaN where none was observed), ``propensities`` and ``states``.
        """
        table = self._table
        nodes = np.flatnonzero(table.state.data[: table.count] != LABELLED)
        states = table.state.data[nodes]
        rewards = np.where(states == REWARDED, table.value.data[nodes], np.nan)
        columns = {"ids": table.id.data[nodes], "arms": table.arm.data[nodes].astype(np.int64), "rewards": rewards}
        return columns | {"propensities": table.propensity.data[nodes], "states": np.array(STATES)[states]}

    def explain(self, id: int) -> Explanation:
        """Why the arm of the decision `id`: scores and widths, neighbors that support and oppose it, the runner-up."""
        node = self._lifecycle.find(id)
        with Uninterrupted():
            nearby = self._parts.near(node) or diagnostics.nearest(self._contexts, node)
        return diagnostics.explain(self._table, node, nearby, self._arm_names, one_right_arm=self.one_right_arm)

    def health(self) -> Health:
        """How the agent is doing: counts by state, imputation and its calibration, drift, memory."""
        nbytes = storage.nbytes(self.state_dict())
        approximations = self.approximations(measured=True)
        return diagnostics.health(self._table, self._lifecycle.stats, self._lifecycle.decisions, nbytes, approximations)

    def _require_contexts(self) -> None:
        if not self._table.count:
            raise TaciturnError("there are no contexts yet; decide on one first")

    def approximations(self, *, measured: bool = False) -> dict[str, Any]:
        """What the agent keeps other than exactly, by the names of `Health`; `measured` also says how far it is off."""
        return self._parts.approximations(measured=measured) if self.n_features else {}

    def memory_estimate(self, dimension: int, arms: int | None = None) -> int:
        """The most bytes at any time with `dimension` features, once all `arms` (None: those there are) have learned.

        That is what is held, with `max_nodes` contexts if it is set, and what deciding, training and eviction need
        while they run. Contexts have as many entries as those so far, or all features before the first.
        """
        check_number("dimension", dimension, 0, MAX_FEATURES, whole=True)
        if arms is not None:
            check_number("arms", arms, 1, validation.MAX_ARMS, whole=True)
        n_arms, n_nodes = len(self._arm_names) if arms is None else arms, max(self.max_nodes or 0, self._table.count)
        width = dimension if self._intake.scaler is None else most_slots(dimension)
        return int(self._peak_memory(memory.sizes_with(self._table, n_arms, width, n_nodes)))

    def features_with(self, x: Context) -> int:
        """How many features there would be with the context `x`; `InvalidContext` where it cannot be read."""
        return self._intake.read(x)[1].n_features

    def features_with_all(self, X: Any) -> int:
        """How many features there would be with the contexts `X`; `InvalidContext` where one of them cannot be read."""
        return self._intake.read_all(X)[1].n_features or 0

    def limit_features(self, most: int) -> None:
        """Give at most so many features columns of their own from now on; later ones share them."""
        check_number("most", most, 1, MAX_FEATURES, whole=True)
        features = self._intake.reader.features
        self.features = replace(features, max_features=min(features.max_features, most))
        self._intake.reader.features = self.features

    def memory_in_use(self) -> int:
        """Bytes that are held now, counting all arms and features as if they had learned: cheap for every request."""
        parts, table = self._parts, self._table
        width = max(self._contexts.n_features, self.n_features)  # numbers take part once they have varied
        sizes = memory.sizes_with(table, table.n_arms, width, table.count)
        return int(memory.held(parts, table, sizes))

    # Deciding.

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
            x: {name: value}, an array or list of numbers, a sparse row, a row of a frame, or a text; values are
                numbers, words, text, truth values, dates, lists, nested mappings, or None where one is missing.
            neighbors: where you have a graph, the ids of earlier decisions and `warm_start` rows next to this one, at
                most 1000. Without it the context is linked to its k nearest among those that were also given without.
            allowed: the arms that can be chosen this time; all that are not retired if None.
            at: the time, in any unit, if `expire_after` is to be counted in it; otherwise decisions are counted.
        """
        lifecycle, intake = self._lifecycle, self._intake
        reading = intake.read(x)
        near = None if neighbors is None else validation.known_ids(neighbors, self._table.next_id)
        selectable = self._policy.selectable if allowed is None else self._allowed_mask(allowed)
        clock = lifecycle.time_at(at) if at is not None or lifecycle.clock is not None else None
        with Uninterrupted():
            intake.accept(reading)
            lifecycle.clock = clock
            return self._decide(reading[0], near, selectable)

    def decide_batch(
        self,
        X: Any,
        neighbors: Sequence[Sequence[int] | None] | None = None,
        *,
        allowed: Sequence[Arm] | None = None,
        at: float | None = None,
    ) -> list[Decision]:
        """Choose an arm for each row of a matrix, frame or table, or item of a list: as `decide` one after the other.

        All rows are checked before the first is decided on, and features that are new in any of them are there from
        the first.

        Arguments:
            X: the contexts.
            neighbors: a list of ids, or None, for each row.
            allowed: the arms that can be chosen, as for `decide`, in all rows.
            at: the time of all rows, as for `decide`.
        """
        rows, reader = self._intake.read_all(X)
        given = [None] * len(rows) if neighbors is None else list(neighbors)
        if len(given) != len(rows):
            raise TaciturnError(f"there are {len(rows)} contexts and {len(given)} lists of neighbors; each needs one")
        near = [validation.known_ids(ids, self._table.next_id + i) for i, ids in enumerate(given)]
        selectable = self._policy.selectable if allowed is None else self._allowed_mask(allowed)
        clock = self._lifecycle.time_at(at)
        with Uninterrupted():
            self._intake.accept_all(rows, reader)
            self._lifecycle.clock = clock
        taken, nothing = self._intake.take_batch(rows), [None] * len(rows)
        scored = self._score_batch([scaled for _, scaled in taken]) if taken else None
        batch = track(zip(rows, near, scored or nothing, taken or nothing, strict=True), len(rows), "decisions")
        decisions = []
        for row, ids, scores, made in batch:
            with Uninterrupted():
                decisions.append(self._decide(row, ids, selectable, scores, made))
        return decisions

    def _decide(
        self,
        row: SparseRow,
        neighbors: list[int] | None,
        selectable: NDArray[np.bool_] | None,
        scored: Scores | None = None,
        taken: Taken | None = None,
    ) -> Decision:
        lifecycle, table, policy = self._lifecycle, self._table, self._policy
        order: float = table.next_id
        if self.expire_after is not None:
            lifecycle.expire(MAX_EXPIRED)
        if self.max_nodes is not None:
            lifecycle.evict(1)
            order = lifecycle.evict_order()
        time = lifecycle.decisions if lifecycle.clock is None else lifecycle.clock
        self._renew_scale()
        before, decisions = table.count, lifecycle.decisions
        try:
            node = self._intake.append(row, PENDING, time, order, taken)
            near = None if neighbors is None else [n for n in map(table.find, neighbors) if n >= 0]
            lifecycle.decisions = decisions + 1
            self._add_context(node, near)
            scores, widths = scored or self._score(node)
            arm, propensity = self._choose(self._upper_bounds(scores, widths, selectable))
            if policy.replay is not None:
                arm, recorded = policy.replay.next(table.next_id - 1, arm, self._arm_index)
                scores, widths, propensity = recorded.scores, recorded.widths, recorded.propensity
            self._intake.observe(node)
        except BaseException:
            lifecycle.decisions = decisions
            lifecycle.retain(np.arange(before))  # a decision that was not made leaves no context behind
            raise
        policy.times_chosen.data[arm] += 1
        table.arm.data[node], table.propensity.data[node] = arm, propensity
        table.scores.data[node], table.widths.data[node] = scores, widths
        return Decision(table.next_id - 1, self._arm_names[arm], scores, widths, propensity)

    def _renew_scale(self) -> None:
        """Take the scale of the contexts so far where it is due, and let all that was learned follow."""
        change = self._intake.renewed()
        if change is not None:
            self._parts.rescale(change)

    def _choose(self, bounds: NDArray[np.float64]) -> tuple[int, float]:
        """The arm to choose by its upper bound (K,), and its probability."""
        policy = self._policy
        arm = argmax_tied(bounds, TIE, policy.times_chosen.data, self.ties == "balance")
        if arm < 0 and policy.replay is None:
            raise InvalidContext("the context overflows: an arm was scored NaN or infinite")
        return (arm, 1.0) if policy.deterministic or arm < 0 else policy.sample(bounds, arm)

    @contextmanager
    def replaying(self, recorded: Iterable[Decision]) -> Iterator[Replay]:
        """Within the block, `decide` and `decide_batch` return the `recorded` decisions, and learn as if they were new.

        What was once answered stays, whatever the scores of today say; the agent's randomness is used as it was then.
        """
        if self._policy.replay is not None:
            raise TaciturnError("this agent is replaying already; end that block first")
        try:
            self._policy.replay = Replay(recorded)
            yield self._policy.replay
        finally:
            self._policy.replay = None

    def _upper_bounds(self, scores: Any, widths: Any, selectable: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """``scores + widths`` (K,), −∞ for arms that cannot be chosen."""
        bounds = np.add(scores, widths, dtype=float)
        if bounds.shape != (len(self._arm_names),):
            name, n_arms = type(self).__name__, len(self._arm_names)
            raise TaciturnError(f"{name}._score returned arrays of shape {bounds.shape}; there are {n_arms} arms")
        return bounds if selectable is None else np.where(selectable, bounds, -np.inf)

    def _allowed_mask(self, allowed: Any) -> NDArray[np.bool_]:
        """Which arms can be chosen (K,)."""
        if not isinstance(allowed, Iterable) or isinstance(allowed, str):
            raise UnknownArm(f"allowed={shown(allowed)} is not allowed; a list of arms is")
        mask = np.zeros(len(self._arm_names), np.bool_)
        mask[[validation.arm_index(name, self._arm_index) for name in allowed]] = True
        mask &= self._policy.active
        if not mask.any():
            raise UnknownArm(f"allowed={shown(allowed)} names no arm that is not retired; at least one is needed")
        return mask

    # Learning.

    def warm_start(self, X0: Any, y0: Any, edges: Any = None) -> list[int]:
        """Learn from contexts whose right arm is known, and return the ids of these rows.

        Arguments:
            X0: the contexts: a matrix, dense or sparse, a frame or table, or a list of contexts.
            y0: their arms, by name (or 0 … K−1).
            edges: where you have a graph, pairs of rows of X0 that it connects (an empty list is a graph too).
        """
        rows, reader = self._intake.read_all(X0)
        labels = validation.label_indices(y0, self._arm_index, len(rows))
        adjacent = validation.earlier_ends(edges, len(rows))
        if self.max_nodes is not None and len(rows) > self.max_nodes:
            raise TaciturnError(f"{len(rows)} labelled rows do not fit into max_nodes={self.max_nodes}")
        lifecycle, table = self._lifecycle, self._table
        with Uninterrupted():
            self._intake.accept_all(rows, reader)
            lifecycle.evict(len(rows))
        first = table.count
        try:
            for row, label, near in track(zip(rows, labels, adjacent, strict=True), len(rows), "labelled rows"):
                with Uninterrupted():
                    self._renew_scale()
                    node = self._intake.append(row, LABELLED, -np.inf, lifecycle.evict_order())
                    self._intake.observe(node)
                    table.arm.data[node] = label
                    self._add_context(node, None if near is None else [first + i for i in near])
            for node in range(first, table.count):
                with Uninterrupted():
                    lifecycle.apply(node, 1.0, imputed=False)
        except BaseException:
            with Uninterrupted():
                self._discard(first)
            raise
        with Uninterrupted():
            self._parts.after_warm_start()
        return table.id.data[first : table.count].tolist()  # type: ignore[no-any-return]

    def _discard(self, first: int) -> None:
        """Unlearn and evict all nodes from `first` on."""
        for node in range(first, self._table.count):
            self._intake.forget(node)
        for node in range(first, self._table.count):
            try:
                self._lifecycle.revert(node)
            except AlreadyAnswered:  # an agent that cannot unlearn
                break
        self._lifecycle.retain(np.arange(first))

    def feedback(self, id: int, reward: float | None) -> None:
        """Say what came of the decision `id`: a `reward` from 0 to 1, or None if none will ever come.

        It may come late, and it may come again: the same once more changes nothing, another one corrects it.
        """
        lifecycle = self._lifecycle
        node = lifecycle.find(id)
        value = validation.reward_of(reward)
        if self._table.state.data.item(node) == LABELLED:
            raise AlreadyAnswered(f"decision {id} is a labelled row of warm_start; its arm is known")
        with Uninterrupted():
            lifecycle.set_feedback(node, value)

    def withdraw(self, id: int) -> None:
        """The decision `id` was never shown: evict its context and unlearn all that was learned of it.

        The evidence is then as if it had not been. The weights of networks and solvers stay as they are, and so does
        the scale of numbers until it is next renewed.
        """
        node = self._lifecycle.find(id)
        arm, labelled = int(self._table.arm.data[node]), self._table.state.data[node] == LABELLED
        with Uninterrupted():
            self._lifecycle.revert(node)
            self._intake.forget(node)
            self._lifecycle.withdraw(node)
            if not labelled:
                self._policy.times_chosen.data[arm] -= 1

    def expire(self, now: float | None = None) -> list[int]:
        """Make all decisions silent that have waited for `expire_after`, and return their ids.

        Every `decide` does so too, for the oldest few. `now` is a time as given to `decide`; the agent has no clock of
        its own.
        """
        with Uninterrupted():
            self._lifecycle.clock = self._lifecycle.time_at(now)
            return self._lifecycle.expire()

    def defer_training(self, *, on: bool = True) -> None:
        """Leave training and solving to `train_pending` from now on, so that `decide` need not wait; or no longer."""
        check_choice("on", on, (True, False))
        with Uninterrupted():
            self._parts.defer(on=on)

    def train_pending(self, steps: int = 1) -> int:
        """Run up to `steps` pieces of deferred training, each of bounded size; returns how many were run."""
        check_number("steps", steps, 0, MANY, whole=True)
        done, goes_on = 0, self.n_features > 0
        while goes_on and done < steps:
            with Uninterrupted():
                goes_on = self._parts.train_step()
                done += goes_on
        return done

    # Arms.

    def add_arm(self, name: Arm, like: Arm | None = None) -> None:
        """A new arm, with nothing learned or all that was learned of another; or one that was retired, as it was.

        Arguments:
            name: what it is called.
            like: the arm whose knowledge it begins with. Corrections that come later reach only the original.
        """
        model = None if like is None else validation.arm_index(like, self._arm_index)
        if isinstance(name, Hashable) and name in self._arm_index:
            index = self._arm_index[name]
            if self._policy.active[index]:
                raise TaciturnError(f"there is an arm {shown(name)} already")
            self._policy.set_active(index, active=True)
            return
        names = validation.arm_names([*self._arm_names, name])
        self._check_memory(len(names), self._contexts.n_features, grows=True)
        with Uninterrupted():
            if self.n_features:
                self._parts.add_arm(model)
            self._table.add_arm(model)
            self._policy.add_arm(model)
            self._set_arms(names)

    def retire_arm(self, name: Arm) -> None:
        """Never choose the arm `name` again; pending decisions for it still learn, and `add_arm` brings it back."""
        index = validation.arm_index(name, self._arm_index)
        if self._policy.active[index] and self._policy.active.sum() == 1:
            raise TaciturnError(f"{shown(name)} is the last arm; there must be one to choose")
        self._policy.set_active(index, active=False)

    def _set_arms(self, names: tuple[Arm, ...]) -> None:
        self._arm_names = names
        self._arm_index = {name: k for k, name in enumerate(names)}

    # Parts and the table: growth, eviction, memory.

    @property
    def _parts(self) -> Part:
        """The part that holds all others."""
        if self._root is None:
            with Uninterrupted():
                root, parts = Part(), self._build()
                if not isinstance(parts, dict):
                    raise TaciturnError(
                        f"{type(self).__name__}._build returned {shown(parts)}; a dict of parts is needed"
                    )
                for name, part in parts.items():
                    root.child(name, part)
                self._root = root
        return self._root

    def _make_room(self, n_features: int, rows: list[SparseRow]) -> None:
        """Make the state, or extend it by features, before rows arrive; where memory is short nothing has changed."""
        before = self._contexts.n_features
        if n_features <= before:
            if memory.is_check_due(self._table.next_id, len(rows)):
                self._check_memory(len(self._arm_names), n_features, rows, grows=False)
            return
        n_arms = len(self._arm_names)
        self._check_memory(n_arms, n_features, rows, grows=True)
        self._contexts.n_features = n_features
        try:
            self._parts.add_features(n_features) if before else self._parts.allocate(n_arms, n_features)
        except BaseException as error:
            self._contexts.n_features = before
            if isinstance(error, MemoryError):
                raise TaciturnError(f"there is not enough memory for {n_arms} arms and {n_features} features") from None
            raise

    def _check_memory(self, n_arms: int, n_features: int, rows: Sequence[SparseRow] = (), *, grows: bool) -> None:
        """Raise where memory will be short before the next check.

        Where arms or features are added (`grows`): with `max_nodes` contexts, or while what is held is copied.
        """
        if self._policy.replay is not None:  # it was checked when the decision was first made
            return
        limit = machine_memory() if self.memory_limit is None else self.memory_limit
        n_nodes, needed = self._needed_memory(n_arms, n_features, rows, grows=grows)
        if needed > limit:
            contexts = f" with {n_nodes} contexts" if self.max_nodes or self._table.count else ""
            raise TaciturnError(
                f"{type(self).__name__} with {n_arms} arms and {n_features} features takes about "
                f"{format_bytes(needed)}{contexts}; memory_limit is {format_bytes(limit)}"
            )

    def _needed_memory(
        self, n_arms: int, n_features: int, rows: Sequence[SparseRow], *, grows: bool
    ) -> tuple[int, float]:
        """With how many contexts, and how many bytes: see `_check_memory`."""
        table, parts, capacity = self._table, self._parts, self.max_nodes or 0
        count = table.count + len(rows)
        soon = count + memory.CHECK_EVERY
        n_nodes = max(count, capacity) if grows else min(soon, capacity or soon)
        needed = self._peak_memory(memory.sizes_with(table, n_arms, n_features, n_nodes, rows))
        if grows and self.n_features:
            now = memory.sizes_with(table, n_arms, n_features, table.count, rows)
            needed = max(needed, memory.held(parts, table, now) + parts.replaced_nbytes())
        return n_nodes, needed

    def _has_room(self, n_features: int) -> bool:
        """Whether so many features fit into `memory_limit`; the same at a replay, whatever machine it is on."""
        if self.memory_limit is None or n_features <= self._contexts.n_features:
            return True
        return self._needed_memory(len(self._arm_names), n_features, (), grows=True)[1] <= self.memory_limit

    def _peak_memory(self, sizes: Sizes) -> float:
        return memory.peak(self._parts, self._table, sizes, self._working_nbytes)

    def _keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all nodes but these, from the table and from all parts."""
        if self.n_features:
            goes = np.ones(self._table.count, np.bool_)
            goes[nodes] = False
            self._parts.evicting(np.flatnonzero(goes))
        self._table.keep(nodes)
        self._parts.keep(nodes)

    # Copies and files.

    def save(self, path: str | Path) -> None:
        """Write the agent to one file at `path`; `taciturn.load` reads it back, and it resumes bit for bit."""
        storage.save(self, path)

    def fork(self, seed: int | None = None) -> Self:
        """An independent copy: it decides exactly as this one would, or with the randomness of another seed."""
        other = copy.deepcopy(self)
        if seed is not None:
            other.reseed(seed)
        return other

    def reseed(self, seed: int) -> None:
        """Restart all randomness from another seed."""
        check_number("seed", seed, 0, LARGEST_SEED, whole=True)
        with Uninterrupted():
            self.seed = seed
            for name, generator in self._generators.items():
                generator.bit_generator.state = np.random.default_rng([seed, RNG_STREAMS[name]]).bit_generator.state

    def state_dict(self) -> dict[str, Any]:
        """All that a file holds of an agent; arrays are live, so copy what you keep. The keys are the file format."""
        table, parts = self._table, self._parts  # which add their columns to the table
        return {
            "params": self.params | {"features": Features.of(self.features).saved()},
            "arm_names": self._arm_names,
            "intake": self._intake.state_dict(),
            "table": {"next_id": table.next_id, "columns": table.state_dict()},
            "lifecycle": self._lifecycle.state_dict(),
            "policy": self._policy.state_dict(),
            "random": {name: generator.bit_generator.state for name, generator in self._generators.items()},
            "deferred": parts.deferred,
            "parts": parts.state_dict() if self.n_features else {},
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """The agent of a `state`, as `state_dict` returns it; `ValueError` where its parts do not fit together."""
        if "intake" not in state:
            state = _without_scale(state)
        arms, names = state["params"]["arms"], state["arm_names"]
        n_arms = arms if isinstance(arms, int | np.integer) else len(arms)  # a forged one could take all memory
        require(n_arms <= len(names), "there are fewer arms than at the start")
        agent = cls(**state["params"])
        agent.load_state_dict(state)
        return agent

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the `state` that `state_dict` returned, from an agent with the same parameters."""
        names, parts, table = validation.arm_names(list(state["arm_names"])), self._parts, self._table
        self._set_arms(names)
        n_nodes = len(state["table"]["columns"]["id"])
        table.load_state_dict(state["table"]["columns"], len(names), n_nodes)
        n_features = self._intake.load_state_dict(state["intake"], len(names), n_nodes)
        sizes = len(names), n_features, n_nodes
        next_id = state["table"]["next_id"]
        require(type(next_id) is int and 0 <= next_id < MAX_COUNT, "the next id is not a count")
        table.next_id = next_id
        table.check()
        self._policy.load_state_dict(state["policy"], *sizes)
        self._lifecycle.load_state_dict(state["lifecycle"], *sizes)
        for name, generator in self._generators.items():
            generator.bit_generator.state = state["random"][name]
        check_choice("deferred", state["deferred"], (True, False))
        self.defer_training(on=state["deferred"])
        if self.n_features:
            parts.load_state_dict(state["parts"], *sizes)


def _without_scale(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an agent from format 4 of files, which knew numbers only and took them as they were."""
    names, n_features = state["feature_names"], state["n_features"]
    reader = {
        "n_inputs": None if names is not None else n_features or None,
        "names": names,
        "is_number": np.ones(len(names or ()), np.bool_),
        "frequency": np.zeros(len(names or ()), np.int64),
        "n_texts": 0,
        "kinds": dict.fromkeys(names or (), NUMBER),
    }
    intake = {"reader": reader, "contexts": state["table"]["contexts"], "scale": None}
    return state | {"params": {"scaling": "none"} | state["params"], "intake": intake}
