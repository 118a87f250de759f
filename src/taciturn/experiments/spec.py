"""What to run: an experiment, from flags or from a TOML file, and the single runs that it stands for."""

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
from taciturn.experiments.recorder import run_id
from taciturn.registry import import_agent, is_import_path, make, unknown_name
from taciturn.streams.delay import parse_delay
from taciturn.streams.missing import parse_missing
from taciturn.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """All combinations of methods, missing rates, delays and seeds on the data sets.

    Arguments:
        datasets: loaded data sets.
        methods: names of methods, or ``package:Class`` for an agent of your own.
        missing, delay: as `Stream` takes them.
        seeds: one run for each.
        preset: settings of a paper.
        params: settings on top, for all methods.
        steps: at most so many rounds of each stream.
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
class Task:
    """All that a worker needs beside the data: small, and plain."""

    fingerprint: str
    method: str
    missing: str
    delay: str
    seed: int
    preset: str | None
    params: dict[str, Any]
    steps: int | None

    def stream(self, dataset: Dataset) -> Stream:
        """The environment of this run."""
        return Stream(dataset, self.missing, self.seed, delay=self.delay, steps=self.steps)

    def agent(self, dataset: Dataset) -> Agent:
        """A fresh agent, seeded as its stream."""
        return make(self.method, arms=dataset.arms, preset=self.preset, seed=self.seed, **self.params)


@dataclass(frozen=True, eq=False)
class Run:
    """One agent on one stream, known by the hash of all that determines the outcome."""

    task: Task
    dataset: Dataset

    @cached_property
    def params(self) -> dict[str, Any]:
        """All parameters of the agent but its arms and seed, as they go into results."""
        plain = (int, float, str, dict, type(None))
        given = self.task.agent(self.dataset).params
        return {
            name: value if isinstance(value, plain) else repr(value)
            for name, value in given.items()
            if name not in ("arms", "seed")
        }

    @cached_property
    def id(self) -> str:
        """Equal for equal runs, different for any other."""
        task = self.task
        return run_id(
            fingerprint=task.fingerprint,
            method=task.method,
            code=_own_code(task.method),
            params=self.params,
            missing=task.missing,
            delay=task.delay,
            seed=task.seed,
            steps=task.steps,
            taciturn=version("taciturn"),
        )


def _own_code(method: str) -> str | None:
    """A hash of the source of an agent that is not ours: when it changes, the run is another."""
    if not is_import_path(method):
        return None
    source = inspect.getsourcefile(import_agent(method))
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else None


def expand(experiment: Experiment) -> list[Run]:
    """All runs of an experiment, each once; wrong names and values are found here, before anything runs."""
    by_print = {dataset.fingerprint: dataset for dataset in experiment.datasets}
    axes = product(by_print, experiment.missing, experiment.delay, experiment.methods, experiment.seeds)
    runs = []
    for fingerprint, missing, delay, method, seed in axes:
        task = Task(
            fingerprint=fingerprint,
            method=method,
            missing=_spelled(*parse_missing(missing)),
            delay=_spelled(*parse_delay(delay)),
            seed=seed,
            preset=experiment.preset,
            params=experiment.params,
            steps=experiment.steps,
        )
        runs.append(Run(task, by_print[fingerprint]))
    for run in runs[:: len(experiment.seeds)]:
        run.task.stream(run.dataset)  # refuses what no seed can mend
    return list({run.id: run for run in runs}.values())


def _spelled(kind: str, number: float) -> str:
    """One spelling for each setting, so that equal runs have equal ids."""
    return f"{kind}:{number!r}"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The words of an experiment, as flags and TOML files give them; its fields are the keys of the file."""

    data: list[str]
    methods: list[str]
    missing: list[float | str] = field(default_factory=lambda: [0.5])
    delay: list[float | str] = field(default_factory=lambda: [0])
    seeds: int = 10
    preset: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    scaling: str = "l1"
    label: str | None = None
    edges: str | None = None
    steps: int | None = None


def read_spec(path: Path) -> dict[str, Any]:
    """The keys of a TOML file; unknown ones are refused with the nearest known."""
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
    words = keys | lists
    try:
        msgspec.convert({"data": [], "methods": []} | words, Spec)
    except msgspec.ValidationError as error:
        raise TaciturnError(f"{path}: {error}") from None
    return words
