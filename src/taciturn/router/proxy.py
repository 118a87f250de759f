"""`POST /v1/chat/completions`: chat completions in the form of OpenAI, answered by the upstream of the chosen arm."""

import asyncio
import logging
import math
import time
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from taciturn.errors import RequestIdReused
from taciturn.router.asks import Ask, Routed
from taciturn.router.chats import (
    ARM_HEADER,
    DECISION_HEADER,
    PATH,
    REQUEST_HEADERS,
    SESSION_HEADERS,
    WOULD_HEADER,
    last_text,
    with_model,
)
from taciturn.router.desk import Desk
from taciturn.router.upstreams import Answer, Failed, Refused, Upstreams
from taciturn.service.api.asgi import check_key
from taciturn.service.api.bodies import JSON_WEIGHT, Budget, Decoder, Disconnected, Share, read_body
from taciturn.service.api.connections import CUT
from taciturn.service.api.keys import Keyring
from taciturn.service.api.problems import MEDIA_TYPE, Problem, problem_of
from taciturn.service.api.routes import JSON
from taciturn.service.core.errors import LimitExceeded
from taciturn.service.core.limits import Limits

log = logging.getLogger("taciturn.router")
PLAIN = " !#$&'()*+,/:;=?@[]"
"""What stays as it is in the name of an arm in a header; other signs are escaped as in addresses."""


class Proxy:
    """Answers chat completions.

    Arguments:
        desk: chooses the arm.
        upstreams: the connections.
        keyring: the valid keys of this service; callers send them as they would a key of OpenAI.
        limits: of requests.
    """

    def __init__(self, desk: Desk, upstreams: Upstreams, keyring: Keyring, limits: Limits) -> None:
        self._desk, self._upstreams, self._keyring, self._limits = desk, upstreams, keyring, limits
        self._budget, self._decode = Budget(limits.in_flight), Decoder().decode

    def route(self) -> Route:
        """The route."""
        return Route(PATH, self._answer, methods=["POST"])

    async def _answer(self, request: Request) -> Response:
        share = Share(self._budget)
        try:
            return await self._completed(request, share)
        except Disconnected:
            return Response(status_code=499)
        except Exception as error:  # noqa: BLE001 - every error becomes a problem
            problem = problem_of(error)
            headers = {name.decode(): value.decode() for name, value in problem.headers}
            return Response(problem.body, problem.status, headers, MEDIA_TYPE)
        finally:
            share.release()

    async def _completed(self, request: Request, share: Share) -> Response:
        headers = dict(request.scope["headers"])
        if self._keyring.required:
            request.scope["taciturn.key"] = check_key(self._keyring, headers.get(b"authorization", b""), "write")
        if not self._desk.config.upstreams:
            raise Problem(404, "unknown-route", "no arm of this router has an upstream; POST /v1/route chooses arms")
        async with asyncio.timeout(self._limits.seconds):
            most = self._limits.body
            body = await read_body(
                headers, request.receive, content_type=JSON, max_bytes=most, share=share, weight=JSON_WEIGHT
            )
        text = await self._decode(last_text, body)
        ask = Ask(text, _named(request, SESSION_HEADERS), _named(request, REQUEST_HEADERS), reasons=False)
        return await self._from_first_that_answers(ask, body)

    async def _from_first_that_answers(self, ask: Ask, body: bytes) -> Response:
        """The answer of the best arm, or of the next best where its upstream fails.

        All arms after the first together have as long as one has, so that many that hang are not waited for in turn.
        """
        config = self._desk.config
        failure: Failed | None = None
        until = math.inf
        while True:
            try:
                routed = await self._routed(ask)
            except LimitExceeded:
                if failure is None:
                    raise
                raise failure.problem from None  # no arm that is left fits the budget
            try:
                return await self._forwarded(ask, routed, body, min(config.timeout, until - time.monotonic()))
            except Failed as error:
                log.warning("%s", error)
                await self._desk.withdraw(ask, routed)
                if failure is None:
                    failure, until = error, time.monotonic() + config.timeout
                ask = ask._replace(without=ask.without | {routed.arm})
                left = bool(config.upstreams.keys() - ask.without) and time.monotonic() < until
                if not config.fallback or config.observe or not left:
                    raise failure.problem from None

    async def _routed(self, ask: Ask) -> Routed:
        async with asyncio.timeout(self._limits.seconds):
            try:
                return await self._desk.route(ask)
            except RequestIdReused:  # front ends ask for a title under the id of the message, too
                return await self._desk.route(ask._replace(request_id=None))

    async def _forwarded(self, ask: Ask, routed: Routed, body: bytes, seconds: float) -> Response:
        upstream = self._desk.config.upstreams[routed.arm]
        answer = await self._upstreams.ask(routed.arm, upstream, with_model(body, upstream.model), seconds)
        headers = {ARM_HEADER: quote(routed.arm, safe=PLAIN)}
        if isinstance(answer, Refused):
            await self._desk.withdraw(ask, routed)
            return Response(answer.body, answer.status, headers, answer.media)
        headers[DECISION_HEADER] = str(routed.id)
        if routed.would is not None:
            headers[WOULD_HEADER] = quote(routed.would, safe=PLAIN)
        return _PassedOn(answer, headers)


class _PassedOn(StreamingResponse):
    """An answer as it comes; where it breaks off, the connection does too, so that the caller knows."""

    def __init__(self, answer: Answer, headers: dict[str, str]) -> None:
        encoding = {} if answer.encoding is None else {"content-encoding": answer.encoding}
        super().__init__(answer.pieces, answer.status, headers | encoding | {"content-type": answer.media})
        self._close = answer.close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except Failed as error:
            log.warning("%s", error)
            if CUT not in scope:
                raise  # a server that is not ours closes the connection for this, with a traceback
            scope[CUT]()
            await self.listen_for_disconnect(receive)
        finally:
            await self._close()


def _named(request: Request, names: tuple[str, ...]) -> str | None:
    """The first of these headers that is there and short enough to be an id."""
    found = (request.headers.get(name, "").strip() for name in names)
    return next((value for value in found if 0 < len(value) <= 128), None)
