"""The service over HTTP: the table of routes as an ASGI application.

The routes are plain ASGI inside a Starlette application, to which other routes can be added (the page is): all get the
same headers, and errors in the same form.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taciturn.service.api import openapi
from taciturn.service.api.access import AccessLog
from taciturn.service.api.bodies import Budget, Disconnected, Receive, Share, read_body
from taciturn.service.api.keys import Keyring
from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import MEDIA_TYPE, Problem, problem_of
from taciturn.service.api.routes import JSON, Endpoint, Extension, Handler, Handlers, Operation, endpoints
from taciturn.service.core.limits import Limits

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
POLICY = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
PROBLEM = MEDIA_TYPE.encode()
CLIENT_CLOSED = 499
"""The status in logs and metrics of a request whose caller has gone."""

MAX_PATH = 200
"""Characters of a path in the access log, where it is none of the API."""

LOOPBACK = re.compile(rb"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE)


class Resource:
    """All methods of one path, as an ASGI application.

    Arguments:
        methods: the endpoint of each method.
        keyring: the valid keys.
        limits: of time and of memory.
        metrics: gets the duration of each request.
        budget: of the memory that large requests take, shared by all resources; None for one of its own.
        access: gets a line for each request; None for no lines.
    """

    def __init__(
        self,
        methods: dict[str, Endpoint],
        keyring: Keyring,
        limits: Limits,
        metrics: Metrics,
        budget: Budget | None = None,
        access: AccessLog | None = None,
    ) -> None:
        self.methods, self._keyring, self._seconds, self._metrics = methods, keyring, limits.seconds, metrics
        self._budget, self._access = budget or Budget(limits.in_flight), access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every error becomes a problem."""
        method = scope["method"]
        started = time.perf_counter()
        endpoint = self.methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            problem = Problem(405, "wrong-method", f"{method} is not allowed here")
            allow = ", ".join([*self.methods, *(["HEAD"] if "GET" in self.methods else [])])
            await _send(send, 405, problem.body, PROBLEM, [(b"allow", allow.encode())])
            if self._access is not None:
                route = next(iter(self.methods.values())).path
                self._access.note(scope, "", route, 405, time.perf_counter() - started, sent=len(problem.body))
            return
        share = Share(self._budget)
        try:
            status, body, answer = await self._answer(endpoint, scope, receive, send, share)
        finally:
            share.release()
        seconds = time.perf_counter() - started
        self._metrics.observe(endpoint.method, endpoint.path, status, seconds)
        if self._access is not None:
            self._access.note(scope, endpoint.name, endpoint.path, status, seconds, body, len(answer))

    async def _answer(
        self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send, share: Share
    ) -> tuple[int, bytes, bytes]:
        """Answer a request; returns the status, the body and the answer."""
        body = b""
        media: bytes
        try:
            headers = dict(scope["headers"])
            if self._keyring.required and endpoint.scope is not None:
                scope["taciturn.key"] = check_key(self._keyring, headers.get(b"authorization", b""), endpoint.scope)
            async with asyncio.timeout(self._seconds):
                if endpoint.takes is not None:
                    body = await read_body(
                        headers,
                        receive,
                        content_type=endpoint.content_type,
                        max_bytes=endpoint.max_bytes,
                        share=share,
                        weight=endpoint.weight,
                    )
                answer = await endpoint.handle(scope["path_params"], body)
            if endpoint.takes is None:
                share.grow(len(answer), 1)  # a file waits here until it is sent
            status, media, more = endpoint.good, (endpoint.gives or ("",))[0].encode(), []
        except Disconnected:
            return CLIENT_CLOSED, body, b""
        except Exception as error:  # noqa: BLE001 - every error becomes a problem
            problem = problem_of(error)
            status, answer, media, more = problem.status, problem.body, PROBLEM, problem.headers
        await _send(send, status, answer, media, more)
        return status, body, answer


def check_key(keyring: Keyring, header: bytes, needed: str) -> str:
    """The name of the key in a header; raises a problem if it does not allow what is needed."""
    kind, _, token = header.partition(b" ")
    key = keyring.find(token.strip().decode("latin-1")) if kind.lower() == b"bearer" else None
    if key is None:
        raise Problem(401, "no-key", "send a valid key as Authorization: Bearer …")
    if needed == "write" and key.scope != "write":
        raise Problem(403, "not-allowed", "this key may read, not write")
    return key.name


