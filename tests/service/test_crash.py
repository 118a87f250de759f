"""kill -9 under load, repeatedly: what was acknowledged is in the journal exactly once, and the agents are equal.

Every fifth server is of another release: its defaults and its rounding are others, so that it would decide otherwise;
the next one is of the first release again. TACITURN_KILLS is the number of kills; 100 by default, with 20 upgrades.
"""

import http.client
import json
import os
import queue
import random
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import numpy as np

import taciturn
from taciturn.service.core.operations import Answered

KILLS = int(os.environ.get("TACITURN_KILLS", "100"))

WARM = """
import taciturn
for kind, params in (("linucb", {}), ("viewucb", {"neighbors": 2}), ("bilinucb-kmeans", {"warmup": 5})):
    agent = taciturn.make(kind, arms=3, **params)
    agent.defer_training()
    for step in range(80):
        for decision in (agent.decide([1.0, 0.5, step % 7, 2.0]), *agent.decide_batch([[step % 3, 1.0, 0.5, 1.0]] * 2)):
            agent.feedback(decision.id, (0, 1, None, 0.5)[decision.id % 4])
        agent.train_pending(3)
"""

SERVER = (
    WARM
    + """
import os, signal, sys
from pathlib import Path
import uvicorn
import numpy, taciturn
from taciturn.agents.bilinucb import BILinUCB
from taciturn.agents.linucb import LinUCB
from taciturn.agents.viewucb import ViewUCB
from taciturn.agents.warm import compile_kernels
from taciturn.service.run import opened_app, opened_journal

class Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("port", self.servers[0].sockets[0].getsockname()[1], flush=True)

def upgrade():
    for kind in (LinUCB, ViewUCB, BILinUCB):
        kind.__init__.__kwdefaults__["alpha"] = 3.0
        score = kind._score
        kind._score = lambda self, node, score=score: [-part for part in score(self, node)]

def serve(folder):
    with opened_journal(folder) as journal, opened_app(journal, folder, snapshot_every=40) as (app, _):
        Announcing(uvicorn.Config(app, port=0, log_level="critical")).run()

folder, child = Path(sys.argv[1]), 0
compile_kernels(["linucb", "viewucb", "bilinucb-kmeans"])  # as a server does with the first agent of a kind
for line in sys.stdin:  # everything is imported and loaded once; each server is a fork of this process
    if line.startswith("start"):
        child = os.fork()
        if not child:
            sys.stdin.close()
            if "upgraded" in line:
                upgrade()
            serve(folder)
            os._exit(0)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print("dead", flush=True)
"""
)

AGENTS = {"lin": ("linucb", {}), "graph": ("viewucb", {"neighbors": 2}), "bili": ("bilinucb-kmeans", {"warmup": 5})}


class Load:
    """Clients of a server that ask for decisions and send rewards until it dies.

    `reports` is what was acknowledged, and None from each client when it ends.
    """

    def __init__(self, port, seed):
        self.port, self.seed = port, seed
        self.reports, self.errors = queue.SimpleQueue(), []
        names = [("lin", "graph", "bili")[number % 3] for number in range(4)]
        self.threads = [threading.Thread(target=self.work, args=given, daemon=True) for given in enumerate(names)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, error, *_):
        for thread in self.threads if error is None else ():
            thread.join()

    def work(self, number, name):
        try:
            self.ask_for_ever(name, random.Random(1000 * self.seed + number))  # noqa: S311 - not for secrets
        except (OSError, http.client.HTTPException):
            pass  # the server was killed
        except BaseException as error:  # noqa: BLE001 - which the main thread has to see
            self.errors.append(repr(error))
        finally:
            self.reports.put(None)

    def ask_for_ever(self, name, rng):
        line = http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=20)

        def ask(method, path, body):
            line.request(method, path, json.dumps(body), {"content-type": "application/json"})
            answer = line.getresponse()
            content = answer.read()
            assert answer.status < 300, (answer.status, content)
            return json.loads(content) if content else None

        while True:
            contexts = [[rng.random() for _ in range(4)] for _ in range(rng.choice([1, 1, 3]))]
            decisions = ask("POST", f"/v1/agents/{name}/decisions", {"contexts": contexts})["decisions"]
            for decision in decisions:
                self.reports.put(("decision", name, decision["id"], decision["arm"]))
                reward = rng.choice([0, 1, None, 0.5])
                ask("PUT", f"/v1/agents/{name}/decisions/{decision['id']}/reward", {"reward": reward})
                self.reports.put(("reward", name, decision["id"], reward))


@contextmanager
def forked_servers(folder):
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as zygote:

        def command(word):
            zygote.stdin.write(word + "\n")
            zygote.stdin.flush()
            return zygote.stdout.readline().split()

        yield command
        zygote.kill()


