"""The page `/router`: a message in, the arm and its reasons out, and thumbs."""

import asyncio
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taciturn.router.desk import Desk
from taciturn.service.api.asgi import Resource
from taciturn.service.api.keys import Keyring
from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import problem_of
from taciturn.service.api.routes import JSON, Endpoint
from taciturn.service.core.encoding import encode
from taciturn.service.core.limits import Limits
from taciturn.service.web.pages import MEDIA, POLICY
from taciturn.service.web.rendering import environment

SOURCE = "/router/arms.json"


@cache
def _templates() -> Environment:
    """The router's templates, which extend those of the service's page."""
    loaders = ChoiceLoader([PackageLoader("taciturn.router"), PackageLoader("taciturn.service.web")])
    return environment().overlay(loader=loaders)


class RouterPage:
    """The page of a router.

    Arguments:
        desk: the router.
        keyring: the valid keys; with keys, a script asks for one.
        limits: of the time that a request may take.
    """

    def __init__(self, desk: Desk, keyring: Keyring, limits: Limits) -> None:
        self._desk, self._keyring, self._limits = desk, keyring, limits
        self._script = (files("taciturn.router") / "templates" / "router.js").read_bytes()

    def routes(self) -> tuple[Route, ...]:
        """The page, its script and its data."""
        endpoint = Endpoint(method="GET", path=SOURCE, name="", about="", gives=(JSON, {}), handle=self._data)
        resource = Resource({"GET": endpoint}, self._keyring, self._limits, Metrics())
        return (Route("/router", self._page), Route("/router/router.js", self._js), Route(SOURCE, resource))

    async def _parts(self) -> dict[str, str]:
        config = self._desk.config
        given: dict[str, Any] = {"observe": config.observe, "default": config.default, "budget": config.budget}
        decisions = await self._desk.count()
        arms = _templates().get_template("router_arms.html").render(arms=config.arms, decisions=decisions, **given)
        return {"arms": arms}

    async def _data(self, _: dict[str, str], __: bytes) -> bytes:
        return encode({"parts": await self._parts()})

    async def _page(self, request: Request) -> Response:
        keyed, parts, problem = self._keyring.required, {}, None
        try:
            async with asyncio.timeout(self._limits.seconds):
                parts = {} if keyed else await self._parts()
        except Exception as error:  # noqa: BLE001 - every error becomes a page
            problem = problem_of(error)
        given: dict[str, Any] = {"parts": parts, "problem": problem, "refused": False, "keyed": keyed, "source": SOURCE}
        given |= {"host": request.url.netloc, "scheme": request.url.scheme}
        content = _templates().get_template("router.html").render(name=self._desk.config.name, **given)
        status = 200 if problem is None else problem.status
        return Response(content, status, {"content-security-policy": POLICY}, "text/html")

    async def _js(self, _: Request) -> Response:
        return Response(self._script, media_type=MEDIA["js"])
