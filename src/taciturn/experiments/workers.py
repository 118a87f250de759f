"""Worker processes of this machine: started afresh, or forked from one process that has what all runs need."""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import BaseContext

THREADS = dict.fromkeys(
    (
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
"""What numerical libraries read when they are imported: workers have one thread each."""

PRELOADED = "taciturn.experiments.preloaded"

_started: list[BaseContext] = []
"""What `start` started, at most once in the life of a process."""


def start() -> None:
    """Start the process that workers are forked from, and let it import meanwhile; on Linux, where forks are safe.

    It is a process of its own, without threads, so that forks of it are sound whatever this one does; and it ends with
    this one. So it is for commands: a notebook would keep it for hours.
    """
    if _started or sys.platform != "linux":
        return
    from multiprocessing import forkserver  # noqa: PLC0415 - it does not exist everywhere

    _started.append(multiprocessing.get_context("forkserver"))
    _started[0].set_forkserver_preload([PRELOADED])
    where = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}  # the same modules are found as here
    with environment(THREADS | where):
        forkserver.ensure_running()


def context() -> BaseContext:
    """Return what starts workers: the process of `start`, or new ones."""
    return _started[0] if _started else multiprocessing.get_context("spawn")


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Processes that are started within the block have these variables of the environment too."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def default_jobs() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
