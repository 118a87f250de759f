"""The agents of a service as tools of the Model Context Protocol, for assistants that speak it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

from taciturn.client import Client
from taciturn.contracts import Arm
from taciturn.errors import TaciturnError, how_to_install

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import Field
except ImportError as error:
    raise ImportError(f"taciturn mcp needs the package mcp, version 2: {how_to_install('mcp')}") from error

P = ParamSpec("P")
R = TypeVar("R")

INSTRUCTIONS = (
    "Agents that choose one of several arms for a context and learn from the outcome. Call decide, act on the arm, and "
    "call feedback with the id of the decision once the outcome is known: 1 right, 0 wrong, null if it will never be "
    "known. list_agents says which agents there are."
)
AgentName = Annotated[str, Field(description="The name of an agent, as list_agents returns it.")]
DecisionId = Annotated[int, Field(description="The id that decide returned.", ge=0)]
Context = Annotated[
    dict[str, Any] | str,
    Field(
        description="What the decision is about: an object of named features (numbers, truth values, words, texts, "
        "dates, lists, null where a value is missing), or a text. Use the same names in every call."
    ),
]
Reward = Annotated[
    float | None,
    Field(description="From 0, wrong, to 1, right; null if the outcome will never be known.", ge=0, le=1),
]


@dataclass(frozen=True)
class Decided:
    """The arm to act on and the id for feedback; the expected reward of each arm, and how likely this choice was."""

    id: int
    arm: Arm
    expected: dict[str, float | None]
    propensity: float


@dataclass(frozen=True)
class Explained:
    """Why an arm was chosen, in words, with the state and reward of the decision."""

    id: int
    arm: Arm
    state: str
    reward: float | None
    text: str


class OneLineServer(MCPServer[Any]):
    """A server whose errors are one line each, also those of arguments that have the wrong type."""

    async def call_tool(self, *arguments: Any, **options: Any) -> Any:
        """Call a tool by name."""
        try:
            return await super().call_tool(*arguments, **options)
        except ToolError as error:
            raise type(error)(" ".join(str(error).split())) from error.__cause__


class Tools:
    """What the tools do with the agents of a service."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list_agents(self) -> list[str]:
        """List the names of all agents."""
        return self._client.agents()

    def decide(self, agent: AgentName, context: Context) -> Decided:
        """Choose an arm for a context. Returns the arm to act on and the id that feedback needs."""
        chooser = self._client.agent(agent)
        made = chooser.decide(context)
        scores = [None if score != score else float(score) for score in made.scores]  # noqa: PLR0124 - NaN is not itself
        expected = dict(zip(map(str, chooser.arm_names), scores, strict=False))
        return Decided(made.id, made.arm, expected, float(made.propensity))

    def feedback(self, agent: AgentName, id: DecisionId, reward: Reward) -> str:
        """Tell an agent what came of a decision, so that it learns. Later feedback on the same decision corrects it."""
        self._client.agent(agent).feedback(id, reward)
        return "taken"

    def explain(self, agent: AgentName, id: DecisionId) -> Explained:
        """Say why the arm of a decision was chosen: expected rewards, and the earlier decisions for and against it."""
        found = self._client.agent(agent).explain(id)
        return Explained(found.id, found.arm, found.state, found.reward, str(found))


def mcp_server(client: Client, version: str = "") -> MCPServer[Any]:
    """The server of a client's service, which calls itself this version; `run()` serves it over stdin and stdout."""
    server, tools = (
        OneLineServer("taciturn", instructions=INSTRUCTIONS, version=version, log_level="ERROR"),
        Tools(client),
    )
    read = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    write = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    correct = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    for tool, hints in (
        (tools.list_agents, read),
        (tools.decide, write),
        (tools.feedback, correct),
        (tools.explain, read),
    ):
        server.tool(annotations=hints)(_with_tool_errors(tool))
    return server


def _with_tool_errors(tool: Callable[P, R]) -> Callable[P, R]:
    """The tool, with errors that the assistant is shown, in place of errors that end the request."""

    @wraps(tool)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return tool(*arguments, **options)
        except TaciturnError as error:
            raise ToolError(str(error)) from None

    return call
