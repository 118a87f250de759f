"""The forms of an agent's page, which change it: arms are added and retired, and the agent is deleted.

A browser sends them without JavaScript, and is led back to a page. The page's script sends the same forms with the key
of the user, and gets JSON. With keys a form needs a key that may write, which no other site has. Without keys every
site that is open in a browser could send a form to this machine: only those of this page are taken.
"""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taciturn.service.api.asgi import check_key
from taciturn.service.api.keys import Keyring
from taciturn.service.api.problems import MEDIA_TYPE, Problem, problem_of
from taciturn.service.api.routes import JSON, Handlers
from taciturn.service.core.encoding import encode
from taciturn.service.core.limits import Limits

FORM = "application/x-www-form-urlencoded"
MAX_BYTES, MAX_FIELDS = 10_000, 10
Fields = dict[str, str]
Action = Callable[[str, Fields], Awaitable[str]]
ErrorPage = Callable[[Request, Problem], Awaitable[Response]]


class Forms:
    """The forms of a page.

    Arguments:
        handlers: what agents are changed with.
        keyring: the valid keys.
        limits: of the time that a request may take.
        error_page: returns the page of an agent with a problem on it.
    """

    def __init__(self, handlers: Handlers, keyring: Keyring, limits: Limits, error_page: ErrorPage) -> None:
        self._handlers, self._keyring, self._limits, self._error_page = handlers, keyring, limits, error_page

    def routes(self) -> list[Route]:
        """One route for each form."""
        actions = {"arms": self._add_arm, "arms/retire": self._retire_arm, "delete": self._delete}
        return [Route(f"/agents/{{agent}}/{path}", self._form(do), methods=["POST"]) for path, do in actions.items()]

    def _form(self, do: Action) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            scripted = JSON in request.headers.get("accept", "")
            try:
                self._check_sender(request.headers)
                async with asyncio.timeout(self._limits.seconds):
                    target = await do(request.path_params["agent"], await _fields(request))
            except Exception as error:  # noqa: BLE001 - every error becomes a problem
                problem = problem_of(error)
                if scripted or self._keyring.required:
                    return Response(problem.body, problem.status, _headers(problem), MEDIA_TYPE)
                return await self._error_page(request, problem)
            if scripted:
                return Response(encode({"page": target}), media_type=JSON)
            return Response(status_code=303, headers={"location": target})

        return answer

    def _check_sender(self, headers: Headers) -> None:
        if self._keyring.required:
            check_key(self._keyring, headers.get("authorization", "").encode("latin-1"), "write")
        elif not same_origin(headers):
            raise Problem(403, "cross-site", "forms are taken from the page of this service only; reload it")

    async def _add_arm(self, agent: str, fields: Fields) -> str:
        """Add an arm, or bring a retired one back."""
        about = msgspec.json.decode(await self._handlers.agent({"agent": agent}, b""))
        by_text = {str(name): name for name in about["arms"]}  # the number 3, where there is an arm 3
        given = {"arm": fields.get("arm", ""), "like": fields.get("like") or None}
        if not given["arm"]:
            raise Problem(422, "validation-error", "an arm needs a name", "arm")
        named = {field: by_text.get(text, text) for field, text in given.items() if text is not None}
        await self._handlers.add_arm({"agent": agent}, encode(named))
        return f"/agents/{agent}#arms"

    async def _retire_arm(self, agent: str, fields: Fields) -> str:
        await self._handlers.retire_arm({"agent": agent, "arm": fields.get("arm", "")}, b"")
        return f"/agents/{agent}#arms"

    async def _delete(self, agent: str, fields: Fields) -> str:
        """Delete the agent, if its name was typed."""
        if fields.get("confirm") != agent:
            raise Problem(422, "validation-error", f"to delete this agent, type its name: {agent}", "confirm")
        await self._handlers.delete({"agent": agent}, b"")
        return "/"


def same_origin(headers: Headers) -> bool:
    """Whether the browser says that a request is from a page of this service; without a word of it, it is not."""
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] == "same-origin"
    return bool(headers.get("host")) and urlsplit(headers.get("origin", "")).netloc == headers["host"]


async def _fields(request: Request) -> Fields:
    """The fields of a form by name, without spaces around them."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Problem(415, "wrong-type", f"the content type must be {FORM}")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise Problem(413, "too-large", f"a form may have {MAX_BYTES} bytes")
    try:
        fields = parse_qs(body.decode(), max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Problem(422, "validation-error", "the form cannot be read; reload the page") from None
    return {name: values[0].strip() for name, values in fields.items()}


def _headers(problem: Problem) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in problem.headers}
