"""The routes of the service: one table that says what each takes, gives and does."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import Problem, Unavailable
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import NAME as NAME  # noqa: PLC0414 - the page has names in its paths too
from taciturn.service.core.operations import (
    AddArm,
    Ask,
    Create,
    Decide,
    Delete,
    Heard,
    Op,
    RetireArm,
    Reward,
    Withdraw,
    encode,
)
from taciturn.service.core.service import Service
from taciturn.service.core.tasks import Look, Rewards, Task

Handler = Callable[[dict[str, str], bytes], Awaitable[bytes]]
JSON, FILE = "application/json", "application/octet-stream"
ID = re.compile("[0-9]{1,16}")

_ask = msgspec.json.Decoder(Ask).decode
_heard = msgspec.json.Decoder(Heard).decode
_rewards = msgspec.json.Decoder(Annotated[list[Reward], msgspec.Meta(min_length=1)]).decode
_create = msgspec.json.Decoder(Create).decode
_add_arm = msgspec.json.Decoder(AddArm).decode


@dataclass(slots=True, eq=False, kw_only=True)
class Endpoint:
    """A route: what it takes and gives, who may use it, and what it does."""

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
    most: int = 0

    @property
    def media(self) -> str:
        """The content type of what it takes."""
        return FILE if self.takes == "file" else JSON


class Api:
    """What the routes do."""

    def __init__(self, service: Service, limits: Limits, metrics: Metrics) -> None:
        self._service, self._limits, self._metrics = service, limits, metrics

    async def _do(self, name: str, what: Op | Look | Rewards, raw: bytes | None = None, *, new: bool = False) -> Any:
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        task = Task(what, waiter, raw)
        self._service.begin(name, task) if new else self._service.put(name, task)
        return await waiter

    async def decide(self, path: dict[str, str], body: bytes) -> bytes:
        """Decisions: the one route whose request is kept as it came."""
        ask = _ask(body)
        self._limits.check_ask(ask)
        return await self._do(path["agent"], Decide(ask), body)  # type: ignore[no-any-return]

    async def reward(self, path: dict[str, str], body: bytes) -> bytes:
        """The feedback on one decision."""
        return await self._do(path["agent"], Reward(_id(path), _heard(body).reward))  # type: ignore[no-any-return]

    async def rewards(self, path: dict[str, str], body: bytes) -> bytes:
        """The feedback on many."""
        rewards = Rewards(_rewards(body))
        if len(rewards) > self._limits.batch:
            detail = f"{len(rewards)} rewards in one request; {self._limits.batch} are allowed"
            raise Problem(422, "validation-error", detail)
        return await self._do(path["agent"], rewards)  # type: ignore[no-any-return]

    async def withdraw(self, path: dict[str, str], _: bytes) -> bytes:
        """A decision taken back."""
        await self._do(path["agent"], Withdraw(_id(path)))
        return b""

    async def look(self, path: dict[str, str], _: bytes) -> bytes:
        """A decision and its explanation."""
        id = _id(path)
        return await self._do(path["agent"], lambda session: encode(session.look(id)))  # type: ignore[no-any-return]

    async def create(self, _: dict[str, str], body: bytes) -> bytes:
        """A new agent."""
        op = self._limits.admitted(_create(body))
        return await self._do(op.name, op, new=True)  # type: ignore[no-any-return]

    async def agents(self, _: dict[str, str], __: bytes) -> bytes:
        """The names of all."""
        return encode({"agents": [{"name": name} for name in self._service.names()]})

    async def agent(self, path: dict[str, str], _: bytes) -> bytes:
        """What an agent is."""
        name = path["agent"]
        return await self._do(name, lambda session: encode(session.about(name)))  # type: ignore[no-any-return]

    async def delete(self, path: dict[str, str], _: bytes) -> bytes:
        """The end of an agent."""
        await self._do(path["agent"], Delete())
        return b""

    async def add_arm(self, path: dict[str, str], body: bytes) -> bytes:
        """A new arm."""
        return await self._do(path["agent"], _add_arm(body))  # type: ignore[no-any-return]

    async def retire_arm(self, path: dict[str, str], _: bytes) -> bytes:
        """An arm less."""
        return await self._do(path["agent"], RetireArm(path["arm"]))  # type: ignore[no-any-return]

    async def health(self, path: dict[str, str], _: bytes) -> bytes:
        """How an agent is doing."""
        return await self._do(path["agent"], lambda session: encode(session.health()))  # type: ignore[no-any-return]

    async def save(self, path: dict[str, str], _: bytes) -> bytes:
        """An agent's file."""
        return await self._do(path["agent"], lambda session: session.export())  # type: ignore[no-any-return]

    async def load(self, path: dict[str, str], body: bytes) -> bytes:
        """A new agent from a file."""
        if not NAME.fullmatch(path["agent"]):
            detail = "an agent's name is of small letters, digits, - and _, at most 64"
            raise Problem(422, "validation-error", detail, "name")
        return await self._do(path["agent"], self._limits.importing(body), new=True)  # type: ignore[no-any-return]

    async def alive(self, _: dict[str, str], __: bytes) -> bytes:
        """Nothing but an answer."""
        return encode({"status": "alive"})

    async def ready(self, _: dict[str, str], __: bytes) -> bytes:
        """Whether work is taken."""
        if not self._service.ready:
            raise Unavailable("the service is not ready")
        return encode({"status": "ready"})

    async def metrics(self, _: dict[str, str], __: bytes) -> bytes:
        """For Prometheus."""
        return self._metrics.text()


