"""The server of an application: its sockets, its connections, and how it stops."""

import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any, Self

import uvicorn

from taciturn.errors import TaciturnError
from taciturn.service.api.asgi import App
from taciturn.service.api.connections import Connection, Connections
from taciturn.service.core.limits import Limits

RESERVED_FILES = 100
"""Open files that are left for the journal, the snapshots and the libraries."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host, on one port; any free one for port 0."""
    sockets: list[socket.socket] = []
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            opened = socket.socket(family, kind)
            sockets.append(opened)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken = sockets[0].getsockname()[1] if len(sockets) > 1 else port
            opened.bind((address[0], taken, *address[2:]))
            opened.listen(2048)
    except OSError as error:
        for opened in sockets:
            opened.close()
        reason = error.strerror or error
        raise TaciturnError(f"cannot listen on {host}, port {port}: {reason}; --port 0 takes any free port") from None
    return sockets


def allowed_connections(wanted: int) -> int:
    """Number of connections up to `wanted` that the limit on open files allows, which is raised as far as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    if soft <= RESERVED_FILES:
        raise TaciturnError(f"{soft} files may be open; {needed} are needed (ulimit -n)")
    return soft - RESERVED_FILES


class Server(uvicorn.Server):
    """Serves an application; `stop` ends it after the requests in progress.

    Arguments:
        app: the application.
        limits: of connections.
        every_tick: called ten times a second.
    """

    def __init__(self, app: App, limits: Limits, every_tick: Callable[[], object]) -> None:
        self.connections = Connections(replace(limits, connections=allowed_connections(limits.connections)))
        self._every_tick = every_tick
        super().__init__(
            uvicorn.Config(
                app,
                http=type("ServedConnection", (Connection,), {"shared": self.connections}),
                ws="none",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=30,
                timeout_keep_alive=30,
                proxy_headers=False,
                server_header=False,
                date_header=False,
            )
        )

    def stop(self) -> None:
        """Finish the requests in progress and return from `run`."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `StopSignals`: uvicorn would raise them again at its end, before snapshots are written."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Sweep the connections once a second; called ten times a second."""
        self._every_tick()
        if counter % 10 == 0:
            self.connections.sweep(time.monotonic())
        return await super().on_tick(counter)


class StopSignals:
    """While it is entered, the first SIGTERM or Ctrl-C calls `stop`, and the second ends the process at once.

    The journal survives that; only the next start takes longer, without the snapshots.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], object] = _exit
        self._received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self._received += 1
        if self._received > 1:
            os._exit(128 + number)
        self.stop()


def _exit() -> None:
    raise SystemExit(0)
