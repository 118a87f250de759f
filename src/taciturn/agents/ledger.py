"""The book of decisions: what was chosen where, what became of it, and which node an id stands for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.contexts import keep_rows
from taciturn.agents.storage import fits, storable, within
from taciturn.contracts import STATES

PENDING, REWARDED, SILENT, LABELLED = range(4)

NOTHING = np.nan
"""The value of a context of which nothing is supposed or known."""


@storable
class Ledger:
    """One row a node, oldest first; ids rise with the nodes and stay when earlier nodes are forgotten.

    ``state``       pending → rewarded | silent, and from each to the others; given for a labelled row
    ``arm``         the arm chosen, as its place
    ``value``       what the agent has learned of it: the reward, or what was supposed in silence; NaN for nothing
    ``arms``        how many arms there were when it learned that
    ``at``          when it was decided
    ``rank``        which is forgotten first
    ``scores``, ``widths`` (T, K)    what the agent said of all arms; NaN for arms that were not there
    """

    COLUMNS = ("id", "state", "arm", "value", "arms", "at", "rank", "propensity", "scores", "widths")

    def __init__(self, arms: int) -> None:
        self.count = 0
        self.given_out = 0  # ids
        self.id = np.zeros(0, np.int64)
        self.state = np.zeros(0, np.int8)
        self.arm = np.zeros(0, np.int32)
        self.value = np.zeros(0)
        self.arms = np.zeros(0, np.int32)
        self.at = np.zeros(0)
        self.rank = np.zeros(0)
        self.propensity = np.zeros(0)
        self.scores = np.zeros((0, arms), np.float32)
        self.widths = np.zeros((0, arms), np.float32)

    def _sound(self) -> bool:
        count, arms = self.count, self.scores.shape[1]
        columns = {"id": np.int64, "state": np.int8, "arm": np.int32, "arms": np.int32}
        tables = {"scores": np.float32, "widths": np.float32}
        return (
            all(fits(getattr(self, name), columns.get(name, np.float64), count) for name in self.COLUMNS[:-2])
            and all(fits(getattr(self, name), kind, count, arms) for name, kind in tables.items())
            and len({len(getattr(self, name)) for name in self.COLUMNS}) == 1
            and bool((np.diff(self.id[:count]) > 0).all())
            and within(self.id[:count], 0, self.given_out)
            and within(self.state[:count], 0, len(STATES))
            and within(self.arm[:count], 0, arms)
            and within(self.arms[:count], 0, arms + 1)
        )

    def open(self, state: int, at: float, rank: float) -> int:
        """A new row for the next id, whose arm is to be filled in; returns its node."""
        node = self.count
        if node == len(self.id):
            self._grow(max(16, 2 * node))
        self.id[node], self.state[node], self.at[node], self.rank[node] = self.given_out, state, at, rank
        self.value[node] = self.propensity[node] = NOTHING
        self.count += 1
        self.given_out += 1
        return node

    def _grow(self, length: int) -> None:
        for name in self.COLUMNS:
            column: NDArray[Any] = getattr(self, name)
            longer = np.full((length, *column.shape[1:]), NOTHING if column.dtype.kind == "f" else 0, column.dtype)
            longer[: len(column)] = column
            setattr(self, name, longer)

    def add_arm(self) -> None:
        """A column for one more arm, of which nothing was said so far."""
        for name in ("scores", "widths"):
            column = getattr(self, name)
            setattr(self, name, np.pad(column, ((0, 0), (0, 1)), constant_values=NOTHING))

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Forget all nodes but these, which are renumbered in their order."""
        self.count = len(kept)
        for name in self.COLUMNS:
            keep_rows(getattr(self, name), kept, NOTHING if name in ("scores", "widths") else 0)

    def find(self, id: int) -> int:
        """The node of an id that was given out, or −1 if it is forgotten."""
        if id < self.count and self.id[id] == id:  # as it is until something is forgotten
            return id
        node = int(np.searchsorted(self.id[: self.count], id))
        return node if node < self.count and self.id[node] == id else -1

    def nodes(self, state: int) -> NDArray[np.int64]:
        """All nodes in a state, oldest first."""
        return np.flatnonzero(self.state[: self.count] == state)
