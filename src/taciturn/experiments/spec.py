"""Experiments, from flags or a TOML file, and the single runs that they consist of."""

import hashlib
import inspect
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from taciturn.contracts import Agent, Dataset, FullFeedbackAgent
from taciturn.errors import TaciturnError
from taciturn.experiments.axes import parse_max_nodes, parse_restart
from taciturn.experiments.evaluate import told_the_right_arm
from taciturn.experiments.recorder import NO_DRIFT, Setting, run_id
from taciturn.registry import (
    COMMAND,
    METHODS,
    PROGRAM,
    command_words,
    import_agent,
    is_command,
    is_import_path,
    library_version,
    make,
    preset_file,
    unknown_name,
)
from taciturn.streams.delay import parse_delay
from taciturn.streams.drift import parse_drift
from taciturn.streams.missing import parse_missing
from taciturn.streams.stream import Stream
from taciturn.validate import check_number


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Every combination of data set, missing rate, delay, drift, restart, bound on memory, method and seed.

    Arguments:
        datasets: loaded data sets.
        methods: names of methods, ``package.module:Class`` for other agents, or ``command:`` and a program's command.
        missing, delay, drift: as `Stream` takes them.
        restart: as `evaluate` takes it, or "none"; an agent that has no `save` starts afresh.
        max_nodes: how many contexts agents hold at most, or "none": what `params` say, and no bound if they do not.
            Agents without this parameter are left out where there is a bound.
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
    drift: Sequence[str] = ("none",)
    restart: Sequence[float | str] = ("none",)
    max_nodes: Sequence[int | str] = ("none",)
    seeds: Sequence[int] = range(10)
    preset: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None
    cost_weight: float = 0.0


AXES = ("datasets", "methods", "missing", "delay", "drift", "restart", "max_nodes", "seeds")
"""Every combination of one of each is a run."""


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
    drift: str = NO_DRIFT
    restart: float | None = None
    max_nodes: int | None = None

    @property
    def setting(self) -> str:
        """The missing rewards, and of drift, restart and the bound on memory what there is, in a few words."""
        drift = self.drift if self.drift != NO_DRIFT else ""
        restart = "" if self.restart is None else f"restart {self.restart:g}"
        bound = "" if self.max_nodes is None else f"{self.max_nodes} nodes"
        return " ".join(part for part in (self.missing, drift, restart, bound) if part)

    def stream(self, dataset: Dataset) -> Stream:
        """Return the stream of this run."""
        options: dict[str, Any] = {"delay": self.delay, "steps": self.steps, "cost_weight": self.cost_weight}
        return Stream(dataset, self.missing, self.seed, drift=self.drift, **options)

    def agent(self, dataset: Dataset) -> Agent:
        """Return a fresh agent with the seed of its stream; where every arm has a reward, several can be good."""
        params = self.params if self.max_nodes is None else self.params | {"max_nodes": self.max_nodes}
        if dataset.rewards is not None and _takes(self.method, "one_right_arm"):
            params = {"one_right_arm": False} | params
        return make(self.method, arms=dataset.arms, preset=self.preset, seed=self.seed, **params)


@cache
def _takes(method: str, parameter: str) -> bool:
    """Whether an agent can be made with a parameter: a peer with those of all; of an unknown method, `make` says so."""
    path = PROGRAM if is_command(method) else method
    if not is_import_path(path):
        if path not in METHODS:
            return True
        path = METHODS[path].target
    return parameter in inspect.signature(import_agent(path)).parameters


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
        determinants: dict[str, Any] = {}  # what was added later, where it is there: other runs keep their ids
        if library := library_version(task.method):
            determinants["library"] = library
        if self.dataset.rewards is not None:
            determinants["rewards"] = "of every arm"
        if task.cost_weight:
            determinants["cost_weight"] = task.cost_weight
        if task.drift != NO_DRIFT:
            determinants["drift"] = task.drift
        if task.restart is not None:
            determinants["restart"] = task.restart
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
    """Return a hash of the source of an agent that is not a named method, so that changing it changes the run's id.

    That is the file of an import path; of a program, the files that its command names.
    """
    if is_command(method):
        words = command_words(method.removeprefix(COMMAND))
        files = [(word, _file_hash(word)) for word in words if _is_file(word)]
        return hashlib.sha256(repr(files).encode()).hexdigest()[:16]
    if not is_import_path(method):
        return None
    source = inspect.getsourcefile(import_agent(method))
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else None


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # too long for a path: a script within the command
        return False


def _file_hash(name: str) -> str:
    """Return a hash of a file, which may be large."""
    try:
        with Path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TaciturnError(f"cannot read {name}, which a command names: {error.strerror}") from None


