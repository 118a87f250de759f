"""Journals of both kinds, on a real file system and on a PostgreSQL server that is started for this session.

Snapshots in a folder, in memory and on an S3 server; and the page, in a real browser.
"""

import os
import sqlite3
import traceback
from contextlib import closing
from functools import partial
from itertools import count
from typing import ClassVar

import httpx
import psycopg
import pytest

from browser_kit import chromium
from page_kit import Site, Window
from postgres_kit import PostgresServer, server_programs
from service_kit import MemoryJournal
from snapshot_kit import Place
from taciturn.service.journal.postgres import PostgresJournal
from taciturn.service.journal.sqlite import SQLiteJournal

NUMBERS = count()


class Tracked(sqlite3.Connection):
    """A connection that is known until it is closed; a `with` block does not close it."""

    open: ClassVar[dict] = {}

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.open[id(self)] = (self, "".join(traceback.format_stack(limit=6)))

    def close(self):
        self.open.pop(id(self), None)
        super().close()


@pytest.fixture(autouse=True)
def closed_connections(monkeypatch):
    """Every connection to SQLite that a test opens has an owner that closes it, in the library as in the test."""
    known = set(Tracked.open)  # of fixtures that live longer
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Tracked))
    yield
    left = {key: Tracked.open.pop(key) for key in Tracked.open.keys() - known}
    for connection, _ in left.values():
        connection.close()
    assert not left, "not closed: " + "\n".join(where for _, where in left.values())


@pytest.fixture(scope="session")
def postgres_programs():
    """The folder with the programs of a PostgreSQL server."""
    programs = server_programs()
    if programs is None:
        reason = "no PostgreSQL server on this machine; on Debian: apt-get install postgresql"
        pytest.fail(reason) if "CI" in os.environ else pytest.skip(reason)
    return programs


@pytest.fixture(scope="session")
def postgres(postgres_programs):
    """The conninfo of a server that listens on a socket in a temporary folder."""
    with closing(PostgresServer(postgres_programs)) as server:
        yield server.conninfo


class SQLiteStore:
    """Opens one SQLite journal, and changes its tables without it."""

    kind = "sqlite"

    def __init__(self, folder):
        self.address = str(folder / "journal.db")

    def open(self):
        return SQLiteJournal(self.address)

    def tamper(self, sql, *values):
        with closing(sqlite3.connect(self.address)) as db:
            rows = db.execute(sql, values).fetchall()
            db.commit()
        return rows


class PostgresStore:
    """Opens one PostgreSQL journal in a schema of its own, and changes its tables without it."""

    kind = "postgres"

    def __init__(self, conninfo):
        schema = f"test_{next(NUMBERS)}"
        self.address = f"{conninfo} options='-c search_path={schema}'"
        self.tamper(f"CREATE SCHEMA {schema}")

    def open(self):
        return PostgresJournal(self.address)

    def tamper(self, sql, *values):
        with closing(psycopg.connect(self.address, autocommit=True)) as db:
            cursor = db.execute(sql.replace("?", "%s"), values)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def new_store(request, tmp_path_factory):
    """Creates empty stores of one kind."""
    if request.param == "postgres":
        conninfo = request.getfixturevalue("postgres")
        return lambda: PostgresStore(conninfo)
    return lambda: SQLiteStore(tmp_path_factory.mktemp("journal"))


@pytest.fixture
def store(new_store):
    """One empty store of each kind."""
    return new_store()


@pytest.fixture
def server(postgres):
    """One empty store on PostgreSQL."""
    return PostgresStore(postgres)


# Snapshots.


@pytest.fixture(scope="session")
def s3_address():
    """The address of an S3 server of this session, with one bucket `taciturn`."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    httpx.put(f"{address}/taciturn").raise_for_status()
    yield address
    server.stop()


@pytest.fixture
def s3(s3_address, monkeypatch):
    """The URL of a bucket, and the environment with which it is found."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_address)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return "s3://taciturn"


@pytest.fixture(params=["folder", "memory", "s3"])
def place(request, tmp_path):
    """An empty place for snapshots, of each kind."""
    if request.param == "folder":
        return Place(str(tmp_path / "snapshots"))
    root = request.getfixturevalue("s3") if request.param == "s3" else "memory:/"
    return Place(f"{root}/{next(NUMBERS)}/prefix")


# The page.


@pytest.fixture
def new_site():
    sites = []

    def make(journal=None, **options):
        sites.append(Site(journal or MemoryJournal(), **options))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


@pytest.fixture
def site(new_site):
    return new_site()


@pytest.fixture(scope="module")
def driver():
    with chromium("--hide-scrollbars") as driver:
        yield driver


@pytest.fixture
def window(driver):
    driver.get("about:blank")
    found = Window(driver)
    found.errors()
    found.requested()
    yield found
    urls = [url for url in found.requested() if url != "about:blank"]
    assert all(url.startswith("http://127.0.0.1:") for url in urls), "no request to another machine"
    driver.get("about:blank")
