"""The routes of the page.

All data go through endpoints that ask for a key like those of the API: `/web/….json` answers the parts of a view as
HTML. The pages themselves are open. Where no key is needed they have the same parts in them, so that they can be read
without scripts; where one is needed they are empty, and a script asks for the parts with the key that was typed in.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taciturn.service.api.asgi import App, Resource
from taciturn.service.api.keys import Keyring
from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import Problem, problem_of
from taciturn.service.api.routes import ID, JSON, NAME, Endpoint
from taciturn.service.core.operations import encode
from taciturn.service.core.service import Service
from taciturn.service.web.latency import Latencies, Stopwatch
from taciturn.service.web.views import Parts, Views

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
MEDIA = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
AGENT, DECISION = "/agents/{agent}", "/agents/{agent}/decisions/{id}"
View = Callable[[dict[str, str]], Awaitable[Parts]]


def add_page(app: App, service: Service, keyring: Keyring | None = None) -> None:
    """Let an application of `create_app`, made with the same service and keys, have the page at `/`."""
    latencies = Latencies()
    app.router.routes.extend(Page(service, keyring, latencies).routes())
    app.front = Stopwatch(app.front, latencies)


class Page:
    """The page of a service.

    Arguments:
        service: whose agents are shown.
        keyring: whose tokens are needed to see anything; None where none is.
        latencies: how long decisions took.
    """

    def __init__(self, service: Service, keyring: Keyring | None, latencies: Latencies) -> None:
        self._views, self._keyring, self._keyed = Views(service, latencies), keyring, keyring is not None
        self._limits, self._metrics = service.limits, Metrics(service)  # its own: looking is no traffic of agents
        folder = files("taciturn.service.web") / "static"
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    def routes(self) -> list[Route]:
        """The pages, what they are made of, and their data."""
        return [
            Route("/", self._page("agents.html", "/web/agents.json", self._agents)),
            Route(AGENT, self._page("agent.html", "/web" + AGENT + "/overview.json", self._agent)),
            Route(DECISION, self._page("one.html", "/web" + DECISION + ".json", self._decision)),
            Route("/web/static/{file}", self._static),
            self._data("/web/agents.json", self._agents),
            self._data("/web" + AGENT + "/overview.json", self._agent),
            self._data("/web" + DECISION + ".json", self._decision),
        ]

    def _data(self, path: str, view: View) -> Route:
        """A route that asks for a key as those of the API do."""
        endpoint = Endpoint(method="GET", path=path, name="", about="", gives=(JSON, {}), handle=_json(view))
        return Route(path, Resource({"GET": endpoint}, self._keyring, self._limits, self._metrics))

    async def _agents(self, _: dict[str, str]) -> Parts:
        return await self._views.agents()

    async def _agent(self, path: dict[str, str]) -> Parts:
        return await self._views.agent(path["agent"])

    async def _decision(self, path: dict[str, str]) -> Parts:
        return await self._views.decision(path["agent"], int(path["id"]))

    async def _static(self, request: Request) -> Response:
        name = request.path_params["file"]
        content = self._files.get(name)
        if content is None:
            problem = Problem(404, "unknown-route", "there is no such file")
            return Response(problem.body, 404, media_type="application/problem+json")
        return Response(content, media_type=MEDIA[name.rpartition(".")[2]])

    def _page(self, template: str, source: str, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            path = request.path_params
            status, parts, problem = 200, None, None
            try:
                _check(path)
                async with asyncio.timeout(self._limits.seconds):
                    parts = None if self._keyed else await view(path)
            except Exception as error:  # noqa: BLE001 - whatever it is becomes a page that says so
                problem = problem_of(error)
                status = problem.status
            if problem is not None and status in {404, 410}:
                shown = {"detail": problem.detail, "problem": None, "keyed": False, "source": ""}
                return self._answer("missing.html", status, **shown)
            given: dict[str, Any] = {"parts": parts or {}, "problem": problem, "keyed": self._keyed}
            given |= {"source": source.format(**path), "path": path, "kinds": self._views.kinds}
            return self._answer(template, status, **given, host=request.url.netloc, scheme=request.url.scheme)

        return answer

    def _answer(self, template: str, status: int, **given: Any) -> Response:
        content = self._views.render(template, **given)
        return Response(content, status, {"content-security-policy": POLICY}, "text/html")


def _json(view: View) -> Callable[[dict[str, str], bytes], Awaitable[bytes]]:
    async def handle(path: dict[str, str], _: bytes) -> bytes:
        _check(path)
        return encode({"parts": await view(path)})

    return handle


def _check(path: dict[str, str]) -> None:
    if not NAME.fullmatch(path.get("agent", "a")):
        raise Problem(404, "unknown-agent", "there is no agent of such a name")
    if not ID.fullmatch(path.get("id", "0")):
        raise Problem(404, "unknown-decision", "the id of a decision is a whole number")
