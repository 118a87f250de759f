"""One agent as a function of the journal: operations go in, one after the other, live and in replay alike."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from taciturn.agents import storage
from taciturn.agents.base import BaseAgent
from taciturn.agents.ledger import PENDING, REWARDED
from taciturn.contracts import Decision, Explanation
from taciturn.errors import InvalidData, TaciturnError, UnknownArm, UnknownDecision
from taciturn.registry import METHODS, make, unknown_name
from taciturn.service.core import operations as wire
from taciturn.service.core.operations import (
    AddArm,
    Create,
    Decide,
    Delete,
    Import,
    Misfit,
    Op,
    RetireArm,
    Reward,
    Study,
    Told,
    Withdraw,
)

KINDS = {name: method for name, method in METHODS.items() if not method.about.startswith("reference")}
"""The methods that can be served: those that decide without being told the truth."""

ANSWERS, ANSWER_CHARS = 10_000, 8_000_000
"""How many answers to requests with an id are kept for those who ask again, and how long they are together."""


class CorrectionForbidden(TaciturnError):
    """Another reward for a decision of an agent that takes the first as final."""


@storage.storable
class Session:
    """An agent, and what the service remembers about it. `apply` is the only way in which it changes."""

    def __init__(self) -> None:
        self._agent: BaseAgent | None = None  # before it is created, and after it is deleted
        self.kind = ""
        self.corrections = True
        self.timed = False  # whether decisions carry the time
        self.answers: dict[str, str] = {}
        self._kept = 0

    @property
    def agent(self) -> BaseAgent:
        """The agent, which must be there."""
        if self._agent is None:
            raise TaciturnError("there is no agent yet")
        return self._agent

    @property
    def alive(self) -> bool:
        """Whether there is an agent."""
        return self._agent is not None

    def apply(self, op: Op) -> Any:
        """Apply one operation. After a `TaciturnError` nothing has changed; after another error discard the session."""
        if isinstance(op, Decide):
            return self.decide(op)
        if isinstance(op, Reward):
            return self.agent.feedback(op.id, op.reward)
        if isinstance(op, Told):
            for told in op.rewards:
                self.agent.feedback(told.id, told.reward)
            return None
        if isinstance(op, Study):
            return self.agent.train_pending(op.pieces)
        if isinstance(op, Withdraw):
            return self.agent.withdraw(op.id)
        if isinstance(op, AddArm):
            return self._add_arm(op)
        if isinstance(op, RetireArm):
            return self.agent.retire_arm(op.arm)
        if isinstance(op, Create):
            return self._create(op)
        if isinstance(op, Import):
            return self._import(op)
        if isinstance(op, Delete):
            self._agent = None
        return None

    def save(self, path: str | Path) -> None:
        """Write the session to a file, as agents are written."""
        storage.save(self, path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read it back; what is damaged is refused."""
        session = storage.load(path)
        if not isinstance(session, cls):
            raise InvalidData(f"{path.name}: holds no session")
        return session

    # What changes it.

    def decide(self, op: Decide) -> list[Decision]:
        """Decide on all contexts of a request, and remember the answer if the request has an id."""
        ask, agent = op.ask, self.agent
        neighbors: Any = ask.neighbors
        before = ids(agent)
        try:
            if ask.alone:
                context = wire.context_of(ask.given[0])
                decisions = [agent.decide(context, neighbors, allowed=ask.allowed, at=op.at)]
            else:
                _check_lists(neighbors)
                contexts = [wire.context_of(given) for given in ask.given]
                decisions = agent.decide_batch(contexts, neighbors, allowed=ask.allowed, at=op.at)
        except TaciturnError as error:
            if ids(agent) != before:
                raise RuntimeError("a decision was half made") from error
            if isinstance(error, UnknownDecision | UnknownArm):
                raise Misfit(str(error), "neighbors" if isinstance(error, UnknownDecision) else "allowed") from None
            raise
        if ask.request_id is not None:
            self._remember(ask.request_id, wire.answer_of(decisions, alone=ask.alone).decode())
        return decisions

    def _remember(self, request: str, answer: str) -> None:
        self.answers[request] = answer
        self._kept += len(answer)
        while len(self.answers) > ANSWERS or self._kept > ANSWER_CHARS:
            self._kept -= len(self.answers.pop(next(iter(self.answers))))

    def _create(self, op: Create) -> None:
        if op.kind not in KINDS:
            raise unknown_name("kind", op.kind, KINDS)
        if isinstance(op.arms, list):
            check_texts(op.arms)
        try:
            agent: Any = make(op.kind, arms=op.arms, **op.params)
        except TaciturnError:
            raise
        except (TypeError, AttributeError, ArithmeticError):  # a value of a kind that its check did not expect
            raise TaciturnError("the params are not such that an agent can be made with them") from None
        agent.defer_training()
        self._agent, self.kind, self.corrections = agent, op.kind, op.corrections
        self.timed = agent.expire_after is not None

    def _import(self, op: Import) -> None:
        with tempfile.TemporaryDirectory(prefix="taciturn-") as folder:
            path = Path(folder) / "agent.taciturn"
            path.write_bytes(op.file)
            try:
                agent = storage.load(path, trusted=False)
            except TaciturnError:
                raise
            except Exception as error:  # whatever a hostile file can bring about
                raise InvalidData(
                    f"agent.taciturn: not written by this version of taciturn ({type(error).__name__})"
                ) from error
        kind = kind_of(agent)
        if kind is None:
            raise InvalidData("agent.taciturn: holds no agent of a kind that is served")
        try:
            check_texts(agent.arm_names)
            agent.max_nodes = min(agent.max_nodes or op.max_nodes, op.max_nodes)
            agent.memory_limit = min(agent.memory_limit or op.memory_limit, op.memory_limit)
            self.timed = _timed(agent)
            agent.health()
        except Exception as error:
            raise InvalidData(f"agent.taciturn: its parts do not fit together ({type(error).__name__})") from error
        agent.defer_training()
        self._agent, self.kind = agent, kind

    def _add_arm(self, op: AddArm) -> None:
        names = self.agent.arm_names
        if op.arm not in names:
            check_texts([*names, op.arm])
        try:
            self.agent.add_arm(op.arm, op.like)
        except UnknownArm as error:
            raise Misfit(str(error), "like") from None

    # What is asked of it, without a change.

    def news(self, op: Reward) -> str:
        """What feedback is: "taken" for the first time or in place of silence, "corrected", or the "same" again."""
        state, value = heard(self.agent, op.id)
        if state == REWARDED:
            if value == op.reward:
                return "same"
            if not self.corrections:
                raise CorrectionForbidden(
                    f"decision {op.id} had the reward {value:g}, and this agent was made without corrections"
                )
            return "corrected"
        return "taken" if self.agent.state(op.id) != "silent" or op.reward is not None else "same"

    def about(self, name: str) -> dict[str, Any]:
        """The agent as one sees it from outside."""
        agent = self.agent
        params = {key: value for key, value in agent.params.items() if key != "arms"}
        about = {"name": name, "kind": self.kind, "arms": agent.arm_names, "active": agent.active_arms}
        return about | {"params": params, "corrections": self.corrections, "features": dimension(agent)}

    def look(self, id: int) -> dict[str, Any]:
        """A decision: what became of it, and why it was made."""
        found = self.agent.explain(id)
        parts = {name: getattr(found, name) for name in Explanation.__slots__}
        for side in ("supporting", "opposing"):
            parts[side] = [voice._asdict() for voice in parts[side]]
        shown = {name: parts.pop(name) for name in ("id", "arm", "state", "reward")}
        return shown | {"explanation": parts | {"text": str(found)}}

    def health(self) -> dict[str, Any]:
        """How the agent is doing."""
        health = asdict(self.agent.health())
        if found := health["calibration"]:
            bins = [dict(zip(("supposed", "earned", "count"), one, strict=True)) for one in found[2]]
            health["calibration"] = {"truths": found[0], "brier": found[1], "bins": bins}
        return health

    def export(self) -> bytes:
        """The agent as a file."""
        with tempfile.TemporaryDirectory(prefix="taciturn-") as folder:
            path = Path(folder) / "agent.taciturn"
            self.agent.save(path)
            return path.read_bytes()


