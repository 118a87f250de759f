"""The supervisor of shards, with processes that are invented and a directory that is real."""

from contextlib import closing

import pytest

from taciturn.service.cluster.supervisor import START_SECONDS, Supervisor
from taciturn.service.journal.directory import Directory


class Processes:
    """Processes of shards that are only names; `states` says what each does when it is asked."""

    def __init__(self, directory):
        self.directory = directory
        self.alive, self.log = {}, []

    def launch(self, shard):
        place = f"{shard}-{len(self.log)}"
        self.log.append(("launch", shard))
        self.alive[place] = "answers"
        return place

    def states(self, places):
        return {place: self.alive.get(place, "dead") for place in places}

    def stop(self, place):
        self.log.append(("stop", int(place.partition("-")[0])))
        self.alive.pop(place, None)

    def kill(self, place):
        self.log.append(("kill", int(place.partition("-")[0])))
        self.alive.pop(place, None)

    def done(self):
        """What was done since this was last asked."""
        found, self.log[:] = list(self.log), []
        return found


@pytest.fixture
def directory(server):
    with closing(Directory(server.address)) as directory:
        directory.create(2)
        yield directory


@pytest.fixture
def processes(directory):
    return Processes(directory)


def take(directory, processes):
    """All processes that are alive take the leases of their shards, where those are free."""
    live = {row.shard for row in directory.shards() if row.live}
    for place in processes.alive:
        if (shard := int(place.partition("-")[0])) not in live:
            directory.take(shard, place, 60)


def end_lease(server, shard):
    server.tamper("UPDATE taciturn_shards SET lease = clock_timestamp() WHERE shard = ?", shard)


def test_as_many_shards_are_started_as_are_wanted_and_no_more(directory, processes):
    supervisor = Supervisor(directory, processes)
    supervisor.tick()
    assert processes.done() == [("launch", 0), ("launch", 1)]
    supervisor.tick()  # they have not taken their leases yet
    take(directory, processes)
    supervisor.tick()
    assert processes.done() == []
    directory.create(3)
    supervisor.tick()
    assert processes.done() == [("launch", 2)]


def test_a_dead_process_is_replaced_and_a_silent_one_once_its_lease_has_run_out(server, directory, processes):
    supervisor = Supervisor(directory, processes)
    supervisor.tick()
    take(directory, processes)
    processes.done()
    one = next(place for place in processes.alive if place.startswith("1-"))
    processes.alive[one] = "silent"
    supervisor.tick()
    assert processes.done() == [], "it may only be slow"
    end_lease(server, 1)
    supervisor.tick()
    assert processes.done() == [("kill", 1), ("launch", 1)]
    zero = next(place for place in processes.alive if place.startswith("0-"))
    del processes.alive[zero]
    supervisor.tick()
    assert processes.done() == [("kill", 0), ("launch", 0)]


def test_a_process_that_answers_is_kept_while_the_database_is_away(server, directory, processes):
    supervisor = Supervisor(directory, processes)
    supervisor.tick()
    take(directory, processes)
    end_lease(server, 0)
    end_lease(server, 1)
    processes.done()
    supervisor.tick()
    assert processes.done() == []


def test_a_process_that_never_takes_its_lease_is_replaced(directory, processes):
    now = 0.0
    supervisor = Supervisor(directory, processes, lambda: now)
    supervisor.tick()
    for place in processes.alive:
        processes.alive[place] = "silent"
    now = START_SECONDS / 2
    supervisor.tick()
    assert processes.done() == [("launch", 0), ("launch", 1)]
    now = START_SECONDS + 1
    supervisor.tick()
    assert processes.done() == [("kill", 0), ("launch", 0), ("kill", 1), ("launch", 1)]


def test_another_supervisor_goes_on_with_what_there_is(directory, processes):
    Supervisor(directory, processes).tick()
    take(directory, processes)
    processes.done()
    other = Supervisor(directory, processes)
    other.tick()
    assert processes.done() == []
    processes.alive.clear()
    other.tick()
    assert processes.done() == [("kill", 0), ("launch", 0), ("kill", 1), ("launch", 1)]


def test_a_shard_too_many_is_stopped_once_it_has_no_agents(server, directory, processes):
    supervisor = Supervisor(directory, processes)
    supervisor.tick()
    take(directory, processes)
    server.tamper("INSERT INTO taciturn_agents VALUES ('a', 1, 0, 0, '')")
    directory.create(1)
    processes.done()
    supervisor.tick()
    assert processes.done() == []
    processes.alive.clear()  # it dies before it has handed over its agent
    supervisor.tick()
    assert ("launch", 1) in processes.done()
    server.tamper("UPDATE taciturn_agents SET shard = 0")
    supervisor.tick()
    assert processes.done() == [("stop", 1)]
    end_lease(server, 1)
    supervisor.tick()
    assert [row.shard for row in directory.shards()] == [0]
    supervisor.stop()
    assert processes.done() == [("stop", 0)]


def test_of_two_processes_that_were_started_for_a_shard_the_one_with_the_lease_is_kept(directory, processes):
    """A supervisor that was killed between a start and the lease was followed by one that started another."""
    first = Supervisor(directory, processes)
    first.tick()
    directory.take(0, "0-0", 60)
    second = Supervisor(directory, processes)
    second.tick()  # of shard 1 there is no lease yet
    assert processes.done() == [("launch", 0), ("launch", 1), ("launch", 1)]
    directory.take(1, "1-1", 60)
    second.tick()
    assert processes.done() == [("kill", 1)]
    second.tick()
    assert processes.done() == []
    assert "1-1" in processes.alive
