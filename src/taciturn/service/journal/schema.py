"""The schema of the tables, and how tables of an older one are migrated."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import Entry, Record
from taciturn.service.journal.chain import FIRST_VERSION, GENESIS, BadRecord, chain, verified
from taciturn.service.journal.tables import Tables

Upgrade = Callable[[Iterator[Record]], Iterator[Entry]]
"""Turns the records of an older schema into entries of this one: as many, of the same agents, in the same order."""

PAGE = 100
"""Records that are read or written at a time."""

META_TABLE = "CREATE TABLE IF NOT EXISTS taciturn_meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)"


def records_table(schema: int, position_type: str, blob_type: str, name: str = "taciturn_records") -> str:
    """The statement that creates the table of records as a schema has it."""
    version = "version TEXT NOT NULL, " if schema > 1 else ""
    return (
        f"CREATE TABLE {name} (position {position_type} PRIMARY KEY, agent TEXT NOT NULL, kind TEXT NOT NULL, "
        f"body {blob_type} NOT NULL, {version}digest {blob_type} NOT NULL)"
    )


def keys_table(blob_type: str) -> str:
    """The statement that creates the table of API keys."""
    return f"CREATE TABLE taciturn_keys (name TEXT PRIMARY KEY, digest {blob_type} NOT NULL, scope TEXT NOT NULL)"


def _create_tables(tables: Tables, _: Upgrade | None) -> None:
    tables.write(records_table(1, tables.position_type, tables.blob_type))
    tables.write(keys_table(tables.blob_type))
    tables.write("INSERT INTO taciturn_meta VALUES ('head', 0)")  # the last position, to detect a lost tail


def _add_versions(tables: Tables, upgrade: Upgrade | None) -> None:
    """Schema 2: records say which version wrote them, and meta counts writers, changes of keys and requests."""
    tables.write(records_table(2, tables.position_type, tables.blob_type, "taciturn_records_new"))
    digest, rows = GENESIS, []
    for position, entry in enumerate(_upgraded(tables, upgrade), start=1):
        digest = chain(digest, position, *entry, FIRST_VERSION)
        rows.append((position, *entry, FIRST_VERSION, digest))
        if len(rows) == PAGE:
            tables.write("INSERT INTO taciturn_records_new VALUES (?, ?, ?, ?, ?, ?)", rows)
            rows = []
    if rows:
        tables.write("INSERT INTO taciturn_records_new VALUES (?, ?, ?, ?, ?, ?)", rows)
    tables.write("DROP TABLE taciturn_records")
    tables.write("ALTER TABLE taciturn_records_new RENAME TO taciturn_records")
    for name in ("epoch", "keys_version", "compact_requests"):
        tables.write("INSERT INTO taciturn_meta VALUES (?, 0)", [(name,)])


MIGRATIONS: list[Callable[[Tables, Upgrade | None], None]] = [_create_tables, _add_versions]
"""The n-th migrates from schema n to n + 1, inside a transaction."""


def check_schema(location: str, version: int) -> None:
    """Raise for tables that a newer version has written."""
    if version > len(MIGRATIONS):
        raise TaciturnError(
            f"{location}: written by a newer taciturn (schema {version}, this one knows {len(MIGRATIONS)}); "
            "install that one"
        )


def _upgraded(tables: Tables, upgrade: Upgrade | None) -> Iterator[Entry]:
    """Yield the records of schema 1 as entries of schema 2; raises if `upgrade` loses, adds or moves one."""
    waiting: deque[Record] = deque()  # records that `upgrade` has taken and not returned yet

    def taken() -> Iterator[Record]:
        for record in _old_records(tables):
            waiting.append(record)
            yield record

    if upgrade is None:
        yield from (Entry(*record[1:4]) for record in _old_records(tables))
        return
    source = taken()
    for entry in upgrade(source):
        if not waiting or waiting.popleft().agent != entry.agent:
            raise TaciturnError(f"{tables.location}: the upgrade returned an entry of {entry.agent!r} out of place")
        yield entry
    if waiting or next(source, None) is not None:
        raise TaciturnError(f"{tables.location}: the upgrade lost record {waiting[0].position}")


def _old_records(tables: Tables) -> Iterator[Record]:
    """Yield the records of schema 1, each verified."""

    def rows(after: int = 0) -> Iterator[tuple[Any, ...]]:
        statement = (
            "SELECT position, agent, kind, body, NULL, digest FROM taciturn_records WHERE position > ? "
            "ORDER BY position LIMIT ?"
        )
        while page := tables.query(statement, after, PAGE):
            yield from page
            after = page[-1][0]

    good = 0
    try:
        for record in verified(rows()):
            good = record.position
            yield record
    except BadRecord as error:
        raise tables.damaged(str(error), error.good) from None
    (head,) = tables.query("SELECT COALESCE(CAST(value AS BIGINT), 0) FROM taciturn_meta WHERE name = 'head'") or [(0,)]
    if good != head[0]:
        raise tables.damaged(f"it has {good} records and should have {head[0]}", min(good, head[0]))
