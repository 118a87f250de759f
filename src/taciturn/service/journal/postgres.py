"""The journal in a PostgreSQL database, for a service whose own disk is not durable."""

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from taciturn.errors import TaciturnError, how_to_install
from taciturn.service.journal.base import DamagedJournal, Entry, JournalFull, JournalInUse, JournalUnavailable
from taciturn.service.journal.schema import Upgrade, check_schema
from taciturn.service.journal.sql import SQLJournal
from taciturn.service.journal.tables import Tables

try:
    import psycopg
except ImportError as error:
    raise ImportError(f"taciturn.service.journal.postgres needs psycopg: {how_to_install('postgres')}") from error

DAMAGE = (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted)
LOCK = "SELECT pg_try_advisory_lock(hashtext('taciturn journal'), hashtext(current_schema()))"
ANSWER_SECONDS = 10.0
"""How long a statement may take; a server that is frozen never says that it is late."""

TIME_LIMITS = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",  # milliseconds until a network that swallows everything is a broken connection
}
"""Settings of libpq, unless the conninfo has others."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is broken once the server has not answered for `answer_seconds`; None waits for ever."""

    answer_seconds: float | None = None

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        """Wait for the server; psycopg calls it for every statement."""
        return super().wait(self._limited(gen), *arguments, **options)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        started = time.monotonic()
        try:
            state = next(gen)
            while True:
                ready = yield state  # 0, several times a second, while nothing arrives
                limit = self.answer_seconds
                if not ready and limit is not None and time.monotonic() - started > limit:
                    self.pgconn.finish()  # or the end of the transaction would wait once more
                    raise psycopg.OperationalError(f"the server has not answered for {limit:g} s")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


