"""Jepsen in small: clients of the service on Ray while its processes, its network and its database fail.

`PYTHONPATH=tests python -m service.cluster.faults --faults 100 --seed 1` draws so many faults, then compares what was
acknowledged with what is stored, with a replay and with what the service says; it exits with 1 if they contradict. The
faults and all that clients choose come from the seed; when they meet depends on the machine.
"""

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.console import Console

from postgres_kit import server_programs
from service.cluster.agreement import FIXED, disagreements, file_faults
from service.cluster.clients import PATIENCE, LoadClient, Progress, Timing
from service.cluster.history import History, replayed, violations
from service.cluster.outages import table
from service.cluster.served import LEASE_SECONDS, Served
from service_kit import until
from taciturn.bars import counting_bar
from taciturn.client import Client

AGENTS = [f"agent-{number}" for number in range(4)]
CLIENTS = 6
REPLACED_WITHIN = 300
"""Seconds within which a process must have been replaced; on a busy machine Python alone takes a minute to start."""
LONGEST_WAIT = 5.0
"""Seconds after which the next fault comes, also if the last one still keeps clients waiting."""


class Fault(NamedTuple):
    """What happens, for how long where it ends by itself, and a number from 0 to 1 that chooses where."""

    kind: str
    seconds: float
    choice: float


class Begun(NamedTuple):
    """A fault's kind, and when it began, by the monotonic clock."""

    kind: str
    at: float


class Outcome(NamedTuple):
    """What a run showed: the faults, all requests of all clients, and what contradicts the promises."""

    begun: list[Begun]
    timings: list[Timing]
    violations: list[str]


# The faults. Each returns what ends it, or None.


def kill(part):
    def begin(served, fault):
        _signal(_chosen(served, part, fault), signal.SIGKILL)

    return begin


def pause(part):
    def begin(served, fault):
        process = _chosen(served, part, fault)
        _signal(process, signal.SIGSTOP)
        return lambda: _signal(process, signal.SIGCONT)

    return begin


def abandon(served, fault):
    """Stop a shard and kill the supervisor: the next one does not know the process, and so does not kill it.

    It goes on when another process has taken its place, as one does whose machine was cut off.
    """
    process, epochs = _chosen(served, "shard", fault), served.epochs()
    _signal(process, signal.SIGSTOP)
    _signal(_chosen(served, "supervisor", fault), signal.SIGKILL)

    def end():
        try:
            until(lambda: served.epochs() != epochs, REPLACED_WITHIN)
        finally:
            _signal(process, signal.SIGCONT)

    return end


def cut(served, _):
    served.proxy.cut()


def refuse(served, _):
    served.proxy.refuse()
    return served.proxy.accept


def hold(*, late):
    def begin(served, _):
        served.proxy.hold()
        return lambda: served.proxy.release(late=late)

    return begin


def restart_postgres(served, _):
    served.database.crash()


def scale(served, fault):
    served.scale(1 + int(fault.choice * 4))


FAULTS = {
    "kill a shard": kill("shard"),
    "kill a front": kill("front"),
    "kill the supervisor": kill("supervisor"),
    "pause a shard": pause("shard"),
    "pause a front": pause("front"),
    "abandon a shard": abandon,
    "cut connections": cut,
    "refuse connections": refuse,
    "swallow all sent": hold(late=False),
    "deliver late": hold(late=True),
    "restart PostgreSQL": restart_postgres,
    "change shards": scale,
}


def schedule(count, seed):
    """So many faults; every kind comes once before one comes again."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    kinds = []
    while len(kinds) < count:
        kinds += rng.sample(list(FAULTS), len(FAULTS))
    return [Fault(kind, LEASE_SECONDS * rng.uniform(0.1, 3), rng.random()) for kind in kinds[:count]]


def _chosen(served, part, fault):
    """A process of a part of the service; one that was killed before may not have been replaced yet."""
    found = until(lambda: served.processes(part), REPLACED_WITHIN)
    return found[int(fault.choice * len(found))]


def _signal(process, number):
    with suppress(psutil.NoSuchProcess):  # it may have ended meanwhile
        process.send_signal(number)


def inject(served, faults, progress, advance):
    """Yield each fault when it has begun; the next one comes when all clients have had answers, or after a while.

    All of them are over when this is closed.
    """
    with ExitStack() as endings:
        for fault in faults:
            begun = Begun(fault.kind, time.monotonic())
            end = FAULTS[fault.kind](served, fault)
            if end is not None:
                timer = threading.Timer(fault.seconds, end)
                endings.callback(timer.join)
                timer.start()
            yield begun
            progress.wait(LONGEST_WAIT)
            advance()


def run(served, folder, *, count, seed, advance=lambda: None):
    """Let clients work while so many faults happen, and check everything.

    What cannot be carried out or checked is a violation too, and does not hide the others.
    """
    half_way = folder / "half-way.taciturn"
    begun, found = [], []
    with Client(served.url, patience=PATIENCE) as client:
        for number, name in enumerate(AGENTS):
            client.create(name, arms=3, kind="linucb", seed=number)
        progress = Progress(CLIENTS)
        with (
            working(served.url, seed, progress) as clients,
            reported(found),
            closing(inject(served, schedule(count, seed), progress, advance)) as faults,
        ):
            for fault in faults:
                begun.append(fault)
                if any(each.errors for each in clients):
                    break  # what went wrong is best seen near its fault
                if len(begun) == count // 2 + 1:
                    client.agent(AGENTS[0]).save(half_way)
        if found or any(each.errors for each in clients):
            found.append(f"the last faults were {', '.join(fault.kind for fault in begun[-5:])}")
        found += [error for each in clients for error in each.errors]
        with reported(found):
            stored = served.stored()
            found += violations(merged(each.history for each in clients), stored)
            found += disagreements(client, stored, folder)
            if half_way.exists():
                found += file_faults(half_way, replayed(stored.rows[AGENTS[0]]).agent, FIXED)
    return Outcome(begun, [timing for each in clients for timing in each.timings], found)


@contextmanager
def reported(found):
    """Add what is raised in the block to what was found."""
    try:
        yield
    except Exception:  # noqa: BLE001 - whatever it is, the other findings say more
        found.append(traceback.format_exc())


@contextmanager
def working(url, seed, progress):
    """Clients that work until the end of the block, and have then had all their answers."""
    clients = [LoadClient(url, number, agents=AGENTS, seed=seed, progress=progress) for number in range(CLIENTS)]
    for each in clients:
        each.start()
    try:
        yield clients
    finally:
        for each in clients:
            each.stop()
        for each in clients:
            each.join()


def merged(histories):
    """What all clients together were told."""
    history = History(created=set(AGENTS))
    for each in histories:
        history.merge(each)
    return history


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    programs = server_programs()
    if programs is None:
        sys.exit("no PostgreSQL server on this machine; on Debian: apt-get install postgresql")
    with (
        tempfile.TemporaryDirectory(prefix="taciturn-faults-") as folder,
        closing(Served(programs, Path(folder))) as served,
        counting_bar("faults", given.faults) as advance,
    ):
        outcome = run(served, Path(folder), count=given.faults, seed=given.seed, advance=advance)
        if outcome.violations:
            outcome.violations.append(f"the service wrote:\n{served.log()}")
    console = Console()
    console.print(table(outcome), *outcome.violations, sep="\n", markup=False, soft_wrap=True)
    sys.exit(1 if outcome.violations else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
