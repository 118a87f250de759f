"""The checker of faults complains about every kind of loss, and about nothing else."""

import numpy as np
import psutil
import pytest

import taciturn
from service.cluster.agreement import CHANGING, FIXED, disagreements, file_faults
from service.cluster.clients import Timing
from service.cluster.faults import FAULTS, Begun, reported, schedule
from service.cluster.history import Decided, Head, History, Row, Stored, chain_faults, replayed, stored_of, violations
from service.cluster.outages import longest_waits
from service.cluster.served import TITLES, oldest_first
from taciturn.errors import TaciturnError
from taciturn.service.core.encoding import encode
from taciturn.service.core.operations import (
    Create,
    Decide,
    DecideRequest,
    Reward,
    RewardBatch,
    decide_entry,
    entry_of,
)
from taciturn.service.core.session import Session
from taciturn.service.journal.chain import GENESIS, chain


def chained(entries, step=3):
    """The rows of one agent's entries, at positions with gaps."""
    rows, digest = [], GENESIS
    for number, (agent, kind, body) in enumerate(entries):
        position = 1 + step * number
        digest = chain(digest, position, agent, kind, body, "1")
        rows.append(Row(position, kind, body, "1", digest))
    return rows


def told_and_stored(requests=20):
    """The entries of an agent with decisions, batches and rewards, and a history that was told of them."""
    rng, history, session = np.random.default_rng(0), History(), Session()
    create = Create("desk", 3, "linucb", {"seed": 0})
    session.apply(create)
    history.create("desk")
    entries = [entry_of("desk", session.resolved(create))]
    for number in range(requests):
        contexts = rng.random((1 + number % 2, 3)).tolist()
        op = Decide(DecideRequest(contexts=contexts, request_id=f"r{number}"), float(number))
        decisions = session.apply(op)
        entries.append(decide_entry("desk", op, encode(decisions)))
        for made in decisions:
            history.decide("desk", Decided(made.id, made.arm, made.propensity, f"r{number}"))
        rewards = [Reward(made.id, (0, 1, 0.5, None)[made.id % 4]) for made in decisions[: number % 3]]
        for reward in rewards:
            session.apply(reward)
            history.reward("desk", reward.id, reward.reward)
        if rewards:
            entries.append(entry_of("desk", rewards[0] if len(rewards) == 1 else RewardBatch(rewards)))
    return history, entries


def complaints(history, entries):
    return violations(history, Stored({"desk": chained(entries)}, []))


def place_of(entries, kind, after=0):
    return next(place for place, entry in enumerate(entries) if entry.kind == kind and place >= after)


def test_a_right_history_has_no_violations():
    history, entries = told_and_stored()
    rows = chained(entries)
    assert complaints(history, entries) == []
    assert list(chain_faults("desk", rows, Head(rows[-1].position, rows[-1].digest))) == []
    assert replayed(rows).differing == 0


def test_more_than_was_acknowledged_may_be_stored():
    history, entries = told_and_stored()
    last = max(id for _, id in history.decided)
    del history.decided["desk", last]
    history.rewarded.pop(("desk", last), None)
    assert complaints(history, entries) == []


def test_a_lost_last_decision_is_found():
    history, entries = told_and_stored()
    history.rewarded.clear()
    last = max(place for place, entry in enumerate(entries) if entry.kind == "decide")
    lost = [entry for place, entry in enumerate(entries) if place != last]
    found = complaints(history, lost)
    assert found
    assert all("was answered, nothing is stored" in line for line in found)


def test_a_hole_is_found_though_nobody_was_told_of_the_decision():
    _, entries = told_and_stored()
    del entries[place_of(entries, "decide", after=5)]
    (found,) = complaints(History(), entries)
    assert "ids are not dense" in found


def test_a_request_that_was_decided_twice_is_found():
    history, entries = told_and_stored()
    place = place_of(entries, "decide")
    found = complaints(history, [*entries, entries[place]])
    assert any("request r0 was decided 2 times" in line for line in found)
    assert any("ids are not dense" in line for line in found)


@pytest.mark.parametrize("field", ["arm", "propensity", "request_id"])
def test_a_decision_that_is_not_as_answered_is_found(field):
    history, entries = told_and_stored()
    decided = history.decided["desk", 4]
    other = {"arm": (decided.arm + 1) % 3, "propensity": 0.123, "request_id": "another"}[field]
    history.decided["desk", 4] = decided._replace(**{field: other})
    (found,) = complaints(history, entries)
    assert "is stored" in found


