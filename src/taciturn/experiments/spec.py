"""Experiments, from flags or a TOML file, and the single runs that they consist of."""

import hashlib
import inspect
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from taciturn.contracts import Agent, Dataset, FullFeedbackAgent
from taciturn.errors import TaciturnError
from taciturn.experiments.evaluate import told_the_right_arm
from taciturn.experiments.recorder import Setting, run_id
from taciturn.registry import import_agent, is_import_path, library_version, make, preset_file, unknown_name
from taciturn.streams.delay import parse_delay
from taciturn.streams.missing import parse_missing
from taciturn.streams.stream import Stream
from taciturn.validate import check_number


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
        cost_weight: how much costs count, as `Stream` takes it.

    Where a data set has a reward for every arm, agents get ``one_right_arm=False`` unless `params` say otherwise.
    """

    datasets: Sequence[Dataset]
    methods: Sequence[str]
    missing: Sequence[float | str] = (0.5,)
    delay: Sequence[float | str] = (0,)
    seeds: Sequence[int] = range(10)
    preset: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None
    cost_weight: float = 0.0


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
    cost_weight: float = 0.0

    def stream(self, dataset: Dataset) -> Stream:
        """Return the stream of this run."""
        options: dict[str, Any] = {"delay": self.delay, "steps": self.steps, "cost_weight": self.cost_weight}
        return Stream(dataset, self.missing, self.seed, **options)

    def agent(self, dataset: Dataset) -> Agent:
        """Return a fresh agent with the seed of its stream; where every arm has a reward, several can be good."""
        params = self.params
        if dataset.rewards is not None and _takes(self.method, "one_right_arm"):
            params = {"one_right_arm": False} | params
        return make(self.method, arms=dataset.arms, preset=self.preset, seed=self.seed, **params)


def _takes(method: str, parameter: str) -> bool:
    """Whether an agent can be made with a parameter: all named ones, and those at import paths that name it."""
    if not is_import_path(method):
        return True
    return parameter in inspect.signature(import_agent(method)).parameters


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
        determinants: dict[str, Any] = {}  # of peers and of data with a reward for every arm: others keep their ids
        if library := library_version(task.method):
            determinants["library"] = library
        if self.dataset.rewards is not None:
            determinants["rewards"] = "of every arm"
        if task.cost_weight:
            determinants["cost_weight"] = task.cost_weight
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
            **determinants,
        )


def _source_hash(method: str) -> str | None:
    """Return a hash of the source of an agent given by import path, so that changing it changes the run's id."""
    if not is_import_path(method):
        return None
    source = inspect.getsourcefile(import_agent(method))
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else None


def expand(experiment: Experiment, *, on_left_out: Callable[[str], object] | None = None) -> list[Run]:
    """Return the runs of an experiment, each once; raise for wrong names and values before anything runs.

    A method that is told the right arm, as oracle-full is, cannot run where every arm has a reward. Such a combination
    is left out, and `on_left_out` called with the reason; without it, or where no other runs are left, it raises.
    """
    check_number("cost_weight", experiment.cost_weight, 0, 1)
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
            cost_weight=float(experiment.cost_weight),  # 1 and 1.0 are equal
        )
        runs.append(Run(task, by_fingerprint[fingerprint]))
    for run in runs[:: len(experiment.seeds)]:
        run.task.stream(run.dataset)  # raises for data and settings that fail with any seed
    return list({run.id: run for run in _possible(runs, on_left_out)}.values())


def _possible(runs: list[Run], on_left_out: Callable[[str], object] | None) -> list[Run]:
    """Return the runs without those of agents that need a right arm on data without one; see `expand`."""
    reasons: dict[tuple[str, str], str | None] = {}
    for run in runs:
        key = (run.task.fingerprint, run.task.method)
        if key not in reasons:
            impossible = run.dataset.rewards is not None and isinstance(run.task.agent(run.dataset), FullFeedbackAgent)
            reasons[key] = told_the_right_arm(run.task.method, run.dataset) if impossible else None
    left_out = [reason for reason in reasons.values() if reason is not None]
    if left_out and (on_left_out is None or len(left_out) == len(reasons)):
        raise TaciturnError(left_out[0])
    for reason in left_out:
        on_left_out(reason)  # type: ignore[misc]  # None has raised
    return [run for run in runs if reasons[run.task.fingerprint, run.task.method] is None]


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
    cost_weight: float = 0.0

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
