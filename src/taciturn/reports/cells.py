"""Cells of a leaderboard: the runs of one method on one data set and setting; and the axes that settings are on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taciturn.experiments.recorder import NO_DRIFT, RunRecord, Setting
from taciturn.intervals import mean_interval
from taciturn.measures import Measure

SettingKey = tuple[str, str, str, float | None, int | None]
"""Missing, delay, drift, restart and max_nodes, as in `RunRecord.setting_key`."""

AXES = ("silence", "mechanism", "delay", "drift", "memory", "restart", "several at once")


def axis_of(setting: SettingKey) -> str:
    """Return which axis a setting is on: "silence" where rewards are missing at random and nothing else is changed."""
    missing, delay, drift, restart, max_nodes = setting
    changed = {
        "mechanism": Setting.parse(missing).kind != "mcar",
        "delay": Setting.parse(delay).value != 0,
        "drift": drift != NO_DRIFT,
        "memory": max_nodes is not None,
        "restart": restart is not None,
    }
    axes = [axis for axis, is_changed in changed.items() if is_changed]
    return "silence" if not axes else axes[0] if len(axes) == 1 else "several at once"


def without(setting: SettingKey) -> SettingKey:
    """Return the setting on the axis of silence with the same rate."""
    return str(Setting("mcar", Setting.parse(setting[0]).value)), str(Setting("fixed", 0.0)), NO_DRIFT, None, None


def setting_order(setting: SettingKey) -> tuple[object, ...]:
    """Sort by axis, then by kinds and numbers."""
    missing, delay, drift, restart, max_nodes = setting
    numbers = [Setting.parse(text) for text in (missing, delay, drift)]
    ends = -1.0 if restart is None else restart, -1 if max_nodes is None else max_nodes
    return AXES.index(axis_of(setting)), *numbers, *ends


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The runs of one method on one data set and setting."""

    data: str
    setting: SettingKey
    method: str
    measure: Measure
    runs: list[RunRecord]

    @cached_property
    def finished(self) -> list[RunRecord]:
        """The runs that did not fail."""
        return [record for record in self.runs if record.result is not None]

    @property
    def failed(self) -> int:
        """How many runs failed."""
        return len(self.runs) - len(self.finished)

    @cached_property
    def mean(self) -> float | None:
        """The mean result of the finished runs, from 0 to 1."""
        return mean_of(record.result for record in self.finished)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds; None with fewer than two."""
        results = [record.result for record in self.finished if record.result is not None]
        return float(np.std(results, ddof=1)) if len(results) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean over seeds; None with fewer than two."""
        ends = mean_interval(list(self.by_seed.values()))
        return None if ends is None else (float(ends[0]), float(ends[1]))

    @property
    def by_seed(self) -> dict[int, float]:
        """The results of the finished runs."""
        return {record.seed: record.result for record in self.finished if record.result is not None}

    @property
    def ranked_by(self) -> float:
        """What the cell is ranked by: its mean, and NaN, the last rank, where a run failed."""
        return float("nan") if self.failed or self.mean is None else self.mean

    @property
    def regret(self) -> float | None:
        """The mean cumulative regret: what the best arms would have earned more."""
        return mean_of(map(run_regret, self.finished))

    @property
    def ms_per_step(self) -> float | None:
        """Milliseconds a step."""
        return step_milliseconds(self.finished)

    @property
    def mb(self) -> float | None:
        """The highest peak of memory in MB."""
        return peak_mb(self.finished)


def run_regret(record: RunRecord) -> float | None:
    """Return the regret of a run: that of its record, or (1 − accuracy) · steps where one arm is right."""
    if record.mean_reward is not None or record.accuracy is None:
        return record.regret
    return (1 - record.accuracy) * record.steps


def step_milliseconds(runs: Sequence[RunRecord]) -> float | None:
    """Return the milliseconds a step of runs together."""
    steps = sum(record.steps for record in runs)
    return 1000 * sum(record.seconds for record in runs) / steps if steps else None


def peak_mb(runs: Sequence[RunRecord]) -> float | None:
    """Return the highest peak of memory of runs."""
    return max((record.peak_memory_mb for record in runs if record.peak_memory_mb is not None), default=None)


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None where there is none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
