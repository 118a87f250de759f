"""The journal of one shard: entries of its agents in tables that all shards share, a chain of digests for each agent.

An append is one transaction. It locks the row of its shard and compares the epoch there, so that of two processes of a
shard only the newer writes; and it moves the heads of its agents, each only from where this process knows it to be.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taciturn import __version__
from taciturn.errors import TaciturnError
from taciturn.service.journal.base import (
    DELETE,
    REMOVED,
    DamagedJournal,
    Entry,
    JournalUnavailable,
    Record,
    check_text,
)
from taciturn.service.journal.chain import GENESIS, chain
from taciturn.service.journal.directory import BLOCK, PROCESS, Directory, fenced
from taciturn.service.journal.postgres import Connection, translated

CREATES = ("create", "import")
"""The kinds of the entries that begin an agent."""

REMOVED_AT_ONCE = 10_000
"""Entries of deleted agents that are removed in one transaction."""

START = "SELECT nextval('taciturn_positions') FROM taciturn_shards WHERE shard = ? AND epoch = ? FOR SHARE"
HEADS = "SELECT name, last, digest FROM taciturn_agents WHERE shard = ? AND name = ANY(?::text[])"
INSERT = (
    "INSERT INTO taciturn_entries SELECT * FROM "
    "unnest(?::bigint[], ?::text[], ?::text[], ?::bytea[], ?::text[], ?::bytea[])"
)
MOVE = (
    "UPDATE taciturn_agents SET last = moved.last, digest = moved.digest FROM "
    "unnest(?::text[], ?::bigint[], ?::bigint[], ?::bytea[]) AS moved (name, before, last, digest) "
    "WHERE taciturn_agents.name = moved.name AND taciturn_agents.last = moved.before AND taciturn_agents.shard = ? "
    "RETURNING 1"
)
CREATE = "INSERT INTO taciturn_agents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1"
FORGET = "DELETE FROM taciturn_agents WHERE name = ? AND shard = ? RETURNING 1"


class Head(NamedTuple):
    """The end of an agent's chain: the position and the digest of its last entry."""

    last: int
    digest: bytes


