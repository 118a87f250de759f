"""The routes of the service: one table that says what each takes, returns and does."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.routing import Route

from taciturn.service.api.bodies import FILE_WEIGHT, JSON_WEIGHT
from taciturn.service.api.problems import Problem
from taciturn.service.core.limits import Limits

Handler = Callable[[dict[str, str], bytes], Awaitable[bytes]]
JSON, FILE = "application/json", "application/octet-stream"
ID = re.compile("[0-9]{1,16}")


@dataclass(slots=True, eq=False, kw_only=True)
class Operation:
    """One method of a path, as it is described.

    `scope` is what a key must allow, None for no key; `takes` the schema of the body, "file" or None; `gives` the media
    type and schema of the answer; `good` its status; `refuses` the statuses beside those of every route; `reads` the
    headers that it reads, and what they say; `answers` answers by their status, in the words of OpenAPI, where the
    others do not say it all.
    """

    method: str
    path: str
    name: str
    about: str
    scope: str | None = "read"
    takes: str | None = None
    gives: tuple[str, dict[str, Any]] | None = None
    good: int = 200
    refuses: tuple[int, ...] = ()
    example: Any = None
    reads: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def content_type(self) -> str:
        """The content type of the body that it takes."""
        return FILE if self.takes == "file" else JSON


@dataclass(slots=True, eq=False, kw_only=True)
class Endpoint(Operation):
    """One method of a path, and what answers it; `max_bytes` is the largest body."""

    handle: Handler
    max_bytes: int = 0

    @property
    def weight(self) -> int:
        """Bytes of memory for each byte of the body."""
        return FILE_WEIGHT if self.takes == "file" else JSON_WEIGHT


@dataclass(frozen=True, kw_only=True)
class Extension:
    """More routes for the same application: `endpoints`, the `schemas` of what these take and give, and pages.

    `described` are those among the pages that the OpenAPI document has too. `close` is called when the server stops.
    """

    endpoints: tuple[Endpoint, ...] = ()
    pages: tuple[Route, ...] = ()
    described: tuple[Operation, ...] = ()
    close: Callable[[], Awaitable[None]] | None = None
    schemas: Mapping[str, Any] = field(default_factory=dict)


class Handlers(Protocol):
    """What the routes do, one handler each: for agents of this process (`local.py`), or of others.

    A handler gets the parameters of the path and the body, and returns the body of the answer; it raises what
    `problem_of` turns into a problem.
    """

    def decide(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Decide on one context or on several."""

    def reward(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Give feedback on one decision."""

    def rewards(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Give feedback on many decisions."""

    def withdraw(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Remove a decision that was never shown."""

    def explain(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """A decision and its explanation."""

    def create(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Create an agent."""

    def agents(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """The names of all agents."""

    def agent(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """The description of an agent."""

    def delete(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Delete an agent."""

    def add_arm(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Add an arm."""

    def retire_arm(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Retire an arm."""

    def health(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """The diagnostics of an agent."""

    def save(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """An agent's file, which can be imported again."""

    def load(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Create an agent from a file."""

    def alive(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Whether the process is alive."""

    def ready(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Whether requests are served."""

    def metrics(self, path: dict[str, str], body: bytes, /) -> Awaitable[bytes]:
        """Metrics in the format of Prometheus."""


def decision_id(path: dict[str, str]) -> int:
    """The id in a path; raises a problem if it is no whole number."""
    if not ID.fullmatch(path["id"]):
        raise Problem(404, "unknown-decision", "the id of a decision is a whole number")
    return int(path["id"])


def endpoints(api: Handlers, limits: Limits) -> list[Endpoint]:
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
