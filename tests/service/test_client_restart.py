"""The client with a real server that is killed in the middle of each of its calls, and started again."""

import socket
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import taciturn
from service_kit import FakeTime
from taciturn.client import Client

# Everything is imported and loaded once; each server is a fork of this process, on the same port. A server that is told
# a moment kills itself at the next request that changes something: before it is carried out, or when it is about to be
# answered.
SERVER = """
import os, signal, sys
from pathlib import Path
import uvicorn
from taciturn.agents.warm import compile_kernels
from taciturn.service.run import opened_app, opened_journal

compile_kernels(["linucb"])
folder, port = Path(sys.argv[1]), int(sys.argv[2])

class Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("started", flush=True)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def dying(app, moment):
    async def call(scope, receive, send):
        if scope["type"] != "http" or scope["method"] == "GET":
            return await app(scope, receive, send)
        if moment == "before":
            die()
        async def last(message):
            die()
        await app(scope, receive, last)
    return call

def serve(moment):
    with opened_journal(folder) as journal, opened_app(journal, folder) as (app, _):
        served = app if moment == "never" else dying(app, moment)
        Announcing(uvicorn.Config(served, port=port, log_level="critical", lifespan="off")).run()

for line in sys.stdin:
    if line == "kill\\n":
        os.kill(child, signal.SIGKILL)  # it may be dead already, but was not waited for
        os.waitpid(child, 0)
        print("dead", flush=True)
    elif not (child := os.fork()):
        sys.stdin.close()
        serve(line.strip())
        os._exit(0)
"""


class Servers:
    """Starts one server after another on one port and one journal."""

    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url, self.journal = f"http://127.0.0.1:{port}", folder / "journal.db"
        command = [sys.executable, "-c", SERVER, str(folder), str(port)]
        self._zygote = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, dies="never"):
        assert self._command(dies) == "started\n"

    def kill(self):
        assert self._command("kill") == "dead\n"

    def _command(self, word):
        self._zygote.stdin.write(word + "\n")
        self._zygote.stdin.flush()
        return self._zygote.stdout.readline()

    def close(self):
        self._zygote.stdin.close()
        self._zygote.wait()
        self._zygote.stdout.close()

    def entries(self):
        """The entries of the journal by kind and how often."""
        with closing(sqlite3.connect(f"{self.journal.as_uri()}?mode=ro", uri=True)) as db:
            return dict(db.execute("SELECT kind, count(*) FROM taciturn_records GROUP BY kind").fetchall())


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    agent = taciturn.make("linucb", arms=["a", "b"], seed=1)
    agent.feedback(agent.decide([1.0, 2.0]).id, 1)
    path = tmp_path_factory.mktemp("agents") / "agent.taciturn"
    agent.save(path)
    return path


CALLS = {
    "create": lambda client, _: client.create("desk", arms=["a", "b"], kind="linucb", seed=1),
    "decide": lambda client, _: client.agent("desk").decide([1.0, 2.0]),
    "decides": lambda client, _: client.agent("desk").decide_batch([[1.0, 2.0], [2.0, 1.0]]),
    "reward": lambda client, _: client.agent("desk").feedback(0, 1),
    "rewards": lambda client, _: client.agent("desk").feedback_batch({1: 0}),
    "withdraw": lambda client, _: client.agent("desk").withdraw(2),
    "add_arm": lambda client, _: client.agent("desk").add_arm("c", like="a"),
    "retire_arm": lambda client, _: client.agent("desk").retire_arm("b"),
    "import": lambda client, file: client.load("copy", file),
    "delete": lambda client, _: client.delete("desk"),
}
EXPECTED = dict.fromkeys(CALLS.keys() - {"decides", "retire_arm", "delete"}, 1) | {"decide": 2}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_every_call_survives_a_killed_server_and_is_carried_out_once(tmp_path, file, moment):
    with closing(Servers(tmp_path)) as servers, Client(servers.url) as client:
        time = FakeTime(client)

        def restart(seconds):
            time.sleep(seconds)
            servers.kill()
            servers.start()

        client.connection.sleep = restart  # the new server is started in the pause
        for name, call in CALLS.items():
            if name == "delete":  # after which the entries are removed from the journal
                entries = servers.entries()
            servers.start(dies=moment)
            call(client, file)
            servers.kill()
        assert len(time.pauses) == len(CALLS), "each call was interrupted once"
        assert entries.pop("retire_arm") >= 1  # twice is the same as once
        assert entries == EXPECTED
        servers.start()
        assert client.agents() == ["copy"]
        assert client.agent("copy").health().decisions == 1
        servers.kill()


def test_a_server_that_is_away_for_long_is_waited_for(tmp_path):
    with closing(Servers(tmp_path)) as servers, Client(servers.url) as client:
        time = FakeTime(client)

        def sleep(seconds):
            before = time.now
            time.sleep(seconds)
            if before < 20 <= time.now:
                servers.start()

        client.connection.sleep = sleep
        client.create("desk", arms=2, kind="linucb")
        assert 20 <= time.now <= 30
        assert servers.entries() == {"create": 1}
        servers.kill()
