"""Experiments, from flags or a TOML file, and the single runs that they consist of."""

import hashlib
import inspect
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from taciturn.contracts import Agent, Dataset
from taciturn.errors import TaciturnError
from taciturn.experiments.recorder import Setting, run_id
from taciturn.registry import import_agent, is_import_path, make, preset_file, unknown_name
from taciturn.streams.delay import parse_delay
from taciturn.streams.missing import parse_missing
from taciturn.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Every combination of data set, missing rate, delay, method and seed.

    Arguments:
        datasets: loaded data sets.
        methods: names of methods, or ``package.module:Class`` for other agents.
        missing, delay: as `Stream` takes them.
        seeds: one run for each.
        preset: the settings of a paper.
        params: parameters for all methods, which take precedence over the preset.
        steps: the maximal number of rounds of each stream.
    """

    datasets: Sequence[Dataset]
    methods: Sequence[str]
    missing: Sequence[float | str] = (0.5,)
    delay: Sequence[float | str] = (0,)
    seeds: Sequence[int] = range(10)
    preset: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunTask:
    """The part of a run that is sent to a worker process; the data set is referred to by its fingerprint."""

    fingerprint: str
    method: str
    missing: str
    delay: str
    seed: int
    preset: str | None
    params: dict[str, Any]
    steps: int | None

    def stream(self, dataset: Dataset) -> Stream:
        """Return the stream of this run."""
        return Stream(dataset, self.missing, self.seed, delay=self.delay, steps=self.steps)

    def agent(self, dataset: Dataset) -> Agent:
        """Return a fresh agent with the seed of its stream."""
        return make(self.method, arms=dataset.arms, preset=self.preset, seed=self.seed, **self.params)


@dataclass(frozen=True, eq=False)
class Run:
    """One agent on one stream, identified by a hash of everything that determines the outcome."""

    task: RunTask
    dataset: Dataset

    @cached_property
    def params(self) -> dict[str, Any]:
        """The agent's parameters except its arms and seed, as values that can be written as JSON."""
        plain = (int, float, str, dict, type(None))
        given = self.task.agent(self.dataset).params
        return {
            name: value if isinstance(value, plain) else repr(value)
            for name, value in given.items()
            if name not in ("arms", "seed")
        }

    @cached_property
    def id(self) -> str:
        """A hash: equal for equal runs, different for any other."""
        task = self.task
        return run_id(
            fingerprint=task.fingerprint,
            method=task.method,
            code=_source_hash(task.method),
            params=self.params,
            missing=task.missing,
            delay=task.delay,
            seed=task.seed,
            steps=task.steps,
            taciturn=version("taciturn"),
        )


def _source_hash(method: str) -> str | None:
    """Return a hash of the source of an agent given by import path, so that changing it changes the run's id."""
    if not is_import_path(method):
        return None
    source = inspect.getsourcefile(import_agent(method))
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else None


def expand(experiment: Experiment) -> list[Run]:
    """Return the runs of an experiment, each once; raise for wrong names and values before anything runs."""
    by_fingerprint = {dataset.fingerprint: dataset for dataset in experiment.datasets}
    axes = product(by_fingerprint, experiment.missing, experiment.delay, experiment.methods, experiment.seeds)
    runs = []
    for fingerprint, missing, delay, method, seed in axes:
        task = RunTask(
            fingerprint=fingerprint,
            method=method,
            missing=str(Setting(*parse_missing(missing))),
            delay=str(Setting(*parse_delay(delay))),
            seed=seed,
            preset=experiment.preset,
            params=experiment.params,
            steps=experiment.steps,
        )
        runs.append(Run(task, by_fingerprint[fingerprint]))
    for run in runs[:: len(experiment.seeds)]:
        run.task.stream(run.dataset)  # raises for data and settings that fail with any seed
    return list({run.id: run for run in runs}.values())


@dataclass(frozen=True, kw_only=True)
class Spec:
    """An experiment as flags or a TOML file describe it, before data is loaded; the fields are the keys of the file.

    Without `scaling`, rows are scaled as the preset's paper does, and not at all without a preset.
    """

    data: list[str]
    methods: list[str]
    missing: list[float | str] = field(default_factory=lambda: [0.5])
    delay: list[float | str] = field(default_factory=lambda: [0])
    seeds: int = 10
    preset: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    scaling: str | None = None
    label: str | None = None
    edges: str | None = None
    steps: int | None = None

    @property
    def row_scaling(self) -> str:
        """How the rows of the data are scaled."""
        if self.scaling is not None:
            return self.scaling
        return "none" if self.preset is None else str(preset_file(self.preset)["experiment"]["scaling"])


def read_spec(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file as fields of `Spec`; raise for unknown keys and wrong types."""
    try:
        keys = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TaciturnError(f"no file {path}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TaciturnError(f"{path}: not a TOML file ({error})") from None
    known = [field.name for field in fields(Spec)]
    for key in keys:
        if key not in known:
            raise TaciturnError(f"{path}: {unknown_name('key', key, known)}")
    lists = {
        key: [keys[key]] for key in ("data", "methods", "missing", "delay") if isinstance(keys.get(key), str | float)
    }
    values = keys | lists
    try:
        msgspec.convert({"data": [], "methods": []} | values, Spec)
    except msgspec.ValidationError as error:
        raise TaciturnError(f"{path}: {error}") from None
    return values
