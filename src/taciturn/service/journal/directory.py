"""Where the agents of several shards are: the tables that shards, fronts and their supervisor share in PostgreSQL.

A shard is a number; its process holds a lease, and each new process of it counts its epoch up. An agent belongs to one
shard. `taciturn_meta` says how many shards are wanted.
"""

from contextlib import closing
from datetime import datetime
from typing import ClassVar, NamedTuple

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import Fenced, JournalInUse
from taciturn.service.journal.chain import GENESIS, chain
from taciturn.service.journal.postgres import PostgresJournal, PostgresTables
from taciturn.service.journal.schema import PAGE, records_table

WANTED = "shards"
"""The number in taciturn_meta that says how many shards are wanted."""

BLOCK = 2**20
"""Positions that an append takes at once, and the most entries that it may have."""

TABLES = (
    f"CREATE SEQUENCE taciturn_positions INCREMENT BY {BLOCK}",
    """CREATE TABLE taciturn_shards
        (shard INT PRIMARY KEY, epoch BIGINT NOT NULL, place TEXT NOT NULL, lease TIMESTAMPTZ NOT NULL)""",
    """CREATE TABLE taciturn_agents
        (name TEXT PRIMARY KEY, shard INT NOT NULL, created_at BIGINT NOT NULL, last BIGINT NOT NULL,
        digest BYTEA NOT NULL)""",
    "CREATE INDEX taciturn_agents_shard ON taciturn_agents (shard)",
    records_table(2, "BIGINT", "BYTEA", "taciturn_entries"),
    "CREATE INDEX taciturn_entries_agent ON taciturn_entries (agent, position)",
    "CREATE TABLE taciturn_deleted (agent TEXT NOT NULL, until BIGINT NOT NULL, shard INT NOT NULL)",
)
PROCESS = "'taciturn shard ' || ?::int || ' of ' || current_schema()"
"""What the connection of a shard's process that writes is called; an expression of SQL."""

ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('taciturn shards'), hashtext(current_schema()))"
RECORDS = (
    "SELECT position, agent, kind, body, version FROM taciturn_records WHERE position > ? AND kind <> 'removed' "
    "ORDER BY position LIMIT ?"
)


class ShardRow(NamedTuple):
    """A shard that has been started: its epoch, the name of its process, and whether its lease is running."""

    shard: int
    epoch: int
    place: str
    live: bool


