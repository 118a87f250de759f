"""The life of a decision: late, never, twice, corrected, withdrawn, forgotten.

    pending ──reward──▶ rewarded ──another──▶ rewarded, corrected
       │                   ▲
       └──None, or time──▶ silent ──the truth lands after all

Whatever was learned on the way is taken back before something else is learned: what an agent knows is always what it
would know had it heard the last word only.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.account import Tally
from taciturn.agents.border import known_id, reward_of
from taciturn.agents.contexts import RowStore
from taciturn.agents.ledger import LABELLED, NOTHING, PENDING, REWARDED, SILENT, Ledger
from taciturn.contracts import STATES, SparseRow
from taciturn.errors import AlreadyAnswered, ForgottenDecision, TaciturnError
from taciturn.validate import check_choice, check_number

Fact = tuple[SparseRow, int, float, int]
"""What is known: a context, an arm, its reward, and of how many arms this speaks (0 for that arm alone)."""

AT_ONCE = 64
"""A full memory is cleared of one part in this many, so that most decisions need not clear anything."""


@dataclass(kw_only=True, eq=False)
class DecisionLife(ABC):
    """What becomes of decisions once they are made.

    Arguments:
        one_right_arm: a reward of 1 for one arm means 0 for all others.
        expire_after: a decision without feedback is silent once it is so old: in decisions, or in the unit of the times
            given to `decide` and `expire`. None waits for ever.
        silence: what is learned in silence: "impute" what the agent supposes, if it does; "ignore"; or a reward that is
            always supposed.
        max_nodes, forget: how many contexts are remembered, and which go first: the "oldest", or at random so that what
            stays is an even sample of all ("reservoir"). None remembers all.
    """

    one_right_arm: bool = True
    expire_after: float | None = None
    silence: str | float = "impute"
    max_nodes: int | None = None
    forget: str = "oldest"

    def _check_life(self) -> None:
        check_choice("one_right_arm", self.one_right_arm, (True, False))
        if self.expire_after is not None:
            check_number("expire_after", self.expire_after, 0)
        if isinstance(self.silence, str):
            check_choice("silence", self.silence, ("impute", "ignore"))
        else:
            check_number("silence", self.silence, 0, 1)
        if self.max_nodes is not None:
            check_number("max_nodes", self.max_nodes, 16, whole=True)
        check_choice("forget", self.forget, ("oldest", "reservoir"))

    def _begin_life(self, arms: int) -> None:
        self._rows = RowStore()
        self._ledger = Ledger(arms)
        self._tally = Tally()
        self._times_chosen = np.zeros(arms, np.int64)
        self._decisions = 0
        self._clock: float | None = None  # the latest time given; None where decisions count themselves
        self._overdue = 0  # no node before this one is pending and could expire

    def feedback(self, id: int, reward: float | None) -> None:
        """Say what came of a decision: a reward from 0 to 1, or None if none will ever come.

        It may come late, and it may come again: the same once more changes nothing, something else corrects it.
        """
        node = self._find(id)
        value = reward_of(reward)
        if self._ledger.state[node] == LABELLED:
            raise AlreadyAnswered(f"decision {id} is a labelled row of warm_start; its arm is known")
        self._settle(node, value)

    def _settle(self, node: int, reward: float | None) -> None:
        ledger, before = self._ledger, int(self._ledger.state[node])
        state = SILENT if reward is None else REWARDED
        if before == state and (reward is None or ledger.value[node] == reward):
            return
        known = float(ledger.value[node])
        supposed = known if before == SILENT else NOTHING
        if before != PENDING:
            self._take_back(node)
        try:
            value = self._supposed(node) if reward is None else reward
            if value is not None:
                self._know(node, value, imputed=reward is None)
        except BaseException:
            if before != PENDING:  # back to what was known before
                if not np.isnan(known):
                    self._know(node, known, imputed=before == SILENT)
                ledger.state[node] = before
            raise
        ledger.state[node] = state
        if before != PENDING:
            self._tally.settled(before, state, supposed, reward)

    def _supposed(self, node: int) -> float | None:
        """What to learn from silence at a context; None for nothing."""
        if isinstance(self.silence, str):
            return self._impute(node, int(self._ledger.arm[node])) if self.silence == "impute" else None
        return float(self.silence)

    def _know(self, node: int, value: float, *, imputed: bool) -> None:
        ledger = self._ledger
        ledger.arms[node] = ledger.scores.shape[1]
        self._learn(node, int(ledger.arm[node]), value, imputed=imputed)
        ledger.value[node] = value

    def _take_back(self, node: int) -> None:
        """Undo what was learned of a decision, which is pending then."""
        ledger = self._ledger
        value, imputed = float(ledger.value[node]), bool(ledger.state[node] == SILENT)
        ledger.value[node] = NOTHING
        if not np.isnan(value):
            try:
                self._unlearn(node, int(ledger.arm[node]), value, imputed=imputed)
            except BaseException:
                ledger.value[node] = value
                raise
        ledger.state[node] = PENDING

    def withdraw(self, id: int) -> None:
        """The decision was never shown: forget it, its context and all that was learned of it.

        What is known is then as if it had not been; networks and solvers that it has moved go on from where they are.
        """
        node = self._find(id)
        ledger = self._ledger
        given = ledger.state[node] == LABELLED
        self._take_back(node)
        if not given:
            self._times_chosen[ledger.arm[node]] -= 1
        self._tally.withdrawn += 1
        self._forget_all_but(np.delete(np.arange(ledger.count), node))

    def expire(self, now: float | None = None) -> list[int]:
        """Call all decisions silent that have waited for `expire_after`, and return their ids.

        Every `decide` does so too. `now` is a time as given to `decide`; there is no clock in here.
        """
        self._clock = self._time(now)
        return self._expire()

    def _time(self, at: float | None) -> float | None:
        """The time now. It never runs backwards: a clock that was set back stands still until it has caught up."""
        if at is None and self._clock is None:
            return None
        if at is None:
            raise TaciturnError("this agent's decisions carry times; give the time with at=…, now=… to expire")
        check_number("at", at, -1e300, 1e300)
        if self._clock is None and self._decisions:
            raise TaciturnError(f"at={at!r} is not allowed; this agent's decisions so far came without a time")
        return float(at) if self._clock is None else max(self._clock, float(at))

    def _now(self) -> float:
        return self._decisions if self._clock is None else self._clock

    def _expire(self) -> list[int]:
        if self.expire_after is None:
            return []
        ledger, expired = self._ledger, []
        latest = self._now() - self.expire_after
        while self._overdue < ledger.count and ledger.at[self._overdue] <= latest:
            node = self._overdue
            if ledger.state[node] == PENDING:
                self._settle(node, None)
                expired.append(int(ledger.id[node]))
            self._overdue = node + 1
        self._tally.expired += len(expired)
        return expired

    def state(self, id: int) -> str:
        """How far a decision's life is: "pending", "rewarded" or "silent"; "labelled" for a row of `warm_start`."""
        return STATES[self._ledger.state[self._find(id)]]

    def log(self) -> dict[str, NDArray[Any]]:
        """All decisions that are remembered, as arrays: what off-policy evaluation needs.

        ``ids``, ``arms`` (places), ``rewards`` (NaN where none was observed), ``propensities`` and ``states``.
        """
        ledger = self._ledger
        rows = np.flatnonzero(ledger.state[: ledger.count] != LABELLED)
        rewards = np.where(ledger.state[rows] == REWARDED, ledger.value[rows], np.nan)
        columns = {"ids": ledger.id[rows], "arms": ledger.arm[rows].astype(np.int64), "rewards": rewards}
        return columns | {"propensities": ledger.propensity[rows], "states": np.array(STATES)[ledger.state[rows]]}

    # Memory.

    def _make_space(self, coming: int) -> None:
        """Forget, where there are too many contexts for as many more to come."""
        ledger, limit = self._ledger, self.max_nodes
        if limit is None or ledger.count + coming <= limit:
            return
        # Decisions that wait for their feedback stay, the newest of them, unless they are half of all there is.
        rank = ledger.rank[: ledger.count].copy()
        waiting = ledger.nodes(PENDING)
        rank[waiting] = np.inf
        rank[waiting[: max(0, len(waiting) - limit // 2)]] = -np.inf
        fewer = max(ledger.count + coming - limit, limit // AT_ONCE)
        goes = np.argsort(rank, kind="stable")[:fewer]
        self._tally.forgotten += len(goes)
        self._tally.evicted_pending += int((ledger.state[goes] == PENDING).sum())
        self._forget_all_but(np.delete(np.arange(ledger.count), goes))

    def _forget_all_but(self, kept: NDArray[np.int64]) -> None:
        self._rows.keep(kept)
        self._ledger.keep(kept)
        self._overdue = int(np.searchsorted(kept, self._overdue))
        self._keep(kept)

    # What the hooks can ask.

    @property
    def _complete(self) -> bool:
        """Whether all that was ever learned is still in the book."""
        return self._tally.forgotten == 0

    def _speaks_of(self, node: int, reward: float, *, imputed: bool) -> int:
        """Of how many arms a reward speaks: all there were, where it says that the others are wrong; else 0."""
        return int(self._ledger.arms[node]) if self.one_right_arm and reward == 1 and not imputed else 0

    def _facts(self, rows: RowStore, *, imputed: bool = True) -> Iterator[Fact]:
        """All that is known now, with what was supposed or without, over some form of the contexts."""
        ledger = self._ledger
        for node in np.flatnonzero(~np.isnan(ledger.value[: ledger.count])).tolist():
            supposed = bool(ledger.state[node] == SILENT)
            if imputed or not supposed:
                reward = float(ledger.value[node])
                yield rows[node], int(ledger.arm[node]), reward, self._speaks_of(node, reward, imputed=supposed)

    def _find(self, id: object) -> int:
        """The node of an id."""
        known = known_id(id, self._ledger.given_out)
        node = self._ledger.find(known)
        if node < 0:
            older = "" if self.max_nodes is None else f", or more than max_nodes={self.max_nodes} ago"
            raise ForgottenDecision(f"decision {known} is forgotten: it was withdrawn{older}")
        return node

    # The hooks.

    @abstractmethod
    def _learn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        """Learn what `arm` earned at a context, or, if `imputed`, what is supposed that it did."""

    def _unlearn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        """Take back what `_learn` learned; `self._ledger.arms[node]` arms were there then."""
        name = type(self).__name__
        raise AlreadyAnswered(f"decision {self._ledger.id[node]} had its feedback, and {name} cannot take it back")

    def _impute(self, node: int, arm: int) -> float | None:
        """What the agent supposes that `arm` earned at a silent context; None for nothing."""

    def _keep(self, kept: NDArray[np.int64]) -> None:
        """Forget all contexts but these nodes, which are renumbered in their order.

        Agents that keep nothing by node need not.
        """