def test_a_decision_that_is_answered_in_two_ways_is_found():
    history, entries = told_and_stored()
    other = History()
    decided = history.decided["desk", 4]
    other.decide("desk", decided._replace(arm=(decided.arm + 1) % 3))
    other.merge(history)
    assert len(other.contradictions) == 1
    assert set(other.contradictions) <= set(complaints(other, entries))


@pytest.mark.parametrize("kind", ["reward", "rewards"])
def test_a_lost_reward_is_found(kind):
    history, entries = told_and_stored()
    del entries[place_of(entries, kind)]
    found = complaints(history, entries)
    assert found
    assert all("was acknowledged, nothing is stored" in line for line in found)


def test_a_reward_that_another_one_has_replaced_is_found():
    history, entries = told_and_stored()
    (_, id), reward = next(item for item in history.rewarded.items() if item[1] is None)
    found = complaints(history, [*entries, entry_of("desk", Reward(id, 1))])
    assert found == [f"desk: the reward {reward} of decision {id} was acknowledged, 1.0 is stored"]


def test_agents_that_are_missing_or_should_be_are_found():
    history, entries = told_and_stored()
    history.create("other")
    assert complaints(history, entries) == ["other: was created, and is not stored"]
    history.delete("other")
    history.delete("desk")
    assert complaints(history, entries) == ["desk: was deleted, and is stored"]
    history.create("desk")
    assert complaints(history, entries) == [], "of an agent that was created again nothing is known from before"


def test_a_chain_with_a_changed_a_missing_or_an_added_row_is_found():
    _, entries = told_and_stored()
    rows = chained(entries)
    head = Head(rows[-1].position, rows[-1].digest)
    changed = rows[5]._replace(body=rows[6].body)
    assert len(list(chain_faults("desk", [*rows[:5], changed, *rows[6:]], head))) == 1
    assert len(list(chain_faults("desk", [*rows[:5], *rows[6:]], head))) == 1
    assert "its head says" in " ".join(chain_faults("desk", rows[:-1], head))
    assert "its head says" in " ".join(chain_faults("desk", rows, head._replace(digest=GENESIS)))
    assert "follows entry" in " ".join(chain_faults("desk", [*rows, rows[3]], head))
    assert list(chain_faults("other", rows, head))


def test_entries_of_a_deleted_agent_are_there_only_as_long_as_they_are_to_be_removed():
    _, entries = told_and_stored()
    rows = chained(entries)
    last = rows[-1]
    table = [("desk", *row) for row in rows]
    assert stored_of([("desk", 0, last.position, last.digest)], [], table) == Stored({"desk": rows}, [])
    assert stored_of([], [("desk", last.position)], table) == Stored({}, [])
    assert len(stored_of([], [], table).faults) == len(rows)
    (fault,) = stored_of([], [("desk", last.position - 1)], table).faults
    assert fault == f"desk: entry {last.position} belongs to no agent, and is not to be removed"


def test_a_new_agent_of_a_deleted_ones_name_has_only_its_own_entries():
    _, entries = told_and_stored()
    old = chained(entries)
    position = old[-1].position + 1
    digest = chain(GENESIS, position, *entries[0], "1")
    new = Row(position, *entries[0][1:], "1", digest)
    table = [("desk", *row) for row in [*old, new]]
    agents = [("desk", position - 1, position, digest)]
    assert stored_of(agents, [("desk", position - 1)], table) == Stored({"desk": [new]}, [])
    assert len(stored_of(agents, [], table).faults) == len(old)


def test_faults_of_the_tables_themselves_are_violations():
    history, entries = told_and_stored()
    assert violations(history, Stored({"desk": chained(entries)}, ["a broken chain"])) == ["a broken chain"]


# --- the service beside a replay ---


class Said:
    """A service that has the agents of sessions."""

    def __init__(self, sessions):
        self._sessions = sessions

    def agents(self):
        return list(self._sessions)

    def agent(self, name):
        return self._sessions[name].agent


