"""What is said while kernels compile, and that nothing compiles once they have been."""

import errno
import gc
import os
import pickle
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core import caching

from process_kit import answering
from taciturn.kernels import jit

RUN = """
import sys
from taciturn.kernels import jit
jit.PATIENCE = float(sys.argv[1])
import taciturn
agent = taciturn.LinUCB(arms=2)
agent.feedback(agent.decide([1.0, 0.0, 0.0, 0.0, 0.0]).id, 1)
"""


def run(program, *arguments, **variables):
    """Run a program with other variables of the environment; returns the lines of its stderr."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr.splitlines()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that `RUN` has filled, and what was said of it."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, run(RUN, 0, NUMBA_CACHE_DIR=str(folder))


def test_compiling_is_noted_once_and_what_is_cached_is_not(filled):
    folder, lines = filled
    assert lines == [jit.NOTE]
    assert run(RUN, 0, NUMBA_CACHE_DIR=str(folder)) == []


def test_kernels_of_other_sources_are_forgotten(filled, tmp_path):
    """After an upgrade, an index that named a class of before could not be read, and every call failed."""
    shutil.copytree(filled[0], tmp_path, dirs_exist_ok=True)
    indexes = sorted(tmp_path.rglob("*.nbi"))
    stamp = indexes[0].with_name(jit.STAMP)
    written = {index: index.stat().st_mtime_ns for index in indexes}
    run(RUN, 1e9, NUMBA_CACHE_DIR=str(tmp_path))
    assert written == {index: index.stat().st_mtime_ns for index in indexes}, "nothing was compiled again"
    stamp.write_text("jit.py 1 1\n")
    version = indexes[0].read_bytes()[: len(pickle.dumps(numba.__version__, protocol=-1))]
    for index in indexes:
        index.write_bytes(version + b"ctaciturn.kernels.csr\nClassOfBefore\n.")
    run(RUN, 1e9, NUMBA_CACHE_DIR=str(tmp_path))
    assert stamp.read_text() != "jit.py 1 1\n"


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_it_was_before_compiling(enabled):
    before, listener = gc.isenabled(), jit.NoCollection()
    try:
        gc.enable() if enabled else gc.disable()
        for step in (listener.on_start, listener.on_start, listener.on_end):  # one compiles another
            step(None)
            assert not gc.isenabled()
        listener.on_end(None)
        assert gc.isenabled() == enabled
    finally:
        gc.enable() if before else gc.disable()


class Event:
    """An event of numba for a kernel of some module."""

    def __init__(self, module):
        def compiled(): ...

        compiled.__module__ = module
        self.data = {"dispatcher": type("Dispatcher", (), {"py_func": staticmethod(compiled)})}


def test_compiling_that_is_quicker_than_people_notice_is_not_noted(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(jit, "PATIENCE", 1000.0)
    monkeypatch.setattr(jit.time, "monotonic", lambda: now[0])
    note = jit.CompileNote()
    for _ in range(3):
        note.on_start(Event("taciturn.kernels.knn"))
        now[0] += 0.4 * jit.PATIENCE
        assert capsys.readouterr().err == ""
        note.on_end(Event("taciturn.kernels.knn"))
    assert capsys.readouterr().err == jit.NOTE + "\n", "many that are quick take long together"


def test_only_kernels_of_taciturn_are_noted_and_only_once(monkeypatch, capsys):
    monkeypatch.setattr(jit, "PATIENCE", 0.0)
    note = jit.CompileNote()
    note.on_start(Event("somebody.else"))
    note.on_end(Event("somebody.else"))
    assert capsys.readouterr().err == ""
    for _ in range(3):
        note.on_start(Event("taciturn.kernels.knn"))
        note.on_start(Event("taciturn.kernels.knn"))  # one that it calls
        note.on_end(Event("taciturn.kernels.knn"))
        note.on_end(Event("taciturn.kernels.knn"))
    assert capsys.readouterr().err == jit.NOTE + "\n"


UNWRITABLE = """
import importlib, pkgutil, runpy, sys
from numba.core import caching
caching.InTreeCacheLocator.get_cache_path = lambda self: "/dev/null/in-tree"  # as in a read-only installation
import taciturn.kernels
for module in pkgutil.iter_modules(taciturn.kernels.__path__):
    importlib.import_module("taciturn.kernels." + module.name)  # which prepares each kernel
assert runpy.run_path(sys.argv[1])["answer"] == 42
"""


SMALL = """
from taciturn.kernels.jit import kernel

@kernel
def double(x):
    return 2 * x

