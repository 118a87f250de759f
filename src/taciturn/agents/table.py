"""One table of contexts: every array with an entry for each context is a column of it.

Growth, eviction, new arms, validation, size and saving of these arrays are written here, once. A context is known by
its `node`, its row in the table; nodes are in the order of arrival and are renumbered when earlier ones are evicted.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.arrays import cut_of, grown
from taciturn.agents.parts.part import Array, Sizes, in_range, require, with_spare
from taciturn.agents.rows import RowStore
from taciturn.contracts import STATES, SparseRow
from taciturn.errors import TaciturnError
from taciturn.validate import LARGEST

PENDING, REWARDED, SILENT, LABELLED = range(4)  # codes of `STATES`


class Table:
    """Columns of one length that grow at the end: arrays whose first axis is "node"."""

    def __init__(self, n_arms: int = 0) -> None:
        self.count = 0
        self.n_arms = n_arms
        self._capacity = 0
        self._columns: dict[str, Array] = {}

    def column(
        self,
        name: str,
        dtype: Any,
        *axes: str | int,
        fill: float = 0,
        new_arm: float | None = None,
        below: int | str | None = None,
    ) -> Array:
        """A new column under a name that stays the same in files; `axes` are those of a row. See `Array`."""
        if "feature" in axes:
            raise TaciturnError(f"column {name!r} cannot have the axis 'feature'; sparse contexts are self._contexts")
        if name in self._columns:
            raise TaciturnError(f"the table has a column {name!r} already; names in a file are used once")
        self._columns[name] = column = Array(dtype, ("node", *axes), fill=fill, new_arm=new_arm, below=below)
        column.allocate({"node": self._capacity, "arm": self.n_arms})
        return column

    def extend(self, rows: int = 1) -> int:
        """New rows at the end, which hold the fill; returns the first."""
        first, count = self.count, self.count + rows
        if count > self._capacity:
            for column in self._columns.values():  # one after the other, so that one at a time is held twice
                column.data = grown(column.data, count, column.fill)
            self._capacity = min((len(column.data) for column in self._columns.values()), default=with_spare(count))
        self.count = count
        return first

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Drop all rows but these, which are renumbered in their order."""
        cut = cut_of(rows, self.count)
        for column in self._columns.values():
            column.data = cut.apply(column.data)
            column.data[len(rows) : self.count] = column.fill
            self._capacity = len(column.data)
        self.count = len(rows)

    def add_arm(self, like: int | None) -> None:
        """Entries for one arm more in all columns that have one for each arm."""
        self.n_arms += 1
        for column in self._columns.values():
            column.add_arm(like)
            column.data[self.count :] = column.fill

    def nbytes(self, sizes: Sizes) -> float:
        """Bytes for so many arms and rows, and the spare ones."""
        axes = sizes.axes | {"node": with_spare(sizes.nodes)}
        return sum(column.nbytes(axes) for column in self._columns.values())

    def working_nbytes(self, sizes: Sizes) -> float:
        """The largest column once more: each is copied when it grows or rows are dropped."""
        return max((column.nbytes(sizes.axes) for column in self._columns.values()), default=0.0)

    def state_dict(self) -> dict[str, Any]:
        """All rows that are in use."""
        return {name: column.data[: self.count] for name, column in self._columns.items()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, count: int) -> None:
        """Take all columns over from a file, each of the type and shape that it has here."""
        require(state.keys() == self._columns.keys(), "the table has other columns")
        self.count = self._capacity = count
        self.n_arms = n_arms
        for name, column in self._columns.items():
            column.load(name, state[name], {"node": count, "arm": n_arms})


class NodeTable(Table):
    """The contexts of an agent (``contexts``, sparse rows) and a column for everything that is held for each of them.

    Columns of its own, one entry for each decision or labelled row:

    ``id``            rising; ids stay when earlier nodes are evicted
    ``state``         code of `STATES`
    ``arm``           index of the arm chosen
    ``value``         what was learned: the reward, or the imputed reward where silent; NaN for nothing
    ``n_arms_known``  how many arms there were when it was learned
    ``time``          when it was decided; −∞ for labelled rows
    ``evict_order``   the lowest is evicted first
    ``propensity``    probability of the arm chosen
    ``scores``, ``widths`` (K,)    of the decision; NaN for arms that were added later
    """

    def __init__(self, n_arms: int) -> None:
        super().__init__(n_arms)
        self.next_id = 0
        self.contexts = RowStore()
        self.raw = self.contexts  # before they are scaled, where they are
        self.id = self.column("id", np.int64)
        self.state = self.column("state", np.int8, below=len(STATES))
        self.arm = self.column("arm", np.int32, below="arm")
        self.value = self.column("value", np.float64, fill=np.nan)
        self.n_arms_known = self.column("n_arms_known", np.int32)
        self.time = self.column("time", np.float64, fill=-np.inf)
        self.evict_order = self.column("evict_order", np.float64)
        self.propensity = self.column("propensity", np.float64, fill=np.nan)
        self.scores = self.column("scores", np.float64, "arm", fill=np.nan, new_arm=np.nan)
        self.widths = self.column("widths", np.float64, "arm", fill=np.nan, new_arm=np.nan)

    def append(self, row: SparseRow, state: int, time: float, evict_order: float) -> int:
        """A row for the next id, whose other columns hold their fill; returns its node."""
        node = self.contexts.append(row)
        if node == self._capacity:
            self.extend()
        self.count = node + 1
        self.id.data[node] = self.next_id
        self.state.data[node] = state
        self.time.data[node] = time
        self.evict_order.data[node] = evict_order
        self.next_id += 1
        return node

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Evict all nodes but these, which are renumbered in their order."""
        super().keep(rows)
        self.contexts.keep(rows)
        if self.raw is not self.contexts:
            self.raw.keep(rows)

    def find(self, id: int) -> int:
        """The node of an id that was given out, or −1 if it was evicted."""
        ids = self.id.data
        node = id - ids.item(0) if self.count else id
        if 0 <= node < self.count and ids.item(node) == id:  # as it is while the oldest are evicted
            return int(node)
        node = int(np.searchsorted(ids[: self.count], id))
        return node if node < self.count and ids[node] == id else -1

    def nodes(self, state: int) -> NDArray[np.int64]:
        """All nodes in a state, oldest first."""
        return np.flatnonzero(self.state.data[: self.count] == state)

    def check(self) -> None:
        """Raise `ValueError` unless what was loaded is sound."""
        ids, known = self.id.data, self.n_arms_known.data
        require((np.diff(ids) > 0).all() and in_range(ids, 0, self.next_id), "ids are not sound")
        require(in_range(known, 0, self.n_arms + 1), "numbers of arms are not sound")
        values, learned = self.value.data, ~np.isnan(self.value.data)
        require((known[learned] > self.arm.data[learned]).all(), "the arm that was learned was not there")
        require((np.abs(values[learned]) <= LARGEST).all(), "rewards are not allowed")
        observed = learned & np.isin(self.state.data, (REWARDED, LABELLED))
        require(((values[observed] >= 0) & (values[observed] <= 1)).all(), "rewards are not allowed")
        require(learned[np.isin(self.state.data, (REWARDED, LABELLED))].all(), "rewards are missing")
        require(not learned[self.state.data == PENDING].any(), "pending decisions have rewards")
        probable = np.isnan(self.propensity.data) | ((self.propensity.data >= 0) & (self.propensity.data <= 1))
        require(probable.all(), "propensities are not sound")
