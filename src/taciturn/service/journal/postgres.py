"""The journal in a PostgreSQL database, for a service whose own disk is not durable."""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from taciturn.errors import TaciturnError, how_to_install
from taciturn.service.journal.base import DamagedJournal, JournalFull, JournalUnavailable
from taciturn.service.journal.sql import SQLJournal

try:
    import psycopg
except ImportError as error:
    raise ImportError(f"taciturn.service.journal.postgres needs psycopg: {how_to_install('postgres')}") from error

DAMAGE = (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted)
LOCK = "SELECT pg_try_advisory_lock(hashtext('taciturn journal'), hashtext(current_schema()))"


class PostgresJournal(SQLJournal):
    """A journal in the tables `taciturn_records`, `taciturn_meta` and `taciturn_keys` of a database.

    The lock of the one writer belongs to the connection, so connect to the server itself, not to a pooler that shares
    connections. The next call after a broken connection reconnects; the call that was interrupted fails.

    Arguments:
        conninfo: in libpq's format: "host=… dbname=…" or "postgresql://…".
    """

    position_type: ClassVar[str] = "BIGINT"
    blob_type: ClassVar[str] = "BYTEA"
    remedy = "restore the database from a backup"

    def __init__(self, conninfo: str) -> None:
        super().__init__()
        self._conninfo = conninfo
        self._db: psycopg.Connection | None = None
        self._closed = False
        try:
            known = psycopg.conninfo.conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError as error:
            raise TaciturnError(f"not a conninfo of PostgreSQL: {_first_line(error)}") from None
        self.location = f"PostgreSQL {known.get('host', 'localhost')}/{known.get('dbname', '')}"  # without the password
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all statements in the block or none; they are sent as a pipeline, without a round trip for each."""
        with self._lock:
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
        return self._connection().execute(_translated(sql), values).fetchall()

    def write(self, sql: str, rows: Sequence[Sequence[object]] | None = None) -> None:
        """Run a statement once, or for each of the rows."""
        if rows is None:
            self._connection().execute(_translated(sql))
        else:
            with self._connection().cursor() as cursor:
                cursor.executemany(_translated(sql), rows)

    def close(self) -> None:
        """Release the lock, which the server may notice late for a closed connection, and disconnect."""
        with self._lock:
            self._closed = True
            if self._db is not None:
                with contextlib.suppress(psycopg.Error):  # a broken connection holds no lock
                    self._db.execute("SELECT pg_advisory_unlock_all()")
                self._db.close()

    def _connection(self) -> psycopg.Connection:
        if self._closed:
            raise JournalUnavailable(f"{self.location}: this journal was closed; open it again")
        if self._db is None or self._db.closed:
            self._db = self._connect()
            if self._tail is not None and self._tail != self._stored_tail():
                self._db.close()
                raise JournalUnavailable(f"{self.location}: another process has written to it; restart the service")
        return self._db

    def _connect(self) -> psycopg.Connection:
        """Open a connection that holds the writer's lock and whose commits wait for the disk."""
        db = psycopg.connect(self._conninfo, autocommit=True, client_encoding="utf8")
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(db.close)
            encoding = db.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise TaciturnError(f"{self.location}: the database has the encoding {encoding}; create one with UTF8")
            if not db.execute(LOCK).fetchall()[0][0]:
                raise JournalUnavailable(f"{self.location}: in use by another process; only one can write")
            db.execute("SET synchronous_commit = on")
            cleanup.pop_all()
        return db


def _translated(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
