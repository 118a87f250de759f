"""The lifecycle of a decision: its reward may come late, never, twice, be corrected, or be withdrawn.

    pending ──reward──▶ rewarded ──another──▶ rewarded, corrected
       │                   ▲
       └──None, or time──▶ silent ──a late reward

Whatever was learned before is unlearned before something else is learned: what an agent has learned is always what it
would have learned from the last feedback of each decision alone.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.diagnostics import FeedbackStats
from taciturn.agents.parts.part import Part, require
from taciturn.agents.table import PENDING, REWARDED, SILENT, NodeTable
from taciturn.agents.validation import known_id
from taciturn.errors import ForgottenDecision, TaciturnError
from taciturn.validate import LARGEST, MANY, check_choice, check_number, shown

EVICT_SHARE, MOST_EVICTED = 64, 16
"""When the table is full, max_nodes / 64 contexts are evicted at once, and at most 16: most decisions evict none, and
one that does waits for few lists of neighbors to be filled anew."""


LARGEST_TIME = 1e300
"""The largest absolute time, in any unit: differences stay finite."""


class Example(NamedTuple):
    """One thing to learn, or to unlearn: the reward of an arm at a context, and what it says about each arm.

    `targets` and `mask` are (K,) for the K arms that there were when it was learned: arm k has the target `targets[k]`
    where `mask[k]`. Where one arm is right, an observed reward of 1 labels all arms; otherwise a reward labels the arm
    that was chosen.
    """

    node: int
    arm: int
    reward: float
    imputed: bool
    targets: NDArray[np.float64]
    mask: NDArray[np.bool_]


class Labels(NamedTuple):
    """All that is learned now, as arrays: the node of each example, its arm, reward, and how many arms it labels.

    The first `known` arms have targets, or, where that is −1, its own arm alone. Nodes rise.
    """

    nodes: NDArray[np.int64]
    arms: NDArray[np.int64]
    rewards: NDArray[np.float64]
    known: NDArray[np.int64]

    def dense(self, arms: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights 0 or 1, and targets, of some arms in each example (n, k)."""
        own = self.arms[:, None] == arms
        labelled = own | (arms < self.known[:, None])
        return labelled.astype(float), np.where(own, self.rewards[:, None], 0.0)


def lowest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The indices of the `count` lowest of `values` (N,), the first among equal ones; takes time linear in N."""
    if count >= len(values):
        return np.arange(len(values))
    bound = np.partition(values, count - 1)[count - 1]
    below = np.flatnonzero(values < bound)
    return np.concatenate([below, np.flatnonzero(values == bound)[: count - len(below)]])


class LifecycleSettings(Protocol):
    """The parameters of an agent that govern its decisions' lifecycle; see `BaseAgent`."""

    one_right_arm: bool
    expire_after: float | None
    silence: str | float
    max_nodes: int | None
    forget: str


def check_settings(settings: LifecycleSettings) -> None:
    """Raise on parameters that are not allowed."""
    check_choice("one_right_arm", settings.one_right_arm, (True, False))
    if settings.expire_after is not None:
        check_number("expire_after", settings.expire_after, 0, LARGEST_TIME)
    if isinstance(settings.silence, str):
        check_choice("silence", settings.silence, ("impute", "ignore"))
    else:
        check_number("silence", settings.silence, 0, 1)
    if settings.max_nodes is not None:
        check_number("max_nodes", settings.max_nodes, 16, MANY, whole=True)
    check_choice("forget", settings.forget, ("oldest", "reservoir"))