class PostgresTables(Tables):
    """The tables of a journal in a database, beside the process that writes records; nothing is migrated.

    The next call after a broken connection reconnects; the call that was interrupted fails.

    Arguments:
        conninfo: in libpq's format: "host=… dbname=…" or "postgresql://…".
    """

    position_type: ClassVar[str] = "BIGINT"
    blob_type: ClassVar[str] = "BYTEA"
    remedy = "restore the database from a backup"

    def __init__(self, conninfo: str) -> None:
        super().__init__()
        self._conninfo = conninfo
        self._db: Connection | None = None
        self._closed = False
        self._migrating = False
        try:
            self._settings = psycopg.conninfo.conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError as error:
            raise TaciturnError(f"not a conninfo of PostgreSQL: {_first_line(error)}") from None
        host, name = self._settings.get("host", "localhost"), self._settings.get("dbname", "")
        self.location = f"PostgreSQL {host}/{name}"  # without the password

    def exists(self) -> bool:
        """Whether the database has a journal, which must not be of a newer taciturn."""
        with self.reading():
            ((found,),) = self.query("SELECT to_regclass('taciturn_meta')::text")
        if found is None:
            return False
        version = self.meta().get("schema_version", 0)
        check_schema(self.location, version)
        return version > 0

    @contextmanager
    def _statements(self, *, writing: bool) -> Iterator[None]:
        """A transaction whose statements are sent as a pipeline, without a round trip for each."""
        try:
            db = self._connection()
            with db.pipeline(), db.transaction():
                yield
        except DAMAGE as error:
            raise DamagedJournal(f"{self.location}: {_first_line(error)}; {self.remedy}") from None
        except psycopg.errors.DiskFull as error:
            raise JournalFull(
                f"{self.location}: {_first_line(error)}, nothing was written; free some space there"
            ) from None
        except psycopg.Error as error:
            raise JournalUnavailable(f"{self.location}: {_first_line(error)}") from None

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement with `?` for each value."""
        return self._connection().execute(translated(sql), values).fetchall()

    def write(self, sql: str, rows: Sequence[Sequence[object]] | None = None) -> None:
        """Run a statement once, or for each of the rows."""
        if rows is None:
            self._connection().execute(translated(sql))
        else:
            with self._connection().cursor() as cursor:
                cursor.executemany(translated(sql), rows)

    def close(self) -> None:
        """Release the lock, which the server may notice late for a closed connection, and disconnect."""
        with self._lock:
            self._closed = True
            if self._db is not None:
                with contextlib.suppress(psycopg.Error):  # a broken connection holds no lock
                    self._db.execute("SELECT pg_advisory_unlock_all()")
                self._db.close()

    @contextmanager
    def _migration(self) -> Iterator[None]:
        """While it is entered, tables may be changed."""
        self._set_migrating(True)
        try:
            yield
        finally:
            self._set_migrating(False)

    def _set_migrating(self, migrating: bool) -> None:  # noqa: FBT001 - it is its name
        self._migrating = migrating
        if self._db is not None:
            _set_up(self._db, migrating=migrating)

    def _connection(self) -> Connection:
        if self._closed:
            raise JournalUnavailable(f"{self.location}: this journal was closed; open it again")
        if self._db is None or self._db.closed:
            self._db = self._connect()
        return self._db

    def _connect(self) -> Connection:
        """Open a connection to a database that can hold all text."""
        limits: dict[str, Any] = {name: value for name, value in TIME_LIMITS.items() if name not in self._settings}
        db = Connection.connect(self._conninfo, autocommit=True, client_encoding="utf8", **limits)
        _set_up(db, migrating=self._migrating)
        encoding = db.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            db.close()
            raise TaciturnError(f"{self.location}: the database has the encoding {encoding}; create one with UTF8")
        return db


class PostgresJournal(SQLJournal, PostgresTables):
    """A journal in the tables `taciturn_records`, `taciturn_meta` and `taciturn_keys` of a database.

    The lock of the one writer belongs to the connection, so connect to the server itself, not to a pooler that shares
    connections. A writer that lost its connection, and with it the lock, goes on only if no other has opened the
    journal meanwhile.

    Arguments:
        conninfo: in libpq's format: "host=… dbname=…" or "postgresql://…".
        upgrade: makes entries of this schema from records of an older one; None keeps their bodies. Tables of an older
            schema are copied to `…_schema_N` before they are migrated.
    """

    row_lock: ClassVar[str] = " FOR UPDATE"

    def __init__(self, conninfo: str, *, upgrade: Upgrade | None = None) -> None:
        PostgresTables.__init__(self, conninfo)
        self.upgrade = upgrade
        try:
            with self._migration():
                self._migrate()
            self._check_alone()
        except BaseException:
            self.close()
            raise

    def _check_alone(self) -> None:
        if "shards" in self.meta():
            raise TaciturnError(
                f"{self.location}: shards keep their agents here; start them with taciturn serve --engine ray"
            )

    def append(self, entries: Sequence[Entry]) -> int:
        """Write all entries or none, and return the position of the last; raises `Fenced` as soon as that is known."""
        try:
            return super().append(entries)
        except JournalUnavailable:
            if self._db is not None and self._db.closed and not self._closed:
                with contextlib.suppress(JournalUnavailable), self.reading():
                    pass  # connected again, which finds out whether another process has taken over
            if self._fenced:
                raise self._fence() from None
            raise

    def beside(self) -> PostgresTables:
        """Another connection to the same database."""
        return PostgresTables(self._conninfo)

    def shrink(self) -> None:
        """Have the server reuse the space of removed records; on a connection of its own, so that appends go on."""
        try:
            with contextlib.closing(super()._connect()) as db:
                db.answer_seconds = None
                db.execute("VACUUM taciturn_records")
        except psycopg.Error as error:
            raise JournalUnavailable(f"{self.location}: {_first_line(error)}") from None

    def close(self) -> None:
        """Stop looking after the tables, release the lock and disconnect."""
        self._stop_housekeeping()
        PostgresTables.close(self)

    def _keep_copy(self, version: int) -> None:
        with self.transaction():
            for table in ("taciturn_records", "taciturn_meta", "taciturn_keys"):
                copy = f"{table}_schema_{version}"
                self.write(f"DROP TABLE IF EXISTS {copy}")
                self.write(f"CREATE TABLE {copy} AS TABLE {table}")

    def _connect(self) -> Connection:
        """Open a connection that holds the writer's lock and whose commits wait for the disk."""
        db = super()._connect()
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(db.close)
            locked = db.execute(LOCK).fetchall()[0][0]
            if self._epoch is not None:  # also without the lock: whoever has it may have taken over already
                stored = db.execute("SELECT value FROM taciturn_meta WHERE name = 'epoch'").fetchone()
                self.compare_epoch(stored[0] if stored else None)
            if not locked:
                raise JournalInUse(f"{self.location}: in use by another process; only one can write")
            db.execute("SET synchronous_commit = on")
            cleanup.pop_all()
        return db


def _set_up(db: Connection, *, migrating: bool) -> None:
    """Limit the time for answers; a migration may take any, and psycopg loses what it prepared as tables change."""
    db.answer_seconds = None if migrating else ANSWER_SECONDS
    db.prepare_threshold = None if migrating else 5


def translated(sql: str) -> bytes:
    """A statement with `?` for each value, as psycopg takes it."""
    return sql.replace("?", "%s").encode()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
