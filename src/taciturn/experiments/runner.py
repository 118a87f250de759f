"""Carry out the runs that a results folder lacks; a finished run is written at once and never repeated."""

import importlib
import platform
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

from taciturn.errors import TaciturnError, how_to_install
from taciturn.experiments.engines import OnStep, Outcome, run_here, run_local
from taciturn.experiments.recorder import Recorder, RunRecord, read_runs
from taciturn.experiments.spec import Run
from taciturn.registry import library_version, unknown_name

ENGINES = ("local", "ray")
RAY = "taciturn.experiments.ray_engine"  # imported on demand: Ray is large and optional


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
    """Carry out the runs that the folder lacks, and yield all records: existing ones first, new ones as they finish.

    A failed run is recorded with its error and repeated the next time.

    Arguments:
        runs: what `expand` returns.
        folder: the results folder; this process must be its only writer.
        jobs: the number of processes; with 1, the local engine uses this process.
        engine: "local" or "ray".
        address: of a Ray cluster; None starts a local one.
        fresh: remove existing records of these runs first.
        command: the user's command line, recorded beside the results.
        on_step: takes a run and returns the callback for its steps; used only where `jobs` is 1.
    """
    recorder = Recorder(folder)
    if command is not None:
        recorder.note_command(command)
    if fresh:
        recorder.remove({run.id for run in runs})
    existing = list(read_runs(folder))
    versions = {record.versions["taciturn"] for record in existing} - {version("taciturn")}
    if versions:
        raise TaciturnError(
            f"{folder} was written by taciturn {min(versions)}, this is {version('taciturn')}; give another folder"
        )
    done = {record.id: record for record in existing if record.error is None}
    yield from (done[run.id] for run in runs if run.id in done)
    to_do = [run for run in runs if run.id not in done]
    for run, outcome in _outcomes(to_do, jobs, engine, address, on_step):
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
            raise TaciturnError(f"the engine ray needs {error.name}; {how_to_install('ray')} installs it") from None
    if address is not None:
        raise TaciturnError(f"address={address!r} is not allowed; it needs engine='ray'")
    return run_here(runs, on_step) if jobs == 1 else run_local(runs, jobs)


def _record(run: Run, outcome: Outcome) -> RunRecord:
    """Return the record of a run."""
    trace, task, graded = outcome.trace, run.task, run.dataset.rewards is not None
    labelled = 0 if graded else len(run.dataset.arms)
    return RunRecord(
        id=run.id,
        dataset=run.dataset.name,
        source=run.dataset.source,
        fingerprint=task.fingerprint,
        scaling=run.dataset.scaling,
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
        versions=_versions(task.method),
        cut_short=task.steps is not None and task.steps < len(run.dataset) - labelled,
        error=outcome.error,
        details=outcome.details,
        mean_reward=trace.mean_reward if graded and trace else None,
        regret=trace.regret if graded and trace else None,
        constant_reward=outcome.constant_reward,
        cost_weight=task.cost_weight,
        drift=task.drift,
        restart=task.restart,
    )


@cache
def _versions(method: str) -> dict[str, str]:
    packages = ("taciturn", "numpy", "scipy", "scikit-learn", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in packages} | library_version(method)
