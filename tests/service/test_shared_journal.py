"""The journal that shards share: a chain for each agent, one process for each shard."""

import random
import threading
from contextlib import closing

import pytest

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import DamagedJournal, Entry, Fenced, JournalInUse, JournalUnavailable
from taciturn.service.journal.directory import Directory
from taciturn.service.journal.postgres import PostgresJournal
from taciturn.service.journal.shared import SharedJournal


def end_lease(server, shard):
    server.tamper("UPDATE taciturn_shards SET lease = clock_timestamp() WHERE shard = ?", shard)


@pytest.fixture
def directory(server):
    with closing(Directory(server.address)) as directory:
        directory.create(3)
        yield directory


@pytest.fixture
def opened(server, directory):
    """Opens the journal of a shard, after the lease of the process before."""
    journals = []

    def opened(shard):
        if shard in {row.shard for row in directory.shards()}:
            end_lease(server, shard)
        epoch = directory.take(shard, f"place-{len(journals)}", 60)
        journals.append(SharedJournal(server.address, shard=shard, epoch=epoch))
        return journals[-1]

    yield opened
    for journal in journals:
        journal.close()


def create(agent):
    return Entry(agent, "create", b"{}")


def decide(agent, body=b""):
    return Entry(agent, "decide", body)


def history(journal, agent):
    """Kinds and bodies of an agent's entries."""
    created = journal.agents({agent}).get(agent)
    return [] if created is None else [(r.kind, r.body) for r in journal.read_agent(agent, created)]


def test_random_operations_of_shards_leave_what_a_dictionary_of_lists_would(server, directory, opened):
    rng = random.Random(7)  # noqa: S311 - not for secrets
    journals = {shard: opened(shard) for shard in range(3)}
    agents: dict[str, tuple[int, list]] = {}  # where each agent is, and its entries
    positions: dict[str, int] = {}
    for number in range(250):
        shard = rng.randrange(3)
        choice = rng.random()
        mine = [name for name, (where, _) in agents.items() if where == shard]
        if choice < 0.1:
            journals[shard] = opened(shard)
        elif choice < 0.2 and mine:
            name, to = rng.choice(mine), rng.randrange(3)
            journals[shard].hand_over(name, to)
            agents[name] = to, agents[name][1]
        else:
            entries = []
            for _ in range(rng.randrange(1, 6)):
                if not mine or rng.random() < 0.1:
                    name = f"agent-{number}-{len(entries)}"
                    entries.append(create(name))
                    agents[name] = shard, []
                    mine.append(name)
                else:
                    name = rng.choice(mine)
                    deletes = rng.random() < 0.05 and all(entry.agent != name for entry in entries)
                    entries.append(Entry(name, "delete", b"") if deletes else decide(name, rng.randbytes(5)))
                    if deletes:
                        mine.remove(name)
                agents[name][1].append(entries[-1][1:])
            last = journals[shard].append(entries)
            for i, entry in enumerate(entries):
                position = last - len(entries) + 1 + i
                assert position > positions.get(entry.agent, 0)
                positions[entry.agent] = position
            for name in [entry.agent for entry in entries if entry.kind == "delete"]:
                del agents[name]
    assert directory.names() == sorted(agents)
    for name, (where, entries) in agents.items():
        assert directory.owner(name) == where
        assert history(journals[where], name) == entries
    for journal in journals.values():
        for name, until in journal.deleted():
            journal.remove_entries(name, until)
    assert server.tamper("SELECT count(*) FROM taciturn_entries") == [(sum(len(e) for _, e in agents.values()),)]
    assert server.tamper("SELECT count(*) FROM taciturn_deleted") == [(0,)]
    counts = directory.counts()
    assert counts == {s: n for s in range(3) if (n := sum(where == s for where, _ in agents.values()))}


def test_a_process_whose_shard_was_taken_over_writes_nothing_and_never_again(directory, opened):
    old = opened(0)
    old.append([create("a")])
    new = opened(0)
    with pytest.raises(JournalUnavailable):
        old.append([decide("a")])  # its connection was ended
    for call in (lambda: old.append([decide("a")]), old.probe, lambda: old.hand_over("a", 1)):
        with pytest.raises(Fenced, match="another process is shard 0 now"):
            call()
    assert not old.responsive
    assert [row[:3] for row in directory.shards()] == [(0, 2, "place-1")]
    new.append([decide("a", b"x")])
    assert history(new, "a") == [("create", b"{}"), ("decide", b"x")]


def test_an_append_that_began_before_a_take_over_is_seen_by_the_new_process_or_fails(server, directory, opened):
    """A process that is stopped inside its transaction would lock its shard: its connection is ended."""
    old = opened(0)
    old.append([create("a")])
    end_lease(server, 0)
    taken = []
    with pytest.raises(JournalUnavailable), old.transaction():
        old.query("SELECT 1 FROM taciturn_shards WHERE shard = 0 FOR SHARE")
        taken.append(directory.take(0, "new", 60))
    assert taken == [2]
    with pytest.raises(Fenced):
        old.append([decide("a")])


def test_a_shard_is_taken_when_its_lease_has_run_out_and_not_before(directory):
    assert directory.take(1, "first", 60) == 1
    with pytest.raises(JournalInUse, match="another process is shard 1"):
        directory.take(1, "second", 60)
    directory.renew(1, 1, 0.0)
    assert directory.take(1, "second", 60) == 2
    with pytest.raises(Fenced):
        directory.renew(1, 1, 60)
    assert [tuple(row) for row in directory.shards()] == [(1, 2, "second", True)]


