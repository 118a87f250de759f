"""What a decision, a journal entry, a replay, a snapshot and an idle agent cost; the numbers of docs/scale.md.

python benchmarks/scale.py [--postgres "host=… dbname=…"] [--decisions 3000]      about three minutes

One process, CPU seconds of all its threads; of PostgreSQL's own process only the time that one waits for it is seen.
The database is one that has no tables of taciturn: what is measured stays there.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import numpy as np
from common import SEED, Table, machine, markdown
from threadpoolctl import threadpool_limits

from taciturn.agents.warm import compile_kernels
from taciturn.service.core.jobs import Job
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import Create, Decide, DecideRequest, Reward
from taciturn.service.core.restore import Restorer
from taciturn.service.core.service import Service
from taciturn.service.core.session import Session
from taciturn.service.journal.base import Entry
from taciturn.service.journal.directory import Directory
from taciturn.service.journal.shared import SharedJournal
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sqlite import SQLiteJournal

ARMS, FEATURES = 10, 30
KINDS = "linucb", "viewucb"
GROUP, APPENDS = 64, 100
"""Entries in a group, and how many appends of one entry and of a group are timed."""

IDLE = 200
NAMES = [f"arm-{arm}" for arm in range(ARMS)]


def create(service, name, kind):
    service.call(name, service.limits.bounded_create(Create(name, NAMES, kind, {"seed": SEED})))


def call_all(service, name, operations):
    """Queue operations at the same time, as many clients do, and return their results."""
    jobs = [Job(operation, Future()) for operation in operations]
    for job in jobs:
        service.put(name, job)
    return [job.future.result(60.0) for job in jobs]


def fill(service, name, decisions, at_once):
    """Decide on dense contexts and give two in three a reward; returns CPU seconds of a round trip."""
    contexts = np.random.default_rng(SEED).normal(size=(decisions, FEATURES)).round(3).tolist()
    began = time.process_time()
    for start in range(0, decisions, at_once):
        asked = [Decide(DecideRequest(context=context)) for context in contexts[start : start + at_once]]
        ids = [json.loads(answer)["id"] for answer in call_all(service, name, asked)]
        call_all(service, name, [Reward(id, (1.0, 0.0, None)[id % 3]) for id in ids])
    service.call(name, lambda _: None)  # what was still to be learned
    return (time.process_time() - began) / decisions


def costs(kind, decisions, folder):
    """A row: milliseconds of a round trip and of the replay of an entry, of loading and bytes of a snapshot."""
    with closing(SQLiteJournal(folder / f"{kind}.db", durability="normal")) as journal:
        with closing(Service(journal, snapshot_every=10**9, snapshot_seconds=1e9)) as service:
            create(service, "x", kind)
            fill(service, "x", 100, at_once=1)  # warm
            alone, trip = fill(service, "x", decisions // 4, at_once=1), fill(service, "x", decisions, at_once=GROUP)
        began = time.process_time()
        restored, failed = Restorer(journal, None).restore()
        replay = (time.process_time() - began) / journal.last()
        assert not failed  # noqa: S101 - a benchmark of what does not work says nothing
        snapshots = Snapshots(folder / kind)
        snapshots.put("x", journal.last(), restored["x"].session.frozen().write)
        ((_, path),) = snapshots.newest_first("x")
        began = time.process_time()
        Session.load(path)
        load = time.process_time() - began
        size, entries = path.stat().st_size, journal.last()
    return [
        kind,
        f"{1e3 * alone:.2f}",
        f"{1e3 * trip:.2f}",
        f"{1 / trip:.0f}",
        f"{1 / replay:.0f}",
        f"{1e3 * load:.0f}",
        f"{size / 1e6:.1f}",
        f"{entries:d}",
    ]


def decisions_table(decisions, folder):
    head = ["agent", "CPU ms alone", f"{GROUP} at once", "a core, round trips/s", "replay, entries/s"]
    head += ["snapshot load, ms", "MB", "entries"]
    rows = [costs(kind, decisions, folder) for kind in KINDS]
    text = f"{machine()}; {ARMS} arms, {FEATURES} dense features, {decisions} decisions, each with its reward."
    return Table("A decision with its reward", text, head, rows)


def entries_of(decisions, folder):
    """The entries of decisions and rewards as a service writes them."""
    with closing(SQLiteJournal(folder / "entries.db", durability="normal")) as journal:
        with closing(Service(journal)) as service:
            create(service, "x", "linucb")
            fill(service, "x", decisions, at_once=GROUP)
        return [Entry(record.agent, record.kind, record.body) for record in journal.read()]


def append_costs(journal, entries):
    """Wall and CPU milliseconds of an append of one entry, and of one entry in a group."""
    left, cells = iter(entries), []
    journal.append([next(left)])
    for size in (1, GROUP):
        laps, before = [], time.process_time()
        for _ in range(APPENDS):
            group = [next(left) for _ in range(size)]
            began = time.perf_counter()
            journal.append(group)
            laps.append((time.perf_counter() - began) / size)
        cpu = (time.process_time() - before) / (len(laps) * size)
        cells += [f"{1e3 * statistics.median(laps):.3f}", f"{1e3 * cpu:.3f}"]
    return cells


def journal_table(conninfo, folder):
    written = 1 + APPENDS * (1 + GROUP)
    entries = entries_of(written // 2 + 1, folder)[:written]
    body = statistics.mean(len(entry.body) for entry in entries)
    path = folder / "appended.db"
    with closing(SQLiteJournal(path)) as journal:
        cells = append_costs(journal, entries)
    rows = [["SQLite", f"{path.stat().st_size / written:.0f}", *cells]]  # once its log is merged
    if conninfo:
        with closing(Directory(conninfo)) as directory:
            directory.create(1)
            epoch = directory.take(0, "benchmark", 600.0)
        with closing(SharedJournal(conninfo, shard=0, epoch=epoch)) as journal:
            cells = append_costs(journal, entries)
            rows.append(["PostgreSQL, shared", f"{size_of_postgres(journal) / written:.0f}", *cells])
    head = ["journal", "bytes stored", "alone, ms", "CPU ms", f"of {GROUP}, ms each", "CPU ms each"]
    return Table("An entry", f"Bodies of {body:.0f} bytes on average, half decisions, half rewards.", head, rows)


def size_of_postgres(journal):
    with journal.reading():
        ((size,),) = journal.query("SELECT pg_total_relation_size('taciturn_entries')")
    return size


def idle_table(folder):
    """Memory of agents that have decided once, threads included."""
    rows = []
    for kind in KINDS:
        limits = Limits(agents=2 * IDLE)
        with (
            closing(SQLiteJournal(folder / f"idle-{kind}.db", durability="normal")) as journal,
            closing(Service(journal, limits=limits)) as service,
        ):
            for number in range(2 * IDLE):
                if number == IDLE:
                    before = resident()  # after as many, so that what all share is there
                create(service, f"a{number}", kind)
                service.call(f"a{number}", Decide(DecideRequest(context=[0.5] * FEATURES)))
            rows.append([kind, f"{(resident() - before) / IDLE / 1e3:.0f}"])
    return Table("An idle agent", f"{IDLE} agents more, of one decision each.", ["agent", "resident kB"], rows)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres")
    parser.add_argument("--decisions", type=int, default=3_000)
    given = parser.parse_args()
    compile_kernels(KINDS)
    with threadpool_limits(1), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in (
            lambda: decisions_table(given.decisions, folder),
            lambda: journal_table(given.postgres, folder),
            lambda: idle_table(folder),
        ):
            print(markdown(table()), flush=True)


if __name__ == "__main__":
    main()
