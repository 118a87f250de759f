"""The command on a real Ray: it starts, decides, survives the death of a shard, changes their number, and stops."""

import os
import re
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cli_kit import taciturn
from service_kit import until
from taciturn.client import Client
from taciturn.service.cluster.ring import ring

pytest.importorskip("ray.serve")
AGENTS = [f"agent-{i}" for i in range(4)]


def titles(root):
    """Processes that a process has started, and those have started, by number: their titles."""
    parents, found = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(folder.name)] = (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
            except OSError:
                continue  # it has ended
    ours = {root}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: found[pid] for pid in ours & found.keys()}


@contextmanager
def served(server, folder):
    """The command and a client of it; it ends well, and gives the leases back."""
    command = [sys.executable, "-m", "taciturn", "serve", "--workers", "2", "--fronts", "1", "--port", "0"]
    command += ["--postgres", server.address, "--data-dir", str(folder), "--lease-seconds", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            found = re.search(r"http://localhost:(\d+)/", process.stdout.readline())
            with closing(Client(f"http://127.0.0.1:{found[1]}", patience=60)) as client:
                yield process, client
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert process.returncode == 0
    assert server.tamper("SELECT shard FROM taciturn_shards WHERE lease > clock_timestamp()") == []


def decide_all(client, expected):
    for name in AGENTS:
        decision = client.agent(name).decide({"u": 1.0})
        assert decision.id == expected
        client.agent(name).feedback(decision.id, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_agents_survive_the_death_of_a_shard_a_change_of_their_number_and_a_restart(server, tmp_path):
    with served(server, tmp_path) as (process, client):
        for name in AGENTS:
            client.create(name, arms=["x", "y"], kind="linucb")
        decide_all(client, 0)
        again = taciturn(tmp_path, "serve", "--workers", "5", "--port", "0", "--postgres", server.address)
        assert "shards of another taciturn serve keep their agents here" in again.stderr
        assert server.tamper("SELECT value FROM taciturn_meta WHERE name = 'shards'") == [(2,)]
        shards = [pid for pid, title in titles(process.pid).items() if "ShardActor" in title]
        assert len(shards) == 2
        os.kill(shards[0], signal.SIGKILL)
        decide_all(client, 1)
        done = taciturn(tmp_path, "scale", "3", "--postgres", server.address)
        assert "3 shards are wanted, 2 were" in done.stdout, done.stderr
        places = "SELECT name, shard FROM taciturn_agents"
        until(lambda: all(ring(3).owner(name) == shard for name, shard in server.tamper(places)))
        decide_all(client, 2)
    with served(server, tmp_path) as (_, client):
        decide_all(client, 3)
    assert server.tamper("SELECT count(*) FROM taciturn_entries WHERE kind = 'decide'") == [(4 * len(AGENTS),)]
