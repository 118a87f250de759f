"""A journal in SQL tables: everything that SQLite and PostgreSQL have in common."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from taciturn import __version__
from taciturn.errors import TaciturnError
from taciturn.service.journal import schema
from taciturn.service.journal.base import DELETE, REMOVED, Entry, Fenced, Key, Record, check_text
from taciturn.service.journal.chain import GENESIS, BadRecord, Run, chain, verified
from taciturn.service.journal.housekeeping import Housekeeping
from taciturn.service.journal.removal import SnapshotFolder, remove_dead
from taciturn.service.journal.schema import PAGE, Upgrade, check_schema
from taciturn.service.journal.tables import Tables


class SQLJournal(Tables):
    """A journal in the tables taciturn_records, taciturn_meta and taciturn_keys.

    A writer counts `epoch` up when it opens the journal, and every append checks in its own transaction that nobody has
    counted further: a writer that was replaced while it was frozen or cut off is `Fenced`, for good.
    """

    row_lock: ClassVar[str]  # what keeps a row that was read as it is until the end of the transaction
    upgrade: Upgrade | None = None
    deletions = 0  # agents that were deleted since this journal was opened
    compact_requests = 0  # requests for compaction that there had been when it was opened
    _tail: tuple[int, bytes] | None = None  # last position and its digest; None if it must be read
    _epoch: int | None = None  # None until it is open
    _fenced = False
    _housekeeping: Housekeeping | None = None

    @abstractmethod
    def beside(self) -> Tables:
        """Another connection to the same tables, which does not write records."""

    @abstractmethod
    def shrink(self) -> None:
        """Return the space of removed records to the system, and overwrite what they held."""

    @abstractmethod
    def _keep_copy(self, version: int) -> None:
        """Copy the tables, which have this schema, to where they stay after the migration."""

    @contextmanager
    def _timed(self, *, writing: bool) -> Iterator[None]:
        if self._fenced:
            raise self._fence()
        with super()._timed(writing=writing):
            yield

    def append(self, entries: Sequence[Entry]) -> int:
        """Write all entries or none, and return the position of the last."""
        for agent, kind, _ in entries:
            check_text(agent)
            check_text(kind)
            if kind == REMOVED:
                raise TaciturnError(f"an entry of {agent!r} is of the kind {kind!r}, which stands for removed ones")
        with self._lock:
            with self.transaction():
                self.check_epoch()
                position, digest = self._tail or self._stored_tail()
                rows = []
                for agent, kind, body in entries:
                    position += 1
                    digest = chain(digest, position, agent, kind, body, __version__)
                    rows.append((position, agent, kind, body, __version__, digest))
                self._tail = None  # unknown until the commit has succeeded
                if rows:
                    self.write("INSERT INTO taciturn_records VALUES (?, ?, ?, ?, ?, ?)", rows)
                    self.write("UPDATE taciturn_meta SET value = ? WHERE name = 'head'", [(position,)])
            self._tail = position, digest
            self.deletions += sum(entry.kind == DELETE for entry in entries)
            return position

    def probe(self) -> None:
        """Write a number over itself, durably; raises `JournalUnavailable` if nothing can be written."""
        with self.transaction():
            self.write("UPDATE taciturn_meta SET value = value WHERE name = 'head'")

    def read(self, after: int = 0) -> Iterator[Record]:
        """Yield all records after a position, in order, each verified; no transaction is open between two pages.

        Positions rise, with gaps where records were removed.
        """
        last = self.last()
        if after >= last:
            return
        try:
            start, digest = self._start(after)
            for record in verified(self._rows(start, last), start, digest):
                if record.kind != REMOVED and record.position <= last:
                    yield record
        except BadRecord as error:
            raise self.damaged(str(error), error.good) from None

    def _start(self, after: int) -> tuple[int, bytes]:
        """Where to start to read behind a position: there, or at the end of the run that it was removed with."""
        if after == 0:
            return 0, GENESIS
        with self.reading():
            rows = self.query(
                "SELECT position, kind, body, digest FROM taciturn_records WHERE position >= ? "
                "ORDER BY position LIMIT 1",
                after,
            )
        if rows:
            position, kind, body, digest = rows[0]
            if position == after:
                return position, digest
            run = Run.of(position, body, digest) if kind == REMOVED else None
            if run is not None and run.first <= after:
                return position, digest
        raise BadRecord(after, "is missing")

    def _rows(self, after: int, last: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows after a position until one reaches `last`: a run may end behind it."""
        statement = (
            "SELECT position, agent, kind, body, version, digest FROM taciturn_records "
            "WHERE position > ? ORDER BY position LIMIT ?"
        )
        while after < last:
            with self.reading():
                rows = self.query(statement, after, min(PAGE, last - after))
            if not rows:
                raise BadRecord(after + 1, "is missing")
            yield from rows
            after = rows[-1][0]

    def last(self) -> int:
        """Position of the last record, also if that one was removed; 0 for an empty journal."""
        with self._lock:
            if self._tail is None:
                with self.reading():
                    self._tail = self._stored_tail()
            return self._tail[0]

    def digest_at(self, position: int) -> bytes | None:
        """Digest of all records up to a position, which identifies this history; None if there is no such record.

        Of a removed run only the last position has one.
        """
        if position == 0:
            return GENESIS
        with self.reading():
            rows = self.query("SELECT digest FROM taciturn_records WHERE position = ?", position)
        return rows[0][0] if rows else None

    def compact(self, stopping: Callable[[], bool] = lambda: False) -> int:
        """Remove all records of deleted agents, and what they held from the disk; returns how many were removed.

        Appends go on meanwhile; only `shrink` of a SQLite file keeps them waiting. A crash leaves a valid journal.
        """
        removed = remove_dead(self, stopping)
        if not stopping():
            self.shrink()
        return removed

    def watch(
        self,
        on_keys: Callable[[list[Key]], object],
        snapshots: SnapshotFolder | None = None,
        on_fenced: Callable[[Fenced], object] = lambda _: None,
    ) -> None:
        """Look after the journal in the background until it is closed; for the arguments see `Housekeeping`."""
        self._housekeeping = Housekeeping(self, self.beside(), on_keys, snapshots, on_fenced)

    @property
    def responsive(self) -> bool:
        """Whether the database answers in time, as far as is known; takes no lock and asks nobody."""
        housekeeping = self._housekeeping
        return not self._fenced and super().responsive and (housekeeping is None or housekeeping.responsive)

    def check_epoch(self) -> None:
        """Raise `Fenced` if another process has taken over; in every transaction that writes records."""
        rows = self.query(f"SELECT value FROM taciturn_meta WHERE name = 'epoch'{self.row_lock}")  # noqa: S608
        self.compare_epoch(rows[0][0] if rows else None)

    def compare_epoch(self, stored: int | None) -> None:
        """Raise `Fenced` if the stored number is not the one that this writer counted up to when it opened."""
        if self._epoch is not None and stored != self._epoch:
            raise self._fence()

    def _fence(self) -> Fenced:
        self._fenced = True
        return Fenced(
            f"{self.location}: another process has written to it since, so this one has stopped; restart the service"
        )

    def _stop_housekeeping(self) -> None:
        if self._housekeeping is not None:
            self._housekeeping.close()

    def _stored_tail(self) -> tuple[int, bytes]:
        rows = self.query("SELECT COALESCE(position, 0), digest FROM taciturn_records ORDER BY position DESC LIMIT 1")
        position, digest = rows[0] if rows else (0, GENESIS)
        head = self._number("head")
        if position < head:
            raise self.damaged(f"record {position + 1} is missing", position)
        if position > head:
            raise self.damaged(f"record {head + 1} was not written by taciturn", head)
        return position, digest

    def _migrate(self) -> None:
        """Bring the tables to the schema of this version, in one transaction, and take over as the writer.

        A newer schema is refused untouched; an older one is copied first.
        """
        with self.transaction():
            self.write(schema.META_TABLE)
            version = self._number("schema_version")
            check_schema(self.location, version)
        newest = len(schema.MIGRATIONS)
        if 0 < version < newest:
            self._keep_copy(version)
        with self.transaction():
            for migration in schema.MIGRATIONS[version:]:
                migration(self, self.upgrade)
            if version < newest:
                self.write("DELETE FROM taciturn_meta WHERE name = 'schema_version'")
                self.write("INSERT INTO taciturn_meta VALUES ('schema_version', ?)", [(newest,)])
            self._count_up("epoch")
            self._epoch = self._number("epoch")
            self.compact_requests = self._number("compact_requests")