def check_texts(names: Any) -> None:
    """Arms are named in paths, where a number is text."""
    if len({str(name) for name in names}) < len(names):
        raise Misfit("two arms have the same name as text", "arms")


def _check_lists(neighbors: Any) -> None:
    if neighbors is not None and not all(ids is None or isinstance(ids, list) for ids in neighbors):
        raise Misfit("with contexts, neighbors has a list of ids or null for each", "neighbors")


def kind_of(agent: Any) -> str | None:
    """The name in the registry of an agent that is served and whose parameters are plain; None for all others."""
    path = f"{type(agent).__module__}:{type(agent).__qualname__}"
    for name, method in KINDS.items():
        wanted = {key: vars(agent).get(key) for key in method.params}
        if method.target == path and wanted == method.params:
            return name
    return None


# What an agent does not show, and the service needs on every request.


def dimension(agent: BaseAgent) -> int:
    """How many features it knows; 0 before its first context."""
    return agent._rows.dimension  # noqa: SLF001 - asked too often for a copy of everything


def names(agent: BaseAgent) -> Any:
    """The features by name, where they have names."""
    return agent._reader.names or {}  # noqa: SLF001


def ids(agent: BaseAgent) -> int:
    """How many ids it gave out."""
    return agent._ledger.given_out  # noqa: SLF001


def pending(agent: BaseAgent, now: float) -> int:
    """How many decisions wait for their feedback, and will still do so at the next decision."""
    ledger = agent._ledger  # noqa: SLF001
    waiting = ledger.state[: ledger.count] == PENDING
    if agent.expire_after is not None and _timed(agent):
        waiting &= ledger.at[: ledger.count] > now - agent.expire_after
    return int(waiting.sum())


def heard(agent: BaseAgent, id: int) -> tuple[int, float]:
    """The state of a decision, and the reward that is known."""
    node = agent._find(id)  # noqa: SLF001
    return int(agent._ledger.state[node]), float(agent._ledger.value[node])  # noqa: SLF001


def _timed(agent: BaseAgent) -> bool:
    """Whether decisions must carry the time: they did so far, or could from the first on."""
    fresh = agent.health().decisions == 0
    return agent._clock is not None or (fresh and agent.expire_after is not None)  # noqa: SLF001
