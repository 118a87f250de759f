"""Doing what is not done yet: runs that finish are written at once, and never repeated."""

import importlib
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from taciturn.errors import TaciturnError, how_to_install
from taciturn.experiments.engines import OnStep, Outcome, run_here, run_local
from taciturn.experiments.recorder import Recorder, RunRecord, read_runs
from taciturn.experiments.spec import Run
from taciturn.registry import unknown_name

ENGINES = ("local", "ray")
RAY = "taciturn.experiments.ray_engine"  # imported when it is asked for: Ray is large, and need not be there


def execute(
    runs: Sequence[Run],
    folder: Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    address: str | None = None,
    fresh: bool = False,
    command: str | None = None,
    on_step: Callable[[Run], OnStep] | None = None,
) -> Iterator[RunRecord]:
    """Do the runs that the folder does not have yet, and yield all records: those it has first, new ones as they come.

    A failed run is recorded with its error and tried again the next time.

    Arguments:
        runs: what `expand` returns.
        folder: the results folder; this process is its only writer.
        jobs: how many processes; 1 of the local engine works in this one.
        engine: "local" or "ray".
        address: of a Ray cluster; None starts Ray here.
        fresh: forget what the folder has of these runs.
        command: what the user typed, kept beside the results.
        on_step: asked once a run for what to call after each of its steps; only where jobs is 1.
    """
    recorder = Recorder(folder)
    if command is not None:
        recorder.note_command(command)
    if fresh:
        recorder.forget({run.id for run in runs})
    there = list(read_runs(folder))
    others = {record.versions["taciturn"] for record in there} - {version("taciturn")}
    if others:
        raise TaciturnError(
            f"{folder} was written by taciturn {min(others)}, this is {version('taciturn')}; give another folder"
        )
    done = {record.id: record for record in there if record.error is None}
    yield from (done[run.id] for run in runs if run.id in done)
    missing = [run for run in runs if run.id not in done]
    for run, outcome in _outcomes(missing, jobs, engine, address, on_step):
        record = _record(run, outcome)
        recorder.add(record, outcome.trace)
        yield record


def _outcomes(
    runs: list[Run], jobs: int, engine: str, address: str | None, on_step: Callable[[Run], OnStep] | None
) -> Iterator[tuple[Run, Outcome]]:
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if engine == "ray":
        try:
            return iter(importlib.import_module(RAY).run_ray(runs, jobs, address))
        except ModuleNotFoundError as error:
            raise TaciturnError(f"the engine ray needs {error.name}; {how_to_install('ray')} brings it") from None
    if address is not None:
        raise TaciturnError(f"address={address!r} is not allowed; it goes with the engine ray")
    return run_here(runs, on_step) if jobs == 1 else run_local(runs, jobs)


def default_jobs() -> int:
    """One for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _record(run: Run, outcome: Outcome) -> RunRecord:
    """The line for the results file."""
    trace, task = outcome.trace, run.task
    return RunRecord(
        id=run.id,
        dataset=run.dataset.name,
        source=run.dataset.source,
        fingerprint=task.fingerprint,
        method=task.method,
        preset=task.preset,
        params=run.params,
        missing=task.missing,
        delay=task.delay,
        seed=task.seed,
        accuracy=trace.accuracy if trace else None,
        constant_arm=outcome.constant_arm,
        constant_accuracy=outcome.constant_accuracy,
        steps=len(trace.correct) if trace else 0,
        seconds=trace.seconds if trace else 0.0,
        peak_memory_mb=outcome.peak_memory_mb,
        versions=_versions(),
        cut_short=task.steps is not None and task.steps < len(run.dataset.y) - len(run.dataset.arms),
        error=outcome.error,
        details=outcome.details,
    )


def _versions() -> dict[str, str]:
    packages = ("taciturn", "numpy", "scipy", "scikit-learn", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
