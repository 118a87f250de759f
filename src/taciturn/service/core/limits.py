"""How much a service accepts. What exceeds a limit is refused before anything is done."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from taciturn.agents.base import BaseAgent
from taciturn.agents.validation import MAX_NEIGHBORS
from taciturn.errors import InvalidContext
from taciturn.features.schema import MAX_NAMED
from taciturn.service.core.contexts import (
    MAX_EXACT,
    MAX_NAME,
    JSONContext,
    check_words,
    count_values,
    is_named,
    parse_context,
    positions,
)
from taciturn.service.core.errors import LimitExceeded, ValidationError
from taciturn.service.core.operations import NAME, AddArm, Create, DecideRequest, Import
from taciturn.service.core.session import EMBEDDINGS
from taciturn.system import format_bytes, machine_memory

MOST_OF_MACHINE = 0.75
"""The share of the machine's memory that all agents together may take."""

Checked = TypeVar("Checked")

Count = Annotated[int, Meta(ge=1, le=10**12)]
Bytes = Annotated[float, Meta(ge=1, le=1e15)]
Seconds = Annotated[float, Meta(ge=0.01, le=1e9)]
"""What the limits may be: at least what lets one request pass, and at most what nobody means to exceed."""

UNCAPPED = frozenset({"seed", "max_nodes", "memory_limit", "expire_after", "features"})
"""Params that the limit `setting` does not apply to."""

