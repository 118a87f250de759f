"""Kernels are compiled beforehand: by a command, and before a clock starts."""

import os
import subprocess
import sys
from functools import cache

from taciturn import LinUCB, ViewUCB, make
from taciturn.agents import warm as preparing
from taciturn.registry import METHODS
from taciturn.warm import main


def test_a_line_a_method_says_what_was_compiled(capsys):
    assert main(["linucb", "bilinucb-random"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["linucb", "bilinucb-random"]


def test_all_methods_are_compiled_by_default(monkeypatch, capsys):
    done = []
    monkeypatch.setattr("taciturn.warm.compile_kernels", done.extend)
    assert main([]) == 0
    assert done == list(METHODS)
    assert len(capsys.readouterr().out.splitlines()) == len(METHODS)


def test_an_unknown_method_is_refused_before_anything_is_compiled(monkeypatch, capsys):
    monkeypatch.setattr("taciturn.warm.compile_kernels", lambda _: 1 / 0)
    assert main(["linucb", "linub"]) == 2
    assert "did you mean 'linucb'?" in capsys.readouterr().err


CLOCK = """
import importlib
import time
import numpy as np
from numba.core import event
import taciturn
from taciturn.experiments.engines import run_task
from taciturn.experiments.spec import Experiment, expand

class Listener(event.Listener):
    running, before, during = False, 0, 0
    def on_start(self, event):
        self.during += self.running
        self.before += not self.running
    def on_end(self, event): ...

listener = Listener()
event.register("numba:compile", listener)
module = importlib.import_module("taciturn.experiments.evaluate")
run = module._run

def timed(*arguments):
    listener.running = True
    try:
        return run(*arguments)
    finally:
        listener.running = False

module._run = timed
rng = np.random.default_rng(0)
labels = np.arange(60) % 3
data = taciturn.Dataset("three", rng.normal(size=(60, 4)) + np.eye(3, 4)[labels], labels, ["a", "b", "c"])
for one in expand(Experiment(datasets=[data], methods=["majority"], missing=[0.5], delay=[0], seeds=[0])):
    outcome = run_task(one.task, one.dataset)
    assert outcome.error is None, outcome.details
assert listener.before > 0, "the cache was not empty"
assert listener.during == 0, listener.during
"""


def test_nothing_is_compiled_while_the_clock_of_a_run_goes(tmp_path):
    """A first run took seconds a step on paper."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", CLOCK], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]


def test_agents_are_prepared_by_their_kind_and_once(monkeypatch):
    class Own(ViewUCB):
        pass

    done = []
    monkeypatch.setattr(preparing, "_prepare_kind", done.append)
    for name in METHODS:
        preparing.prepare(make(name, arms=2))
    assert done == list(METHODS)
    done.clear()
    preparing.prepare(LinUCB(arms=3, alpha=1.0))
    preparing.prepare(Own(arms=2))
    preparing.prepare(object())
    assert done == ["linucb", "viewucb"]


def test_a_kind_is_prepared_once_in_a_process_whoever_asks(monkeypatch):
    """Every server that was forked from a prepared process spent half a second on it once more."""
    done = []
    monkeypatch.setattr(preparing, "_exercise", lambda kind, _: done.append(kind))
    monkeypatch.setattr(preparing, "_prepare_kind", cache(preparing._prepare_kind.__wrapped__))
    preparing.compile_kernels(["linucb"])
    preparing.compile_kernels(["rogcn", "linucb"])
    preparing.prepare(LinUCB(arms=2))
    assert done == ["linucb", "rogcn"]
