"""The operations that change an agent, and their form in the journal: each is an entry under its kind."""

import hashlib
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from taciturn.contracts import Decision
from taciturn.registry import METHODS
from taciturn.service.core.contexts import MAX_EXACT, MAX_NAME, JSONContext
from taciturn.service.core.encoding import encode
from taciturn.service.core.errors import ValidationError
from taciturn.service.journal.base import Entry
from taciturn.validate import AGENT_NAME

Integer = Annotated[int, Meta(ge=-MAX_EXACT, le=MAX_EXACT)]
Id = Annotated[int, Meta(ge=0, le=MAX_EXACT)]
ArmName = Annotated[str, Meta(min_length=1, max_length=200)] | Integer
NAME = AGENT_NAME
AgentName = Annotated[str, Meta(pattern=NAME.pattern)]
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
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
    def fingerprint(self) -> str:
        """A hash of all but the request id: equal for requests that ask the same."""
        content = _encode_sorted(msgspec.structs.replace(self, request_id=None))
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    @property
    def single(self) -> bool:
        """Whether it has one context, which is answered by one decision."""
        return self.context is not UNSET


class Create(Struct, forbid_unknown_fields=True, frozen=True):
    """Create an agent; in the journal `params` are all that it has, not only those that were given.

    `remember` names columns of text that are kept as they were given, and shown with explanations.
    """

    name: AgentName
    arms: list[ArmName] | Annotated[int, Meta(ge=2, le=MAX_EXACT)]
    kind: str = "viewucb"
    params: dict[str, Any] = {}
    corrections: bool = True
    remember: Annotated[list[Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]], Meta(max_length=16)] = []


class Answered(Struct, frozen=True):
    """One decision as it was answered; a score is null where JSON has no number for it."""

    id: Id
    arm: ArmName
    scores: list[float | None]
    widths: list[float | None]
    propensity: float

    def decision(self) -> Decision:
        """The decision that an agent made."""
        scores, widths = (np.array(values, float) for values in (self.scores, self.widths))  # null is NaN
        return Decision(self.id, self.arm, scores, widths, self.propensity)


class Decide(Struct, omit_defaults=True, frozen=True):
    """Decide on contexts.

    `at` is the server's time in seconds. `decisions` are the answers; the journal has them always, a request that is
    still to be decided on has not.
    """

    request: DecideRequest
    at: float | None = None
    decisions: list[Answered] | None = None


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


class LabelledRow(Struct, frozen=True):
    """A context whose right arm is known."""

    context: JSONContext
    arm: ArmName


class Label(Struct, frozen=True):
    """Learn from contexts whose right arm is known; those that were labelled so before change nothing."""

    rows: list[LabelledRow]


class RetireArm(Struct, frozen=True):
    """Never choose an arm again."""

    arm: ArmName


class Import(Struct, frozen=True):
    """Create an agent from a file, with this service's limits on its memory."""

    file: bytes
    max_nodes: int
    memory_limit: float
    max_features: int | None = None  # entries of earlier versions have none


class Delete(Struct, frozen=True):
    """Delete an agent."""


Op = Create | Decide | Reward | RewardBatch | TrainPending | Withdraw | Label | AddArm | RetireArm | Import | Delete

OPERATIONS: dict[str, type[Op]] = {
    "create": Create,
    "decide": Decide,
    "reward": Reward,
    "rewards": RewardBatch,
    "train": TrainPending,
    "withdraw": Withdraw,
    "label": Label,
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
    """A `Decide` whose request and answers are the bytes that were received and sent: they are not encoded again."""

    request: msgspec.Raw
    at: float | None
    decisions: msgspec.Raw


def entry_of(agent: str, op: Op) -> Entry:
    """Encode an operation as a journal entry."""
    return Entry(agent, _KIND_OF[type(op)], encode(op))


def decide_entry(agent: str, op: Decide, decisions: bytes, request: bytes | None = None) -> Entry:
    """The entry of a `Decide` with its answers, as JSON; `request` is the JSON of its request, if it is at hand."""
    raw = msgspec.Raw(encode(op.request) if request is None else request)
    return Entry(agent, "decide", encode(_RawDecide(raw, op.at, msgspec.Raw(decisions))))


def operation_of(kind: str, body: bytes) -> Op:
    """Decode the operation of a journal entry."""
    op: Op = _DECODERS[kind].decode(body)
    if isinstance(op, Create):
        return msgspec.structs.replace(op, params=_settings_of_before(op.kind) | op.params)
    return op


def _settings_of_before(kind: str) -> dict[str, Any]:
    """What an agent of a kind did before there was a parameter for it: entries of today have all parameters."""
    return {"scaling": "none", **(METHODS[kind].before if kind in METHODS else {})}
