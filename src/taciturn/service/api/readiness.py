"""Whether a service is ready, asked in a way that answers even if the service hangs."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from taciturn.service.core.errors import Unavailable
from taciturn.service.core.service import Service

SECONDS = 2.0
"""How long a service may take to say that it is ready."""


class Readiness:
    """Asks a service on a thread, for all who want to know at a time; used on one event loop only."""

    def __init__(self, service: Service, seconds: float = SECONDS) -> None:
        self._service, self._seconds = service, seconds
        self._answer: asyncio.Future[bool] | None = None  # that is being waited for

    async def check(self) -> None:
        """Raise `Unavailable` if the service is not ready, or does not say so in time."""
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._ask, args=(self._answer,), name="taciturn-ready", daemon=True).start()
        try:
            ready = await asyncio.wait_for(asyncio.shield(self._answer), self._seconds)
        except TimeoutError:
            raise Unavailable(f"the service does not say within {self._seconds:g} seconds that it is ready") from None
        if not ready:
            raise Unavailable(self._service.status)

    def _ask(self, answer: asyncio.Future[bool]) -> None:
        ready = self._service.ready
        with suppress(RuntimeError):  # the event loop is closed, so nobody waits
            answer.get_loop().call_soon_threadsafe(self._end, answer.set_result, ready)

    def _end(self, set_result: Callable[[bool], None], *ready: bool) -> None:
        self._answer = None
        set_result(*ready)
