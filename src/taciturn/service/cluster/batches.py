"""Calls that go to a shard together: a message of Ray costs a millisecond, however many calls it holds.

A front has few messages on the way to a shard, and sends what has come meanwhile in the next. A shard answers a
message within a tenth of a second: a call that takes longer gets a ticket, for which the front asks alone, so that no
call waits long for another. On the machine of docs/scale.md a round trip takes half of the CPU that it takes with a
message a call.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from taciturn.service.cluster.messages import Answer

Call = tuple[str, dict[str, str], bytes]
"""The arguments of `Shard.call`."""

MAX_ON_THE_WAY = 8
"""Messages with calls that a front has on the way to a shard at a time."""

MAX_CALLS, MAX_BYTES = 100, 100_000
"""The most calls of a message, and the most bytes of a body that is sent with others."""

LATE_SECONDS = 0.1
"""How long a call may take without a ticket."""

TICKET_SECONDS = 120.0
"""How long the answer to a ticket is kept."""


class Batches:
    """The side of a front.

    Arguments:
        send: sends calls in one message; returns their answers.
        redeem: returns the answer to a ticket.
        alone: sends one call.
    """

    def __init__(
        self,
        send: Callable[[list[Call]], Awaitable[list[Answer]]],
        redeem: Callable[[int], Awaitable[Answer]],
        alone: Callable[..., Awaitable[Answer]],
    ) -> None:
        self._send, self._redeem, self._alone = send, redeem, alone
        self._waiting: list[tuple[Call, asyncio.Future[Answer]]] = []
        self._senders: set[asyncio.Task[None]] = set()

    async def call(self, name: str, path: dict[str, str], body: bytes) -> Answer:
        """The answer to one call."""
        if len(body) > MAX_BYTES:
            return await self._alone(name, path, body)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(((name, path, body), future))
        if len(self._senders) < MAX_ON_THE_WAY:
            task = asyncio.ensure_future(self._send_waiting())
            self._senders.add(task)
            task.add_done_callback(self._senders.discard)
        answer = await future
        return await self._redeem(answer.value) if answer.kind == "later" else answer

    async def _send_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_CALLS], self._waiting[MAX_CALLS:]
            try:
                answers: list[Any] = await self._send([call for call, _ in batch])
            except Exception as error:  # noqa: BLE001 - the callers are told
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue  # its caller has gone
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)


class Tickets:
    """The side of a shard.

    Arguments:
        call: answers one call.
    """

    def __init__(self, call: Callable[..., Awaitable[Answer]]) -> None:
        self._call = call
        self._numbers = itertools.count()
        self._late: dict[int, asyncio.Future[Answer]] = {}

    async def calls(self, batch: list[Call]) -> list[Answer]:
        """The answers to some calls, or tickets for those that take longer."""
        tasks = [asyncio.ensure_future(self._call(*one)) for one in batch]
        await asyncio.wait(tasks, timeout=LATE_SECONDS)  # also one alone: few messages may be on the way
        return [task.result() if task.done() else Answer("later", self._ticket(task)) for task in tasks]

    def _ticket(self, task: asyncio.Future[Answer]) -> int:
        number = next(self._numbers)
        self._late[number] = task
        asyncio.get_running_loop().call_later(TICKET_SECONDS, self._late.pop, number, None)
        return number

    async def redeem(self, ticket: int) -> Answer:
        """The answer to the call of a ticket."""
        task = self._late.get(ticket)
        if task is None:
            raise KeyError(f"ticket {ticket} has run out")
        answer = await asyncio.shield(task)
        self._late.pop(ticket, None)  # it may be a large file
        return answer