def test_a_service_that_says_what_a_replay_says_agrees(tmp_path):
    _, entries = told_and_stored()
    rows = chained(entries)
    assert disagreements(Said({"desk": replayed(rows)}), Stored({"desk": rows}, []), tmp_path) == []


@pytest.mark.parametrize("without", [1, 4])
def test_a_service_that_is_behind_disagrees(tmp_path, without):
    _, entries = told_and_stored()
    rows = chained(entries)
    found = disagreements(Said({"desk": replayed(rows[:-without])}), Stored({"desk": rows}, []), tmp_path)
    assert found
    assert all(line.startswith("desk: ") for line in found)


def test_a_service_with_other_agents_disagrees(tmp_path):
    _, entries = told_and_stored()
    rows = chained(entries)
    both = Said({"desk": replayed(rows), "zombie": replayed(rows)})
    (found,) = disagreements(both, Stored({"desk": rows}, []), tmp_path)
    assert found.startswith("the service has the agents ['desk', 'zombie']")


def test_an_entry_that_cannot_be_applied_is_named(tmp_path):
    _, entries = told_and_stored()
    rows = chained([*entries, entry_of("desk", Reward(10_000, 1))])
    with pytest.raises(TaciturnError, match=f"entry {rows[-1].position} cannot be applied"):
        replayed(rows)
    (found,) = disagreements(Said({"desk": None}), Stored({"desk": rows}, []), tmp_path)
    assert "cannot be applied" in found


def test_a_file_of_an_earlier_moment_agrees_in_what_does_not_change(tmp_path):
    _, entries = told_and_stored()
    rows = chained(entries)
    path, agent = tmp_path / "half-way.taciturn", replayed(rows).agent
    replayed(rows[: place_of(entries, "rewards")]).agent.save(path)
    assert list(file_faults(path, agent, FIXED)) == []
    assert list(file_faults(path, agent, CHANGING)), "a reward came later"
    other = taciturn.make("linucb", arms=3, seed=7)
    assert list(file_faults(path, other, FIXED)) == [
        f"{path.name} has {taciturn.load(path).next_id} decisions, the agent 0"
    ]


# --- the schedule, and which fault made a request wait ---


def test_a_schedule_is_that_of_its_seed_and_has_every_kind():
    assert schedule(30, 1) == schedule(30, 1) != schedule(30, 2)
    assert {fault.kind for fault in schedule(len(FAULTS), 3)} == FAULTS.keys()
    assert len(schedule(30, 1)) == 30


def test_a_request_belongs_to_the_fault_that_it_first_waited_for():
    begun = [Begun("kill", 10.0), Begun("cut", 20.0), Begun("pause", 30.0)]
    timings = [
        Timing(1.0, 2.0, 0),  # before all faults
        Timing(9.75, 13.0, 1),  # interrupted by the first
        Timing(11.0, 12.0, 0),  # after it
        Timing(15.0, 21.0, 2),  # had waited long when the second came
        Timing(19.75, 19.875, 0),  # answered just before it
        Timing(21.0, 33.0, 3),  # still waits when the third comes
        Timing(35.0, 36.0, 0),
    ]
    assert longest_waits(begun, timings) == {"kill": 6.0, "cut": 12.0, "pause": 1.0}


def test_what_is_raised_is_reported_and_the_next_check_goes_on():
    found = ["another"]
    with reported(found):
        raise TaciturnError("no shard answers")
    assert found[0] == "another"
    assert "TaciturnError: no shard answers" in found[1]


class RayProcess:
    """A process of a shard, as psutil shows it, that ends before the call of this name if one is given."""

    def __init__(self, pid, created, ends_before=None):
        self.pid, self._created, self._ends_before = pid, created, ends_before

    def cmdline(self):
        return self._shown("cmdline", ["ray::ShardActor.calls"])

    def create_time(self):
        return self._shown("create_time", self._created)

    def _shown(self, name, value):
        if name == self._ends_before:
            raise psutil.NoSuchProcess(self.pid)
        return value


def test_processes_that_end_while_they_are_looked_at_are_not_there():
    old, young = RayProcess(9, 1.0), RayProcess(3, 2.0)
    ended = [RayProcess(5, 0.5, call) for call in ("cmdline", "create_time")]
    assert oldest_first([young, *ended, old], TITLES["shard"]) == [old, young]
    assert oldest_first([young], TITLES["front"]) == []
