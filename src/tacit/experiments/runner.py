"""An experiment: every method on every stream, each run once, results on disk as they come."""

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from tacit.contracts import Agent, Dataset, Trace
from tacit.experiments import memory
from tacit.experiments.evaluate import evaluate
from tacit.experiments.recorder import Recorder, RunRecord, read_runs, run_id
from tacit.registry import make
from tacit.streams.missing import parse_missing
from tacit.streams.stream import Stream

OnStep = Callable[[bool], object]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run: all combinations of methods, missing rates and seeds on the data sets."""

    datasets: Sequence[Dataset]
    methods: Sequence[str]
    missing: Sequence[float | str]
    seeds: Sequence[int]
    preset: str | None = None
    overrides: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One agent on one stream. Its `id` is the hash of all that determines the outcome."""

    dataset: Dataset
    method: str
    missing: str
    seed: int
    preset: str | None
    overrides: dict[str, Any]

    def agent(self) -> Agent:
        """A fresh agent, seeded as its stream."""
        return make(self.method, arms=self.dataset.arms, preset=self.preset, seed=self.seed, **self.overrides)

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the agent but its arms and seed, as they go into results."""
        plain = (int, float, str, dict, type(None))
        given = {name: value for name, value in self.agent().params.items() if name not in ("arms", "seed")}
        return {name: value if isinstance(value, plain) else repr(value) for name, value in given.items()}

    @property
    def id(self) -> str:
        """Equal for equal runs, different for any other."""
        return run_id(
            fingerprint=self.dataset.fingerprint,
            method=self.method,
            params=self.params,
            missing=self.missing,
            seed=self.seed,
            tacit=version("tacit"),
        )

    def record(self, stream: Stream, trace: Trace, peak_memory_mb: float | None) -> RunRecord:
        """The line for the results file."""
        constant_arm, constant_accuracy = stream.best_constant_arm
        return RunRecord(
            id=self.id,
            dataset=self.dataset.name,
            source=self.dataset.source,
            fingerprint=self.dataset.fingerprint,
            method=self.method,
            params=self.params,
            missing=self.missing,
            seed=self.seed,
            accuracy=trace.accuracy,
            constant_arm=str(constant_arm),
            constant_accuracy=constant_accuracy,
            steps=len(trace.correct),
            seconds=trace.seconds,
            peak_memory_mb=peak_memory_mb,
            versions=_versions(),
        )


def expand(experiment: Experiment) -> list[Run]:
    """All runs of an experiment, each once; wrong names and values are found here, before anything runs."""
    axes = product(experiment.datasets, experiment.missing, experiment.methods, experiment.seeds)
    runs = [
        Run(dataset, method, _missing_text(missing), seed, experiment.preset, experiment.overrides)
        for dataset, missing, method, seed in axes
    ]
    return list({run.id: run for run in runs}.values())


def execute(
    runs: Sequence[Run], folder: Path, *, fresh: bool = False, on_step: Callable[[Run], OnStep] | None = None
) -> Iterator[RunRecord]:
    """Do the runs that the folder does not have yet, and yield the records of all of them in their order.

    `fresh` forgets what the folder has of these; `on_step` is asked once a run for what to call after each step.
    """
    recorder = Recorder(folder)
    if fresh:
        recorder.forget({run.id for run in runs})
    done = {record.id: record for record in read_runs(folder)}
    for run in runs:
        if run.id not in done:
            stream = Stream(run.dataset, missing=run.missing, seed=run.seed)
            memory.reset_peak()
            trace = evaluate(run.agent(), stream, progress=on_step(run) if on_step else False)
            done[run.id] = run.record(stream, trace, memory.peak_mb())
            recorder.add(done[run.id], trace)
        yield done[run.id]


def _missing_text(missing: float | str) -> str:
    """One spelling for each way to be silent, so that equal runs have equal ids."""
    mechanism, rate = parse_missing(missing)
    return f"{mechanism}:{rate!r}"


def _versions() -> dict[str, str]:
    packages = ("tacit", "numpy", "scipy", "scikit-learn", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
