"""Opens the parts of a service in order, serves it, and closes them in reverse order."""

import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

import uvicorn
from fastapi import FastAPI

from taciturn.errors import TaciturnError
from taciturn.service.api.asgi import create_app
from taciturn.service.api.keys import Keyring
from taciturn.service.core.limits import Limits
from taciturn.service.core.service import Service
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sql import SQLJournal
from taciturn.service.journal.sqlite import SQLiteJournal
from taciturn.service.web import add_page

JOURNAL = "journal.db"


@contextmanager
def opened_journal(
    folder: Path, *, postgres: str | None = None, durability: Literal["full", "normal"] = "full"
) -> Iterator[SQLJournal]:
    """Open the journal of a data folder, or the one in PostgreSQL."""
    journal: SQLJournal
    if postgres is None:
        folder.mkdir(parents=True, exist_ok=True)
        journal = SQLiteJournal(folder / JOURNAL, durability=durability)
    else:
        from taciturn.service.journal.postgres import PostgresJournal  # noqa: PLC0415 - its driver is an extra

        journal = PostgresJournal(postgres)
    with closing(journal):
        yield journal


@contextmanager
def opened_app(
    journal: SQLJournal,
    folder: Path,
    *,
    limits: Limits | None = None,
    learn_budget_ms: float = 10.0,
    snapshot_every: int = 20_000,
) -> Iterator[FastAPI]:
    """Open the application of a journal, with its page, and snapshots in the data folder; closing drains the queues."""
    keys = list(journal.keys())
    snapshots = Snapshots(folder / "snapshots", history=journal.digest_at)
    service = Service(journal, snapshots, limits=limits, learn_budget_ms=learn_budget_ms, snapshot_every=snapshot_every)
    keyring = Keyring(keys) if keys else None
    with closing(service):
        app = create_app(service, keyring, limits)
        add_page(app, service, keyring)
        yield app


def check_host(host: str, *, keyed: bool) -> None:
    """Raise if other machines could reach a service without keys."""
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local and not keyed:
        raise TaciturnError(
            f"--host {host} can be reached from other machines, and there is no key; "
            "make one first: taciturn keys add NAME"
        )


class _Announcing(uvicorn.Server):
    """Calls `announce` with the port once it listens."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[int], object]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        if self.started:
            self._announce(self.servers[0].sockets[0].getsockname()[1])


def serve(app: FastAPI, *, host: str, port: int, announce: Callable[[int], object]) -> None:
    """Serve until a signal arrives, then finish the requests in progress; `announce` is called with the port."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=30,
        timeout_keep_alive=30,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    server = _Announcing(config, announce)
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has stopped
        server.run()
    if not server.started:
        raise TaciturnError(f"cannot listen on {host}, port {port}; is it in use?")


class JSONLines(logging.Formatter):
    """Formats each message as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message; a traceback if there is one."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr(level: str) -> None:
    """Log JSON lines to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JSONLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
