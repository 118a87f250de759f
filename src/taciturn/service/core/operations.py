"""What is said over HTTP and written to the journal: the shapes, and how contexts in JSON become contexts of agents."""

import re
from typing import Annotated, Any

import msgspec
import numpy as np
import scipy.sparse as sp
from msgspec import UNSET, Meta, Struct, UnsetType

from taciturn.contracts import Arm, Decision
from taciturn.errors import InvalidContext, TaciturnError
from taciturn.service.journal.base import Entry

EXACT = 2**53
"""Whole numbers up to here are the same in every reader of JSON."""

Whole = Annotated[int, Meta(ge=-EXACT, le=EXACT)]
Id = Annotated[int, Meta(ge=0, le=EXACT)]
ArmName = Annotated[str, Meta(min_length=1, max_length=200)] | Whole
NAME = re.compile("^[a-z0-9][a-z0-9_-]{0,63}$")
AgentName = Annotated[str, Meta(pattern=NAME.pattern)]
Value = Annotated[float, Meta(ge=0, le=1)] | None
Given = list[float] | dict[str, float | list[float]]
"""A context as it is given: [values], {"feature": value} or {"indices": […], "values": […], "size": n}."""


class Ask(Struct, forbid_unknown_fields=True, frozen=True):
    """One context to decide on, or several."""

    context: Given | UnsetType = UNSET
    contexts: Annotated[list[Given], Meta(min_length=1)] | UnsetType = UNSET
    neighbors: list[Id | list[Id] | None] | None = None
    allowed: list[ArmName] | None = None
    request_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None

    @property
    def given(self) -> list[Given]:
        """All contexts."""
        if (self.context is UNSET) == (self.contexts is UNSET):
            raise Misfit("give either a context or contexts", "context")
        return [self.context] if not isinstance(self.context, UnsetType) else self.contexts  # type: ignore[return-value]

    @property
    def alone(self) -> bool:
        """Whether it is one context, answered by one decision."""
        return self.context is not UNSET


class Heard(Struct, forbid_unknown_fields=True, frozen=True):
    """What came of a decision: a reward from 0 to 1, or null if none will ever come."""

    reward: Value


class Misfit(TaciturnError):
    """Something in a request that does not fit; `field` says where."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


# What can change an agent. The journal holds these, each under its kind.


class Create(Struct, forbid_unknown_fields=True, frozen=True):
    """A new agent."""

    name: AgentName
    arms: list[ArmName] | Annotated[int, Meta(ge=2, le=EXACT)]
    kind: str = "viewucb"
    params: dict[str, Any] = {}
    corrections: bool = True


class Decide(Struct, omit_defaults=True, frozen=True):
    """Decisions to make; `at` is the server's time in seconds, for agents that count in it."""

    ask: Ask
    at: float | None = None


class Reward(Struct, forbid_unknown_fields=True, frozen=True):
    """What came of a decision."""

    id: Id
    reward: Value


class Told(Struct, frozen=True):
    """What came of several decisions, each of which is news."""

    rewards: list[Reward]


class Study(Struct, frozen=True):
    """Pieces of learning that decisions had put off."""

    pieces: int


class Withdraw(Struct, frozen=True):
    """A decision that was never shown."""

    id: int


class AddArm(Struct, forbid_unknown_fields=True, frozen=True):
    """A new arm, or one that comes back; `like` is the arm whose knowledge it begins with."""

    arm: ArmName
    like: ArmName | None = None


class RetireArm(Struct, frozen=True):
    """An arm that shall not be chosen again."""

    arm: ArmName


class Import(Struct, frozen=True):
    """An agent from a file, with the bounds that hold for it here."""

    file: bytes
    max_nodes: int
    memory_limit: float


class Delete(Struct, frozen=True):
    """The end of an agent."""


Op = Create | Decide | Reward | Told | Study | Withdraw | AddArm | RetireArm | Import | Delete

KINDS: dict[str, type[Op]] = {
    "create": Create,
    "decide": Decide,
    "reward": Reward,
    "rewards": Told,
    "study": Study,
    "withdraw": Withdraw,
    "add_arm": AddArm,
    "retire_arm": RetireArm,
    "import": Import,
    "delete": Delete,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_READERS: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}


class _Raw(Struct, omit_defaults=True):
    """A `Decide` whose question is still the bytes that came: they need not be written anew."""

    ask: msgspec.Raw
    at: float | None = None


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as lists and numbers; what else a file may hold by its type."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else f"<{type(value).__name__}>"


_encoder = msgspec.json.Encoder(enc_hook=_plain)
encode = _encoder.encode


def entry_of(agent: str, op: Op, raw: bytes | None = None) -> Entry:
    """What the journal keeps of an operation; `raw` is the JSON that a `Decide` was read from, if it is at hand."""
    if raw is not None and isinstance(op, Decide):
        return Entry(agent, "decide", encode(_Raw(msgspec.Raw(raw), op.at)))
    return Entry(agent, _NAMES[type(op)], encode(op))


def op_of(kind: str, body: bytes) -> Op:
    """The operation that an entry of the journal holds."""
    op: Op = _READERS[kind].decode(body)
    return op


def answer_of(decisions: list[Decision], *, alone: bool) -> bytes:
    """Decisions as JSON."""
    return encode(decisions[0]) if alone else encode({"decisions": decisions})


def context_of(given: Given) -> Any:
    """A context as agents take it."""
    if isinstance(given, list):
        return given
    if is_sparse(given):
        return _sparse(given)
    if any(isinstance(value, list) for value in given.values()):
        raise InvalidContext("a context of named features has one number for each; a sparse one has indices and values")
    return given


def is_sparse(given: dict[str, Any]) -> bool:
    """Whether a context is {"indices": […], "values": […], "size": n}: no named feature has a list for a value."""
    return isinstance(given.get("indices"), list)


def _sparse(given: dict[str, Any]) -> sp.csr_matrix:
    if given.keys() != {"indices", "values", "size"}:
        raise InvalidContext(f"a sparse context has indices, values and size, not {', '.join(given)}")
    indices, values, size = given["indices"], given["values"], given["size"]
    if not isinstance(values, list) or len(values) != len(indices):
        raise InvalidContext("a sparse context needs as many values as indices")
    if isinstance(size, list) or not 0 < size <= np.iinfo(np.int32).max or size != int(size):
        raise InvalidContext(f"size {size} of a sparse context is not allowed; a whole number from 1 is")
    columns = np.array(indices)
    if len(columns) and not ((columns >= 0) & (columns < size) & (columns == np.floor(columns))).all():
        raise InvalidContext(f"indices of a sparse context are whole numbers from 0 to {int(size) - 1}")
    parts = (np.array(values, float), columns.astype(np.int32), [0, len(columns)])
    return sp.csr_matrix(parts, shape=(1, int(size)))


def width_of(given: Given) -> int:
    """How many features a context has, as far as it says."""
    if isinstance(given, list):
        return len(given)
    size = given.get("size")
    sparse = is_sparse(given) and isinstance(size, float)
    return int(min(size, EXACT)) if sparse else len(given)  # type: ignore[type-var, arg-type]


def arm_called(text: str, names: tuple[Arm, ...]) -> Arm:
    """The arm that a part of a path stands for: numbers are text there."""
    return next((name for name in names if str(name) == text), text)
