"""How much of everything a service takes. What is above is refused before anything is done."""

from dataclasses import dataclass
from typing import Any

import msgspec

from taciturn.agents.base import BaseAgent
from taciturn.errors import TaciturnError
from taciturn.service.core import session
from taciturn.service.core.operations import EXACT, NAME, AddArm, Ask, Create, Import, Misfit, is_sparse, width_of

UNCAPPED = frozenset({"seed", "max_nodes", "memory_limit", "expire_after"})


class TooMuch(TaciturnError):
    """There is no room for it now: 429."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a service.

    Arguments:
        body, file: bytes of a request, and of an agent's file.
        dimension: features of an agent's contexts.
        batch: contexts or rewards in one request.
        arms, agents: how many of them, of an agent and of the service.
        pending: decisions of an agent that wait for their feedback.
        waiting: requests that wait for an agent.
        nodes, memory: the most that an agent's `max_nodes` and `memory_limit` (bytes) can be, and what they are where
            nothing is given.
        setting: the largest whole number among an agent's other params: they are sizes and repetitions.
        seconds: how long a request may take in all.
    """

    body: int = 8_000_000
    file: int = 64_000_000
    dimension: int = 100_000
    batch: int = 1_000
    arms: int = 1_000
    agents: int = 100
    pending: int = 50_000
    waiting: int = 10_000
    nodes: int = 100_000
    memory: float = 2e9
    setting: int = 10_000
    seconds: float = 30.0

    def check_ask(self, ask: Ask) -> None:
        """What can be said of a request to decide without its agent."""
        given = ask.given
        if len(given) > self.batch:
            raise Misfit(f"{len(given)} contexts in one request; {self.batch} are allowed", "contexts")
        if max(map(width_of, given)) > self.dimension:
            raise Misfit(f"a context has more than {self.dimension} features", "context" if ask.alone else "contexts")
        if ask.neighbors and ask.alone and len(ask.neighbors) > self.batch:
            raise Misfit(f"{len(ask.neighbors)} neighbors; {self.batch} are allowed", "neighbors")

    def check_room(self, agent: BaseAgent, ask: Ask, waiting: int) -> None:
        """Whether an agent has room for what is asked, where so many of its decisions wait for feedback."""
        given = ask.given
        room = min(self.pending, (agent.max_nodes or self.nodes) // 2)  # what waits is not forgotten then
        if waiting + len(given) > room:
            raise TooMuch(f"{waiting} decisions wait for their feedback; {room} are allowed")
        known = session.names(agent)
        named = (context for context in given if isinstance(context, dict) and not is_sparse(context))
        total = len(known) + len({name for context in named for name in context if name not in known})
        if total > self.dimension:
            field = "context" if ask.alone else "contexts"
            raise Misfit(f"the agent would have {total} features; {self.dimension} are allowed", field)

    def admitted(self, op: Create) -> Create:
        """A new agent within the limits, which are written down with it: it is the same agent under other limits."""
        if not NAME.fullmatch(op.name):  # a pattern's $ lets a line's end pass
            raise Misfit(f"{op.name!r} cannot be the name of an agent", "name")
        if (op.arms if isinstance(op.arms, int) else len(op.arms)) > self.arms:
            raise Misfit(f"too many arms; {self.arms} are allowed", "arms")
        if "arms" in op.params:
            raise Misfit("arms are not given among the params", "params.arms")
        if not isinstance(op.params.get("imputer", ""), str):
            raise Misfit("an imputer is given by its name", "params.imputer")
        for name, value in op.params.items():
            self._check_setting(f"params.{name}", value, EXACT if name in UNCAPPED else self.setting)
        caps = {"max_nodes": self.nodes, "memory_limit": self.memory}
        return msgspec.structs.replace(op, params=op.params | {key: _capped(op, key, cap) for key, cap in caps.items()})

    def _check_setting(self, field: str, value: Any, cap: int) -> None:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for part in parts:
            self._check_setting(field, part, cap)
        if isinstance(value, int) and abs(value) > cap:
            raise Misfit(f"{value} is too large a number; {cap} is allowed", field)

    def check_arm(self, agent: BaseAgent, op: AddArm) -> None:
        """Whether there is room for one arm more."""
        if op.arm not in agent.arm_names and len(agent.arm_names) >= self.arms:
            raise TooMuch(f"there are {len(agent.arm_names)} arms; {self.arms} are allowed")

    def importing(self, file: bytes) -> Import:
        """An agent's file with the limits that hold for it."""
        return Import(file, self.nodes, self.memory)


def _capped(op: Create, name: str, cap: float) -> Any:
    value = op.params.get(name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return cap if value is None or (number and value > cap) else value
