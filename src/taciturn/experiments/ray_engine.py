"""Runs on a Ray cluster, or on a Ray of this machine; the data goes into the object store once."""

import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any

import ray

from taciturn.errors import TaciturnError
from taciturn.experiments.engines import DEATHS, THREADS, Outcome, perform
from taciturn.experiments.spec import Run


def run_ray(runs: Sequence[Run], jobs: int, address: str | None = None) -> Iterator[tuple[Run, Outcome]]:
    """Do the runs as Ray tasks of one core each.

    Ray begins a run anew where the worker that had it died; one that keeps killing its workers is a failure. While
    the runs go on, what is printed goes to stderr.

    Arguments:
        runs: what is to be done.
        jobs: the cores of the Ray that is started here; where there is an address, how many runs are sent at a time.
        address: of a cluster that is up, as `ray.init` takes it; None starts one here and stops it at the end.
    """
    variables = dict.fromkeys(THREADS, "1") | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if address is not None:
        _check_there(address)
    try:
        ray.init(
            address=address or "local",
            num_cpus=None if address else jobs,
            include_dashboard=None if address else False,
            runtime_env={"env_vars": variables},
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise TaciturnError(
            f"cannot reach Ray at {address or 'this machine'}: {' '.join(str(error).split())[:200]}"
        ) from None
    # A thread of Ray's prints to stdout, at any time, that a worker died; stdout is for results.
    with redirect_stdout(sys.stderr):
        try:
            yield from _run_all(runs, jobs)
        finally:
            ray.shutdown()


def _check_there(address: str) -> None:
    """Ray itself tries for minutes to reach what is not there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise TaciturnError(f"cannot reach Ray at {address}: {error.strerror or error}") from None


def _run_all(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, Outcome]]:
    remote = ray.remote(num_cpus=1, max_retries=DEATHS - 1)(perform)
    stored = {
        run.task.fingerprint: ray.put(run.dataset) for run in {run.task.fingerprint: run for run in runs}.values()
    }
    waiting = list(runs)
    under_way: dict[Any, Run] = {}
    while waiting or under_way:
        while waiting and len(under_way) < 2 * jobs:  # a few more than run at once, so that no core waits for us
            run = waiting.pop(0)
            under_way[remote.remote(run.task, stored[run.task.fingerprint])] = run
        (done,), _ = ray.wait(list(under_way), num_returns=1)
        run = under_way.pop(done)
        try:
            outcome = ray.get(done)
        except ray.exceptions.RayError as error:
            outcome = Outcome(error=f"the worker process died ({type(error).__name__}); was it out of memory?")
        yield run, outcome
