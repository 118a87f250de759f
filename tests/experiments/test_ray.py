"""The Ray engine on a local cluster with two workers, one of which is killed during a run."""

import json
import subprocess
import sys

import numpy as np
import pytest

from taciturn.errors import TaciturnError
from taciturn.experiments.recorder import read_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    np.savez(folder / "own.npz", X=rng.random((120, 6)) + 2 * np.eye(6)[y], y=y)
    (folder / "mine.py").write_text(
        "import os, pathlib, signal, sys, taciturn\n"
        "def ray_worker():\n"
        "    import ray\n"
        "    return ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE\n"
        "class Mortal(taciturn.LinUCB):\n"
        "    def decide(self, x, **options):\n"
        "        decision = super().decide(x, **options)\n"
        f"        mark = pathlib.Path({str(folder / 'killed')!r})\n"
        "        in_a_worker = 'ray' in sys.modules and ray_worker() and not mark.exists()\n"
        "        if self.seed == 2 and decision.id == 60 and in_a_worker:\n"
        "            mark.touch()\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return decision\n"
    )
    return folder


def run(folder, out, *options):
    arguments = ["run", "--data", "own.npz", "--methods", "linucb,rogcn", "--agent", "mine:Mortal", "--seeds", "4"]
    command = [sys.executable, "-m", "taciturn", *arguments, "--out", out, "--json", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def test_ray_gives_the_same_results_as_processes_and_retries_after_a_dead_worker(folder):
    local = run(folder, "local", "--jobs", "2")
    assert local.returncode == 0, local.stderr
    remote = run(folder, "remote", "--jobs", "2", "--engine", "ray")
    assert remote.returncode == 0, remote.stderr
    assert (folder / "killed").exists(), "a worker was killed during a run"

    def accuracies(result):
        return {(record["method"], record["seed"]): record["accuracy"] for record in json.loads(result.stdout)}

    assert len(accuracies(local)) == 12
    assert accuracies(local) == accuracies(remote)
    records = list(read_runs(folder / "remote"))
    assert len(records) == len({record.id for record in records}) == 12, "every run exactly once"


def test_an_unreachable_cluster_an_unknown_engine_and_a_misplaced_address_are_errors(folder):
    nowhere = run(folder, "nowhere", "--engine", "ray", "--address", "127.0.0.1:1")
    assert nowhere.returncode == 2
    assert "cannot reach Ray at 127.0.0.1:1" in nowhere.stderr
    unknown = run(folder, "unknown", "--engine", "rya")
    assert (unknown.returncode, "did you mean 'ray'" in unknown.stderr) == (2, True)
    misplaced = run(folder, "misplaced", "--address", "127.0.0.1:1")
    assert (misplaced.returncode, "it needs engine='ray'" in misplaced.stderr) == (2, True)


def test_a_node_that_does_not_start_is_one_line(monkeypatch):
    """Ray raises a bare Exception where its processes are slow to start, which was shown as a traceback."""
    connection = pytest.importorskip("taciturn.ray_connection")

    def slow(**_):
        raise Exception("The current node timed out\nduring startup.")  # noqa: TRY002 - as Ray does

    monkeypatch.setattr(connection.ray, "init", slow)
    expected = "cannot reach Ray at this machine: The current node timed out during startup."
    with pytest.raises(TaciturnError, match=expected), connection.connected(None, cores=1):
        pass
