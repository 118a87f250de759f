"""A read-only view of an agent's decisions, for everyone else's code: services, pages, reports, adapters."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.contexts import RowStore
from taciturn.agents.ledger import LABELLED, PENDING, REWARDED, SILENT, Ledger
from taciturn.contracts import STATES, Arm, DecisionRecord
from taciturn.errors import UnknownDecision


class Decisions(Mapping[int, DecisionRecord]):
    """All decisions and labelled rows that an agent holds, by id, oldest first.

    As a mapping it gives one `DecisionRecord` for an id. The columns are arrays (N,) that cannot be written to and that
    the agent's next change may overwrite: ``ids``, ``states`` (codes: `STATES[code]` is the name), ``arms`` (indices of
    `agent.arm_names`), ``learned_rewards`` (observed, or imputed where silent; NaN for none), ``propensities`` and
    ``times`` (what `decide` was given, or the number of the decision).
    """

    def __init__(self, ledger: Ledger, rows: RowStore, arm_names: tuple[Arm, ...]) -> None:
        self._ledger, self._rows, self._arm_names = ledger, rows, arm_names

    def __len__(self) -> int:
        return self._ledger.count

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def __getitem__(self, id: int) -> DecisionRecord:
        node = self._ledger.find(id) if isinstance(id, int | np.integer) and 0 <= id < self._ledger.given_out else -1
        if node < 0:
            raise UnknownDecision(f"decision {id!r} is not held by this agent")
        state, value = int(self._ledger.state[node]), float(self._ledger.value[node])
        known = None if np.isnan(value) else value
        return DecisionRecord(
            id=int(id),
            arm=self._arm_names[self._ledger.arm[node]],
            state=STATES[state],
            reward=known if state in (REWARDED, LABELLED) else None,
            imputed_reward=known if state == SILENT else None,
            propensity=float(self._ledger.propensity[node]),
            time=float(self._ledger.at[node]),
        )

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int | np.integer) and 0 <= id < self._ledger.given_out and self._ledger.find(int(id)) >= 0

    def _column(self, array: NDArray[Any]) -> NDArray[Any]:
        view = array[: self._ledger.count]
        view.flags.writeable = False
        return view

    @property
    def ids(self) -> NDArray[np.int64]:
        """Ids, rising."""
        return self._column(self._ledger.id)

    @property
    def states(self) -> NDArray[np.int8]:
        """Codes of the states, in the order of `taciturn.contracts.STATES`."""
        return self._column(self._ledger.state)

    @property
    def arms(self) -> NDArray[np.int32]:
        """Indices of the arms."""
        return self._column(self._ledger.arm)

    @property
    def learned_rewards(self) -> NDArray[np.float64]:
        """What was learned: the observed reward, or the imputed one; NaN for none."""
        return self._column(self._ledger.value)

    @property
    def propensities(self) -> NDArray[np.float64]:
        """Probabilities of the arms chosen; NaN for labelled rows."""
        return self._column(self._ledger.propensity)

    @property
    def times(self) -> NDArray[np.float64]:
        """When they were made; −∞ for labelled rows."""
        return self._column(self._ledger.at)

    def pending(self, at: float = np.inf, expire_after: float | None = None) -> int:
        """How many wait for feedback; with `expire_after`, of those that will not have expired by the time `at`."""
        waiting = self.states == PENDING
        if expire_after is not None:
            waiting = waiting & (self.times > at - expire_after)
        return int(waiting.sum())

    def recent_contexts(self, most: int, max_entries: int) -> sp.csr_matrix:
        """The newest contexts as a copied CSR matrix: at most so many, with at most so many entries together."""
        ends = self._rows.rows.indptr
        first = max(len(self) - most, int(np.searchsorted(ends, ends[-1] - max_entries)), 0)
        return self._rows.matrix(first, len(self))
