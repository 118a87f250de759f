"""Sends chat completions to the upstream of an arm, and checks what comes back before anything of it is passed on."""

import asyncio
import os
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import httpx

from taciturn import __version__
from taciturn.router.config import Upstream
from taciturn.service.api.problems import Problem

MAX_ANSWER = 64_000_000
"""Bytes of an answer; a stream that is longer is cut off."""

MAX_REFUSAL = 64_000
"""Bytes of a refusal that are passed on."""

LONGEST = 1_800.0
"""Seconds that an answer may take in all."""

CONNECT_SECONDS = 10.0
MOST_IN_FLIGHT = 64
"""Requests that one upstream may have at a time, answers that are being passed on included."""

PASSED = ("application/json", "text/event-stream")
"""Content types that are passed on: others, such as a page in HTML, are not what an upstream should send."""

CALLERS_FAULT = frozenset([400, 405, 406, 409, 411, 413, 414, 415, 422])
"""Statuses of an upstream that say that the request was wrong: another upstream would say the same."""


class Refused(NamedTuple):
    """An answer of an upstream that the request is wrong, which is passed on."""

    status: int
    media: str
    body: bytes


class Failed(Exception):
    """An upstream that did not answer as it should; `problem` is what a caller is told."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        slug = {503: "unavailable", 504: "upstream-timeout"}.get(status, "upstream-failed")
        self.problem = Problem(status, slug, detail)


class Answer(NamedTuple):
    """An answer that has begun; `close` is to be called in the end, whether `pieces` were read or not."""

    status: int
    media: str
    encoding: str | None
    pieces: AsyncIterator[bytes]
    close: Callable[[], Awaitable[None]]


class Upstreams:
    """The connections to all upstreams; each has its own, and a bounded number, so that one that hangs stops no other.

    Nothing of a caller's headers is sent, no redirect is followed, and no proxy, cookie or .netrc is used: an upstream
    gets the request's body, its own key and its own headers.

    Arguments:
        seconds: how long an upstream may take to begin, and between two pieces.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._in_flight: Counter[str] = Counter()
        self._verify: ssl.SSLContext | None = None

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()

    def _client(self, arm: str) -> httpx.AsyncClient:
        """The client of an arm's upstream; all share the certificates, which take long to read."""
        if arm not in self._clients:
            self._verify = self._verify or httpx.create_ssl_context(trust_env=False)
            timeout = httpx.Timeout(self._seconds, connect=min(self._seconds, CONNECT_SECONDS))
            limits = httpx.Limits(max_connections=MOST_IN_FLIGHT, max_keepalive_connections=10)
            self._clients[arm] = httpx.AsyncClient(
                timeout=timeout, limits=limits, trust_env=False, follow_redirects=False, verify=self._verify
            )
        return self._clients[arm]

    async def ask(self, arm: str, upstream: Upstream, body: bytes, seconds: float) -> Answer | Refused:
        """The beginning of an answer within `seconds`; raises `Failed` where there is none that can be passed on."""
        if self._in_flight[arm] >= MOST_IN_FLIGHT:
            raise Failed(503, f"the upstream of {arm} has {MOST_IN_FLIGHT} requests in flight; retry later")
        self._in_flight[arm] += 1
        answer = None
        try:
            response = await self._sent(arm, upstream, body, seconds)
            try:
                answer = await self._judged(arm, response)
            finally:
                if not isinstance(answer, Answer):
                    await response.aclose()
        finally:
            if not isinstance(answer, Answer):
                self._in_flight[arm] -= 1
        return answer

    async def _sent(self, arm: str, upstream: Upstream, body: bytes, seconds: float) -> httpx.Response:
        """The response to a request, without its body."""
        client = self._client(arm)
        client.cookies.clear()
        try:
            request = client.build_request(
                "POST", f"{upstream.url}/chat/completions", content=body, headers=_headers(upstream)
            )
            async with asyncio.timeout(seconds):
                return await client.send(request, stream=True)
        except (TimeoutError, httpx.TimeoutException):
            raise Failed(504, f"the upstream of {arm} did not answer within {seconds:.3g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError) as error:
            raise Failed(502, f"the upstream of {arm} cannot be reached ({type(error).__name__})") from None

    async def _judged(self, arm: str, response: httpx.Response) -> Answer | Refused:
        status, media = response.status_code, response.headers.get("content-type", "")
        passed = media.partition(";")[0].strip().lower() in PASSED
        if status in CALLERS_FAULT and passed:
            return Refused(status, media, await self._refusal(response))
        if status != 200:
            raise Failed(502, f"the upstream of {arm} answered {status}")
        if not passed:
            raise Failed(
                502, f"the upstream of {arm} answered with {media[:60] or 'no content type'}, which is no JSON"
            )
        if int(length) > MAX_ANSWER if (length := response.headers.get("content-length", "")).isdigit() else False:
            raise Failed(502, f"the upstream of {arm} answered with more than {MAX_ANSWER} bytes")

        async def close() -> None:
            try:
                await response.aclose()
            finally:
                self._in_flight[arm] -= 1

        return Answer(status, media, response.headers.get("content-encoding"), _pieces(response), close)

    async def _refusal(self, response: httpx.Response) -> bytes:
        """The body of a refusal; an empty object in place of one that is too long, compressed or not complete."""
        body = b""
        try:
            async with asyncio.timeout(self._seconds):
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MAX_REFUSAL:
                        break
        except (TimeoutError, httpx.HTTPError):
            body = b""
        sound = 0 < len(body) <= MAX_REFUSAL and "content-encoding" not in response.headers
        return body if sound else b"{}"


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    """What arrives, as it arrives; raises `Failed` where it breaks off, is too long or takes too long."""
    sent, until = 0, time.monotonic() + LONGEST
    try:
        async for piece in response.aiter_raw():
            sent += len(piece)
            if sent > MAX_ANSWER or time.monotonic() > until:
                raise Failed(502, "the answer of an upstream was too long, and was cut off")
            yield piece
    except httpx.HTTPError as error:
        raise Failed(502, f"the answer of an upstream broke off ({type(error).__name__})") from None


def _headers(upstream: Upstream) -> dict[str, str]:
    """The headers for an upstream; its key is read each time, so that it can be changed, and is nobody else's."""
    headers = upstream.headers | {
        "content-type": "application/json",
        "accept": ", ".join(PASSED),
        "accept-encoding": "identity",
        "user-agent": f"taciturn/{__version__}",
    }
    if upstream.api_key_env is not None:
        headers["authorization"] = f"Bearer {os.environ.get(upstream.api_key_env, '').strip()}"
    return headers
