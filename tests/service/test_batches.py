"""Calls that go to a shard together are answered as if each went alone, and none waits for a slow one."""

import asyncio
import gc
import random
import weakref

import pytest

from taciturn.service.cluster import batches
from taciturn.service.cluster.batches import MAX_BYTES, MAX_CALLS, MAX_ON_THE_WAY, Batches, Tickets
from taciturn.service.cluster.messages import Answer


class Link:
    """A front and a shard; `messages` are the sizes of what was sent."""

    def __init__(self, call, fails=lambda: False):
        self.tickets, self.messages, self._fails = Tickets(call), [], fails
        self.batches = Batches(self._send, self._redeem, call)
        self.redeemed = 0

    async def _send(self, calls):
        self.messages.append(len(calls))
        await asyncio.sleep(0)
        if self._fails():
            raise ConnectionError("gone")
        return await self.tickets.calls(calls)

    async def _redeem(self, ticket):
        self.redeemed += 1
        return await self.tickets.redeem(ticket)


def test_every_call_gets_its_own_answer_in_few_messages():
    rng = random.Random(5)  # noqa: S311 - not for secrets

    async def call(name, path, body):
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        return Answer("done", (name, path["agent"], body))

    async def run():
        link = Link(call)
        asked = [(f"n{i}", {"agent": str(i)}, rng.randbytes(rng.choice([0, 5, MAX_BYTES + 1]))) for i in range(500)]
        answers = await asyncio.gather(*(link.batches.call(*one) for one in asked))
        assert [answer.value for answer in answers] == [(name, path["agent"], body) for name, path, body in asked]
        assert max(link.messages) <= MAX_CALLS
        alone = sum(len(body) > MAX_BYTES for _, _, body in asked)
        assert sum(link.messages) == 500 - alone
        assert len(link.messages) < 20
        assert (await link.batches.call("x", {"agent": "y"}, b"")).value == ("x", "y", b"")

    asyncio.run(run())


def test_no_call_waits_for_a_slow_one():
    async def run():
        release = asyncio.Event()

        async def call(name, _path, _body):
            if name == "slow":
                await release.wait()
            return Answer("done", name)

        link = Link(call)
        slow = [asyncio.ensure_future(link.batches.call("slow", {}, b"")) for _ in range(5)]
        quick = await asyncio.gather(*(link.batches.call("quick", {}, b"") for _ in range(5)))
        assert {answer.value for answer in quick} == {"quick"}
        assert not any(one.done() for one in slow)
        assert (await link.batches.call("quick", {}, b"")).value == "quick"
        release.set()
        assert {answer.value for answer in await asyncio.gather(*slow)} == {"slow"}
        assert link.redeemed == 5

    asyncio.run(run())


def test_slow_calls_that_came_one_by_one_hold_nothing_up():
    async def run():
        release = asyncio.Event()

        async def call(name, _path, _body):
            if name == "slow":
                await release.wait()
            return Answer("done", name)

        link, slow = Link(call), []
        for _ in range(MAX_ON_THE_WAY):
            slow.append(asyncio.ensure_future(link.batches.call("slow", {}, b"")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert link.messages == [1] * MAX_ON_THE_WAY
        assert (await asyncio.wait_for(link.batches.call("quick", {}, b""), 10)).value == "quick"
        release.set()
        assert {answer.value for answer in await asyncio.gather(*slow)} == {"slow"}

    asyncio.run(run())


def test_an_answer_that_was_fetched_is_not_kept():
    class File:
        pass

    async def run():
        release = asyncio.Event()

        async def call(_name, _path, _body):
            await release.wait()
            return Answer("done", File())

        tickets = Tickets(call)
        later, _ = await tickets.calls([("save", {}, b"")] * 2)
        release.set()
        answer = await tickets.redeem(later.value)
        fetched = weakref.ref(answer.value)
        del answer
        await asyncio.sleep(0)
        gc.collect()
        assert fetched() is None

    asyncio.run(run())


def test_all_calls_of_a_message_that_is_lost_fail_and_later_ones_do_not():
    failing = [True]

    async def call(name, _path, _body):
        return Answer("done", name)

    async def run():
        link = Link(call, fails=lambda: failing[0])
        found = await asyncio.gather(*(link.batches.call("a", {}, b"") for _ in range(7)), return_exceptions=True)
        assert {type(one) for one in found} == {ConnectionError}
        failing[0] = False
        assert (await link.batches.call("b", {}, b"")).value == "b"

    asyncio.run(run())


def test_a_ticket_runs_out(monkeypatch):
    monkeypatch.setattr(batches, "TICKET_SECONDS", 0.0)

    async def run():
        release = asyncio.Event()

        async def call(name, _path, _body):
            await release.wait()
            return Answer("done", name)

        tickets = Tickets(call)
        first, _ = await tickets.calls([("a", {}, b""), ("b", {}, b"")])
        assert first.kind == "later"
        await asyncio.sleep(0.01)
        release.set()
        with pytest.raises(KeyError, match="has run out"):
            await tickets.redeem(first.value)

    asyncio.run(run())
