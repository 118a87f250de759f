"""How long the decisions of one agent take over HTTP while another agent of the same service works.

python benchmarks/beside.py [--cap 3000] [--steps 3000]      about a minute

A LinUCB agent of 10 arms gets one request after the other, with a millisecond between: alone, beside another LinUCB
agent, and beside the recommended agent, which evicts a context for each one that comes. The other agent gets requests
without a pause, from a process of its own. On two processors, which the service and both clients share, the row of
linucb is what any other agent costs.
"""

import argparse
import http.client
import json
import multiprocessing
import signal
import socket
import tempfile
import time

import numpy as np
from common import SEED, Table, machine, markdown
from restart import BATCH, FEATURES, Server

AGENTS = {"measured": ("linucb", 10), "linucb": ("linucb", 3), "viewucb": ("viewucb", 3)}


class Client:
    """Requests to one agent over one connection."""

    def __init__(self, port, agent):
        self.path = f"/v1/agents/{agent}/decisions"
        self.line = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.line.connect()
        self.line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, method, path, body):
        self.line.request(method, path, json.dumps(body), {"content-type": "application/json"})
        answer = self.line.getresponse()
        content = json.loads(answer.read())
        if answer.status >= 300:
            raise OSError(f"{answer.status}: {content}")
        return content

    def decide(self, context, reward):
        """Decide, reward two of three decisions, and return the milliseconds that the decision took."""
        before = time.perf_counter()
        made = self.ask("POST", self.path, {"context": context})
        passed = time.perf_counter() - before
        if made["id"] % 3:
            self.ask("PUT", f"{self.path}/{made['id']}/reward", {"reward": reward})
        return 1000 * passed


def contexts(count, seed):
    """Points of 20 clusters, as lists."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(20, FEATURES))
    return (centers[rng.integers(20, size=count)] + 0.5 * rng.normal(size=(count, FEATURES))).round(3).tolist()


def keep_busy(port, agent, stop):
    client, rows = Client(port, agent), contexts(4000, SEED + 1)
    step = 0
    while not stop.is_set():
        client.decide(rows[step % len(rows)], step % 2)
        step += 1


def measure(client, rows, steps):
    laps = []
    for step in range(steps):
        laps.append(client.decide(rows[step % len(rows)], step % 2))
        time.sleep(0.001)  # requests come one by one
    return [f"{value:.2f}" for value in (*np.percentile(laps, [50, 99]), max(laps))]


def main():
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cap", type=int, default=3000)
    options.add_argument("--steps", type=int, default=3000)
    given = options.parse_args()
    table = Table("LinUCB over HTTP, beside another agent", machine(), ["beside", "decide p50, ms", "p99", "max"], [])
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        server.seconds_until("/readyz")
        for name, (kind, arms) in AGENTS.items():
            wanted = {"name": name, "kind": kind, "arms": arms, "params": {"max_nodes": given.cap}}
            server.ask("POST", "/v1/agents", wanted)
        rows = contexts(given.cap + 1000, SEED)
        for first in range(0, len(rows), BATCH):
            server.ask("POST", "/v1/agents/viewucb/decisions", {"contexts": rows[first : first + BATCH]})
        client = Client(server.port, "measured")
        measure(client, rows, 500)
        for other in ("nobody", "linucb", "viewucb") * 2:
            stop = multiprocessing.Event()
            busy = multiprocessing.Process(target=keep_busy, args=(server.port, other, stop))
            if other != "nobody":
                busy.start()
            table.rows.append([other, *measure(client, rows, given.steps)])
            stop.set()
            if other != "nobody":
                busy.join()
        server.end(signal.SIGTERM)
    print(markdown(table))


if __name__ == "__main__":
    main()
