"""One agent as a function of the journal: `apply` is called for each operation, both live and in replay."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from taciturn.agents import storage
from taciturn.agents.base import BaseAgent
from taciturn.agents.warm import compile_kernels
from taciturn.contracts import STATES, Arm, Decision
from taciturn.errors import InvalidData, RequestIdReused, TaciturnError, UnknownArm, UnknownDecision
from taciturn.features.schema import Features
from taciturn.introspection import Explanation
from taciturn.registry import METHODS, make, unknown_name
from taciturn.service.core.contexts import parse_context
from taciturn.service.core.errors import CorrectionForbidden, HalfDone, ValidationError
from taciturn.service.core.operations import (
    AddArm,
    Create,
    Decide,
    DecideRequest,
    Delete,
    Import,
    Label,
    Op,
    RetireArm,
    Reward,
    RewardBatch,
    TrainPending,
    Withdraw,
)
from taciturn.service.core.remembered import Remembered, label_key

SERVED_METHODS = {name: method for name, method in METHODS.items() if not method.reference}
"""The methods that can be served: those that decide without being told the right arm."""

EMBEDDINGS = (None, "wordllama")
"""Embeddings of text that a served agent can have: others make the service call an address, or run a function."""

SHOWN_COLUMNS = 1_000
"""How many columns of an agent's contexts are listed with their kinds."""

MAX_REQUESTS = 10_000
"""How many of an agent's latest requests with an id are remembered, for retries."""

EVICTED = 256
"""How many evicted decisions there can be before what is remembered of them is forgotten, all at once."""


class AnsweredRequest(NamedTuple):
    """What is remembered of a request with an id: what it asked, its decisions, and how many arms there were."""

    fingerprint: str
    first_id: int
    n_decisions: int
    n_arms: int