MAX_COLUMNS = 1_000
"""How many columns can be named in the param `features`."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a service.

    Arguments:
        body, file: bytes of a request, and of an agent's file.
        dimension: features of an agent's contexts, and values of one context; the names of later categories and words
            share columns (`max_features`).
        batch: contexts or rewards in one request.
        edges: neighbors given in one request, for all of its contexts together.
        arms, agents: arms of an agent, and agents of the service.
        pending: decisions of an agent without feedback; beyond it the oldest become silent.
        expire_after: the default of an agent's `expire_after`: seconds until a decision without feedback is silent.
        waiting: decisions queued for an agent, and as many other requests.
        nodes, memory: upper bounds and defaults of an agent's `max_nodes` and `memory_limit` (bytes). With as many
            contexts as the default, a decision of the recommended agent takes about 6 ms of CPU at most in 99 of 100
            (`benchmarks/eviction.py`).
        total_memory: bytes of all agents together; never more than three quarters of the machine's memory.
        setting: the largest integer among an agent's other params, which are sizes and repetitions.
        seconds: how long a request may take in all.
        connections: open connections; the oldest that wait for a request, or for the rest of one, make room.
        headers, header_seconds: bytes of a request's headers, and how long they may take to arrive.
        in_flight: bytes of memory for all large requests that are read or processed at a time, as far as they are
            known by their size: decoded JSON takes up to 32 times its own.
    """

    body: Count = 8_000_000
    file: Count = 64_000_000
    dimension: Count = 100_000
    batch: Count = 1_000
    edges: Count = 10_000
    arms: Count = 1_000
    agents: Count = 100
    pending: Count = 50_000
    expire_after: Seconds = 86_400.0
    waiting: Count = 10_000
    nodes: Count = 20_000
    memory: Bytes = 2e9
    total_memory: Bytes = 8e9
    setting: Count = 10_000
    seconds: Seconds = 30.0
    connections: Count = 1_000
    headers: Count = 65_536
    header_seconds: Seconds = 10.0
    in_flight: Count = 512_000_000

    def check_request(self, request: DecideRequest) -> None:
        """Check what can be checked of a request to decide without its agent."""
        contexts = request.all_contexts
        if len(contexts) > self.batch:
            raise ValidationError(f"{len(contexts)} contexts in one request; {self.batch} are allowed", "contexts")
        if max(_of_each(request, count_values)) > self.dimension:
            raise ValidationError(f"a context has more than {self.dimension} features", _field(request))
        self._check_neighbors(request)

    def _check_neighbors(self, request: DecideRequest) -> None:
        """Check how many neighbors a request gives, for one context and for all together."""
        given: list[Any] = request.neighbors or []
        counts = [len(given)] if request.single else [len(ids) for ids in given if isinstance(ids, list)]
        if max(counts, default=0) > MAX_NEIGHBORS:
            message = f"{max(counts)} neighbors of a context; {MAX_NEIGHBORS} are allowed"
            raise ValidationError(message, "neighbors")
        if sum(counts) > self.edges:
            message = f"{sum(counts)} neighbors in one request; {self.edges} are allowed for all contexts together"
            raise ValidationError(message, "neighbors")

    def max_pending(self, agent: BaseAgent) -> int:
        """How many decisions of an agent can wait for their feedback, so that none of them is evicted."""
        return min(self.pending, (agent.max_nodes or self.nodes) // 2)

    def check_capacity(self, agent: BaseAgent, request: DecideRequest) -> None:
        """Check that an agent can take these contexts and their named features."""
        contexts = request.all_contexts
        if len(contexts) > (allowed := self.max_pending(agent)):
            message = f"{len(contexts)} contexts in one request; {allowed} can wait for their feedback at once"
            raise ValidationError(message, "contexts")
        named = [context for context in contexts if is_named(context)]
        if not named:
            return
        _of_each(request, partial(check_words, kinds=agent.feature_kinds))
        known = agent.feature_names or {}
        total = len(known) + len({name for context in named for name in _numbers(context) if name not in known})
        if total > self.dimension:
            message = f"the agent would have {total} features; {self.dimension} are allowed"
            raise ValidationError(message, _field(request))

    def check_total(self, agent: BaseAgent, request: DecideRequest, in_use: float) -> None:
        """Check that all agents together, which hold so many bytes, stay within the limit if this one decides."""
        if in_use + (agent.memory_limit or math.inf) <= self.allowed_memory:
            return  # whatever these contexts open, the agent keeps its own limit
        features = _features_with(agent, request)
        if features > agent.n_features:
            if (alone := agent.memory_estimate(features)) > self.allowed_memory:
                message = f"with {features} features the agent takes about {format_bytes(alone)}"
                raise ValidationError(f"{message}; {format_bytes(self.allowed_memory)} are allowed", _field(request))
            self.check_memory(in_use + alone - agent.memory_in_use())
        elif in_use > self.allowed_memory:
            full = agent.max_nodes is not None and len(agent.decisions) >= agent.max_nodes  # one comes, one goes
            self.check_memory(0.0 if full else in_use)

    @cached_property
    def allowed_memory(self) -> float:
        """Bytes that all agents together may hold."""
        return min(self.total_memory, MOST_OF_MACHINE * machine_memory())

    def check_memory(self, needed: float) -> None:
        """Check that all agents together may hold so many bytes."""
        if needed > (allowed := self.allowed_memory):
            total, limit = format_bytes(needed), format_bytes(allowed)
            raise LimitExceeded(f"all agents together would take about {total}; total_memory allows {limit}")

    def bounded_create(self, op: Create) -> Create:
        """Check the creation of an agent, and write the limits into its params: a replay does not depend on them."""
        if not NAME.fullmatch(op.name):  # msgspec's pattern lets a trailing newline pass
            raise ValidationError(f"{op.name!r} cannot be the name of an agent", "name")
        if (op.arms if isinstance(op.arms, int) else len(op.arms)) > self.arms:
            raise ValidationError(f"too many arms; {self.arms} are allowed", "arms")
        if "arms" in op.params:
            raise ValidationError("arms are not given among the params", "params.arms")
        if not isinstance(op.params.get("imputer", ""), str):
            raise ValidationError("an imputer is given by its name", "params.imputer")
        for name, value in op.params.items():
            self._check_setting(f"params.{name}", value, MAX_EXACT if name in UNCAPPED else self.setting)
        caps = {"max_nodes": self.nodes, "memory_limit": self.memory}
        params = {"expire_after": self.expire_after} | op.params | {"features": self._bounded_features(op)}
        return msgspec.structs.replace(op, params=params | {key: _capped(op, key, cap) for key, cap in caps.items()})

    def _check_setting(self, field: str, value: Any, cap: int) -> None:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for part in parts:
            self._check_setting(field, part, cap)
        if isinstance(value, int) and abs(value) > cap:
            raise ValidationError(f"{value} is too large a number; {cap} is allowed", field)

    def _bounded_features(self, op: Create) -> Any:
        """The param `features` with this service's limit on their number; what is not an object is left as it is."""
        given = op.params.get("features")
        features = {} if given is None else given
        if not isinstance(features, dict):
            return given
        if (embed := features.get("embed")) not in EMBEDDINGS:
            message = f'embed={embed!r:.100} is not allowed over HTTP; "wordllama" is, or null'
            raise ValidationError(message, "params.features.embed")
        for side, names in features.items():
            if isinstance(names, list) and (
                len(names) > MAX_COLUMNS or any(len(str(name)) > MAX_NAME for name in names)
            ):
                message = f"at most {MAX_COLUMNS} columns can be named, with {MAX_NAME} characters each"
                raise ValidationError(message, f"params.features.{side}")
        most = features.get("max_features", MAX_NAMED)
        whole = isinstance(most, int) and not isinstance(most, bool)
        return features | {"max_features": min(most, self.dimension) if whole else most}

    def check_arm(self, agent: BaseAgent, op: AddArm) -> None:
        """Check that an agent can have one more arm."""
        if op.arm not in agent.arm_names and len(agent.arm_names) >= self.arms:
            raise LimitExceeded(f"there are {len(agent.arm_names)} arms; {self.arms} are allowed")

    def bounded_import(self, file: bytes) -> Import:
        """The import of an agent's file, with the limits on its memory."""
        return Import(file, self.nodes, self.memory, self.dimension)


def _numbers(context: JSONContext) -> list[str]:
    """The names of a context's numbers, which share no columns."""
    return [] if isinstance(context, str) else [n for n, value in context.items() if isinstance(value, int | float)]  # type: ignore[union-attr]


def _features_with(agent: BaseAgent, request: DecideRequest) -> int:
    """How many features the agent would have with these contexts."""
    contexts, known = request.all_contexts, agent.feature_names or {}
    if all(isinstance(context, dict) and _are_known_numbers(context, known) for context in contexts):
        return agent.n_features
    if not any(map(is_named, contexts)):
        return max(map(positions, contexts))
    return (
        agent.features_with(contexts[0])
        if request.single
        else agent.features_with_all(list(map(parse_context, contexts)))
    )


def _are_known_numbers(context: dict[str, Any], known: Mapping[Any, int]) -> bool:
    return all(type(value) is float and name in known for name, value in context.items())


def _of_each(request: DecideRequest, check: Callable[[JSONContext], Checked]) -> list[Checked]:
    """What a check returns for each context; its error says which of several contexts is wrong."""
    if request.single:
        return [check(request.all_contexts[0])]
    found = []
    for row, context in enumerate(request.all_contexts):
        try:
            found.append(check(context))
        except InvalidContext as error:
            raise InvalidContext(f"row {row}: {error}", feature=error.feature, row=row) from None
    return found


def _field(request: DecideRequest) -> str:
    return "context" if request.single else "contexts"


def _capped(op: Create, name: str, cap: float) -> Any:
    value = op.params.get(name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return cap if value is None or (number and value > cap) else value