class Directory(PostgresTables):
    """The tables of shards and agents over one connection; any number of processes may have one."""

    rows_at_once: ClassVar[int] = PAGE

    def create(self, shards: int | None = None) -> None:
        """Create the tables that are missing, and set the wanted number of shards if one is given.

        The entries of a journal that one process has written to are copied, each agent with a chain of its own; that
        process must not be running. Its records are kept in `taciturn_records_of_one`.
        """
        if not self.exists():
            with closing(PostgresJournal(self._conninfo)):
                pass
        if WANTED not in self.meta():
            with closing(PostgresJournal(self._conninfo)) as journal:  # nobody else writes to the journal meanwhile
                self._verify(journal)
                with self._migration():
                    self._create_tables()
        if shards is not None:
            with self.transaction():
                self.write("UPDATE taciturn_meta SET value = ? WHERE name = ?", [(shards, WANTED)])

    def _verify(self, journal: PostgresJournal) -> None:
        for _ in journal.read():
            pass

    def _create_tables(self) -> None:
        with self.transaction():
            self.query(ONE_AT_A_TIME)
            if self._number(WANTED):
                return
            for statement in TABLES:
                self.write(statement)
            self.write("INSERT INTO taciturn_meta VALUES (?, 1)", [(WANTED,)])
            if self._number("head"):
                self._copy_records()

    def _copy_records(self) -> None:
        """Copy the records of living agents; inside a transaction."""
        heads: dict[str, tuple[int, int, bytes]] = {}
        after = 0
        while rows := self.query(RECORDS, after, self.rows_at_once):
            chained = []
            for position, agent, kind, body, version in rows:
                created, _, digest = heads.get(agent, (position - 1, 0, GENESIS))
                digest = chain(digest, position, agent, kind, body, version)
                heads[agent] = created, position, digest
                chained.append((position, agent, kind, body, version, digest))
                if kind == "delete":
                    del heads[agent]
            self.write("INSERT INTO taciturn_entries VALUES (?, ?, ?, ?, ?, ?)", chained)
            after = rows[-1][0]
        agents = [(name, 0, *head) for name, head in heads.items()]
        self.write("INSERT INTO taciturn_agents VALUES (?, ?, ?, ?, ?)", agents)
        self.write(
            "DELETE FROM taciturn_entries WHERE NOT EXISTS (SELECT 1 FROM taciturn_agents "
            "WHERE name = agent AND position > created_at)"
        )
        self.query("SELECT setval('taciturn_positions', ?)", (after // BLOCK + 1) * BLOCK)
        self.write("ALTER TABLE taciturn_records RENAME TO taciturn_records_of_one")
        self.write(records_table(2, self.position_type, self.blob_type))
        self.write("UPDATE taciturn_meta SET value = 0 WHERE name = 'head'")

    def wanted(self) -> int:
        """How many shards are wanted; raises if this database is not for shards."""
        found = self.meta().get(WANTED) if self.exists() else None
        if found is None:
            raise TaciturnError(f"{self.location}: no shards have been started here; taciturn serve --engine ray does")
        return found

    def shards(self) -> list[ShardRow]:
        """All shards that have been started and not retired, by number."""
        with self.reading():
            rows = self.query(
                "SELECT shard, epoch, place, lease > clock_timestamp() FROM taciturn_shards "
                "WHERE place <> '' ORDER BY shard"
            )
        return [ShardRow(*row) for row in rows]

    def last_lease(self) -> datetime | None:
        """When the last lease ends that is running; None if there is none."""
        with self.reading():
            rows = self.query("SELECT max(lease) FROM taciturn_shards WHERE lease > clock_timestamp()")
        return rows[0][0]  # type: ignore[no-any-return]

    def names(self) -> list[str]:
        """The names of all agents of all shards, sorted."""
        with self.reading():
            return sorted(name for (name,) in self.query("SELECT name FROM taciturn_agents"))

    def counts(self) -> dict[int, int]:
        """How many agents each shard has that has any."""
        with self.reading():
            return dict(self.query("SELECT shard, count(*) FROM taciturn_agents GROUP BY shard"))

    def owner(self, name: str) -> int | None:
        """The shard of an agent; None if there is no such agent."""
        with self.reading():
            rows = self.query("SELECT shard FROM taciturn_agents WHERE name = ?", name)
        return rows[0][0] if rows else None

    def take(self, shard: int, place: str, seconds: float) -> int:
        """Become the process of a shard; returns its epoch. Raises `JournalInUse` while the lease of another runs.

        Connections of the process before are ended: it may have stopped inside a transaction that locks the shard.
        """
        with self.transaction():
            self.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity, taciturn_shards WHERE shard = ? "  # noqa: S608
                f"AND lease <= clock_timestamp() AND datname = current_database() AND application_name = {PROCESS}",
                shard,
                shard,
            )
        with self.transaction():
            rows = self.query(
                "INSERT INTO taciturn_shards VALUES (?, 1, ?, clock_timestamp() + make_interval(secs => ?)) "
                "ON CONFLICT (shard) DO UPDATE SET epoch = taciturn_shards.epoch + 1, place = EXCLUDED.place, "
                "lease = EXCLUDED.lease WHERE taciturn_shards.lease <= clock_timestamp() RETURNING epoch",
                shard,
                place,
                seconds,
            )
        if not rows:
            raise JournalInUse(f"{self.location}: another process is shard {shard} until its lease has run out")
        return int(rows[0][0])

    def renew(self, shard: int, epoch: int, seconds: float) -> None:
        """Hold the lease of a shard for so many seconds from now; raises `Fenced` if another process has taken it."""
        with self.transaction():
            rows = self.query(
                "UPDATE taciturn_shards SET lease = clock_timestamp() + make_interval(secs => ?) "
                "WHERE shard = ? AND epoch = ? RETURNING epoch",
                seconds,
                shard,
                epoch,
            )
        if not rows:
            raise fenced(self.location, shard)

    def retire(self, shard: int) -> None:
        """Forget a shard that has no process and no agents; its epoch is kept, so that it never comes again."""
        with self.transaction():
            self.write(
                "UPDATE taciturn_shards SET place = '' WHERE shard = ? AND lease <= clock_timestamp() "
                "AND NOT EXISTS (SELECT 1 FROM taciturn_agents WHERE taciturn_agents.shard = taciturn_shards.shard)",
                [(shard,)],
            )


def fenced(location: str, shard: int) -> Fenced:
    """The error of a process that is no longer the shard that it was."""
    return Fenced(f"{location}: another process is shard {shard} now, so this one has stopped")
