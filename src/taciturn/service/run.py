"""Opens the parts of a service in order, serves it, and closes them in reverse order."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from socket import socket
from typing import Any, Literal

from taciturn.errors import TaciturnError
from taciturn.service.api.access import AccessLog
from taciturn.service.api.asgi import App, Resource
from taciturn.service.api.keys import Keyring
from taciturn.service.api.local import create_app
from taciturn.service.api.routes import Extension
from taciturn.service.config import Settings
from taciturn.service.core.limits import Limits
from taciturn.service.core.schema1 import upgrade
from taciturn.service.core.service import Service
from taciturn.service.journal.removal import remove_snapshots, survey
from taciturn.service.journal.snapshots import Snapshots, open_snapshots
from taciturn.service.journal.sql import SQLJournal
from taciturn.service.journal.sqlite import SQLiteJournal, SQLiteTables
from taciturn.service.journal.tables import Tables
from taciturn.service.logs import log_to_stderr
from taciturn.service.prepare import prepare
from taciturn.service.server import Server, StopSignals, listen
from taciturn.service.web import add_page

JOURNAL, SNAPSHOTS = "journal.db", "snapshots"
log = logging.getLogger("taciturn.service")


@contextmanager
def opened_journal(
    folder: Path, *, postgres: str | None = None, durability: Literal["full", "normal"] = "full"
) -> Iterator[SQLJournal]:
    """Open the journal of a data folder, or the one in PostgreSQL, as the one process that writes to it."""
    journal: SQLJournal
    if postgres is None:
        journal = SQLiteJournal(folder / JOURNAL, durability=durability, upgrade=upgrade)
    else:
        from taciturn.service.journal.postgres import PostgresJournal  # noqa: PLC0415 - its driver is an extra

        journal = PostgresJournal(postgres, upgrade=upgrade)
    with closing(journal):
        yield journal


@contextmanager
def opened_tables(folder: Path, *, postgres: str | None = None) -> Iterator[Tables | None]:
    """Open the tables of a journal beside the process that writes to it; None if there is no journal yet."""
    if postgres is None:
        path = folder / JOURNAL
        with closing(SQLiteTables(path)) if path.exists() else nullcontext() as tables:
            yield tables
    else:
        from taciturn.service.journal.postgres import PostgresTables  # noqa: PLC0415 - its driver is an extra

        with closing(PostgresTables(postgres)) as database:
            yield database if database.exists() else None


def compact(folder: Path, *, postgres: str | None = None) -> int:
    """Remove the entries and snapshots of deleted agents, while no service runs; returns how many entries."""
    with opened_journal(folder, postgres=postgres) as journal:
        if (folder / SNAPSHOTS).is_dir():
            remove_snapshots(survey(journal), Snapshots(folder / SNAPSHOTS))
        return journal.compact()


@contextmanager
def opened_app(
    journal: SQLJournal,
    folder: Path,
    *,
    limits: Limits | None = None,
    learn_budget_ms: float = 10.0,
    snapshot_every: int = 20_000,
    snapshot_seconds: float = 5.0,
    access: AccessLog | None = None,
    background: bool = False,
    snapshots_at: str | None = None,
    tracer: Any = None,
    extend: Callable[[Service, Keyring], Extension] | None = None,
) -> Iterator[tuple[App, Service]]:
    """Open the application and service of a journal, with the page; snapshots are in the data folder, or where it says.

    With `background` it can be served at once, and restores its agents meanwhile. With a `tracer` of OpenTelemetry
    requests have spans; `extend` returns more routes. Closing drains the queues; if the service has stopped for good,
    the reason is raised then.
    """
    new_service, wrap = (Service, None) if tracer is None else _traced(tracer)
    keyring = Keyring(journal.keys())
    snapshots = open_snapshots(snapshots_at or str(folder / SNAPSHOTS), history=journal.digest_at)
    service = new_service(
        journal,
        snapshots,
        limits=limits,
        learn_budget_ms=learn_budget_ms,
        snapshot_every=snapshot_every,
        snapshot_seconds=snapshot_seconds,
        background=background,
        prepare=prepare if background else None,
        marker=folder / "replay.mark",
    )
    files = [folder / JOURNAL, folder / f"{JOURNAL}-wal"] if isinstance(journal, SQLiteJournal) else None
    with closing(service):
        journal.watch(keyring.replace, snapshots, service.stop_for_good)
        journal_bytes = None if files is None else lambda: sum(file.stat().st_size for file in files if file.exists())
        extension = None if extend is None else extend(service, keyring)
        app = create_app(
            service, keyring, limits, access=access, journal_bytes=journal_bytes, extension=extension, wrap=wrap
        )
        add_page(app, service, keyring)
        yield app, service
        service.check()


def _traced(tracer: Any) -> tuple[Callable[..., Service], Callable[[str, Resource], Any]]:
    """What makes a service with spans, and what wraps the resources of its routes."""
    from taciturn.service import tracing  # noqa: PLC0415 - an extra

    def wrap(path: str, resource: Resource) -> Any:
        return tracing.TracedResource(tracer, path, resource) if path.startswith(tracing.TRACED) else resource

    return partial(tracing.TracedService, tracer), wrap


@contextmanager
def _opened_tracer(*, wanted: bool) -> Iterator[Any]:
    """A tracer of OpenTelemetry, or None."""
    if not wanted:
        yield None
        return
    from taciturn.service.tracing import opened_tracer  # noqa: PLC0415 - an extra

    with opened_tracer() as tracer:
        yield tracer


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


def check_folder(folder: Path) -> None:
    """Raise if a file is where the data folder is, or should be made."""
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise TaciturnError(
                f"--data-dir {folder}: {place} is a file; name a folder, which is made if there is none"
            )


def run(settings: Settings, announce: Callable[[int], object], warnings: Sequence[str] = ()) -> None:
    """Run a service until a signal stops it; `announce` is called with the port, and the warnings are logged first."""
    if settings.is_cluster:
        if settings.otel:
            raise TaciturnError("--otel is for a service of one process; leave it out with --engine ray and --workers")
        from taciturn.service.cluster.run import run_cluster  # noqa: PLC0415 - Ray is an extra

        run_cluster(settings, announce, warnings)
        return
    if settings.shards or settings.address:
        raise TaciturnError("--shards and --address are for shards on Ray: add --engine ray")
    run_here(settings, announce, warnings)


def run_here(
    settings: Settings,
    announce: Callable[[int], object],
    warnings: Sequence[str] = (),
    *,
    before: Callable[[], object] | None = None,
    extend: Callable[[Service, Keyring], Extension] | None = None,
) -> None:
    """Run a service in this process until a signal stops it, as `run` does.

    `before` is called when the address is taken and the journal not yet read. `extend` returns more routes, when all
    agents are restored; without it they are restored while the service can be reached already.
    """
    write = log_to_stderr(settings.log_level)
    for warning in warnings:
        log.warning("%s", warning)
    folder = Path(settings.data_dir)
    check_folder(folder)
    requests = settings.log_level in {"debug", "info"}
    with (
        StopSignals() as signals,
        _opened_tracer(wanted=settings.otel) as tracer,
        closing(AccessLog(write, requests=requests, contexts=settings.log_contexts)) as access,
        opened_journal(folder, postgres=settings.postgres, durability=settings.durability) as journal,
    ):
        keys = {key.name: key.scope for key in journal.keys()}  # noqa: SIM118 - not a dictionary
        check_host(settings.host, keyed=bool(keys))
        sockets = listen(settings.host, settings.port)
        access.audit("start", host=settings.host, keys=keys)
        if before is not None:
            before()
        with opened_app(
            journal,
            folder,
            limits=settings.limits,
            learn_budget_ms=settings.learn_budget_ms,
            snapshot_every=settings.snapshot_every,
            snapshot_seconds=settings.snapshot_seconds,
            access=access,
            background=extend is None,
            snapshots_at=settings.snapshots,
            tracer=tracer,
            extend=extend,
        ) as (app, service):
            serve(app, service, sockets, signals, announce)
        access.audit("stop")


def serve(
    app: App, service: Service, sockets: list[socket], signals: StopSignals, announce: Callable[[int], object]
) -> None:
    """Serve until a signal arrives or the service stops for good, then finish the requests in progress.

    `announce` is called with the port once the service is ready; `/healthz` and `/readyz` answer before.
    """
    status, announced = _StatusLine(service), False

    def watch() -> None:
        nonlocal announced
        status.log_change()
        if service.fatal is not None:
            server.stop()
        elif not announced and service.ready:
            announced = True
            announce(sockets[0].getsockname()[1])

    server = Server(app, service.limits, watch)
    signals.stop = server.stop
    server.run(sockets)


class _StatusLine:
    """Logs what a service says about itself, whenever that changes."""

    def __init__(self, service: Service) -> None:
        self._service, self._last = service, ""

    def log_change(self) -> None:
        status = self._service.status
        kind = status.partition(":")[0]  # without the numbers, which change all the time
        if kind != self._last:
            self._last = kind
            log.info("%s", status)
