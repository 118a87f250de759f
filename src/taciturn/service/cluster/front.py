"""A front: the HTTP side of the cluster. It checks keys, bodies and limits, and asks the shards."""

import asyncio
import threading
from collections.abc import Callable
from socket import SO_REUSEADDR, SO_REUSEPORT, SOCK_STREAM, SOL_SOCKET, getaddrinfo, socket
from typing import NamedTuple

from starlette.routing import Route

from taciturn.service.api.access import AccessLog
from taciturn.service.api.asgi import App, Resource, build_app
from taciturn.service.api.bodies import Budget
from taciturn.service.api.keys import Keyring
from taciturn.service.api.metrics import Metrics
from taciturn.service.api.routes import JSON, Endpoint
from taciturn.service.cluster.remote import RemoteHandlers, RemoteViews
from taciturn.service.cluster.router import Process, Router
from taciturn.service.cluster.watch import Watch
from taciturn.service.core.limits import Limits
from taciturn.service.journal.directory import Directory, ShardRow
from taciturn.service.logs import log_to_stderr
from taciturn.service.server import Server
from taciturn.service.web.pages import Page


class FrontSettings(NamedTuple):
    """What a front is started with: for the arguments see `taciturn.service.config.Settings`."""

    postgres: str
    host: str
    port: int
    limits: Limits
    log_level: str = "info"
    log_contexts: bool = False


class Front:
    """A front that serves on threads of its own until it is closed.

    Arguments:
        settings: where and how it serves.
        connect: returns the process of a shard by its place.
    """

    def __init__(self, settings: FrontSettings, connect: Callable[[str], Process]) -> None:
        self._settings, self._connect = settings, connect
        self._socket = shared_socket(settings.host, settings.port)  # first: it fails where the port is taken
        requests = settings.log_level in {"debug", "info"}
        write = log_to_stderr(settings.log_level)
        self._access = AccessLog(write, requests=requests, contexts=settings.log_contexts)
        self._directory = Directory(settings.postgres)
        self._keyring = Keyring(self._directory.keys())
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="taciturn-front", daemon=True)
        self._thread.start()
        self._started.wait()

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish the requests in progress."""
        self._server.stop()
        self._thread.join()
        self._access.close()
        self._directory.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        settings = self._settings

        def on_shards(wanted: int, rows: list[ShardRow]) -> None:
            loop.call_soon_threadsafe(lambda: router.update(wanted, rows))

        watch = Watch(Directory(settings.postgres), on_shards=on_shards, on_keys=self._keyring.replace)
        router = Router(self._connect, seconds=settings.limits.seconds, refresh=watch.refresh)
        app = front_app(router, self._directory, self._keyring, settings.limits, self._access)
        self._server = Server(app, settings.limits, lambda: None)
        self._started.set()
        try:
            await self._server.serve([self._socket])
        finally:
            await asyncio.to_thread(watch.close)


def front_app(
    router: Router, directory: Directory, keyring: Keyring, limits: Limits, access: AccessLog | None = None
) -> App:
    """The application of a front: the routes and the page of the service, and `/readyz/{shard}`."""
    budget = Budget(limits.in_flight)
    metrics = Metrics(budget=budget)
    handlers = RemoteHandlers(router, directory, metrics)
    app = build_app(handlers, keyring=keyring, limits=limits, metrics=metrics, budget=budget, access=access)
    page = Page(RemoteViews(router), handlers, keyring=keyring, limits=limits)
    shard = Endpoint(
        method="GET",
        path="/readyz/{shard}",
        name="readyShard",
        about="Whether a shard serves.",
        scope=None,
        gives=(JSON, {}),
        handle=handlers.ready_shard,
    )
    app.router.routes.append(Route(shard.path, Resource({"GET": shard}, keyring, limits, metrics, budget, access)))
    app.router.routes.extend(page.routes())
    return app


def shared_socket(host: str, port: int, *, listening: bool = True) -> socket:
    """A socket on a port at which several processes of this machine may listen: connections are spread over them."""
    family, kind, _, _, address = getaddrinfo(host, port, type=SOCK_STREAM)[0]
    opened = socket(family, kind)
    try:
        opened.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        opened.setsockopt(SOL_SOCKET, SO_REUSEPORT, 1)
        opened.bind(address)
        if listening:
            opened.listen(2048)
    except OSError:
        opened.close()
        raise
    return opened
