"""Bodies of requests: read in linear time, bounded one by one and together, and decoded beside the event loop."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from taciturn.service.api.problems import Problem
from taciturn.service.core.errors import LimitExceeded

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Decoded = TypeVar("Decoded")

SMALL = 16_000
"""Bodies up to so many bytes are not counted: the number of connections bounds them, and they always get through."""

JSON_WEIGHT, FILE_WEIGHT = 32, 4
"""Bytes of memory for each byte of a body: `{"":{"":0}},` becomes two objects of 184 bytes; a file is copied."""

DECODED_BESIDE = 64_000
"""Larger bodies are decoded on another thread."""


class Disconnected(Exception):
    """The caller has closed the connection."""


class Budget:
    """The memory for all large requests that are read or processed at a time, in bytes. Used on the event loop only."""

    def __init__(self, limit: int) -> None:
        self.limit, self.taken = limit, 0


class Share:
    """What one request has taken of a budget."""

    __slots__ = ("_budget", "taken")

    def __init__(self, budget: Budget) -> None:
        self._budget, self.taken = budget, 0

    def grow(self, size: int, weight: int) -> None:
        """Take memory for a body of so many bytes; one request is always let in, more only within the limit."""
        if size <= SMALL or size * weight <= self.taken:
            return
        others = self._budget.taken - self.taken
        if others and others + size * weight > self._budget.limit:
            raise LimitExceeded(
                f"large requests need {others} bytes of memory now; with this one it would be more than "
                f"the limit in_flight, {self._budget.limit}"
            )
        self.taken = size * weight
        self._budget.taken = others + self.taken

    def release(self) -> None:
        """Give everything back."""
        self._budget.taken -= self.taken
        self.taken = 0


async def read_body(
    headers: dict[bytes, bytes], receive: Receive, *, content_type: str, max_bytes: int, share: Share, weight: int
) -> bytes:
    """Read a body; raises a problem for a wrong content type or too many bytes, and `LimitExceeded`."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != content_type.encode():
        raise Problem(415, "wrong-type", f"the content type must be {content_type}")
    length = headers.get(b"content-length", b"0")
    announced = int(length) if length.isdigit() and len(length) < 16 else 0
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        expected = max(size, announced)
        if expected > max_bytes:
            raise Problem(413, "too-large", f"the body may have {max_bytes} bytes")
        share.grow(expected, weight)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        more = message.get("more_body", False)
    if size > max_bytes:
        raise Problem(413, "too-large", f"the body may have {max_bytes} bytes")
    share.grow(size, weight)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class Decoder:
    """Decodes large bodies on one thread, so that the event loop and its other requests go on meanwhile."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "taciturn-decode")

    async def decode(self, decode: Callable[[bytes], Decoded], body: bytes) -> Decoded:
        """`decode(body)`."""
        if len(body) <= DECODED_BESIDE:
            return decode(body)
        return await asyncio.get_running_loop().run_in_executor(self._thread, _decode_uncollected, decode, body)


def _decode_uncollected(decode: Callable[[bytes], Decoded], body: bytes) -> Decoded:
    """`decode(body)` without garbage collection, which holds up all threads and takes 5 times as long as the decoding.

    It would look at all the lists so far again and again, and JSON has no cycles to be found.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return decode(body)
    finally:
        if enabled:
            gc.enable()
