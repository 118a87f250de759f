"""Engines that carry out runs: in this process, or in worker processes on this machine. Results come as they finish."""

import gc
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from threading import Thread

from taciturn.agents.warm import prepare
from taciturn.contracts import Dataset, Trace
from taciturn.experiments import peak_memory, workers
from taciturn.experiments.evaluate import evaluate
from taciturn.experiments.spec import Run, RunTask
from taciturn.system import one_thread

MAX_ATTEMPTS = 2
"""How often a run is started before it counts as failed, where its worker process died each time."""

OnStep = Callable[[float], object]


@dataclass(frozen=True)
class Outcome:
    """The result of a run: a trace, the best constant arm and the peak memory; or an error without them.

    `constant_reward` is None where one arm is right.
    """

    trace: Trace | None = None
    constant_arm: str = ""
    constant_accuracy: float = 0.0
    constant_reward: float | None = None
    peak_memory_mb: float | None = None
    error: str | None = None
    details: str | None = None


def run_task(task: RunTask, dataset: Dataset, on_step: OnStep | None = None) -> Outcome:
    """Carry out one run and return its outcome; an exception of the agent, which can be user code, becomes an error."""
    try:
        stream = task.stream(dataset)
        prepare(task.agent(dataset))  # which takes memory of its own
        gc.collect()  # an agent and its lifecycle refer to each other: free the last one before memory is measured
        peak_memory.reset_peak()
        with one_thread():  # as in a worker, so that results and times do not depend on how runs are carried out
            trace = evaluate(
                task.agent(dataset),  # held by nobody else, so that a restart can drop it
                stream,
                progress=on_step or False,
                restart=task.restart,
                anew=partial(task.agent, dataset),
            )
        memory = peak_memory.peak_mb()
        arm, mean = stream.best_constant_arm
        return Outcome(trace, str(arm), stream.share_right(arm), mean if stream.graded else None, memory)
    except Exception as error:  # noqa: BLE001 - see above
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Outcome(error=reason, details=traceback.format_exc())


def run_here(runs: Sequence[Run], on_step: Callable[[Run], OnStep] | None = None) -> Iterator[tuple[Run, Outcome]]:
    """Carry out runs one after the other in this process; `on_step(run)` returns the callback for a run's steps."""
    froze = False
    try:
        for number, run in enumerate(runs):
            outcome = run_task(run.task, run.dataset, on_step(run) if on_step else None)
            if number == 0:
                froze = _freeze_modules()
            yield run, outcome
    finally:
        if froze:
            gc.unfreeze()


def _freeze_modules() -> bool:
    """Let later collections pass over what is there now, unless something is frozen already; return whether it did so.

    One that looks at all modules takes a seventh of a second, as long as a short run.
    """
    if gc.get_freeze_count():
        return False
    gc.collect()
    gc.freeze()
    return True


_DATASETS: dict[str, Dataset] = {}
"""In a worker process: the data sets that it was started with, by fingerprint."""


def _start_worker(datasets: dict[str, Dataset], environment: dict[str, str]) -> None:
    os.environ.clear()  # of the process that this one was forked from, which was started earlier
    os.environ.update(environment)
    _DATASETS.update(datasets)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # between runs; the process that started this one ends it
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker process once the one that started it is gone: killed, it cannot tell its workers to stop."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(task: RunTask) -> Outcome:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        outcome = run_task(task, _DATASETS[task.fingerprint])
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _freeze_modules()
    return outcome


def run_local(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, Outcome]]:
    """Carry out runs in several worker processes of one thread each; the data is sent to each worker once.

    When a worker dies (out of memory, killed), the runs in progress are retried in new workers. A run that was in
    progress `MAX_ATTEMPTS` times when a worker died has failed.
    """
    waiting = list(runs)
    attempts: dict[str, int] = {}
    while waiting:
        lost: list[Run] = []
        for run, outcome in _one_pool(waiting, jobs):
            if outcome is not None:
                yield run, outcome
                continue
            attempts[run.id] = attempts.get(run.id, 0) + 1
            if attempts[run.id] < MAX_ATTEMPTS:
                lost.append(run)
            else:
                yield run, Outcome(error="the worker process died, twice; was it out of memory?")
        waiting = [*lost, *waiting]


def _one_pool(waiting: list[Run], jobs: int) -> Iterator[tuple[Run, Outcome | None]]:
    """Pop runs off the list until it is empty or a worker dies; the runs lost with a worker are yielded with None."""
    datasets = {run.task.fingerprint: run.dataset for run in waiting}
    finished: list[tuple[Run, Outcome]] = []
    in_progress: dict[Future[Outcome], Run] = {}
    with workers.environment(workers.THREADS):
        given = (datasets, dict(os.environ))
        try:
            with ProcessPoolExecutor(jobs, workers.context(), _start_worker, given) as pool:
                while waiting or in_progress:
                    while waiting and len(in_progress) < jobs:
                        in_progress[pool.submit(_work, waiting[0].task)] = waiting[0]
                        waiting.pop(0)
                    yield from finished  # after workers have their next run: what came of the last is written meanwhile
                    finished = []
                    done, _ = wait(in_progress, return_when=FIRST_COMPLETED)
                    for future in done:
                        outcome = future.result()
                        finished.append((in_progress.pop(future), outcome))
        except BrokenProcessPool:
            yield from ((run, None) for run in in_progress.values())
        yield from finished
