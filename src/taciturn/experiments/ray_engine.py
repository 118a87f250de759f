"""An engine that carries out runs on Ray: an existing cluster, or one started on this machine."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any

import ray

from taciturn.experiments.engines import MAX_ATTEMPTS, Outcome, run_task
from taciturn.experiments.spec import Run
from taciturn.experiments.workers import THREADS
from taciturn.ray_connection import connected


def run_ray(runs: Sequence[Run], jobs: int, address: str | None = None) -> Iterator[tuple[Run, Outcome]]:
    """Carry out runs as Ray tasks of one core each; each data set is put into the object store once.

    Ray retries a run whose worker died; a run whose worker died `MAX_ATTEMPTS` times has failed. Meanwhile stdout is
    redirected to stderr.

    Arguments:
        runs: the runs.
        jobs: the number of cores of a local cluster; with an address, half the number of tasks submitted at a time.
        address: of a running cluster, as `ray.init` takes it; None starts a local one and stops it at the end.
    """
    # Ray reports dead workers on stdout, from a thread of its own; stdout is reserved for results.
    with connected(address, cores=jobs, variables=THREADS), redirect_stdout(sys.stderr):
        yield from _run_all(runs, jobs)


def _run_all(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, Outcome]]:
    remote = ray.remote(num_cpus=1, max_retries=MAX_ATTEMPTS - 1)(run_task)
    stored = {
        run.task.fingerprint: ray.put(run.dataset) for run in {run.task.fingerprint: run for run in runs}.values()
    }
    waiting = list(runs)
    in_progress: dict[Any, Run] = {}
    while waiting or in_progress:
        while waiting and len(in_progress) < 2 * jobs:  # a backlog, so that no core is idle
            run = waiting.pop(0)
            in_progress[remote.remote(run.task, stored[run.task.fingerprint])] = run
        (done,), _ = ray.wait(list(in_progress), num_returns=1)
        run = in_progress.pop(done)
        try:
            outcome = ray.get(done)
        except ray.exceptions.RayError as error:
            outcome = Outcome(error=f"the worker process died ({type(error).__name__}); was it out of memory?")
        yield run, outcome