def test_entries_of_an_agent_of_another_shard_are_refused_with_all_that_come_with_them(opened):
    zero, one = opened(0), opened(1)
    zero.append([create("a"), create("b")])
    zero.hand_over("a", 1)
    with pytest.raises(JournalUnavailable, match="'a' is not an agent of shard 0"):
        zero.append([decide("b"), decide("a")])
    one.append([decide("a", b"1")])
    zero.append([decide("b", b"2")])
    assert history(zero, "b") == [("create", b"{}"), ("decide", b"2")]
    assert history(one, "a") == [("create", b"{}"), ("decide", b"1")]


def test_two_shards_cannot_create_one_agent(opened):
    zero, one = opened(0), opened(1)
    zero.append([create("a")])
    with pytest.raises(JournalUnavailable, match="another shard has created 'a'"):
        one.append([create("b"), create("a")])
    assert one.agents() == {}


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE taciturn_entries SET body = 'x' WHERE body = '1'", "was changed"),
        ("UPDATE taciturn_entries SET kind = 'reward' WHERE body = '1'", "was changed"),
        ("UPDATE taciturn_entries SET version = 'x' WHERE body = '1'", "was changed"),
        ("UPDATE taciturn_entries SET position = position + 7 WHERE body = '3'", "is missing"),
        ("UPDATE taciturn_agents SET digest = 'x' WHERE name = 'a'", "is missing"),
        ("DELETE FROM taciturn_entries WHERE body = '1'", "or one before it is missing"),
        ("DELETE FROM taciturn_entries WHERE body = '3'", "is missing"),
        ("DELETE FROM taciturn_entries WHERE agent = 'a'", "is missing"),
    ],
)
def test_damage_to_an_agent_is_found_and_no_other_agent_suffers(server, opened, damage, fault):
    journal = opened(0)
    journal.append([create("b"), decide("b", b"9")])
    journal.append([create("a"), *(decide("a", str(i).encode()) for i in range(1, 4))])
    server.tamper(damage)
    with pytest.raises(DamagedJournal, match=fault):
        history(journal, "a")
    assert history(journal, "b") == [("create", b"{}"), ("decide", b"9")]


def test_a_journal_of_one_process_becomes_one_of_shards_and_not_back(server):
    with closing(PostgresJournal(server.address)) as one:
        one.append([create("a"), create("b"), decide("a", b"1"), decide("b", b"2"), Entry("b", "delete", b"")])
        one.append([create("b"), decide("a", b"3")])
        one.compact()
        with closing(Directory(server.address)) as directory, pytest.raises(JournalInUse):
            directory.create(2)
    with closing(Directory(server.address)) as directory:
        directory.create(2)
        directory.create(4)
        assert (directory.wanted(), directory.names()) == (4, ["a", "b"])
        with closing(SharedJournal(server.address, shard=0, epoch=directory.take(0, "here", 60))) as journal:
            assert history(journal, "a") == [("create", b"{}"), ("decide", b"1"), ("decide", b"3")]
            assert history(journal, "b") == [("create", b"{}")]
            journal.append([decide("b", b"4")])
            assert history(journal, "b") == [("create", b"{}"), ("decide", b"4")]
    with pytest.raises(TaciturnError, match="shards keep their agents here"):
        PostgresJournal(server.address)
    assert server.tamper("SELECT count(*) FROM taciturn_records_of_one") != [(0,)]


def test_tables_are_created_once_by_any_number_at_a_time(server):
    errors = []

    def make():
        try:
            with closing(Directory(server.address)) as directory:
                directory.create(2)
        except JournalInUse as error:
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(Directory(server.address)) as directory:
        assert directory.wanted() == 2


@pytest.mark.parametrize("made", [False, True])
def test_a_database_without_shards_says_how_to_start_them(server, made):
    if made:
        server.open().close()
    with (
        closing(Directory(server.address)) as directory,
        pytest.raises(TaciturnError, match="taciturn serve --engine ray"),
    ):
        directory.wanted()


def test_epochs_do_not_come_again_after_a_shard_was_retired(server):
    """A process that was stopped while its shard was retired and begun anew held the lease beside the new one."""
    with closing(Directory(server.address)) as directory:
        directory.create(3)
        stopped = directory.take(2, "stopped", 0.0)
        directory.take(2, "its successor", 0.0)
        directory.retire(2)
        assert directory.take(2, "after scaling up", 60) != stopped
        with pytest.raises(Fenced):
            directory.renew(2, stopped, 60)


def test_entries_of_a_later_agent_of_the_same_name_stay(server, opened):
    journal = opened(0)
    journal.append([create("a"), decide("a", b"1")])
    journal.append([Entry("a", "delete", b"")])
    journal.append([create("a"), decide("a", b"2")])
    ((name, until),) = journal.deleted()
    server.tamper("UPDATE taciturn_deleted SET until = until * 2")  # as if its positions had been taken before
    journal.remove_entries(name, 2 * until)
    assert history(journal, "a") == [("create", b"{}"), ("decide", b"2")]
    assert server.tamper("SELECT count(*) FROM taciturn_entries") == [(2,)]
    assert journal.deleted() == []
