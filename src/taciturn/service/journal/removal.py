"""Removes the records of deleted agents: each run of them is replaced by one row that keeps the chain of digests."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from taciturn import __version__
from taciturn.service.journal.base import DELETE, REMOVED
from taciturn.service.journal.chain import GENESIS, Run
from taciturn.service.journal.tables import Tables

if TYPE_CHECKING:
    from taciturn.service.journal.sql import SQLJournal

PAGE = 1_000
"""Rows that are looked at in one transaction."""

CHUNK = 10_000
"""Rows that are removed in one transaction."""


class SnapshotFolder(Protocol):
    """Where snapshots of agents are kept (`taciturn.service.journal.snapshots.Snapshots`)."""

    def remove(self, agent: str, until: int) -> None:
        """Remove an agent's snapshots up to a position."""


class Row(NamedTuple):
    """A row of taciturn_records, with the length of its body."""

    position: int
    agent: str
    kind: str
    digest: bytes
    length: int


@dataclass(slots=True)
class Amount:
    """A number of records and the bytes of their bodies."""

    records: int = 0
    bytes: int = 0

    def add(self, records: int, bytes: int) -> None:
        """Count more."""
        self.records += records
        self.bytes += bytes


@dataclass(slots=True)
class Survey:
    """How much a journal holds and how much of it is dead; and the position at which each agent was last deleted."""

    all: Amount = field(default_factory=Amount)
    dead: Amount = field(default_factory=Amount)
    deleted: dict[str, int] = field(default_factory=dict)

    @property
    def worthwhile(self) -> bool:
        """Whether half of the records or of their bytes are dead."""
        some, total = self.dead, self.all
        return some.records > 0 and (2 * some.records >= total.records or 2 * some.bytes >= total.bytes)


def survey(tables: Tables) -> Survey:
    """Count what is dead: all records of an agent before it was deleted. The record of the deletion itself stays."""
    found = Survey()
    since: defaultdict[str, Amount] = defaultdict(Amount)  # by agent, since it was last deleted
    for row in _rows(tables):
        found.all.add(1, row.length)
        if row.kind == DELETE:
            gone = since.pop(row.agent, Amount())
            found.dead.add(gone.records, gone.bytes)
            found.deleted[row.agent] = row.position
        elif row.kind != REMOVED:
            since[row.agent].add(1, row.length)
    return found


def remove_snapshots(found: Survey, snapshots: SnapshotFolder) -> None:
    """Remove the snapshots of deleted agents, not those of later agents with the same names."""
    for agent, position in found.deleted.items():
        snapshots.remove(agent, position)


@dataclass(slots=True)
class _DeadRun:
    """Successive dead rows: the position and digest before the first, those of the last, and how many are records."""

    after: int
    before: bytes
    last: int
    digest: bytes
    records: int = 0

    def extend(self, row: Row) -> None:
        """Add the next row."""
        self.last, self.digest = row.position, row.digest
        self.records += row.kind != REMOVED


def remove_dead(journal: "SQLJournal", stopping: Callable[[], bool] = lambda: False) -> int:
    """Remove all dead records, many in one transaction; returns how many.

    Runs that touch become one, also across transactions and with runs that were removed before, so that reading skips
    them as one row. Deletions stay: an old snapshot of a deleted agent cannot come back to life.
    """
    deleted, removed, waiting = survey(journal).deleted, 0, 0
    position, digest = 0, GENESIS
    runs: list[_DeadRun] = []
    run: _DeadRun | None = None
    for row in _rows(journal):
        if row.kind == REMOVED or (row.kind != DELETE and row.position < deleted.get(row.agent, 0)):
            if run is None:
                run = _DeadRun(position, digest, position, digest)
                runs.append(run)
            run.extend(row)
            waiting += 1
        else:
            run = None
        position, digest = row.position, row.digest
        if waiting >= CHUNK:
            removed += _remove(journal, runs)
            runs, waiting = [] if run is None else [run], 0
        if stopping():
            return removed
    return removed + _remove(journal, runs)


def _remove(journal: "SQLJournal", runs: list[_DeadRun]) -> int:
    """Replace the rows of each run by one row, all in one transaction; returns how many records that removes."""
    changed = [run for run in runs if run.records]
    if not changed:
        return 0
    rows = [
        (run.last, "", REMOVED, Run(run.after + 1, run.before).body(run.last, run.digest), __version__, run.digest)
        for run in changed
    ]
    with journal.transaction():
        journal.check_epoch()
        journal.write(
            "DELETE FROM taciturn_records WHERE position > ? AND position <= ?",
            [(run.after, run.last) for run in changed],
        )
        journal.write("INSERT INTO taciturn_records VALUES (?, ?, ?, ?, ?, ?)", rows)
    removed = sum(run.records for run in changed)
    for run in changed:
        run.records = 0  # the last run may go on, as one row so far
    return removed


def _rows(tables: Tables) -> Iterator[Row]:
    """Yield all rows in order, without their bodies; no transaction is open between two pages."""
    after = 0
    statement = (
        "SELECT position, agent, kind, digest, length(body) FROM taciturn_records "
        "WHERE position > ? ORDER BY position LIMIT ?"
    )
    while True:
        with tables.reading():
            rows = tables.query(statement, after, PAGE)
        if not rows:
            return
        yield from (Row(*row) for row in rows)
        after = rows[-1][0]
