"""Durable decide + reward round trips over HTTP, beside a FastAPI endpoint that does nothing.

python benchmarks/service.py [--seconds 5] [--decisions 500000]      server on one core, client on the other
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np

ARMS, FEATURES, BATCH = 10, 100, 100
REWARDS = b'{"reward":1}', b'{"reward":0}', b'{"reward":null}'  # a third right, a third wrong, a third silent
SERVER = """
import os, sys
os.sched_setaffinity(0, {0})
import uvicorn
from fastapi import FastAPI
from taciturn.service.config import Settings
from taciturn.service.run import run

nothing = FastAPI()

@nothing.post("/decide")
async def decide():
    return {}

@nothing.put("/reward")
async def reward():
    return {}

def announce(port):
    print(port, flush=True)

class Plain(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        announce(self.servers[0].sockets[0].getsockname()[1])

if sys.argv[1] == "nothing":
    Plain(uvicorn.Config(nothing, port=0, log_level="critical", access_log=False)).run()
else:
    run(Settings(data_dir=sys.argv[1], port=0), announce)
"""


class Connection:
    """One HTTP connection that sends a request and waits for its answer, with as few headers as possible."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port):
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def request(self, method, path, body):
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(head.split(b"\r\n")[0])
        at = head.find(b"content-length: ")
        length = int(head[at + 16 : head.index(b"\r", at)]) if at >= 0 else 0
        return await self._reader.readexactly(length)

    def close(self):
        self._writer.close()


def contexts(count):
    rows = np.random.default_rng(0).random((count, FEATURES)).round(4).tolist()
    return [json.dumps(row).encode() for row in rows]


async def single(connection, given, paths, stop, durations):
    decide, reward = paths
    step = 0
    while time.perf_counter() < stop:
        before = time.perf_counter()
        answer = await connection.request("POST", decide, b'{"context":' + given[step % len(given)] + b"}")
        id = json.loads(answer).get("id")
        await connection.request("PUT", reward.format(id=id), REWARDS[step % 3])
        durations.append(time.perf_counter() - before)
        step += 1


async def batches(connection, given, paths, stop, durations):
    decide, reward = paths
    body = b'{"contexts":[' + b",".join(given[:BATCH]) + b"]}"
    while time.perf_counter() < stop:
        before = time.perf_counter()
        answer = json.loads(await connection.request("POST", decide, body))
        rewards = [{"id": one["id"], "reward": (1, 0, None)[i % 3]} for i, one in enumerate(answer["decisions"])]
        await connection.request("PUT", reward, json.dumps(rewards).encode())
        durations.append(time.perf_counter() - before)


async def measure(port, work, paths, concurrency, seconds):
    connections = [await Connection.open(port) for _ in range(concurrency)]
    given, durations = contexts(500), []
    await asyncio.gather(
        *(work(connection, given, paths, time.perf_counter() + 0.5, []) for connection in connections)
    )  # warm
    began = time.perf_counter()
    await asyncio.gather(*(work(connection, given, paths, began + seconds, durations) for connection in connections))
    spent = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return len(durations) / spent, *(1000 * np.percentile(durations, [50, 99]))


class Server:
    """A server in its own process, on the first core."""

    def __init__(self, what):
        command = [sys.executable, "-c", SERVER, what]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self._process.stdout.readline())
        if what != "nothing":
            self._wait_ready()

    def _wait_ready(self):
        while True:
            with suppress(HTTPError), urlopen(f"http://127.0.0.1:{self.port}/readyz"):
                return
            time.sleep(0.1)

    def resident(self):
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()


async def create(port, name, **params):
    connection = await Connection.open(port)
    body = {"name": name, "kind": "linucb", "arms": ARMS, "params": params}
    await connection.request("POST", "/v1/agents", json.dumps(body).encode())
    connection.close()


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--decisions", type=int, default=500_000)
    given = options.parse_args()
    os.sched_setaffinity(0, {1})
    nothing_paths = "/decide", "/reward"
    with Server("nothing") as nothing, tempfile.TemporaryDirectory() as folder, Server(folder) as taciturn:
        asyncio.run(create(taciturn.port, "shop", max_nodes=20_000))
        paths = "/v1/agents/shop/decisions", "/v1/agents/shop/decisions/{id}/reward"
        row("concurrency", "round trips/s", "p50 ms", "p99 ms", "doing nothing/s", "p50 ms", "p99 ms", "share")
        row(*["---"] * 8)
        for concurrency in (1, 16, 64):
            idle = asyncio.run(measure(nothing.port, single, nothing_paths, concurrency, given.seconds))
            busy = asyncio.run(measure(taciturn.port, single, paths, concurrency, given.seconds))
            cells = [f"{rate:.0f} | {p50:.1f} | {p99:.1f}" for rate, p50, p99 in (busy, idle)]
            row(concurrency, *cells, f"{busy[0] / idle[0]:.0%}")
        paths = "/v1/agents/shop/decisions", "/v1/agents/shop/rewards"
        print()
        row("batches of 100, concurrency", "decisions/s", "p50 ms", "p99 ms")
        row(*["---"] * 4)
        for concurrency in (1, 16, 64):
            rate, p50, p99 = asyncio.run(measure(taciturn.port, batches, paths, concurrency, given.seconds))
            row(concurrency, f"{100 * rate:.0f}", f"{p50:.1f}", f"{p99:.1f}")
        asyncio.run(create(taciturn.port, "long", max_nodes=20_000))
        paths = "/v1/agents/long/decisions", "/v1/agents/long/rewards"
        print()
        row("decisions", "resident MB")
        row("---", "---")
        done = 0
        while done < given.decisions:
            rate, *_ = asyncio.run(measure(taciturn.port, batches, paths, 4, 10))
            done += int(1000 * rate)
            row(done, f"{taciturn.resident():.0f}")


if __name__ == "__main__":
    main()
