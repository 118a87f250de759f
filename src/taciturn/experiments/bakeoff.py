"""The silence bake-off: blocks of experiments from one TOML file, in three sizes."""

import tomllib
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from taciturn.contracts import Dataset
from taciturn.errors import DataUnavailable, TaciturnError, how_to_install
from taciturn.experiments.bakeoff_info import BakeoffInfo, Size
from taciturn.experiments.spec import Run, Spec, expand, experiment_of, read_toml, spec_values
from taciturn.registry import missing_library, unknown_name

BUILT_IN = "bakeoff.toml"
GROUP = "@"
"""How a name begins that stands for a list of `groups`."""


class LeftOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Methods that do not run on some data sets, and why."""

    methods: list[str]
    data: list[str]
    reason: str


class Bakeoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A TOML file: see the comments in ``bakeoff.toml``.

    `size` has the blocks of each size by their names, as they are in the file.
    """

    size: dict[str, dict[str, dict[str, Any]]]
    title: str = "The silence bake-off"
    recommended: str = "viewucb"
    tuned_on: list[str] = []
    groups: dict[str, list[str]] = {}
    left_out: list[LeftOut] = []

    def blocks(self, size: str) -> dict[str, Spec]:
        """Return the blocks of a size, with the names of groups replaced by what they stand for."""
        if size not in self.size:
            raise unknown_name("size", size, self.size)
        return {name: self._spec(f"[size.{size}.{name}]", keys) for name, keys in self.size[size].items()}

    def _spec(self, where: str, keys: dict[str, Any]) -> Spec:
        values = spec_values(keys, where)
        for key in ("data", "methods"):
            if not values.get(key):
                raise TaciturnError(f"{where}: {key} is missing or empty; give at least one name")
            values[key] = list(dict.fromkeys(self._names(where, values[key])))
        return Spec(**values)

    def _names(self, where: str, names: list[str]) -> Iterator[str]:
        for name in names:
            if not name.startswith(GROUP):
                yield name
            elif name[1:] in self.groups:
                yield from self.groups[name[1:]]
            else:
                raise TaciturnError(f"{where}: {unknown_name('group', name[1:], self.groups)}")

    def reasons(self) -> dict[str, dict[str, str]]:
        """Return why methods are left out on purpose, by method and data set."""
        found: dict[str, dict[str, str]] = {}
        for entry in self.left_out:
            for method in entry.methods:
                found.setdefault(method, {}).update(dict.fromkeys(entry.data, entry.reason))
        return found


def built_in_spec() -> str:
    """Return the text of the built-in file."""
    return files("taciturn.experiments").joinpath(BUILT_IN).read_text(encoding="utf-8")


def read_bakeoff(path: Path | None = None) -> Bakeoff:
    """Return a bake-off from a TOML file, the built-in one by default; raise in one line for wrong keys and values."""
    keys = tomllib.loads(built_in_spec()) if path is None else read_toml(path)
    try:
        return msgspec.convert(keys, Bakeoff)
    except msgspec.ValidationError as error:
        raise TaciturnError(f"{path or BUILT_IN}: {error}") from None


class Plan(NamedTuple):
    """The runs of a bake-off, each once, and what the leaderboard has to know beside them."""

    runs: list[Run]
    info: BakeoffInfo


class Planner:
    """Turns blocks into runs: loads each data set once in each form, and leaves out what is not here.

    Arguments:
        bakeoff: what to run.
        load: returns the data set of a name or file that a block names; raises `DataUnavailable` where it is not here.
        on_left_out: called with each reason for which something is left out.
    """

    def __init__(
        self, bakeoff: Bakeoff, load: Callable[[str, Spec], Dataset], on_left_out: Callable[[str], object]
    ) -> None:
        self._bakeoff, self._load, self._on_left_out = bakeoff, load, on_left_out
        self._loaded: dict[tuple[str | None, ...], Dataset | None] = {}
        self._told: set[str] = set()

    def plan(self, size: Size, blocks: dict[str, Spec]) -> Plan:
        """Return the runs of some blocks, the first seed of all before the second, so that a part of them says much."""
        reasons = self._bakeoff.reasons()
        runs = {run.id: run for block in blocks.values() for run in self._expand(block)}
        wanted = [run for run in runs.values() if run.dataset.name not in reasons.get(run.task.method, {})]
        if not wanted:
            raise TaciturnError("nothing is left to run; taciturn datasets says what data there is")
        names, methods = {run.dataset.name for run in wanted}, {run.task.method for run in wanted}
        left_out = {
            method: {name: reason for name, reason in of_method.items() if name in names}
            for method, of_method in reasons.items()
            if method in methods
        }
        info = BakeoffInfo(
            title=self._bakeoff.title,
            size=size,
            tuned_on=self._bakeoff.tuned_on,
            recommended=self._bakeoff.recommended,
            left_out={method: of_method for method, of_method in left_out.items() if of_method},
        )
        return Plan(sorted(wanted, key=lambda run: run.task.seed), info)

    def _expand(self, block: Spec) -> list[Run]:
        datasets = [data for name in block.data if (data := self._dataset(name, block)) is not None]
        methods = [method for method in block.methods if self._is_installed(method)]
        if not datasets or not methods:
            return []
        return expand(experiment_of(block, datasets, methods), on_left_out=self._tell)

    def _dataset(self, name: str, block: Spec) -> Dataset | None:
        key = name, block.row_scaling, block.label, block.edges
        if key not in self._loaded:
            self._loaded[key] = None
            try:
                self._loaded[key] = self._load(name, block)
            except DataUnavailable as error:
                self._tell(str(error))
        return self._loaded[key]

    def _is_installed(self, method: str) -> bool:
        lacking = missing_library(method)
        if lacking is not None:
            self._tell(f"methods of {lacking}, which is not installed: {how_to_install('peers')}")
        return lacking is None

    def _tell(self, reason: str) -> None:
        """Pass a reason on, once."""
        if reason not in self._told:
            self._told.add(reason)
            self._on_left_out(reason)
