"""The local engine: worker processes, workers that die, and a runner that is killed and resumed."""

import gc
import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import weakref
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from taciturn.experiments import engines, workers
from taciturn.experiments.checks import toy_data
from taciturn.experiments.engines import run_here, run_local
from taciturn.experiments.recorder import RUNS, read_correct, read_runs
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, RunTask, expand


def experiment(**changes):
    base = {"datasets": [toy_data()], "methods": ["linucb", "rogcn"], "missing": [0.2], "seeds": range(3)}
    return Experiment(**{**base, **changes})


@pytest.fixture
def start(monkeypatch):
    """Have workers started as a word says: afresh, or forked as in commands, where the system has safe forks."""

    def start(how):
        monkeypatch.setattr(workers, "_started", [])
        if how == "forked":
            workers.start()
        forks = how == "forked" and sys.platform == "linux"
        assert workers.context().get_start_method() == ("forkserver" if forks else "spawn")

    return start


def test_worker_processes_give_the_same_results_as_this_process(tmp_path, start):
    start("forked")
    runs = expand(experiment(datasets=[toy_data(), toy_data(edges=True)], delay=[0, "geometric:4"]))
    one = {record.id: record.accuracy for record in execute(runs, tmp_path / "one")}
    two = {record.id: record.accuracy for record in execute(runs, tmp_path / "two", jobs=2)}
    assert one == two
    for id in one:
        np.testing.assert_array_equal(read_correct(tmp_path / "one", id), read_correct(tmp_path / "two", id))


def test_runs_in_this_process_keep_no_agent_alive_and_leave_nothing_frozen(monkeypatch):
    """What is frozen and becomes garbage stays, be it an agent of a run or one that the caller makes between runs."""
    agents, made = weakref.WeakSet(), RunTask.agent

    def remembered(self, dataset):
        agents.add(agent := made(self, dataset))
        return agent

    monkeypatch.setattr(RunTask, "agent", remembered)
    held = None
    for run, outcome in run_here(expand(experiment(methods=["linucb"], seeds=range(12)))):
        assert outcome.error is None
        assert len(agents) <= 4, "the last of the loop, and those since the collection before this run"
        held = run.task.agent(run.dataset)
        held.decide([1.0, 2.0, 0.0, 1.0])
    assert gc.get_freeze_count() == 0


def test_runs_that_overlap_or_are_abandoned_leave_nothing_frozen():
    runs = expand(experiment(methods=["linucb"]))
    one, two = run_here(runs), run_here(runs)
    next(one)
    assert gc.get_freeze_count() > 0
    next(two)
    one.close()
    next(two)
    assert gc.get_freeze_count() == 0
    gc.freeze()  # by the caller, whose it stays
    try:
        list(run_here(runs))
        two.close()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("how", ["afresh", "forked"])
def test_workers_have_one_thread_each_and_the_environment_of_now(monkeypatch, tmp_path, start, how):
    """That of the process that they are forked from was started with another one, and the parent's is restored."""
    start(how)
    (tmp_path / "probe.py").write_text(
        "import os, taciturn\n"
        "class Probe(taciturn.LinUCB):\n"
        "    def decide(self, x, **options):\n"
        "        import numba\n"
        "        assert os.environ['OPENBLAS_NUM_THREADS'] == '1' and numba.config.NUMBA_NUM_THREADS == 1\n"
        "        assert os.environ['OF_NOW'] == 'yes' and 'PYTHONSAFEPATH' not in os.environ\n"
        "        return super().decide(x, **options)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("OF_NOW", "yes")
    outcomes = [outcome for _, outcome in run_local(expand(experiment(methods=["probe:Probe"])), 2)]
    assert [outcome.error for outcome in outcomes] == [None] * 3
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "NUMBA_NUM_THREADS" not in os.environ


WAITER = """
import signal, taciturn

class Waiter(taciturn.LinUCB):
    def decide(self, x, **options):
        fifo = open({fifo!r}, "wb", buffering=0)  # held open by the worker
        fifo.write(b"x")
        signal.pause()
"""

WAITING_RUNS = """
if __name__ == "__main__":
    from taciturn.experiments.checks import toy_data
    from taciturn.experiments.engines import run_local
    from taciturn.experiments.spec import Experiment, expand

    list(run_local(expand(Experiment(datasets=[toy_data()], methods=["waiter:Waiter"], seeds=range(2))), 2))
"""


def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path):
    """They waited for more to do, for ever."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "waiter.py").write_text(WAITER.format(fifo=str(fifo)))
    (tmp_path / "runner.py").write_text(WAITING_RUNS)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    runner = subprocess.Popen([sys.executable, tmp_path / "runner.py"], env=environment, stderr=subprocess.DEVNULL)
    said = b""
    while len(said) < 2 and select.select([reader], [], [], 600)[0]:  # until both workers are at work
        said += os.read(reader, 2)
    runner.kill()
    runner.wait()
    assert said == b"xx"
    assert select.select([reader], [], [], 60)[0], "nobody holds the fifo any more"
    assert os.read(reader, 1) == b""
    os.close(reader)


KILLER = """
import os, pathlib, signal, taciturn