@storage.register
class Session:
    """An agent and what the service remembers about it. It changes by `apply`, and by training that is recorded so."""

    tag = "session"

    def __init__(
        self,
        agent: BaseAgent | None = None,
        *,
        kind: str = "",
        corrections: bool = True,
        timed: bool = False,
        requests: dict[str, tuple[str, int, int, int]] | None = None,
        remembered: dict[str, Any] | None = None,
    ) -> None:
        self._agent = agent  # None before it is created, and after it is deleted
        self.kind = kind
        self.corrections = corrections
        self.timed = timed  # whether decisions carry the time
        known = {} if requests is None else requests
        self.requests = {id: AnsweredRequest(*known[id]) for id in known}  # oldest first
        self.remembered = Remembered() if remembered is None else Remembered.from_state_dict(remembered)
        self.differing = 0  # replayed decisions for which this version would have chosen another arm

    @property
    def agent(self) -> BaseAgent:
        """The agent, which must exist."""
        if self._agent is None:
            raise TaciturnError("there is no agent yet")
        return self._agent

    @property
    def alive(self) -> bool:
        """Whether there is an agent."""
        return self._agent is not None

    # Changes.

    def apply(self, op: Op) -> Any:
        """Apply one operation. After a `TaciturnError` nothing has changed; after another error discard the session."""
        match op:
            case Decide():
                return self.decide(op)
            case Reward():
                return self.agent.feedback(op.id, op.reward)
            case RewardBatch():
                for reward in op.rewards:
                    self.agent.feedback(reward.id, reward.reward)
            case TrainPending():
                return self.agent.train_pending(op.steps)
            case Withdraw():
                self.agent.withdraw(op.id)
                self.remembered.forget(op.id)
            case Label():
                self._label(op)
            case AddArm():
                return self._add_arm(op)
            case RetireArm():
                return self.agent.retire_arm(op.arm)
            case Create():
                return self._create(op)
            case Import():
                return self._import(op)
            case Delete():
                self._agent = None
        return None

    def decide(self, op: Decide) -> list[Decision]:
        """Decide on all contexts of a request, or repeat the decisions that it was answered with."""
        request, agent = op.request, self.agent
        next_id = agent.next_id
        at = op.at if self.timed else None
        try:
            if op.decisions is None:
                decisions = _decide(agent, request, at)
            else:
                with agent.replaying(answered.decision() for answered in op.decisions) as replay:
                    decisions = _decide(agent, request, at)
                self.differing += replay.differing
        except TaciturnError as error:
            if agent.next_id != next_id:
                raise HalfDone(error) from error
            if isinstance(error, UnknownDecision | UnknownArm):
                field = "neighbors" if isinstance(error, UnknownDecision) else "allowed"
                raise ValidationError(str(error), field) from None
            raise
        if request.request_id is not None:
            self._remember(request, next_id, len(decisions))
        for decision, context in zip(decisions, request.all_contexts, strict=True):
            self.remembered.add(decision.id, context)
        self._forget_evicted()
        return decisions

    def _forget_evicted(self) -> None:
        if len(self.remembered.values) > len(self.agent.decisions) + EVICTED:
            self.remembered.keep(set(self.agent.decisions))

    def _label(self, op: Label) -> None:
        """Learn from labelled rows, each once."""
        new = {label_key(row.context, row.arm): row for row in op.rows}
        new = {key: row for key, row in new.items() if key not in self.remembered.labels}
        if not new:
            return
        contexts, arms = [parse_context(row.context) for row in new.values()], [row.arm for row in new.values()]
        ids = self.agent.warm_start(contexts, arms)
        for id, (key, row) in zip(ids, new.items(), strict=True):
            self.remembered.labels[key] = id
            self.remembered.add(id, row.context)
        self._forget_evicted()

    def _remember(self, request: DecideRequest, first_id: int, count: int) -> None:
        n_arms = len(self.agent.arm_names)
        self.requests[str(request.request_id)] = AnsweredRequest(request.fingerprint, first_id, count, n_arms)
        while len(self.requests) > MAX_REQUESTS:
            del self.requests[next(iter(self.requests))]

    def known_decisions(self, request: DecideRequest) -> list[Decision] | None:
        """The decisions that a request with this id was answered with; None if it is new.

        Raises `RequestIdReused` if that request asked something else, and `ForgottenDecision` if its decisions are not
        held any more.
        """
        known = None if request.request_id is None else self.requests.get(request.request_id)
        if known is None:
            return None
        if known.fingerprint != request.fingerprint:
            raise RequestIdReused(
                f"request_id {request.request_id!r} was used for another request; give each request an id of its own"
            )
        decisions = map(self.agent.decision, range(known.first_id, known.first_id + known.n_decisions))
        return [
            Decision(made.id, made.arm, made.scores[: known.n_arms], made.widths[: known.n_arms], made.propensity)
            for made in decisions
        ]

    def _create(self, op: Create) -> None:
        if op.kind not in SERVED_METHODS:
            raise unknown_name("kind", op.kind, SERVED_METHODS)
        if isinstance(op.arms, list):
            check_distinct_text(op.arms)
        try:
            agent: Any = make(op.kind, arms=op.arms, **op.params)
        except TaciturnError:
            raise
        except (TypeError, AttributeError, ArithmeticError):  # a type that the parameter's own check did not expect
            raise TaciturnError("no agent can be made with these params; check their types") from None
        agent.defer_training()
        compile_kernels([op.kind])  # so that its first decision does not wait for them
        self._agent, self.kind, self.corrections = agent, op.kind, op.corrections
        self.remembered = Remembered(op.remember)
        self.timed = agent.expire_after is not None

    def resolved(self, op: Create) -> Create:
        """The creation of this agent with all of its parameters, defaults included."""
        params = {name: value for name, value in self.agent.params.items() if name != "arms"}
        return msgspec.structs.replace(op, params=params)

    def _import(self, op: Import) -> None:
        agent = _load_untrusted(op.file)
        kind = kind_of(agent)
        if kind is None:
            raise InvalidData("agent.taciturn: holds no agent of a kind that is served")
        if (embed := Features.of(agent.features).embed) not in EMBEDDINGS:
            raise InvalidData(f"agent.taciturn: embed={embed!r:.100} is not served; 'wordllama' is, or none")
        try:
            check_distinct_text(agent.arm_names)
            agent.max_nodes = min(agent.max_nodes or op.max_nodes, op.max_nodes)
            agent.memory_limit = min(agent.memory_limit or op.memory_limit, op.memory_limit)
            if op.max_features is not None:
                agent.limit_features(op.max_features)
            fresh = agent.health().decisions == 0
            self.timed = agent.clock is not None or (fresh and agent.expire_after is not None)
        except Exception as error:
            raise InvalidData(f"agent.taciturn: its parts do not fit together ({type(error).__name__})") from error
        agent.defer_training()
        compile_kernels([kind])
        self._agent, self.kind = agent, kind

    def _add_arm(self, op: AddArm) -> None:
        names = self.agent.arm_names
        if op.arm not in names:
            check_distinct_text([*names, op.arm])
        try:
            self.agent.add_arm(op.arm, op.like)
        except UnknownArm as error:
            raise ValidationError(str(error), "like") from None

    # Queries.

    def pending(self, now: float) -> int:
        """Number of decisions without feedback that will not have expired at the time `now`."""
        return self.agent.decisions.pending(now, self.agent.expire_after if self.timed else None)

    def oldest_pending(self, count: int) -> list[int]:
        """Ids of the oldest decisions without feedback, at most `count`."""
        decisions = self.agent.decisions
        return decisions.ids[decisions.states == STATES.index("pending")][:count].tolist()  # type: ignore[no-any-return]

    def classify_feedback(self, op: Reward) -> str:
        """What a reward would be: "taken" as the first or after silence, "corrected", or the "same" again."""
        state = self.agent.state(op.id)
        if state == "rewarded":
            known = self.agent.decisions[op.id].reward
            if known == op.reward:
                return "same"
            if not self.corrections:
                raise CorrectionForbidden(
                    f"decision {op.id} had the reward {known:g}, and this agent was created without corrections"
                )
            return "corrected"
        return "same" if state == "silent" and op.reward is None else "taken"

    def arm_named(self, text: str) -> Arm:
        """The arm that a part of a path names; a number is text there."""
        names = self.agent.arm_names
        found = next((name for name in names if str(name) == text), None)
        if found is None:
            raise UnknownArm(f"there is no arm {text!r} among the {len(names)} of this agent")
        return found

    def about(self, name: str) -> dict[str, Any]:
        """The agent's description for callers."""
        agent = self.agent
        params = {key: value for key, value in agent.params.items() if key != "arms"}
        about: dict[str, Any] = {"name": name, "kind": self.kind, "arms": agent.arm_names, "active": agent.active_arms}
        about |= {"params": params, "corrections": self.corrections, "features": agent.n_features}
        kinds = {str(name): kind for name, kind in islice(agent.feature_kinds.items(), SHOWN_COLUMNS)}
        return about | {"kinds": kinds, "columns": len(agent.feature_kinds), "scaling": agent.scaling}

    def explain(self, id: int) -> dict[str, Any]:
        """A decision's state and reward, and the explanation of its choice."""
        found = self.agent.explain(id)
        parts = {name: getattr(found, name) for name in Explanation.__slots__}
        for side in ("supporting", "opposing"):
            parts[side] = [neighbor._asdict() for neighbor in parts[side]]
        shown = {name: parts.pop(name) for name in ("id", "arm", "state", "reward")}
        if self.remembered.columns:
            shown["remembered"] = self.remembered.values.get(id, {})
        return shown | {"explanation": parts | {"text": str(found)}}

    def health(self) -> dict[str, Any]:
        """The agent's diagnostics."""
        of_agent = self.agent.health()
        health = asdict(of_agent)
        if found := health["calibration"]:
            truths, brier, bins = found
            health["calibration"] = {"truths": truths, "brier": brier, "bins": _named("imputed", bins)}
        if answers := of_agent.answers:
            health["answers"] = answers._asdict() | {"bins": _named("estimated", answers.bins)}
        if covariance := of_agent.covariance:
            health["covariance"] = covariance._asdict()
        return health

    def export(self, max_bytes: float = math.inf) -> storage.Content:
        """The agent as it is now, as the content of a file that another thread can read; not copied if it is larger."""
        content = storage.Content(self.agent)
        return content.detached() if content.nbytes <= max_bytes else content

    def frozen(self) -> storage.Content:
        """The session as it is now, as the content of a snapshot that another thread can write."""
        return storage.Content(self).detached()

    # Storage.

    def state_dict(self) -> dict[str, Any]:
        """Everything that a snapshot holds: plain values and the agent."""
        return {
            "agent": self._agent,
            "kind": self.kind,
            "corrections": self.corrections,
            "timed": self.timed,
            "requests": {id: tuple(known) for id, known in self.requests.items()},
            "remembered": self.remembered.state_dict(),
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """The session that `state_dict` describes."""
        return cls(**state)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a session; raises `InvalidData` for a damaged file."""
        session = storage.load(path)
        if not isinstance(session, cls):
            raise InvalidData(f"{path.name}: holds no session")
        return session


def _decide(agent: BaseAgent, request: DecideRequest, at: float | None) -> list[Decision]:
    neighbors: Any = request.neighbors
    contexts = [parse_context(context) for context in request.all_contexts]
    if request.single:
        return [agent.decide(contexts[0], neighbors, allowed=request.allowed, at=at)]
    if neighbors is not None and not all(ids is None or isinstance(ids, list) for ids in neighbors):
        raise ValidationError("with contexts, neighbors has a list of ids or null for each", "neighbors")
    return agent.decide_batch(contexts, neighbors, allowed=request.allowed, at=at)


def _load_untrusted(file: bytes) -> Any:
    """Load an agent from an untrusted file; any error becomes a `TaciturnError`."""
    try:
        return storage.loads(file, "agent.taciturn", trusted=False)
    except TaciturnError:
        raise
    except Exception as error:
        raise InvalidData(
            f"agent.taciturn: not written by this version of taciturn ({type(error).__name__})"
        ) from error


def check_distinct_text(names: Any) -> None:
    """Raise if two arms have the same name as text, since paths name arms by text."""
    if len({str(name) for name in names}) < len(names):
        raise ValidationError("two arms have the same name as text", "arms")


def kind_of(agent: Any) -> str | None:
    """Registry name of an agent of a served kind that has the fixed params of that kind; None for any other."""
    path = f"{type(agent).__module__}:{type(agent).__qualname__}"
    for name, method in SERVED_METHODS.items():
        fixed = {key: vars(agent).get(key) for key in method.params}
        if method.target == path and fixed == method.params:
            return name
    return None


def _named(predicted: str, bins: Iterable[tuple[float, float, int]]) -> list[dict[str, float]]:
    """The rows of a calibration: a mean prediction, what was observed, and their number."""
    return [dict(zip((predicted, "observed", "count"), row, strict=True)) for row in bins]