class SharedJournal(Directory):
    """The journal of the agents of one shard.

    Arguments:
        conninfo: of the database, whose tables are there (`Directory.create`).
        shard, epoch: which shard, and the epoch that `Directory.take` gave to this process.
    """

    def __init__(self, conninfo: str, *, shard: int, epoch: int) -> None:
        super().__init__(conninfo)
        self.shard, self.epoch = shard, epoch
        self._heads: dict[str, Head] = {}
        self._fenced = threading.Event()

    def append(self, entries: Sequence[Entry]) -> int:
        """Write all entries or none, and return the position of the last; raises `Fenced` if another took over."""
        _check(entries)
        if not entries:
            return self.last()
        with self._lock:
            try:
                with self.transaction():
                    self._check_fence(rows := self.query(START, self.shard, self.epoch))
                    heads = self._write(entries, int(rows[0][0]))
            except BaseException:
                self._heads.clear()  # what was committed is not known
                raise
            self._heads.update(heads)
            for agent, kind, _ in entries:
                if kind == DELETE:
                    self._heads.pop(agent, None)
            return int(rows[0][0]) + len(entries) - 1

    def _write(self, entries: Sequence[Entry], first: int) -> dict[str, Head]:
        """Write entries from a position on and move the heads of their agents; returns the heads."""
        created = {agent: first + i for i, (agent, kind, _) in enumerate(entries) if kind in CREATES}
        before = self._known_heads({entry.agent for entry in entries} - created.keys())
        heads = before | dict.fromkeys(created, Head(0, GENESIS))
        rows = []
        for position, (agent, kind, body) in enumerate(entries, start=first):
            digest = chain(heads[agent].digest, position, agent, kind, body, __version__)
            heads[agent] = Head(position, digest)
            rows.append((position, agent, kind, body, __version__, digest))
        self.write(INSERT, [_columns(rows)])
        moved = [(agent, head.last, *heads[agent]) for agent, head in before.items()]
        if moved and len(self.query(MOVE, *_columns(moved), self.shard)) != len(moved):
            raise JournalUnavailable(f"{self.location}: an agent was written to by another process")
        for agent, position in created.items():
            if not self.query(CREATE, agent, self.shard, position - 1, *heads[agent]):
                raise JournalUnavailable(f"{self.location}: another shard has created {agent!r}")
        for agent, kind, _ in entries:
            if kind == DELETE:
                self.query(FORGET, agent, self.shard)
                self.write("INSERT INTO taciturn_deleted VALUES (?, ?, ?)", [(agent, heads[agent].last, self.shard)])
        return heads

    def _known_heads(self, agents: set[str]) -> dict[str, Head]:
        found = {agent: self._heads[agent] for agent in agents if agent in self._heads}
        if missing := sorted(agents - found.keys()):
            found |= {name: Head(last, digest) for name, last, digest in self.query(HEADS, self.shard, missing)}
        if lost := agents - found.keys():
            raise JournalUnavailable(f"{self.location}: {min(lost)!r} is not an agent of shard {self.shard}")
        return found

    def agents(self, only: set[str] | None = None) -> dict[str, int]:
        """The agents of this shard, or those of some names, each with the position just before its first entry."""
        sql = "SELECT name, created_at FROM taciturn_agents WHERE shard = ?"
        with self.reading():
            if only is None:
                return dict(self.query(f"{sql} ORDER BY name", self.shard))
            return dict(self.query(f"{sql} AND name = ANY(?::text[]) ORDER BY name", self.shard, sorted(only)))

    def read_agent(self, name: str, after: int) -> Iterator[Record]:
        """Yield an agent's records after the position of one of them, or of its creation, each verified.

        Raises `DamagedJournal` at the first that is not what was appended, and at the end if some are missing there.
        """
        with self.reading():
            rows = self.query("SELECT created_at, last, digest FROM taciturn_agents WHERE name = ?", name)
        if not rows:
            return
        created, last, stored = rows[0]
        digest = GENESIS if after <= created else self.digest_at(after)
        position = after
        for position, kind, body, version, found in self._pages(name, after, last):
            digest = None if digest is None else _chained(digest, position, name, kind, body, version)
            if digest != found:
                raise self._damage(name, f"entry {position} was changed, or one before it is missing")
            yield Record(position, name, kind, body, version)
        if after < last and (position, digest) != (last, stored):
            raise self._damage(name, f"entry {last} is missing")

    def _pages(self, name: str, after: int, last: int) -> Iterator[tuple[int, str, bytes, str, bytes]]:
        statement = (
            "SELECT position, kind, body, version, digest FROM taciturn_entries "
            "WHERE agent = ? AND position > ? AND position <= ? ORDER BY position LIMIT ?"
        )
        while True:
            with self.reading():
                rows = self.query(statement, name, after, last, self.rows_at_once)
            if not rows:
                return
            yield from rows
            after = rows[-1][0]

    def _damage(self, name: str, fault: str) -> DamagedJournal:
        return DamagedJournal(f"{self.location}: agent {name!r}: {fault}; {self.remedy}")

    def read(self, after: int = 0) -> Iterator[Record]:
        """Yield the records of all agents of this shard after a position, agent by agent."""
        for name, created in self.agents().items():
            yield from self.read_agent(name, max(after, created))

    def last(self) -> int:
        """Position of the last record of this shard's agents; 0 if there is none."""
        with self.reading():
            rows = self.query("SELECT COALESCE(MAX(last), 0) FROM taciturn_agents WHERE shard = ?", self.shard)
        return int(rows[0][0])

    def digest_at(self, position: int) -> bytes | None:
        """Digest of an agent's records up to the one at a position; None if there is no such record."""
        with self.reading():
            rows = self.query("SELECT digest FROM taciturn_entries WHERE position = ?", position)
        return rows[0][0] if rows else None

    def probe(self) -> None:
        """Write something over itself, durably; raises `Fenced` if another process has taken over."""
        with self.transaction():
            sql = "UPDATE taciturn_shards SET place = place WHERE shard = ? AND epoch = ? RETURNING 1"
            self._check_fence(self.query(sql, self.shard, self.epoch))

    def hand_over(self, name: str, to: int) -> None:
        """Give an agent, of which nothing is being written, to another shard."""
        with self._lock:
            with self.transaction():
                self._check_fence(self.query(START, self.shard, self.epoch))
                sql = "UPDATE taciturn_agents SET shard = ? WHERE name = ? AND shard = ?"
                self.write(sql, [(to, name, self.shard)])
            self._heads.pop(name, None)

    def deleted(self) -> list[tuple[str, int]]:
        """Agents that this shard has deleted and whose entries are still there, each with its last position."""
        with self.reading():
            return self.query("SELECT agent, until FROM taciturn_deleted WHERE shard = ? LIMIT 100", self.shard)

    def remove_entries(self, agent: str, until: int) -> None:
        """Remove the entries of a deleted agent, not those of a later one of its name."""
        removed = REMOVED_AT_ONCE
        while removed == REMOVED_AT_ONCE:
            with self.transaction():
                rows = self.query(
                    "DELETE FROM taciturn_entries WHERE position IN (SELECT position FROM taciturn_entries "
                    "WHERE agent = ? AND position <= ? AND NOT EXISTS (SELECT 1 FROM taciturn_agents "
                    "WHERE name = agent AND position > created_at) ORDER BY position LIMIT ?) RETURNING 1",
                    agent,
                    until,
                    REMOVED_AT_ONCE,
                )
                if (removed := len(rows)) < REMOVED_AT_ONCE:
                    self.write("DELETE FROM taciturn_deleted WHERE agent = ? AND until = ?", [(agent, until)])

    @property
    def responsive(self) -> bool:
        """Whether the database answers in time, as far as is known; takes no lock and asks nobody."""
        return not self._fenced.is_set() and super().responsive

    def _check_fence(self, rows: list[tuple[object, ...]]) -> None:
        if not rows:
            self._fenced.set()
        if self._fenced.is_set():
            raise fenced(self.location, self.shard)

    def _connect(self) -> Connection:
        """Open a connection whose commits wait for the disk, with a name by which the next process can end it."""
        db = super()._connect()
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(db.close)
            db.execute("SET synchronous_commit = on")
            db.execute(translated(f"SELECT set_config('application_name', {PROCESS}, false)"), (self.shard,))
            cleanup.pop_all()
        return db


def _check(entries: Sequence[Entry]) -> None:
    if len(entries) > BLOCK:
        raise TaciturnError(f"{len(entries)} entries in one append; {BLOCK} are possible")
    for agent, kind, _ in entries:
        check_text(agent)
        check_text(kind)
        if kind == REMOVED:
            raise TaciturnError(f"an entry of {agent!r} is of the kind {kind!r}, which stands for removed ones")


def _columns(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _chained(digest: bytes, position: int, *rest: object) -> bytes | None:
    """The digest of a record; None if damage has changed the types of its columns."""
    try:
        return chain(digest, position, *rest)  # type: ignore[arg-type]
    except (TypeError, AttributeError, UnicodeError):
        return None
