"""The service over HTTP: the table of routes as an ASGI application.

The routes are plain ASGI inside a FastAPI application, to which other routes can be added (the page is): all get the
same headers, and errors in the same form.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taciturn.service.api import openapi
from taciturn.service.api.keys import Keyring
from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import MEDIA_TYPE, Problem, problem_of
from taciturn.service.api.routes import JSON, Api, Endpoint, Handler, endpoints
from taciturn.service.core.limits import Limits
from taciturn.service.core.service import Service

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
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
LOOPBACK = re.compile(rb"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?")


class Resource:
    """All methods of one path, as an ASGI application."""

    def __init__(self, methods: dict[str, Endpoint], keyring: Keyring | None, limits: Limits, metrics: Metrics) -> None:
        self.methods, self._keyring, self._seconds, self._metrics = methods, keyring, limits.seconds, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every error becomes a problem."""
        method = scope["method"]
        endpoint = self.methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            problem = Problem(405, "wrong-method", f"{method} is not allowed here")
            allow = ", ".join([*self.methods, *(["HEAD"] if "GET" in self.methods else [])])
            await _send(send, 405, problem.body, PROBLEM, [(b"allow", allow.encode())])
            return
        started = time.perf_counter()
        media: bytes
        try:
            headers = dict(scope["headers"])
            if self._keyring is not None and endpoint.scope is not None:
                check_key(self._keyring, headers.get(b"authorization", b""), endpoint.scope)
            async with asyncio.timeout(self._seconds):
                body = b"" if endpoint.takes is None else await _read(headers, receive, endpoint)
                answer = await endpoint.handle(scope["path_params"], body)
            status, media, more = endpoint.good, (endpoint.gives or ("",))[0].encode(), []
        except _Disconnected:
            return
        except Exception as error:  # noqa: BLE001 - every error becomes a problem
            problem = problem_of(error)
            status, answer, media, more = problem.status, problem.body, PROBLEM, problem.headers
        await _send(send, status, answer, media, more)
        self._metrics.observe(endpoint.method, endpoint.path, status, time.perf_counter() - started)


class _Disconnected(Exception):
    """The caller has closed the connection."""


def check_key(keyring: Keyring, header: bytes, needed: str) -> None:
    """Raise a problem unless the header Authorization has a key with the scope that is needed."""
    kind, _, token = header.partition(b" ")
    granted = keyring.scope_of(token.strip().decode("latin-1")) if kind.lower() == b"bearer" else None
    if granted is None:
        raise Problem(401, "no-key", "send a valid key as Authorization: Bearer …")
    if needed == "write" and granted != "write":
        raise Problem(403, "not-allowed", "this key may read, not write")


async def _read(headers: dict[bytes, bytes], receive: Receive, endpoint: Endpoint) -> bytes:
    """Read the body; raises a problem for a wrong content type or too many bytes."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != endpoint.content_type.encode():
        raise Problem(415, "wrong-type", f"the content type must be {endpoint.content_type}")
    length = headers.get(b"content-length", b"0")
    chunks: list[bytes] = []
    size = int(length) if length.isdigit() and len(length) < 16 else 0
    while True:
        if size > endpoint.max_bytes:
            raise Problem(413, "too-large", f"the body may have {endpoint.max_bytes} bytes")
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
        size = sum(map(len, chunks))
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _send(send: Send, status: int, body: bytes, media: bytes, more: list[tuple[bytes, bytes]]) -> None:
    headers = [*HEADERS, POLICY, *more]
    if status != 204:
        headers += ((b"content-type", media), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Front:
    """Middleware that answers the routes of the API itself, and adds the headers to all other answers.

    FastAPI's handling of a route takes longer than a decision, and these routes need none of it. Without keys only this
    machine's own names are served, against DNS rebinding: a web page could otherwise let its own name resolve to this
    machine, and the browser would let it read every answer.
    """

    def __init__(self, inner: Any, *, routes: list[Route], local: bool) -> None:
        self._inner, self._local = inner, local
        self._routes = [(route.path_regex.match, route.endpoint) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a route of the API, or call the inner application."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if self._local and not LOOPBACK.fullmatch(dict(scope["headers"]).get(b"host", b"localhost")):
            problem = Problem(421, "wrong-host", "without keys only localhost is served")
            await _send(send, 421, problem.body, PROBLEM, [])
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        for match, resource in self._routes:
            if found := match(path):
                scope["path_params"] = found.groupdict()
                await resource(scope, receive, send)
                return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *HEADERS]
                if not any(name == POLICY[0] for name, _ in headers):
                    headers.append(POLICY)
                message["headers"] = headers
            await send(message)

        await self._inner(scope, receive, send_with_headers)


class App(FastAPI):
    """A FastAPI application with a middleware, `front`, that is called first."""

    front: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the front, which calls `inner` for what it does not answer."""
        await self.front(scope, receive, send)

    async def inner(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call FastAPI itself."""
        await super().__call__(scope, receive, send)


def create_app(service: Service, keyring: Keyring | None = None, limits: Limits | None = None) -> App:
    """Create the application; other routes can be added before it is served.

    Arguments:
        service: the agents; the owner closes it.
        keyring: the valid keys; None lets in everyone who reaches it under a name of this machine.
        limits: None for those of the service.
    """
    limits = limits or service.limits
    metrics = Metrics(service)
    table = endpoints(Api(service, limits, metrics), limits)
    app = App(title="taciturn", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    document = openapi.document(table, limits, keyed=keyring is not None)
    page = openapi.page(table)
    for name, path, content, media in (
        ("openapi", "/openapi.json", msgspec.json.encode(document), JSON),
        ("docs", "/docs", page, "text/html; charset=utf-8"),
    ):
        table.append(
            Endpoint(
                method="GET", path=path, name=name, about="", scope=None, gives=(media, {}), handle=_fixed(content)
            )
        )
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in table:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [Route(path, Resource(methods, keyring, limits, metrics)) for path, methods in paths.items()]
    app.router.routes.extend(routes)
    app.openapi = lambda: document  # type: ignore[method-assign]
    app.front = Front(app.inner, routes=routes, local=keyring is None)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _any_error)
    return app


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
