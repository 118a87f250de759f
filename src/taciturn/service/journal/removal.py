"""Removes the records of deleted agents: each run of them is replaced by one row that keeps the chain of digests."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

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


def remove_dead(journal: "SQLJournal", stopping: Callable[[], bool] = lambda: False) -> int:
    """Remove all dead records, a chunk at a time; returns how many.

    Runs that touch become one, also across chunks and with runs that were removed before, so that reading skips them as
    one row. Deletions stay: an old snapshot of a deleted agent cannot come back to life.
    """
    deleted, removed, digest = survey(journal).deleted, 0, GENESIS
    run: list[Row] = []
    before = GENESIS
    for row in _rows(journal):
        if row.kind == REMOVED or (row.kind != DELETE and row.position < deleted.get(row.agent, 0)):
            if not run:
                before = digest
            run.append(row)
            if len(run) == CHUNK:
                removed += _remove(journal, run, before)
                run = [row._replace(kind=REMOVED)]
        else:
            removed += _remove(journal, run, before)
            run = []
        digest = row.digest
        if stopping():
            return removed
    return removed + _remove(journal, run, before)


def _remove(journal: "SQLJournal", run: list[Row], before: bytes) -> int:
    """Replace successive rows by the row of one run; returns how many records that removes."""
    records = sum(row.kind != REMOVED for row in run)
    if not records:
        return 0
    last = run[-1]
    with journal.transaction():
        journal.check_epoch()
        ((first,),) = journal.query(
            "SELECT COALESCE(MAX(position), 0) + 1 FROM taciturn_records WHERE position < ?", run[0].position
        )
        journal.write(
            "DELETE FROM taciturn_records WHERE position >= ? AND position <= ?", [(run[0].position, last.position)]
        )
        body = Run(first, before).body(last.position, last.digest)
        journal.write(
            "INSERT INTO taciturn_records VALUES (?, ?, ?, ?, ?, ?)",
            [(last.position, "", REMOVED, body, __version__, last.digest)],
        )
    return records


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
