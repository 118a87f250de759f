"""A read-only view of an agent's decisions, for everyone else's code: services, pages, reports, adapters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.rows import RowStore
from taciturn.agents.table import PENDING, SILENT, NodeTable
from taciturn.contracts import STATES, Arm, DecisionRecord, SparseRow
from taciturn.display import Displayed, Summary, counts
from taciturn.errors import UnknownDecision


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decisions(Displayed, Mapping[int, DecisionRecord]):
    """All decisions and labelled rows that an agent holds, by id, oldest first.

    As a mapping it gives one `DecisionRecord` for an id. Its columns are arrays (N,) that cannot be written to and that
    the agent's next change may overwrite: ``ids``, ``states`` (codes: `STATES[code]` is the name), ``arms`` (indices of
    `arm_names`), ``learned_rewards`` (observed, or imputed where silent; NaN for none), ``propensities`` (NaN for
    labelled rows) and ``times`` (what `decide` was given, or the number of the decision; −∞ for labelled rows).
    """

    ids: NDArray[np.int64]
    states: NDArray[np.int8]
    arms: NDArray[np.int32]
    learned_rewards: NDArray[np.float64]
    propensities: NDArray[np.float64]
    times: NDArray[np.float64]
    contexts: RowStore
    raw_contexts: RowStore
    arm_names: tuple[Arm, ...]

    @classmethod
    def of(cls, table: NodeTable, arm_names: tuple[Arm, ...]) -> Self:
        """A view of a table."""
        columns = (table.id, table.state, table.arm, table.value, table.propensity, table.time)
        views = [column.data[: table.count] for column in columns]
        for view in views:
            view.flags.writeable = False
        ids, states, arms, learned, propensities, times = views
        return cls(ids, states, arms, learned, propensities, times, table.contexts, table.raw, arm_names)

    def counts(self) -> dict[str, int]:
        """How many are in each state."""
        return dict(zip(STATES, np.bincount(self.states, minlength=len(STATES)).tolist(), strict=True))

    def _summary(self) -> Summary:
        return Summary(f"{len(self)} decisions", {"states": counts(self.counts())})

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def _position(self, id: int) -> int:
        whole = isinstance(id, int | np.integer) and not isinstance(id, bool)
        i = int(np.searchsorted(self.ids, id)) if whole else len(self)
        if i >= len(self) or self.ids[i] != id:
            raise UnknownDecision(f"decision {id!r} is not held by this agent")
        return i

    def __getitem__(self, id: int) -> DecisionRecord:
        i = self._position(id)
        state, value = int(self.states[i]), float(self.learned_rewards[i])
        learned = None if np.isnan(value) else value
        return DecisionRecord(
            id=int(id),
            arm=self.arm_names[self.arms[i]],
            state=STATES[state],
            reward=None if state == SILENT else learned,
            imputed_reward=learned if state == SILENT else None,
            propensity=float(self.propensities[i]),
            time=float(self.times[i]),
        )

    def __contains__(self, id: object) -> bool:
        try:
            return self[id] is not None  # type: ignore[index]
        except UnknownDecision:
            return False

    def context(self, id: int) -> SparseRow:
        """The context of a decision before it was scaled, as a view that the agent's next change may overwrite."""
        return self.raw_contexts[self._position(id)]

    def pending(self, at: float = np.inf, expire_after: float | None = None) -> int:
        """How many wait for feedback; with `expire_after`, of those that will not have expired by the time `at`."""
        waiting = self.states == PENDING
        if expire_after is not None:
            waiting &= self.times > at - expire_after
        return int(waiting.sum())

    def recent_contexts(self, most: int, max_entries: int) -> sp.csr_matrix:
        """The newest contexts as a copied CSR matrix: at most `most`, with at most `max_entries` entries together."""
        ends = self.contexts.ends
        first = max(len(self) - most, int(np.searchsorted(ends, ends[-1] - max_entries)), 0)
        return self.contexts.matrix(first, len(self))
