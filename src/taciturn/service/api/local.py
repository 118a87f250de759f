"""The service over HTTP in the process that runs its agents."""

import asyncio
from collections.abc import Callable
from typing import Any

from taciturn.service.api.access import AccessLog
from taciturn.service.api.asgi import App, Resource, build_app
from taciturn.service.api.bodies import Budget, Decoder
from taciturn.service.api.keys import Keyring
from taciturn.service.api.metrics import Metrics, service_metrics
from taciturn.service.api.problems import Problem
from taciturn.service.api.readiness import Readiness
from taciturn.service.api.routes import Extension, decision_id
from taciturn.service.api.schemas import (
    decode_add_arm,
    decode_create,
    decode_decide,
    decode_reward,
    decode_rewards,
    reward_batch_answer,
)
from taciturn.service.core.encoding import encode
from taciturn.service.core.errors import ValidationError
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import (
    NAME,
    Decide,
    DecideRequest,
    Delete,
    RetireArm,
    Reward,
    RewardBatch,
    Withdraw,
)
from taciturn.service.core.service import Service


def create_app(
    service: Service,
    keyring: Keyring | None = None,
    limits: Limits | None = None,
    *,
    access: AccessLog | None = None,
    journal_bytes: Callable[[], int] | None = None,
    extension: Extension | None = None,
    wrap: Callable[[str, Resource], Any] | None = None,
) -> App:
    """Create the application of a service of this process; other routes can be added before it is served.

    Arguments:
        service: the agents; the owner closes it.
        keyring: the valid keys; None for none, which lets in everyone who reaches it under a name of this machine.
        limits: None for those of the service.
        access: gets a line for each request; None for no lines.
        journal_bytes: the size of the journal, for the metrics.
        extension: more routes; None for no more.
        wrap: returns what is called in place of the resource of a path; None for the resources themselves.
    """
    limits = limits or service.limits
    budget = Budget(limits.in_flight)
    metrics = service_metrics(service, budget, journal_bytes)
    handlers = Api(service, limits, metrics)
    return build_app(
        handlers,
        keyring=keyring or Keyring(),
        limits=limits,
        metrics=metrics,
        budget=budget,
        access=access,
        extension=extension,
        wrap=wrap,
    )


class Api:
    """The handlers of the routes, for the agents of a service of this process.

    Arguments:
        service: the agents; the owner closes it.
        limits: of requests.
        metrics: what `/metrics` shows.
    """

    def __init__(self, service: Service, limits: Limits, metrics: Metrics) -> None:
        self._service, self._limits, self._metrics = service, limits, metrics
        self._decode, self._readiness = Decoder().decode, Readiness(service)
        self._exports = asyncio.Lock()  # one at a time, since each takes a copy of its agent

    async def decide(self, path: dict[str, str], body: bytes) -> bytes:
        """Decide; the journal stores the body as it was received."""
        request = await self._decode(self._decode_decide, body)
        return await self._service.call_async(path["agent"], Decide(request), body)  # type: ignore[no-any-return]

    def _decode_decide(self, body: bytes) -> DecideRequest:
        request = decode_decide(body)
        self._limits.check_request(request)
        return request

    async def reward(self, path: dict[str, str], body: bytes) -> bytes:
        """Give feedback on one decision."""
        given = await self._decode(decode_reward, body)
        return await self._service.call_async(path["agent"], Reward(decision_id(path), given.reward))  # type: ignore[no-any-return]

    async def rewards(self, path: dict[str, str], body: bytes) -> bytes:
        """Give feedback on many decisions."""
        rewards = await self._decode(decode_rewards, body)
        if len(rewards) > self._limits.batch:
            raise ValidationError(f"{len(rewards)} rewards in one request; {self._limits.batch} are allowed")
        return encode(reward_batch_answer(await self._service.call_async(path["agent"], RewardBatch(rewards))))

    async def withdraw(self, path: dict[str, str], _: bytes) -> bytes:
        """Remove a decision that was never shown."""
        await self._service.call_async(path["agent"], Withdraw(decision_id(path)))
        return b""

    async def explain(self, path: dict[str, str], _: bytes) -> bytes:
        """A decision and its explanation."""
        id = decision_id(path)
        return await self._service.call_async(path["agent"], lambda session: encode(session.explain(id)))  # type: ignore[no-any-return]

    async def create(self, _: dict[str, str], body: bytes) -> bytes:
        """Create an agent."""
        op = self._limits.bounded_create(await self._decode(decode_create, body))
        return await self._service.call_async(op.name, op)  # type: ignore[no-any-return]

    async def agents(self, _: dict[str, str], __: bytes) -> bytes:
        """The names of all agents."""
        return encode({"agents": [{"name": name} for name in self._service.names()]})

    async def agent(self, path: dict[str, str], _: bytes) -> bytes:
        """The description of an agent."""
        name = path["agent"]
        return await self._service.call_async(name, lambda session: encode(session.about(name)))  # type: ignore[no-any-return]

    async def delete(self, path: dict[str, str], _: bytes) -> bytes:
        """Delete an agent."""
        await self._service.call_async(path["agent"], Delete())
        return b""

    async def add_arm(self, path: dict[str, str], body: bytes) -> bytes:
        """Add an arm."""
        return await self._service.call_async(path["agent"], await self._decode(decode_add_arm, body))  # type: ignore[no-any-return]

    async def retire_arm(self, path: dict[str, str], _: bytes) -> bytes:
        """Retire an arm."""
        return await self._service.call_async(path["agent"], RetireArm(path["arm"]))  # type: ignore[no-any-return]

    async def health(self, path: dict[str, str], _: bytes) -> bytes:
        """The diagnostics of an agent."""
        return await self._service.call_async(path["agent"], lambda session: encode(session.health()))  # type: ignore[no-any-return]

    async def save(self, path: dict[str, str], _: bytes) -> bytes:
        """An agent's file, which can be imported again."""
        largest = self._limits.file
        async with self._exports:
            found = await self._service.call_async(path["agent"], lambda session: session.export(largest))
            if found.nbytes > largest:
                message = (
                    f"the file would have {found.nbytes} bytes; the limit file allows {largest}, also for an import"
                )
                raise Problem(422, "export-too-large", message)
            return await asyncio.to_thread(bytes, found)

    async def load(self, path: dict[str, str], body: bytes) -> bytes:
        """Create an agent from a file."""
        if not NAME.fullmatch(path["agent"]):
            raise ValidationError("an agent's name is of small letters, digits, - and _, at most 64", "name")
        return await self._service.call_async(path["agent"], self._limits.bounded_import(body))  # type: ignore[no-any-return]

    async def alive(self, _: dict[str, str], __: bytes) -> bytes:
        """Answer without doing anything."""
        return encode({"status": "alive"})

    async def ready(self, _: dict[str, str], __: bytes) -> bytes:
        """Whether requests are served."""
        await self._readiness.check()
        return encode({"status": "ready"})

    async def metrics(self, _: dict[str, str], __: bytes) -> bytes:
        """Metrics in the format of Prometheus."""
        return self._metrics.text()
