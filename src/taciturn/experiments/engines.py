"""Where runs happen: in this process, or in several of this machine. Results come back as they are ready."""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from taciturn.contracts import Dataset, Trace
from taciturn.experiments import memory
from taciturn.experiments.evaluate import evaluate
from taciturn.experiments.spec import Run, Task

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
DEATHS = 2
"""How many workers a run may take down before it counts as failed."""

OnStep = Callable[[bool], object]


@dataclass(frozen=True)
class Outcome:
    """What became of a run: a trace with what to know beside it, or the reason why there is none."""

    trace: Trace | None = None
    constant_arm: str = ""
    constant_accuracy: float = 0.0
    peak_memory_mb: float | None = None
    error: str | None = None
    details: str | None = None


def perform(task: Task, dataset: Dataset, on_step: OnStep | None = None) -> Outcome:
    """Do one run. An agent may be anybody's code: whatever it raises is an outcome, not the end."""
    try:
        stream = task.stream(dataset)
        agent = task.agent(dataset)
        memory.reset_peak()
        trace = evaluate(agent, stream, progress=on_step or False)
        arm, share = stream.best_constant_arm
        return Outcome(trace, str(arm), share, memory.peak_mb())
    except Exception as error:  # noqa: BLE001 - see above
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Outcome(error=reason, details=traceback.format_exc())


def run_here(runs: Sequence[Run], on_step: Callable[[Run], OnStep] | None = None) -> Iterator[tuple[Run, Outcome]]:
    """One run after the other, in this process; `on_step` is asked once a run for what to call after each step."""
    for run in runs:
        yield run, perform(run.task, run.dataset, on_step(run) if on_step else None)


_DATASETS: dict[str, Dataset] = {}
"""What a worker process was started with."""


def _start_worker(datasets: dict[str, Dataset]) -> None:
    _DATASETS.update(datasets)


def _work(task: Task) -> Outcome:
    return perform(task, _DATASETS[task.fingerprint])


def run_local(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, Outcome]]:
    """Several worker processes with one thread each; the data goes to each of them once.

    Where a worker dies (out of memory, killed), the runs that were under way begin anew in fresh workers; a run that
    was there when it happened twice is a failure.
    """
    waiting = list(runs)
    deaths: dict[str, int] = {}
    while waiting:
        lost: list[Run] = []
        for run, outcome in _one_pool(waiting, jobs):
            if outcome is not None:
                yield run, outcome
                continue
            deaths[run.id] = deaths.get(run.id, 0) + 1
            if deaths[run.id] < DEATHS:
                lost.append(run)
            else:
                yield run, Outcome(error="the worker process died, twice; was it out of memory?")
        waiting = [*lost, *waiting]


def _one_pool(waiting: list[Run], jobs: int) -> Iterator[tuple[Run, Outcome | None]]:
    """Take runs off the list until it is empty or a worker dies; None for the runs that were lost with it."""
    datasets = {run.task.fingerprint: run.dataset for run in waiting}
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))  # read when a worker imports its libraries
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(jobs, context, _start_worker, (datasets,)) as pool:
            under_way: dict[Future[Outcome], Run] = {}
            while waiting or under_way:
                while waiting and len(under_way) < jobs:
                    under_way[pool.submit(_work, waiting[0].task)] = waiting[0]
                    waiting.pop(0)
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    outcome = future.result()
                    yield under_way.pop(future), outcome
    except BrokenProcessPool:
        yield from ((run, None) for run in under_way.values())
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
