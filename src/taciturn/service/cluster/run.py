"""Runs the service on Ray until a signal stops it."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from socket import socket

from taciturn.errors import TaciturnError
from taciturn.ray_connection import connected
from taciturn.service.cluster.front import FrontSettings, shared_socket
from taciturn.service.cluster.ray_cluster import NAMESPACE, Cluster
from taciturn.service.cluster.shard import ShardSettings
from taciturn.service.config import Settings
from taciturn.service.journal.base import JournalUnavailable
from taciturn.service.journal.directory import WANTED, Directory
from taciturn.service.logs import log_to_stderr
from taciturn.service.prepare import prepare
from taciturn.service.run import SNAPSHOTS, check_folder, check_host
from taciturn.service.server import StopSignals, listen

log = logging.getLogger("taciturn.service")
FIRST_SHARDS = 2
"""Shards of a database that had none, where no number is given."""

CHECK_SECONDS = 0.2
PRIORITY = {"RAY_worker_niceness": "0"}
"""Ray gives its workers the niceness 15: everything else on the machine, PostgreSQL too, would come before requests."""


def run_cluster(settings: Settings, announce: Callable[[int], object], warnings: Sequence[str] = ()) -> None:
    """Run shards and fronts; `announce` is called with the port once all shards serve."""
    log_to_stderr(settings.log_level)
    for warning in warnings:
        log.warning("%s", warning)
    postgres = _checked(settings)
    stop = threading.Event()
    with closing(Directory(postgres)) as directory:
        check_host(settings.host, keyed=directory.exists() and bool(list(directory.keys())))
        if settings.address is None:
            _check_alone(directory)
            _check_port(settings.host, settings.port)
        directory.create(_wanted(settings, directory))  # after all checks: it changes a service that is running
        log.info("starting Ray, then %d shards and %d fronts", directory.wanted(), settings.fronts)
        with (
            _reserved(settings.host, settings.port) as port,
            connected(settings.address, cores=4 * _wanted_now(directory), variables=PRIORITY, namespace=NAMESPACE),
            StopSignals() as signals,  # after Ray, which has its own way with signals
        ):
            signals.stop = stop.set
            if settings.address is None:
                prepare()  # once: with an empty cache all shards would compile the same
            cluster = Cluster(
                shard_settings(settings, postgres),
                front_settings(settings, postgres, port.getsockname()[1]),
                fronts=settings.fronts,
                log_level=settings.log_level,
            )
            try:
                if _wait_ready(cluster, directory, stop):
                    announce(port.getsockname()[1])
                stop.wait()
            finally:
                cluster.stop()


def _check_alone(directory: Directory) -> None:
    """Raise if shards of another Ray are alive; those of one that was killed let their leases run out."""
    known = directory.exists() and WANTED in directory.meta()
    first = directory.last_lease() if known else None
    last = first
    while last is not None:
        if last != first:
            raise TaciturnError(
                f"{directory.location}: shards of another taciturn serve keep their agents here; stop it first, "
                "or change their number with taciturn scale"
            )
        time.sleep(CHECK_SECONDS)
        last = directory.last_lease()


def _check_port(host: str, port: int) -> None:
    """Raise if any program listens on a port; fronts could share it with those of another service."""
    for opened in listen(host, port):
        opened.close()


def _wait_ready(cluster: Cluster, directory: Directory, stop: threading.Event) -> bool:
    """Wait until all shards serve; returns False if it is stopped before."""
    while not stop.wait(CHECK_SECONDS):
        with suppress(JournalUnavailable):  # shards wait for it, too
            live = {row.shard: row.place for row in directory.shards() if row.live}
            if live.keys() >= set(range(directory.wanted())) and cluster.ready(live.values()):
                return True
    return False


def _wanted_now(directory: Directory) -> int:
    return max(directory.wanted(), 1)


def _wanted(settings: Settings, directory: Directory) -> int | None:
    """The number of shards that is asked for; None for as many as there are."""
    known = directory.exists() and WANTED in directory.meta()
    return settings.workers or settings.shards or (None if known else FIRST_SHARDS)


def _reserved(host: str, port: int) -> "closing[socket]":
    """A socket that keeps a port for the fronts, and takes no connections."""
    try:
        return closing(shared_socket(host, port, listening=False))
    except OSError as error:
        raise TaciturnError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; --port 0 takes any free port"
        ) from None


def _checked(settings: Settings) -> str:
    """The conninfo; raises for settings that do not go together."""
    if settings.workers and settings.address:
        raise TaciturnError("--workers starts a Ray of its own; with --address, say --engine ray --shards N instead")
    if not settings.postgres:
        flag = "--workers" if settings.workers else "--engine ray"
        raise TaciturnError(
            f"{flag} needs --postgres: a SQLite file has one writer. Try: --postgres 'host=localhost dbname=taciturn'"
        )
    check_folder(Path(settings.data_dir))
    return settings.postgres


def shard_settings(settings: Settings, postgres: str) -> ShardSettings:
    """What the shards get of the settings of a service."""
    return ShardSettings(
        postgres=postgres,
        snapshots=settings.snapshots or str(Path(settings.data_dir).resolve() / SNAPSHOTS),
        limits=settings.limits,
        lease_seconds=settings.lease_seconds,
        learn_budget_ms=settings.learn_budget_ms,
        snapshot_every=settings.snapshot_every,
        snapshot_seconds=settings.snapshot_seconds,
    )


def front_settings(settings: Settings, postgres: str, port: int) -> FrontSettings:
    """What the fronts get of the settings of a service."""
    return FrontSettings(
        postgres=postgres,
        host=settings.host,
        port=port,
        limits=settings.limits,
        log_level=settings.log_level,
        log_contexts=settings.log_contexts,
    )
