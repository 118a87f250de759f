"""How long a service takes from its start to ready, after SIGTERM and after SIGKILL.

python benchmarks/restart.py [--only linucb:200000 viewucb:20000 viewucb:100000]      about ten minutes

Each row fills one agent of 10 arms through HTTP, in batches of 100 decisions on 50 dense features, of which a third get
a reward; kills the server; and starts it again. The time is from the start of the process until `/readyz` answers 200,
and until `/healthz` does. Kernels are compiled before.
"""

import argparse
import http.client
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing

import numpy as np
from common import SEED, Table, machine, markdown

ARMS, FEATURES, BATCH = 10, 50, 100
ROWS = ("linucb:200000", "viewucb:20000", "viewucb:100000")


class Server:
    """A service in a process of its own."""

    def __init__(self, folder):
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        words = ["serve", "--port", str(self.port), "--data-dir", folder, "--log-level", "error"]
        self.started = time.perf_counter()
        self.process = subprocess.Popen([sys.executable, "-m", "taciturn", *words], stdout=subprocess.DEVNULL)

    def seconds_until(self, path):
        """Seconds from the start of the process until a path answers 200."""
        while True:
            try:
                self.ask("GET", path)
            except OSError:
                time.sleep(0.01)
            else:
                return time.perf_counter() - self.started

    def ask(self, method, path, body=None):
        """The content of one answer, which must be good."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)) as line:
            headers = {"content-type": "application/json"}
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            content = answer.read()
            if answer.status >= 300:
                raise OSError(f"{answer.status}: {content.decode()}")
            return content

    def end(self, number):
        """Send a signal, and wait for the end."""
        began = time.perf_counter()
        self.process.send_signal(number)
        self.process.wait()
        return time.perf_counter() - began


def fill(server, kind, decisions):
    """Decide in batches, and give a third of the decisions a reward."""
    rng = np.random.default_rng(SEED)
    centers = rng.normal(size=(ARMS, FEATURES))
    server.ask("POST", "/v1/agents", {"name": "x", "kind": kind, "arms": ARMS})
    for done in range(0, decisions, BATCH):
        right = rng.integers(ARMS, size=BATCH)
        contexts = (centers[right] + rng.normal(size=(BATCH, FEATURES))).round(3)
        made = json.loads(server.ask("POST", "/v1/agents/x/decisions", {"contexts": contexts.tolist()}))["decisions"]
        told = [
            {"id": one["id"], "reward": float(one["arm"] == arm)} for one, arm in zip(made, right.tolist(), strict=True)
        ]
        server.ask("PUT", "/v1/agents/x/rewards", told[::3])
        if done % 10_000 == 0:
            print(f"{kind}: {done} of {decisions}", file=sys.stderr, flush=True)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=ROWS)
    table = Table("Restart", machine(), ["agent", "decisions", "after", "stopped in, s", "/healthz, s", "ready, s"], [])
    for row in parser.parse_args().only:
        kind, decisions = row.split(":")
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder)
            server.seconds_until("/readyz")
            fill(server, kind, int(decisions))
            for number in (signal.SIGTERM, signal.SIGKILL):
                if number == signal.SIGKILL:  # some more since the last snapshot
                    for _ in range(20):
                        contexts = np.random.default_rng(SEED).normal(size=(BATCH, FEATURES)).tolist()
                        server.ask("POST", "/v1/agents/x/decisions", {"contexts": contexts})
                stopped = server.end(number)
                server = Server(folder)
                alive, ready = server.seconds_until("/healthz"), server.seconds_until("/readyz")
                table.rows.append([kind, decisions, number.name, f"{stopped:.1f}", f"{alive:.1f}", f"{ready:.1f}"])
            server.end(signal.SIGTERM)
    print(markdown(table))


if __name__ == "__main__":
    main()