answer = double(21)
"""


@pytest.fixture
def small(tmp_path):
    """A file with one kernel that compiles quickly, and is used at once."""
    file = tmp_path / "small.py"
    file.write_text(SMALL)
    return file


def test_kernels_work_where_nothing_can_be_cached_and_one_line_says_so(small):
    """numba raised: "cannot cache function"."""
    nowhere = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/cache", "NUMBA_CACHE_DIR": "/dev/null/numba"}
    assert run(UNWRITABLE, small, **nowhere) == [jit.UNCACHED]


def test_a_folder_of_the_user_is_used_where_the_package_is_read_only(small, tmp_path):
    nowhere = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""}
    assert run(UNWRITABLE, small, **nowhere) == []
    assert list((tmp_path / "cache").rglob("small.double-*.nbi"))


def test_what_is_damaged_in_the_cache_is_compiled_again(small, capsys):
    """An index or a kernel that was cut, as where a disk was full, raised `EOFError` or `UnpicklingError` for ever."""
    assert runpy.run_path(small)["answer"] == 42
    written = {file: file.read_bytes() for file in small.parent.rglob("small.double-*.nb[ic]")}
    assert {file.suffix for file in written} == {".nbi", ".nbc"}
    for file, content in written.items():
        for damaged in (b"", content[:10], content[:100], content[:-1], b"\x80\x04" + bytes(len(content))):
            file.write_bytes(damaged)
            assert runpy.run_path(small)["answer"] == 42
            mended = {file: file.read_bytes() for file in written}
            assert mended[file] != damaged
            assert runpy.run_path(small)["answer"] == 42
            assert mended == {file: file.read_bytes() for file in written}, "nothing was compiled again"
    assert capsys.readouterr().err == ""


def test_where_the_disk_is_full_kernels_are_compiled_and_one_line_says_so(small, monkeypatch, capsys):
    """The first decision raised: "No space left on device"."""

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    jit._say_uncached.cache_clear()
    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", fail)
    assert [runpy.run_path(small)["answer"] for _ in range(2)] == [42, 42]
    assert capsys.readouterr().err == jit.UNCACHED + "\n"


def test_whether_code_can_be_cached_is_asked_once_a_folder(monkeypatch, capsys):
    asked = []

    def refuse(function):
        asked.append(function)
        raise RuntimeError("cannot cache function: no locator available")

    jit._say_uncached.cache_clear()
    monkeypatch.setattr(jit, "_CACHED_FOLDERS", {})
    monkeypatch.setattr(jit, "FunctionCache", refuse)
    assert [jit.can_cache(function) for function in (run, run)] == [False, False]
    assert not jit.can_cache(Path.exists)
    assert len(asked) == 2
    assert capsys.readouterr().err == jit.UNCACHED + "\n"


WARM = """
import json, os, sys
import numpy as np
import scipy.sparse as sp
from taciturn.agents import storage
from taciturn.agents.warm import compile_kernels
from taciturn.registry import make

def compiled():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("taciturn.kernels.")]
    kernels = {value for module in modules for value in vars(module).values() if hasattr(value, "signatures")}
    return {(kernel.py_func.__qualname__, str(signature)) for kernel in kernels for signature in kernel.signatures}

def left(kind):
    compile_kernels([kind])
    before = compiled()
    assert before
    agent = make(kind, arms=3, expire_after=3, max_nodes=20, epsilon=0.1)
    rng = np.random.default_rng(1)
    agent.warm_start(np.eye(3), [0, 1, 2])
    for step in range(40):
        x = rng.random(3) * (rng.random(3) < 0.7)
        decision = agent.decide(x, [agent.next_id - 1] if step % 7 == 0 else None)
        if step % 3:
            agent.feedback(decision.id, step % 2)
            agent.feedback(decision.id, 0.5)
    agent.defer_training()
    agent = storage.loads(storage.dumps(agent), "agent")
    agent.decide_batch(rng.random((5, 3)))
    agent.train_pending(50)
    agent.explain(agent.next_id - 1)
    agent.add_arm("d", like=0)
    agent.withdraw(agent.decide(np.ones(3)).id)
    warmup = {"warmup": 20} if "warmup" in agent.params else {}
    agent = make(kind, arms=3, **warmup)
    for row in rng.random((140, 4)):
        agent.feedback(agent.decide(sp.csr_matrix(row)).id, 1)
    return sorted(compiled() - before)

for line in sys.stdin:  # each kind in a process that has loaded no kernel, forked from one that has imported all
    child = os.fork()
    if not child:
        print(json.dumps(left(line.strip())), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(json.dumps(f"status {status}"), flush=True)
"""


@pytest.fixture(scope="module")
def left():
    """A function that returns which kernels of a kind are used though they were not compiled beforehand."""
    with answering(sys.executable, "-c", WARM) as left:
        yield left


@pytest.mark.parametrize("kind", ["linucb", "rogcn", "bilinucb-gcn", "bilinucb-kmeans", "gcnucb", "viewucb"])
def test_nothing_is_left_to_compile_after_the_kernels_of_a_kind_were_compiled(kind, left):
    """Those of gcnucb's regressions once were: they are used when its warm-up is over."""
    assert left(kind) == []


DECIDE = """
import sys
import numpy as np
from taciturn.registry import make

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 9)) * (rng.random((200, 9)) < 0.4)
for kind, params in (("linucb", {}), ("viewucb", {}), ("gcnucb", {"warmup": 0})):
    agent, seen = make(kind, arms=3, seed=0, **params), []
    for t, x in enumerate(X):
        decision = agent.decide(x)
        agent.feedback(decision.id, (1, 1, 0, None)[t % 4])
        seen.append((decision.scores, decision.widths))
    print(kind, np.array(seen).tobytes().hex(), file=sys.stderr)
"""


def test_a_process_that_compiles_decides_as_those_that_read_the_cache_to_the_last_bit(tmp_path):
    """Kernels that called others rounded otherwise where they were compiled."""
    compiling, reading = (run(DECIDE, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert reading == [line for line in compiling if line != jit.NOTE]