class Killer(taciturn.LinUCB):
    def decide(self, x, **options):
        decision = super().decide(x, **options)
        mark = pathlib.Path({mark!r})
        if self.seed == 1 and decision.id == 40 and ({always} or not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return decision
"""


@pytest.mark.parametrize(("how", "always"), [("afresh", False), ("forked", True)])
def test_runs_of_a_worker_that_dies_are_retried_and_one_that_always_kills_fails(
    monkeypatch, tmp_path, start, how, always
):
    start(how)
    name = f"killer_{how}_{always}"
    (tmp_path / f"{name}.py").write_text(KILLER.format(mark=str(tmp_path / "mark"), always=always))
    monkeypatch.syspath_prepend(tmp_path)
    runs = expand(experiment(methods=["linucb", f"{name}:Killer"], seeds=range(4)))
    outcomes = {(run.task.method, run.task.seed): outcome for run, outcome in run_local(runs, 2)}
    assert len(outcomes) == len(runs) == 8
    expected = {
        (run.task.method, run.task.seed): outcome for run, outcome in run_here(expand(experiment(seeds=range(4))))
    }
    for (method, seed), outcome in outcomes.items():
        if always and seed == 1 and "Killer" in method:
            assert "worker process died" in outcome.error
        elif outcome.error is None:
            np.testing.assert_array_equal(outcome.trace.choices, expected["linucb", seed].trace.choices)
        else:
            assert always, "only runs beside one that always kills its worker may fail with it"


RUNNER = """
import os, signal, sys
from pathlib import Path
from taciturn.agents.warm import compile_kernels
from taciturn.experiments.checks import toy_data
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, expand

runs = expand(Experiment(datasets=[toy_data(150)], methods=["linucb", "rogcn"], missing=[0.2, 0.6], seeds=range(6)))

def run(jobs):
    for record in execute(runs, Path(sys.argv[1]), jobs=jobs):
        print(record.id, flush=True)
"""
ONCE = RUNNER + "run(int(sys.argv[2]))"
KILLED = (
    RUNNER
    + """
compile_kernels(["linucb", "rogcn"])
for line in sys.stdin:  # everything is imported and loaded once; each runner is a fork of this process
    if line == "kill\\n":
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print("dead", flush=True)
    elif not (child := os.fork()):
        sys.stdin.close()
        run(1)
        os._exit(0)
"""
)


def test_a_runner_killed_repeatedly_ends_with_every_run_exactly_once(tmp_path):
    """SIGKILL after a random number of lines, 20 times, then to the end."""

    def start(code, folder, *arguments):
        command = [sys.executable, "-c", code, str(folder), *map(str, arguments)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with start(ONCE, tmp_path / "whole", 1) as whole:
        wanted = whole.communicate()[0].split()
    assert len(wanted) == 24
    draw, file = random.Random(0), tmp_path / "killed" / RUNS  # noqa: S311 - not for secrets
    with start(KILLED, file.parent) as runners:
        for kill in range(20):
            finished = len(list(read_runs(file.parent)))
            assert finished < 24, "some runs must be left to interrupt"
            print("start", file=runners.stdin, flush=True)
            for _ in range(finished + draw.randrange(2)):
                assert runners.stdout.readline()
            print("kill", file=runners.stdin, flush=True)
            for line in iter(runners.stdout.readline, "dead\n"):
                assert line in {f"{id}\n" for id in wanted}  # one more, in the meantime
            if kill % 5 == 4 and file.exists():  # now and then a line that was not completely written
                with file.open("ab") as torn:
                    torn.write(b'{"id": "torn')
    with start(ONCE, file.parent, 2) as process:
        process.communicate()
    assert process.returncode == 0
    assert sorted(record.id for record in read_runs(file.parent)) == sorted(wanted)
    for id in wanted:
        np.testing.assert_array_equal(read_correct(tmp_path / "whole", id), read_correct(tmp_path / "killed", id))


def test_ctrl_c_ends_what_workers_are_forked_from_without_a_word():
    program = (
        "import os, signal; from taciturn.agents import warm;"
        "warm.compile_kernels = lambda *_: os.kill(os.getpid(), signal.SIGINT);"
        "import taciturn.experiments.preloaded; print('it went on')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")


def test_ctrl_c_does_not_end_a_worker_between_runs():
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, engines._start_worker, ({}, dict(os.environ))) as pool:
        worker = pool.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert pool.submit(os.getpid).result() == worker


def test_ctrl_c_ends_the_run_of_a_worker(monkeypatch):
    monkeypatch.setitem(engines._DATASETS, "data", None)
    monkeypatch.setattr(engines, "run_task", lambda *_: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            engines._work(SimpleNamespace(fingerprint="data"))
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
