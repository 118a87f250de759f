"""The routes of the service: one table that says what each takes, returns and does."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from taciturn.service.api.bodies import FILE_WEIGHT, JSON_WEIGHT, Decoder
from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import Problem
from taciturn.service.api.readiness import Readiness
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

Handler = Callable[[dict[str, str], bytes], Awaitable[bytes]]
JSON, FILE = "application/json", "application/octet-stream"
ID = re.compile("[0-9]{1,16}")


@dataclass(slots=True, eq=False, kw_only=True)
class Endpoint:
    """One method of a path.

    `scope` is what a key must allow, None for no key; `takes` the schema of the body, "file" or None; `gives` the media
    type and schema of the answer; `good` its status; `refuses` the statuses beside those of every route; `max_bytes`
    the largest body.
    """

    method: str
    path: str
    name: str
    about: str
    handle: Handler
    scope: str | None = "read"
    takes: str | None = None
    gives: tuple[str, dict[str, Any]] | None = None
    good: int = 200
    refuses: tuple[int, ...] = ()
    example: Any = None
    max_bytes: int = 0

    @property
    def content_type(self) -> str:
        """The content type of the body that it takes."""
        return FILE if self.takes == "file" else JSON

    @property
    def weight(self) -> int:
        """Bytes of memory for each byte of the body."""
        return FILE_WEIGHT if self.takes == "file" else JSON_WEIGHT


class Api:
    """The handlers of the routes."""

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


def decision_id(path: dict[str, str]) -> int:
    """The id in a path; raises a problem if it is no whole number."""
    if not ID.fullmatch(path["id"]):
        raise Problem(404, "unknown-decision", "the id of a decision is a whole number")
    return int(path["id"])


def endpoints(api: Api, limits: Limits) -> list[Endpoint]:
    """The table of routes; the most frequent ones come first, as they are matched in order."""
    agent = "/v1/agents/{agent}"
    decision = agent + "/decisions/{id}"
    body, file = limits.body, limits.file

    def gives(name: str) -> tuple[str, dict[str, Any]]:
        return JSON, {"$ref": f"#/components/schemas/{name}"}

    decided = (JSON, {"anyOf": [gives("Decision")[1], gives("Decisions")[1]]})
    binary: dict[str, Any] = {"type": "string", "format": "binary"}
    context = {"context": {"late": 1.0, "country": "DE", "note": "where is my parcel"}, "request_id": "7c0f"}
    reward, arm = {"reward": 1}, {"arm": "human", "like": "order"}
    create = {
        "name": "desk",
        "kind": "viewucb",
        "arms": ["refund", "order"],
        "params": {"features": {"text": ["note"]}},
    }
    rewards = [{"id": 0, "reward": 1}, {"id": 1, "reward": None}]
    return [
        Endpoint(method="POST", path=agent + "/decisions", name="decide", scope="write", takes="DecideRequest",
                 gives=decided, handle=api.decide, max_bytes=body, example=context, refuses=(409,),
                 about="Choose an arm for a context, or for each of several."),
        Endpoint(method="PUT", path=decision + "/reward", name="feedback", scope="write", takes="RewardBody",
                 gives=gives("Feedback"), handle=api.reward, max_bytes=body, example=reward, refuses=(409, 410),
                 about="Give a decision its reward from 0 to 1; null if none will come."),
        Endpoint(method="PUT", path=agent + "/rewards", name="feedbacks", scope="write", takes="Rewards",
                 gives=gives("RewardBatchAnswer"), handle=api.rewards, max_bytes=body, example=rewards,
                 about="Give many decisions their rewards; each is taken or refused on its own."),
        Endpoint(method="GET", path=decision, name="explain", gives=gives("DecisionDetails"), handle=api.explain,
                 refuses=(410,), about="The state and reward of a decision, and why its arm was chosen."),
        Endpoint(method="DELETE", path=decision, name="withdraw", scope="write", handle=api.withdraw, good=204,
                 refuses=(409, 410), about="Remove a decision that was never shown, and what was learned from it."),
        Endpoint(method="GET", path="/v1/agents", name="agents", gives=gives("Agents"), handle=api.agents,
                 about="All agents."),
        Endpoint(method="POST", path="/v1/agents", name="create", scope="write", takes="Create", gives=gives("Agent"),
                 handle=api.create, max_bytes=body, good=201, example=create, refuses=(409,), about="Create an agent."),
        Endpoint(method="GET", path=agent, name="agent", gives=gives("Agent"), handle=api.agent, about="An agent."),
        Endpoint(method="DELETE", path=agent, name="delete", scope="write", handle=api.delete, good=204,
                 about="Delete an agent permanently."),
        Endpoint(method="POST", path=agent + "/arms", name="addArm", scope="write", takes="AddArm",
                 gives=gives("Agent"), handle=api.add_arm, max_bytes=body, good=201, example=arm,
                 about="Add an arm, optionally with what is known of another, or bring a retired one back."),
        Endpoint(method="DELETE", path=agent + "/arms/{arm:path}", name="retireArm", scope="write",
                 gives=gives("Agent"), handle=api.retire_arm, refuses=(422,), about="Never choose an arm again."),
        Endpoint(method="GET", path=agent + "/health", name="health", gives=gives("Health"), handle=api.health,
                 about="Diagnostics of an agent: decisions by state, imputed rewards and their calibration."),
        Endpoint(method="GET", path=agent + "/file", name="save", gives=(FILE, binary), handle=api.save,
                 refuses=(422,), about="The agent as a file, for taciturn.load."),
        Endpoint(method="POST", path=agent + "/file", name="load", scope="write", takes="file", gives=gives("Agent"),
                 handle=api.load, max_bytes=file, good=201, refuses=(409,), about="Create an agent from a file."),
        Endpoint(method="GET", path="/healthz", name="alive", scope=None, gives=gives("State"), handle=api.alive,
                 about="Whether the process is alive."),
        Endpoint(method="GET", path="/readyz", name="ready", scope=None, gives=gives("State"), handle=api.ready,
                 about="Whether requests are served."),
        Endpoint(method="GET", path="/metrics", name="metrics", gives=("text/plain; version=0.0.4", {"type": "string"}),
                 handle=api.metrics, about="Metrics for Prometheus."),
    ]  # fmt: skip
