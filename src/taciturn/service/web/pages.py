"""The routes of the page.

All data come from endpoints that need a key like those of the API: `/web/….json` returns the parts of a view as HTML.
The pages themselves need no key. If the service has no keys they contain the parts, so that they can be read without
JavaScript; otherwise they are empty, and a script loads the parts with the key that the user has entered. What they can
change without JavaScript is in `forms.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taciturn.service.api.asgi import Resource
from taciturn.service.api.keys import Keyring
from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import MEDIA_TYPE, Problem, problem_of
from taciturn.service.api.routes import JSON, Endpoint, Handlers, decision_id
from taciturn.service.core.encoding import encode
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import NAME
from taciturn.service.web.forms import Forms
from taciturn.service.web.rendering import KINDS, Parts, render

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
MEDIA = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
AGENT, DECISION = "/agents/{agent}", "/agents/{agent}/decisions/{id}"
AGENT_DATA = "/web" + AGENT + "/overview.json"
View = Callable[[dict[str, str]], Awaitable[Parts]]


class PageViews(Protocol):
    """The views that a page shows: of agents of this process (`views.py`), or of others.

    They raise what `problem_of` turns into a problem.
    """

    async def agents(self) -> Parts:
        """A card for each agent, see `list_of_agents`."""

    async def agent(self, name: str) -> Parts:
        """One agent: facts, arms, curves, recent decisions, map, calibration and latency."""

    async def decision(self, name: str, id: int) -> Parts:
        """One decision and its explanation."""


class Page:
    """The page at `/`.

    Arguments:
        views: what is shown.
        handlers: what the forms change agents with.
        keyring: the valid keys.
        limits: of the time that a request may take.
    """

    def __init__(self, views: PageViews, handlers: Handlers, *, keyring: Keyring, limits: Limits) -> None:
        self._views, self._keyring, self._limits = views, keyring, limits
        self._forms = Forms(handlers, keyring, limits, self._refused)
        self._metrics = Metrics()  # its own: the page is not counted as traffic
        folder = files("taciturn.service.web") / "static"
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    def routes(self) -> list[Route]:
        """The pages, their static files, and their data."""
        return [
            Route("/", self._page("agents.html", "/web/agents.json", self._agents)),
            Route(AGENT, self._page("agent.html", AGENT_DATA, self._agent)),
            Route(DECISION, self._page("decision_page.html", "/web" + DECISION + ".json", self._decision)),
            *self._forms.routes(),
            Route("/web/static/{file}", self._static),
            self._data("/web/agents.json", self._agents),
            self._data(AGENT_DATA, self._agent),
            self._data("/web" + DECISION + ".json", self._decision),
        ]

    def _data(self, path: str, view: View) -> Route:
        """A route that needs a key like those of the API."""
        endpoint = Endpoint(method="GET", path=path, name="", about="", gives=(JSON, {}), handle=_json(view))
        return Route(path, Resource({"GET": endpoint}, self._keyring, self._limits, self._metrics))

    async def _agents(self, _: dict[str, str]) -> Parts:
        return await self._views.agents()

    async def _agent(self, path: dict[str, str]) -> Parts:
        return await self._views.agent(path["agent"])

    async def _decision(self, path: dict[str, str]) -> Parts:
        return await self._views.decision(path["agent"], decision_id(path))

    async def _static(self, request: Request) -> Response:
        name = request.path_params["file"]
        content = self._files.get(name)
        if content is None:
            problem = Problem(404, "unknown-route", "there is no such file")
            return Response(problem.body, 404, media_type=MEDIA_TYPE)
        return Response(content, media_type=MEDIA[name.rpartition(".")[2]])

    def _page(self, template: str, source: str, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await self._show(request, template, source, view)

        return answer

    async def _refused(self, request: Request, problem: Problem) -> Response:
        """The page of an agent whose form was refused, with the reason."""
        return await self._show(request, "agent.html", AGENT_DATA, self._agent, problem)

    async def _show(
        self, request: Request, template: str, source: str, view: View, problem: Problem | None = None
    ) -> Response:
        path, parts, refused = request.path_params, None, problem is not None
        try:
            _check(path)
            async with asyncio.timeout(self._limits.seconds):
                parts = None if self._keyring.required else await view(path)
        except Exception as error:  # noqa: BLE001 - every error becomes a page
            problem = problem_of(error)
            if problem.status in {404, 410}:
                shown = {"detail": problem.detail, "problem": None, "refused": False, "keyed": False, "source": ""}
                return self._answer("missing.html", problem.status, **shown)
        given: dict[str, Any] = {"parts": parts or {}, "problem": problem, "refused": refused}
        given["keyed"] = self._keyring.required
        given |= {"source": source.format(**path), "path": path, "kinds": KINDS}
        status = 200 if problem is None else problem.status
        return self._answer(template, status, **given, host=request.url.netloc, scheme=request.url.scheme)

    def _answer(self, template: str, status: int, **given: Any) -> Response:
        content = render(template, **given)
        return Response(content, status, {"content-security-policy": POLICY}, "text/html")


def _json(view: View) -> Callable[[dict[str, str], bytes], Awaitable[bytes]]:
    async def handle(path: dict[str, str], _: bytes) -> bytes:
        _check(path)
        return encode({"parts": await view(path)})

    return handle


def _check(path: dict[str, str]) -> None:
    if not NAME.fullmatch(path.get("agent", "a")):
        raise Problem(404, "unknown-agent", "there is no agent of this name")
    if "id" in path:
        decision_id(path)