def expand(experiment: Experiment, *, on_left_out: Callable[[str], object] | None = None) -> list[Run]:
    """Return the runs of an experiment, each once; raise for wrong names and values before anything runs.

    A method that is told the right arm, as oracle-full is, cannot run where every arm has a reward, and one without a
    parameter max_nodes not with bounded memory. Such a combination is left out, and `on_left_out` called with the
    reason; without it, or where no other runs are left, it raises.
    """
    check_number("cost_weight", experiment.cost_weight, 0, 1)
    for name in AXES:
        if not len(getattr(experiment, name)):
            raise TaciturnError(f"{name} is empty, so that there is nothing to run; give at least one")
    by_fingerprint = {dataset.fingerprint: dataset for dataset in experiment.datasets}
    axes = product(
        by_fingerprint,
        [str(Setting(*parse_missing(missing))) for missing in experiment.missing],
        [str(Setting(*parse_delay(delay))) for delay in experiment.delay],
        [str(Setting(*parse_drift(drift))) for drift in experiment.drift],
        map(parse_restart, experiment.restart),
        map(parse_max_nodes, experiment.max_nodes),
        experiment.methods,
        experiment.seeds,
    )
    runs = []
    for fingerprint, missing, delay, drift, restart, max_nodes, method, seed in axes:
        task = RunTask(
            fingerprint=fingerprint,
            method=method,
            missing=missing,
            delay=delay,
            seed=seed,
            preset=experiment.preset,
            params=experiment.params,
            steps=experiment.steps,
            cost_weight=float(experiment.cost_weight),  # 1 and 1.0 are equal
            drift=drift,
            restart=restart,
            max_nodes=max_nodes,
        )
        runs.append(Run(task, by_fingerprint[fingerprint]))
    settings = {(run.task.fingerprint, run.task.missing, run.task.delay, run.task.drift): run for run in runs}
    for run in settings.values():
        run.task.stream(run.dataset)  # raises for data and settings that fail with any seed
    return list({run.id: run for run in _possible(runs, on_left_out)}.values())


def _possible(runs: list[Run], on_left_out: Callable[[str], object] | None) -> list[Run]:
    """Return the runs without those that their agents cannot carry out; see `expand`."""
    reasons: dict[tuple[str, str, bool], str | None] = {}
    for run in runs:
        key = _agent_key(run)
        if key not in reasons:
            reasons[key] = _why_not(run)
    left_out = list(dict.fromkeys(reason for reason in reasons.values() if reason is not None))
    if left_out and (on_left_out is None or None not in reasons.values()):
        raise TaciturnError(left_out[0])
    for reason in left_out:
        on_left_out(reason)  # type: ignore[misc]  # None has raised
    return [run for run in runs if reasons[_agent_key(run)] is None]


def _agent_key(run: Run) -> tuple[str, str, bool]:
    """Return what it depends on whether an agent can carry out a run."""
    return run.task.fingerprint, run.task.method, run.task.max_nodes is not None


def _why_not(run: Run) -> str | None:
    """Return why an agent cannot carry out a run; None where it can."""
    task = run.task
    if task.max_nodes is not None and not _takes(task.method, "max_nodes"):
        return f"{task.method} has no parameter max_nodes, so its memory cannot be bounded"
    if run.dataset.rewards is not None and isinstance(task.agent(run.dataset), FullFeedbackAgent):
        return told_the_right_arm(task.method, run.dataset)
    return None


@dataclass(frozen=True, kw_only=True)
class Spec:
    """An experiment as flags or a TOML file describe it, before data is loaded; the fields are the keys of the file.

    Without `scaling`, rows are scaled as the preset's paper does, and not at all without a preset.
    """

    data: list[str]
    methods: list[str]
    missing: list[float | str] = field(default_factory=lambda: [0.5])
    delay: list[float | str] = field(default_factory=lambda: [0])
    drift: list[str] = field(default_factory=lambda: ["none"])
    restart: list[float | str] = field(default_factory=lambda: ["none"])
    max_nodes: list[int | str] = field(default_factory=lambda: ["none"])
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


def experiment_of(spec: Spec, datasets: Sequence[Dataset], methods: Sequence[str] | None = None) -> Experiment:
    """Return the experiment that a spec describes on loaded data sets, with its methods or others."""
    return Experiment(
        datasets=datasets,
        methods=spec.methods if methods is None else methods,
        missing=spec.missing,
        delay=spec.delay,
        drift=spec.drift,
        restart=spec.restart,
        max_nodes=spec.max_nodes,
        seeds=range(spec.seeds),
        preset=spec.preset,
        params=spec.params,
        steps=spec.steps,
        cost_weight=spec.cost_weight,
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file; raise in one line where there is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TaciturnError(f"no file {path}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TaciturnError(f"{path}: not a TOML file ({error})") from None


def read_spec(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file as fields of `Spec`; raise for unknown keys and wrong types."""
    return spec_values(read_toml(path), str(path))


def spec_values(keys: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the keys of a TOML table as fields of `Spec`, single values as lists; errors begin with `where`."""
    known = [field.name for field in fields(Spec)]
    for key in keys:
        if key not in known:
            raise TaciturnError(f"{where}: {unknown_name('key', key, known)}")
    axes = ("data", "methods", "missing", "delay", "drift", "restart", "max_nodes")
    lists = {key: [keys[key]] for key in axes if isinstance(keys.get(key), str | int | float)}
    values = keys | lists
    try:
        msgspec.convert({"data": [], "methods": []} | values, Spec)
    except msgspec.ValidationError as error:
        raise TaciturnError(f"{where}: {error}") from None
    return values
