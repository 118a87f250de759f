"""The operations that change an agent, and their form in the journal: each is an entry under its kind."""

import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from taciturn.service.core.contexts import MAX_EXACT, JSONContext
from taciturn.service.core.encoding import encode
from taciturn.service.core.errors import ValidationError
from taciturn.service.journal.base import Entry

Integer = Annotated[int, Meta(ge=-MAX_EXACT, le=MAX_EXACT)]
Id = Annotated[int, Meta(ge=0, le=MAX_EXACT)]
ArmName = Annotated[str, Meta(min_length=1, max_length=200)] | Integer
NAME = re.compile("^[a-z0-9][a-z0-9_-]{0,63}$")
AgentName = Annotated[str, Meta(pattern=NAME.pattern)]
RewardValue = Annotated[float, Meta(ge=0, le=1)] | None


class DecideRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """A request to decide on one context or on several."""

    context: JSONContext | UnsetType = UNSET
    contexts: Annotated[list[JSONContext], Meta(min_length=1)] | UnsetType = UNSET
    neighbors: list[Id | list[Id] | None] | None = None
    allowed: list[ArmName] | None = None
    request_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None

    @property
    def all_contexts(self) -> list[JSONContext]:
        """The contexts, also if it is only one."""
        if (self.context is UNSET) == (self.contexts is UNSET):
            raise ValidationError("give either a context or contexts", "context")
        return [self.context] if not isinstance(self.context, UnsetType) else self.contexts  # type: ignore[return-value]

    @property
    def single(self) -> bool:
        """Whether it has one context, which is answered by one decision."""
        return self.context is not UNSET


class Create(Struct, forbid_unknown_fields=True, frozen=True):
    """Create an agent."""

    name: AgentName
    arms: list[ArmName] | Annotated[int, Meta(ge=2, le=MAX_EXACT)]
    kind: str = "viewucb"
    params: dict[str, Any] = {}
    corrections: bool = True


class Decide(Struct, omit_defaults=True, frozen=True):
    """Decide on contexts; `at` is the server's time in seconds, for agents with `expire_after`."""

    request: DecideRequest
    at: float | None = None


class Reward(Struct, forbid_unknown_fields=True, frozen=True):
    """Give a decision its reward from 0 to 1; null means that none will come."""

    id: Id
    reward: RewardValue


class RewardBatch(Struct, frozen=True):
    """Give several decisions their rewards. In the journal only those that changed something."""

    rewards: list[Reward]


class TrainPending(Struct, frozen=True):
    """Run steps of training that decisions had deferred."""

    steps: int


class Withdraw(Struct, frozen=True):
    """Remove a decision that was never shown, and what was learned from it."""

    id: int


class AddArm(Struct, forbid_unknown_fields=True, frozen=True):
    """Add an arm, or bring a retired one back; a new one starts with what is known of `like`."""

    arm: ArmName
    like: ArmName | None = None


class RetireArm(Struct, frozen=True):
    """Never choose an arm again."""

    arm: ArmName


class Import(Struct, frozen=True):
    """Create an agent from a file, with this service's limits on its memory."""

    file: bytes
    max_nodes: int
    memory_limit: float


class Delete(Struct, frozen=True):
    """Delete an agent."""


Op = Create | Decide | Reward | RewardBatch | TrainPending | Withdraw | AddArm | RetireArm | Import | Delete

OPERATIONS: dict[str, type[Op]] = {
    "create": Create,
    "decide": Decide,
    "reward": Reward,
    "rewards": RewardBatch,
    "train": TrainPending,
    "withdraw": Withdraw,
    "add_arm": AddArm,
    "retire_arm": RetireArm,
    "import": Import,
    "delete": Delete,
}
"""The operations by their kind in the journal."""

_KIND_OF = {operation: kind for kind, operation in OPERATIONS.items()}
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(operation) for kind, operation in OPERATIONS.items()
}


class _RawDecide(Struct, omit_defaults=True):
    """A `Decide` whose request is still the bytes that were received, which need not be encoded again."""

    request: msgspec.Raw
    at: float | None = None


def entry_of(agent: str, op: Op, raw: bytes | None = None) -> Entry:
    """Encode an operation as a journal entry; `raw` is the JSON of a `Decide`'s request, if it is at hand."""
    if raw is not None and isinstance(op, Decide):
        return Entry(agent, "decide", encode(_RawDecide(msgspec.Raw(raw), op.at)))
    return Entry(agent, _KIND_OF[type(op)], encode(op))


def operation_of(kind: str, body: bytes) -> Op:
    """Decode the operation of a journal entry."""
    op: Op = _DECODERS[kind].decode(body)
    return op