def _id(path: dict[str, str]) -> int:
    if not ID.fullmatch(path["id"]):
        raise Problem(404, "unknown-decision", "the id of a decision is a whole number")
    return int(path["id"])


def endpoints(api: Api, limits: Limits) -> list[Endpoint]:
    """The table of routes; those that are asked most come first."""
    agent = "/v1/agents/{agent}"
    decision = agent + "/decisions/{id}"
    body, file = limits.body, limits.file

    def gives(name: str) -> tuple[str, dict[str, Any]]:
        return JSON, {"$ref": f"#/components/schemas/{name}"}

    decided = (JSON, {"anyOf": [gives("Decision")[1], gives("Decisions")[1]]})
    binary: dict[str, Any] = {"type": "string", "format": "binary"}
    ask = {"context": {"late": 1.0, "parcel": 1.0}, "request_id": "7c0f"}
    reward, arm = {"reward": 1}, {"arm": "human", "like": "order"}
    create = {"name": "desk", "kind": "viewucb", "arms": ["refund", "order"], "params": {"seed": 0}}
    rewards = [{"id": 0, "reward": 1}, {"id": 1, "reward": None}]
    return [
        Endpoint(method="POST", path=agent + "/decisions", name="decide", scope="write", takes="Ask", gives=decided,
                 handle=api.decide, most=body, example=ask,
                 about="Choose an arm for a context, or for each of several."),
        Endpoint(method="PUT", path=decision + "/reward", name="feedback", scope="write", takes="Heard",
                 gives=gives("Feedback"), handle=api.reward, most=body, example=reward, refuses=(409, 410),
                 about="Say what came of a decision; null if nothing ever will."),
        Endpoint(method="PUT", path=agent + "/rewards", name="feedbacks", scope="write", takes="Rewards",
                 gives=gives("Feedbacks"), handle=api.rewards, most=body, example=rewards,
                 about="Say what came of many decisions; each is taken or refused on its own."),
        Endpoint(method="GET", path=decision, name="look", gives=gives("Look"), handle=api.look, refuses=(410,),
                 about="What became of a decision, and why it was made."),
        Endpoint(method="DELETE", path=decision, name="withdraw", scope="write", handle=api.withdraw, good=204,
                 refuses=(409, 410), about="Forget a decision that was never shown, and all that was learned of it."),
        Endpoint(method="GET", path="/v1/agents", name="agents", gives=gives("Agents"), handle=api.agents,
                 about="All agents."),
        Endpoint(method="POST", path="/v1/agents", name="create", scope="write", takes="Create", gives=gives("Agent"),
                 handle=api.create, most=body, good=201, example=create, refuses=(409,), about="Make an agent."),
        Endpoint(method="GET", path=agent, name="agent", gives=gives("Agent"), handle=api.agent, about="An agent."),
        Endpoint(method="DELETE", path=agent, name="delete", scope="write", handle=api.delete, good=204,
                 about="Delete an agent for good."),
        Endpoint(method="POST", path=agent + "/arms", name="addArm", scope="write", takes="AddArm",
                 gives=gives("Agent"), handle=api.add_arm, most=body, good=201, example=arm,
                 about="Add an arm, with the knowledge of another if you like, or bring a retired one back."),
        Endpoint(method="DELETE", path=agent + "/arms/{arm:path}", name="retireArm", scope="write",
                 gives=gives("Agent"), handle=api.retire_arm, refuses=(422,), about="Never choose an arm again."),
        Endpoint(method="GET", path=agent + "/health", name="health", gives=gives("Health"), handle=api.health,
                 about="How an agent is doing: what waits, what was supposed and how right that was."),
        Endpoint(method="GET", path=agent + "/file", name="save", gives=(FILE, binary), handle=api.save,
                 about="The agent as a file, for taciturn.load."),
        Endpoint(method="POST", path=agent + "/file", name="load", scope="write", takes="file", gives=gives("Agent"),
                 handle=api.load, most=file, good=201, refuses=(409,), about="A new agent from a file."),
        Endpoint(method="GET", path="/healthz", name="alive", scope=None, gives=gives("State"), handle=api.alive,
                 about="Whether the process is alive."),
        Endpoint(method="GET", path="/readyz", name="ready", scope=None, gives=gives("State"), handle=api.ready,
                 about="Whether requests are served."),
        Endpoint(method="GET", path="/metrics", name="metrics", gives=("text/plain; version=0.0.4", {"type": "string"}),
                 handle=api.metrics, about="Numbers for Prometheus."),
    ]  # fmt: skip