async def _send(send: Send, status: int, body: bytes, media: bytes, more: list[tuple[bytes, bytes]]) -> None:
    headers = [*HEADERS, POLICY, *more]
    if status != 204:
        headers += ((b"content-type", media), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Front:
    """Middleware that answers the routes of the API itself, and adds the headers to all other answers.

    The handling of a route by a framework takes longer than a decision, and these routes need none of it. Without keys
    only this machine's own names are served, against DNS rebinding: a web page could otherwise let its own name resolve
    to this machine, and the browser would let it read every answer.
    """

    def __init__(self, inner: Any, *, routes: list[Route], keyring: Keyring, access: AccessLog | None) -> None:
        self._inner, self._keyring, self._access = inner, keyring, access
        self._routes = [(route.path_regex.match, route.endpoint) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a route of the API, or call the inner application."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if not self._keyring.required and not LOOPBACK.fullmatch(dict(scope["headers"]).get(b"host", b"localhost")):
            problem = Problem(421, "wrong-host", "without keys only localhost is served")
            await _send(send, 421, problem.body, PROBLEM, [])
            if self._access is not None:
                self._access.note(scope, "", scope["path"][:MAX_PATH], 421, 0.0, sent=len(problem.body))
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        for match, resource in self._routes:
            if found := match(path):
                scope["path_params"] = found.groupdict()
                await resource(scope, receive, send)
                return

        await self._call_inner(scope, receive, send)

    async def _call_inner(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the inner application, with our headers on its answer and a line in the access log."""
        started, status, sent = time.perf_counter(), CLIENT_CLOSED, 0

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], *HEADERS]
                if not any(name == POLICY[0] for name, _ in headers):
                    headers.append(POLICY)
                message["headers"] = headers
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._inner(scope, receive, send_with_headers)
        finally:
            if self._access is not None:
                path = scope["path"][:MAX_PATH]
                self._access.note(scope, "", path, status, time.perf_counter() - started, sent=sent)


class App(Starlette):
    """The application of some handlers: Starlette with a middleware, `front`, that is called first."""

    handlers: Handlers
    front: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the front, which calls `inner` for what it does not answer."""
        await self.front(scope, receive, send)

    async def inner(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call Starlette itself."""
        await super().__call__(scope, receive, send)


def build_app(
    handlers: Handlers,
    *,
    keyring: Keyring,
    limits: Limits,
    metrics: Metrics,
    budget: Budget,
    access: AccessLog | None = None,
    extension: Extension | None = None,
    wrap: Callable[[str, Resource], Any] | None = None,
) -> App:
    """Build the application of some handlers; other routes can be added before it is served.

    Arguments:
        handlers: what the routes do.
        keyring: the valid keys; an empty one lets in everyone who reaches it under a name of this machine.
        limits: of requests.
        metrics: gets the duration of each request.
        budget: of the memory that large requests take.
        access: gets a line for each request; None for no lines.
        extension: more routes, which are described with these; None for no more.
        wrap: returns what is called in place of the resource of a path; None for the resources themselves.
    """
    extension = extension or Extension()
    app = App(lifespan=_closing(extension))
    app.handlers = handlers
    app.router.redirect_slashes = False
    table = [*endpoints(handlers, limits), *extension.endpoints]
    described = [*table, *extension.described]
    document = openapi.document(described, limits, keyed=keyring.required, schemas=extension.schemas)
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in [*table, *_documents(described, document)]:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    resources = {path: Resource(methods, keyring, limits, metrics, budget, access) for path, methods in paths.items()}
    routes = [Route(path, resource if wrap is None else wrap(path, resource)) for path, resource in resources.items()]
    app.router.routes.extend([*routes, *extension.pages])
    app.front = Front(app.inner, routes=routes, keyring=keyring, access=access)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _any_error)
    return app


def _closing(extension: Extension) -> Callable[[App], AbstractAsyncContextManager[None]]:
    """The life of an application, at whose end the extension is closed."""

    @asynccontextmanager
    async def life(_: App) -> AsyncIterator[None]:
        yield
        if extension.close is not None:
            await extension.close()

    return life


def _documents(described: Sequence[Operation], document: dict[str, Any]) -> list[Endpoint]:
    """The routes that describe others: as an OpenAPI document, and as a page."""
    return [
        Endpoint(method="GET", path=path, name=name, about="", scope=None, gives=(media, {}), handle=_fixed(content))
        for name, path, content, media in (
            ("openapi", "/openapi.json", msgspec.json.encode(document), JSON),
            ("docs", "/docs", openapi.page(described), "text/html; charset=utf-8"),
        )
    ]


def _fixed(content: bytes) -> Handler:
    async def handle(_: dict[str, str], __: bytes) -> bytes:
        return content

    return handle


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    slug = {404: "unknown-route", 405: "wrong-method"}.get(status, "validation-error")
    return _problem_response(Problem(status, slug, "there is nothing at this path"), getattr(error, "headers", None))


async def _any_error(_: Request, error: Exception) -> Response:
    return _problem_response(problem_of(error), {name.decode(): value.decode() for name, value in HEADERS})


def _problem_response(problem: Problem, headers: Any) -> Response:
    return Response(problem.body, problem.status, headers, MEDIA_TYPE)