def post(port, path, body):
    address = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return json.load(answer)


class Replica:
    """Agents of the library that apply the journal and are never interrupted or upgraded.

    `scored` is the decision `until` as they would have made it themselves.
    """

    def __init__(self, folder):
        self.folder, self.position = folder, 0
        self.agents = {name: taciturn.make(kind, arms=3, seed=0, **params) for name, (kind, params) in AGENTS.items()}
        for agent in self.agents.values():
            agent.defer_training()
        self.decided, self.rewarded = {}, {}

    def catch_up(self, until=None):
        """Apply new entries, up to a decision if one is given."""
        with closing(sqlite3.connect(f"{(self.folder / 'journal.db').as_uri()}?mode=ro", uri=True)) as db:
            rows = db.execute(
                "SELECT position, agent, kind, body FROM taciturn_records WHERE position > ? ORDER BY position",
                (self.position,),
            ).fetchall()
        for position, name, kind, body in rows:
            assert position == self.position + 1
            self.position = position
            self.apply(name, kind, msgspec.json.decode(body), until)
            if until in self.decided:
                return

    def apply(self, name, kind, body, until):
        agent = self.agents[name]
        if kind == "decide":
            request = body["request"]
            contexts = request.get("contexts") or [request["context"]]
            for context, made in zip(contexts, body["decisions"], strict=True):
                if (name, made["id"]) == until:
                    self.scored = agent.fork().decide(context, at=body["at"])
                with agent.replaying([msgspec.convert(made, Answered).decision()]):
                    decision = agent.decide(context, at=body["at"])
                assert (name, decision.id) not in self.decided
                self.decided[name, decision.id] = decision.arm
        elif kind == "train":
            agent.train_pending(body["steps"])
        elif kind == "reward":
            agent.feedback(body["id"], body["reward"])
            self.rewarded.setdefault((name, body["id"]), []).append(body["reward"])


def test_acknowledged_requests_survive_kill_9(tmp_path):
    """In a process of its own, so that it loads compiled kernels from the same cache as the servers.

    A kernel that is compiled twice, with and without inlining what it calls, can differ in the last bit.
    """
    subprocess.run([sys.executable, "-c", WARM], check=True)
    done = subprocess.run([sys.executable, __file__, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check_answers(port, decisions, rng):
    """Ask for the arms of some of the decisions that were acknowledged."""
    known = list(decisions.items())
    for number in rng.integers(len(known), size=min(len(known), 5)):
        (name, id), arm = known[number]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/agents/{name}/decisions/{id}", timeout=20) as answer:
            assert json.load(answer)["arm"] == arm


def kill_repeatedly(servers, tmp_path):
    rng = np.random.default_rng(0)
    replica = Replica(tmp_path)
    decisions, rewards = {}, {}
    _, port = servers("start")
    for name, (kind, params) in AGENTS.items():
        post(port, "/v1/agents", {"name": name, "kind": kind, "arms": 3, "params": params | {"seed": 0}})
    for kill in range(KILLS):
        after = int(rng.integers(1, 120))
        with Load(port, kill) as load:
            reports = [load.reports.get() for _ in range(after)]
            assert all(reports), (load.errors, "a client ended before the server was killed")
            assert servers("kill") == ["dead"]
        assert not load.errors, load.errors
        while not load.reports.empty():
            reports.append(load.reports.get())
        for what, name, id, value in filter(None, reports):
            if what == "decision":
                assert decisions.setdefault((name, id), value) == value
            else:
                rewards[name, id] = value
        replica.catch_up()
        assert decisions.items() <= replica.decided.items()
        assert all(replica.rewarded[which] == [reward] for which, reward in rewards.items()), "exactly once"
        _, port = servers("start upgraded" if kill % 5 == 0 else "start")
        check_answers(port, decisions, rng)
        for name in replica.agents if kill % 5 else ():  # the next decision must equal that of the replica
            context = rng.random(4).tolist()
            answer = post(port, f"/v1/agents/{name}/decisions", {"context": context})
            replica.catch_up(until=(name, answer["id"]))  # it may have trained since
            decision = replica.scored
            assert (answer["id"], answer["arm"]) == (decision.id, decision.arm)
            np.testing.assert_array_equal(answer["scores"], decision.scores)
            np.testing.assert_array_equal(answer["widths"], decision.widths)
    assert len(decisions) > 5 * KILLS
    servers("kill")


if __name__ == "__main__":
    with forked_servers(Path(sys.argv[1])) as servers:
        kill_repeatedly(servers, Path(sys.argv[1]))