class Lifecycle(Part):
    """What becomes of the decisions in a table; an agent owns one and hands it what it needs.

    Arguments:
        table: the contexts and decisions.
        settings: the agent's parameters.
        rng: draws which contexts are evicted by ``forget="reservoir"``.
        learn, unlearn, impute: the agent's hooks.
        keep: drops all nodes but some from the table and from all parts.
    """

    SAVED: ClassVar[dict[str, str]] = {
        "decisions": "decisions",
        "clock": "clock",
        "first_unexpired": "_first_unexpired",
    }

    def __init__(
        self,
        table: NodeTable,
        settings: LifecycleSettings,
        rng: np.random.Generator,
        *,
        learn: Callable[[Example], None],
        unlearn: Callable[[Example], None],
        impute: Callable[[int, int], float | None],
        keep: Callable[[NDArray[np.int64]], None],
    ) -> None:
        super().__init__()
        self._table, self._settings, self._rng = table, settings, rng
        self._learn, self._unlearn, self._impute, self._keep = learn, unlearn, impute, keep
        self.stats = self.child("stats", FeedbackStats())
        self.full_feedback = False  # an observed 1 labels all arms, whatever `one_right_arm` says
        self.decisions = 0
        self.clock: float | None = None  # the latest time given; None where decisions are counted
        self._first_unexpired = 0  # no pending node before this one can expire

    def find(self, id: object) -> int:
        """The node of an id."""
        table = self._table
        known = known_id(id, table.next_id)
        node = table.find(known)
        if node < 0:
            limit = self._settings.max_nodes
            older = "" if limit is None else f", or more than max_nodes={limit} ago"
            raise ForgottenDecision(f"decision {known} is forgotten: it was withdrawn{older}")
        return node

    def evict_order(self) -> float:
        """Where the next context stands in the order of eviction: by age, or at random."""
        if self._settings.max_nodes is not None and self._settings.forget == "reservoir":
            return float(self._rng.random())
        return self._table.next_id

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take counts and the time over; nodes that expire are in the table."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        clock = self.clock
        timed = type(clock) is float and abs(clock) <= LARGEST_TIME
        require(clock is None or timed, "the time is not allowed")
        require(self._first_unexpired <= n_nodes, "the first decision that can expire is not there")

    # Feedback.

    def set_feedback(self, node: int, reward: float | None) -> None:
        """Learn the feedback of a decision in place of what was learned before; if that fails nothing has changed."""
        if self._table.state.data.item(node) == PENDING:
            self._settle(node, reward)
        else:
            self._correct(node, reward)

    def _settle(self, node: int, reward: float | None) -> None:
        """Learn the feedback of a pending decision."""
        value = self._imputed_value(node) if reward is None else reward
        if value is not None:
            self.apply(node, value, imputed=reward is None)
        self._table.state.data[node] = SILENT if reward is None else REWARDED

    def _correct(self, node: int, reward: float | None) -> None:
        """Learn the feedback of a decision in place of what was learned before."""
        table = self._table
        before, known = table.state.data.item(node), table.value.data.item(node)
        is_known = reward is None if before == SILENT else reward == known
        if is_known:
            return
        n_arms = table.n_arms_known.data.item(node)
        self.revert(node)
        try:
            self._settle(node, reward)
        except BaseException:
            if not np.isnan(known):
                self.apply(node, known, imputed=before == SILENT, n_arms=n_arms)
            table.state.data[node] = before
            raise
        imputed = known if before == SILENT else np.nan
        self.stats.record(corrected=before == REWARDED, late=before == SILENT, imputed=imputed, reward=reward)

    def _imputed_value(self, node: int) -> float | None:
        """What to learn from silence at a context; None for nothing."""
        silence = self._settings.silence
        if isinstance(silence, str):
            value = self._impute(node, int(self._table.arm.data[node])) if silence == "impute" else None
            if value is not None and not abs(value) <= LARGEST:  # false for NaN too
                raise TaciturnError(f"a reward of {value!r} was imputed; a finite number is needed")
            return value
        return float(silence)

    def apply(self, node: int, value: float, *, imputed: bool, n_arms: int | None = None) -> None:
        """Learn a value for a decision, which labels the first `n_arms` arms at most; by default all there are."""
        table = self._table
        before = table.n_arms_known.data.item(node)
        table.n_arms_known.data[node] = table.n_arms if n_arms is None else n_arms
        try:
            self._learn(self.example(node, value, imputed=imputed))
        except BaseException:
            table.n_arms_known.data[node] = before
            raise
        table.value.data[node] = value

    def revert(self, node: int) -> None:
        """Unlearn what was learned of a decision, which is pending then."""
        table = self._table
        value, imputed = float(table.value.data[node]), bool(table.state.data[node] == SILENT)
        table.value.data[node] = np.nan
        if not np.isnan(value):
            try:
                self._unlearn(self.example(node, value, imputed=imputed))
            except BaseException:
                table.value.data[node] = value
                raise
        table.state.data[node] = PENDING

    def example(self, node: int, reward: float, *, imputed: bool) -> Example:
        """What a reward says about the arms that there were when it was learned."""
        table = self._table
        arm, n_arms = table.arm.data.item(node), table.n_arms_known.data.item(node)
        targets = np.zeros(n_arms)
        targets[arm] = reward
        if reward == 1 and not imputed and (self._settings.one_right_arm or self.full_feedback):
            mask = np.ones(n_arms, np.bool_)
        else:
            mask = np.zeros(n_arms, np.bool_)
            mask[arm] = True
        return Example(node, arm, reward, imputed, targets, mask)

    def labels(self, *, imputed: bool, new: Example | None = None) -> Labels:
        """All that is learned now, with imputed rewards or without; `new` is an example that is being learned."""
        table = self._table
        values = table.value.data[: table.count].copy()
        if new is not None:
            values[new.node] = new.reward
        silent = table.state.data[: table.count] == SILENT
        if new is not None:
            silent[new.node] = new.imputed
        nodes = np.flatnonzero(~np.isnan(values) & (imputed | ~silent))
        rewards, arms = values[nodes], table.arm.data[nodes].astype(np.int64)
        labels_all = (rewards == 1) & ~silent[nodes] & (self._settings.one_right_arm or self.full_feedback)
        return Labels(nodes, arms, rewards, np.where(labels_all, table.n_arms_known.data[nodes], -1))

    def learned(self, node: int) -> Example | None:
        """What is learned at a context; None for nothing."""
        value = float(self._table.value.data[node])
        silent = bool(self._table.state.data[node] == SILENT)
        return None if np.isnan(value) else self.example(node, value, imputed=silent)

    def examples(self) -> Iterator[Example]:
        """All that is learned now, oldest first."""
        table = self._table
        for node in np.flatnonzero(~np.isnan(table.value.data[: table.count])).tolist():
            yield self.example(node, float(table.value.data[node]), imputed=bool(table.state.data[node] == SILENT))

    @property
    def evicts(self) -> bool:
        """Whether contexts are evicted when there are too many."""
        return self._settings.max_nodes is not None

    @property
    def nothing_evicted(self) -> bool:
        """Whether `examples` are all that was ever learned."""
        return self.stats.forgotten == 0

    def withdraw(self, node: int) -> None:
        """Unlearn a decision and evict its context."""
        self.revert(node)
        self.stats.withdrawn += 1
        self.retain(np.delete(np.arange(self._table.count), node))

    # Time.

    def time_at(self, at: float | None) -> float | None:
        """The time now. It never runs backwards: a clock that was set back stands still until it has caught up."""
        if at is None and self.clock is None:
            return None
        if at is None:
            raise TaciturnError("this agent's decisions carry times; give the time with at=…, now=… to expire")
        check_number("at", at, -LARGEST_TIME, LARGEST_TIME)
        if self.clock is None and self.decisions:
            raise TaciturnError(f"at={shown(at)} is not allowed; this agent's decisions so far came without a time")
        return float(at) if self.clock is None else max(self.clock, float(at))

    def expire(self, most: float = np.inf) -> list[int]:
        """Make the oldest decisions silent that have waited for `expire_after`, at most so many; returns their ids."""
        if self._settings.expire_after is None:
            return []
        table = self._table
        expired: list[int] = []
        now = self.decisions if self.clock is None else self.clock
        latest = now - self._settings.expire_after
        while self._first_unexpired < table.count and table.time.data[self._first_unexpired] <= latest:
            if len(expired) >= most:
                break
            node = self._first_unexpired
            if table.state.data[node] == PENDING:
                self.set_feedback(node, None)
                expired.append(int(table.id.data[node]))
            self._first_unexpired = node + 1
        self.stats.expired += len(expired)
        return expired

    # The bound on memory.

    def evict(self, coming: int) -> None:
        """Evict contexts where there are too many for `coming` more under `max_nodes`.

        The newest max_nodes // 2 pending decisions are never evicted; older pending ones are evicted first.
        """
        table, limit = self._table, self._settings.max_nodes
        if limit is None or table.count + coming <= limit:
            return
        fewer = max(table.count + coming - limit, min(limit // EVICT_SHARE, MOST_EVICTED))
        evicted = self._to_evict(fewer, limit // 2)
        self.stats.forgotten += len(evicted)
        self.stats.evicted_pending += int((table.state.data[evicted] == PENDING).sum())
        self.retain(np.delete(np.arange(table.count), evicted))

    def _to_evict(self, count: int, protected: int) -> NDArray[np.int64]:
        """The `count` nodes to evict first; the newest `protected` of the pending ones are the last."""
        table = self._table
        states, pending = table.state.data[: table.count], table.nodes(PENDING)
        if self._settings.forget == "oldest" and len(pending) <= protected:  # nodes are in the order of their age
            settled = np.flatnonzero(states[: count + len(pending)] != PENDING)
            if len(settled) >= count:
                return settled[:count]
        order = table.evict_order.data[: table.count].copy()
        order[pending] = np.inf
        order[pending[: max(0, len(pending) - protected)]] = -np.inf
        return lowest(order, count)

    def retain(self, nodes: NDArray[np.int64]) -> None:
        """Evict all nodes but these."""
        self._first_unexpired = int(np.searchsorted(nodes, self._first_unexpired))
        self._keep(nodes)
