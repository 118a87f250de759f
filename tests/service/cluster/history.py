"""What clients were told, and what the database has: the checks compare the two.

A `History` is what was acknowledged, `Stored` is what the tables of the service hold. `violations` says in words, one
line each, where they contradict; an empty list is what the service promises.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from taciturn.contracts import Arm
from taciturn.errors import TaciturnError
from taciturn.service.core.operations import Decide, Op, Reward, RewardBatch, operation_of
from taciturn.service.core.session import Session
from taciturn.service.journal.chain import GENESIS, chain


class Decided(NamedTuple):
    """One decision as it was answered."""

    id: int
    arm: Arm
    propensity: float
    request_id: str


@dataclass
class History:
    """What was acknowledged of each agent: its decisions by id, and the last reward of each.

    `created` are the agents that must be there, and `deleted` those that must not.
    """

    created: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    decided: dict[tuple[str, int], Decided] = field(default_factory=dict)
    rewarded: dict[tuple[str, int], float | None] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)

    def create(self, agent: str) -> None:
        """An agent was created."""
        self.created.add(agent)
        self.deleted.discard(agent)

    def delete(self, agent: str, *, certain: bool = True) -> None:
        """An agent was deleted, and with it everything that was known of it; `certain` if it must not come back."""
        self.created.discard(agent)
        if certain:
            self.deleted.add(agent)
        for known in (self.decided, self.rewarded):
            for key in [key for key in known if key[0] == agent]:
                del known[key]

    def decide(self, agent: str, decision: Decided) -> None:
        """A decision was answered; the same one again must be equal."""
        known = self.decided.setdefault((agent, decision.id), decision)
        if known != decision:
            self.contradictions.append(f"{agent}: {decision} was answered, and before {known}")

    def reward(self, agent: str, id: int, reward: float | None) -> None:
        """A reward was acknowledged."""
        self.rewarded[agent, id] = reward

    def merge(self, other: "History") -> None:
        """Add what another client was told."""
        self.created |= other.created
        self.deleted |= other.deleted
        self.contradictions += other.contradictions
        self.rewarded |= other.rewarded
        for (agent, _), decision in other.decided.items():
            self.decide(agent, decision)


class Row(NamedTuple):
    """One row of taciturn_entries, without its agent."""

    position: int
    kind: str
    body: bytes
    version: str
    digest: bytes


class Head(NamedTuple):
    """The end of an agent's chain, as taciturn_agents has it."""

    last: int
    digest: bytes


class Stored(NamedTuple):
    """What the database has: each agent's rows in order, and what is wrong with how they are chained."""

    rows: dict[str, list[Row]]
    faults: list[str]


def stored_of(agents: Iterable[Any], deleted: Iterable[Any], entries: Iterable[Any]) -> Stored:
    """What rows of taciturn_agents, taciturn_deleted and taciturn_entries, those by position, say together.

    Entries of a deleted agent may be there as long as taciturn_deleted says that they are still to be removed, also if
    there is a new agent of the same name.
    """
    created, heads = {}, {}
    for name, created_at, *head in agents:
        created[name], heads[name] = created_at, Head(*head)
    until: dict[str, int] = {}
    for name, last in deleted:
        until[name] = max(last, until.get(name, 0))
    rows: dict[str, list[Row]] = {name: [] for name in heads}
    faults = []
    for name, *columns in entries:
        row = Row(*columns)
        if name in created and row.position > created[name]:
            rows[name].append(row)
        elif row.position > until.get(name, 0):
            faults.append(f"{name}: entry {row.position} belongs to no agent, and is not to be removed")
    for name, head in heads.items():
        faults += chain_faults(name, rows[name], head)
    return Stored(rows, faults)


def violations(history: History, stored: Stored) -> list[str]:
    """Every contradiction between what was acknowledged and what is stored."""
    found = [*history.contradictions, *stored.faults]
    found += [f"{agent}: was created, and is not stored" for agent in sorted(history.created - stored.rows.keys())]
    found += [f"{agent}: was deleted, and is stored" for agent in sorted(history.deleted & stored.rows.keys())]
    for agent, rows in stored.rows.items():
        found += [f"{agent}: {fault}" for fault in _entry_faults(agent, rows, history)]
    return found


def chain_faults(agent: str, rows: list[Row], head: Head) -> Iterator[str]:
    """Yield what is wrong with the chain of digests of an agent, which has a chain of its own."""
    position, digest = 0, GENESIS
    for row in rows:
        if row.position <= position:
            yield f"{agent}: entry {row.position} follows entry {position}"
        if chain(digest, row.position, agent, row.kind, row.body, row.version) != row.digest:
            yield f"{agent}: entry {row.position} is not chained to entry {position}"
        position, digest = row.position, row.digest
    if head != Head(position, digest):
        yield f"{agent}: the chain ends at entry {position}, its head says {head.last}, or has another digest"


def _entry_faults(agent: str, rows: list[Row], history: History) -> Iterator[str]:
    """Yield where the decisions and rewards in an agent's entries are not those that were acknowledged."""
    operations = [operation_of(row.kind, row.body) for row in rows]
    requests = Counter(op.request.request_id for op in operations if isinstance(op, Decide))
    yield from (f"request {id} was decided {count} times" for id, count in requests.items() if id and count > 1)
    stored, rewards = _outcomes(operations)
    for place, decision in enumerate(stored):
        if decision.id != place:
            yield f"ids are not dense: decision {decision.id} is stored where {place} belongs"
            break
    by_id = {decision.id: decision for decision in stored}
    for (name, id), decision in history.decided.items():
        if name == agent and by_id.get(id) != decision:
            yield f"{decision} was answered, {by_id.get(id, 'nothing')} is stored"
    for (name, id), reward in history.rewarded.items():
        if name == agent and rewards.get(id, "nothing") != reward:
            yield f"the reward {reward} of decision {id} was acknowledged, {rewards.get(id, 'nothing')} is stored"


def _outcomes(operations: list[Op]) -> tuple[list[Decided], dict[int, float | None]]:
    """All decisions in the order of the entries, and the last reward of each that has one."""
    decisions: list[Decided] = []
    rewards: dict[int, float | None] = {}
    for op in operations:
        if isinstance(op, Decide):
            request_id = op.request.request_id or ""
            decisions += [Decided(made.id, made.arm, made.propensity, request_id) for made in op.decisions or ()]
        elif isinstance(op, Reward | RewardBatch):
            rewards |= {each.id: each.reward for each in ([op] if isinstance(op, Reward) else op.rewards)}
    return decisions, rewards


def replayed(rows: list[Row]) -> Session:
    """The session that an agent's entries describe; raises `TaciturnError` if one of them cannot be applied."""
    session = Session()
    for row in rows:
        try:
            session.apply(operation_of(row.kind, row.body))
        except TaciturnError as error:
            raise TaciturnError(f"entry {row.position} cannot be applied: {error}") from None
    return session
