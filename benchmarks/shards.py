"""Durable decide + reward round trips on 1, 2 and 4 shards beside one process, and a thousand agents on 4 shards.

python benchmarks/shards.py --postgres "host=… dbname=…" [--seconds 10] [--agents 1000] [--only throughput|agents]

The database is emptied of what taciturn keeps there. Clients and PostgreSQL run on the same machine, so on few cores
the rates say what a round trip costs, not what more machines would bring; the CPU seconds say how it is divided.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import psycopg

from service import REWARDS, Connection

CLIENTS, AGENTS, FEATURES = 64, 16, 10
TABLES = ("records", "records_of_one", "meta", "keys", "entries", "agents", "shards", "deleted")
TICK = os.sysconf("SC_CLK_TCK")


def empty(conninfo):
    with closing(psycopg.connect(conninfo, autocommit=True)) as db:
        for table in TABLES:
            db.execute(f"DROP TABLE IF EXISTS taciturn_{table}")
        db.execute("DROP SEQUENCE IF EXISTS taciturn_positions")


@contextmanager
def serving(folder, *flags):
    """A service in processes of its own; its port, and its first process."""
    command = [sys.executable, "-m", "taciturn", "serve", "--port", "0", "--data-dir", folder, "--log-level", "error"]
    process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = next(line for line in process.stdout if "http://" in line)
        yield int(line.split("/")[2].split(":")[1]), process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def processes(root):
    """A process and all that it has started, by number: their titles."""
    parents, titles = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                titles[int(folder.name)] = (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: titles[pid] for pid in found if pid in titles}


def kind(title):
    if "Shard" in title:
        return "shards"
    return "fronts" if "Front" in title else "Ray and the rest"


def cpu(root):
    """CPU seconds so far of a service's processes, by kind."""
    found = {"shards": 0.0, "fronts": 0.0, "Ray and the rest": 0.0}
    for pid, title in processes(root).items():
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[kind(title)] += (int(fields[11]) + int(fields[12])) / TICK
    return found


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def create(port, names):
    connection = await Connection.open(port)
    for name in names:
        body = {"name": name, "kind": "linucb", "arms": 5}
        await connection.request("POST", "/v1/agents", json.dumps(body).encode())
    connection.close()


async def round_trips(port, clients, agents, seconds):
    """Durations of decide + reward of several clients, each with some of the agents in turn."""
    rows = np.random.default_rng(0).random((200, FEATURES)).round(4).tolist()
    bodies = [json.dumps({"context": row}).encode() for row in rows]
    durations, stop = [], time.perf_counter() + seconds

    async def client(number):
        connection = await Connection.open(port)
        step = number
        while time.perf_counter() < stop:
            agent = f"/v1/agents/agent-{step % agents}/decisions"
            before = time.perf_counter()
            answer = json.loads(await connection.request("POST", agent, bodies[step % len(bodies)]))
            await connection.request("PUT", f"{agent}/{answer['id']}/reward", REWARDS[step % 3])
            durations.append(time.perf_counter() - before)
            step += clients
        connection.close()

    await asyncio.gather(*map(client, range(clients)))
    return np.array(durations)


def throughput(conninfo, seconds):
    services = {
        "one process, SQLite": (),
        "one process, PostgreSQL": ("--postgres", conninfo),
        **{f"{n} shards": ("--workers", str(n), "--postgres", conninfo) for n in (1, 2, 4)},
    }
    print("| service | round trips a second | p50, p99 ms, 64 clients | p50, p99 ms, 1 client | CPU ms a round trip |")
    print("|---|---|---|---|---|")
    for name, flags in services.items():
        empty(conninfo)
        with tempfile.TemporaryDirectory() as folder, serving(folder, *flags) as (port, pid):
            asyncio.run(create(port, [f"agent-{i}" for i in range(AGENTS)]))
            asyncio.run(round_trips(port, CLIENTS, AGENTS, 2))  # warm
            before = cpu(pid)
            many = asyncio.run(round_trips(port, CLIENTS, AGENTS, seconds))
            spent = {kind: 1000 * (total - before[kind]) / len(many) for kind, total in cpu(pid).items()}
            one = asyncio.run(round_trips(port, 1, 1, min(seconds, 5)))
            p50, p99 = 1000 * np.percentile(many, [50, 99])
            rate, (alone50, alone99) = len(many) / seconds, 1000 * np.percentile(one, [50, 99])
            parts = ", ".join(f"{part} {ms:.2f}" for part, ms in spent.items() if ms >= 0.005)
            print(
                f"| {name} | {rate:.0f} | {p50:.1f}, {p99:.1f} | {alone50:.1f}, {alone99:.1f} | {parts} |",
                flush=True,
            )


def thousand(conninfo, agents):
    empty(conninfo)
    flags = ("--workers", "4", "--postgres", conninfo, "--limit", f"agents={agents}")
    with tempfile.TemporaryDirectory() as folder:
        with serving(folder, *flags) as (port, pid):
            shards = [one for one, title in processes(pid).items() if kind(title) == "shards"]
            before = sum(map(resident, shards))
            began = time.perf_counter()
            asyncio.run(create(port, [f"agent-{i}" for i in range(agents)]))
            made = time.perf_counter() - began
            asyncio.run(round_trips(port, CLIENTS, agents, 30))
            after = sum(map(resident, shards))
            with closing(psycopg.connect(conninfo)) as db:
                rows = db.execute(
                    "SELECT shard, count(*) FROM taciturn_agents GROUP BY shard ORDER BY shard"
                ).fetchall()
                entries = db.execute(
                    "SELECT shard, count(*) FROM taciturn_entries JOIN taciturn_agents ON name = agent "
                    "GROUP BY shard ORDER BY shard"
                ).fetchall()
            print(f"{agents} agents made in {made:.1f} s; memory of 4 shards {before:.0f} → {after:.0f} MB")
            print(f"agents by shard {dict(rows)}; entries by shard {dict(entries)}", flush=True)
        began = time.perf_counter()
        with serving(folder, *flags) as (port, _):
            print(f"started again, and all {agents} agents served, after {time.perf_counter() - began:.1f} s")
            with suppress(URLError), urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
                print(answer.read().decode())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--only", choices=["throughput", "agents"])
    given = parser.parse_args()
    if given.only != "agents":
        throughput(given.postgres, given.seconds)
    if given.only != "throughput":
        thousand(given.postgres, given.agents)


if __name__ == "__main__":
    main()
