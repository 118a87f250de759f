"""The leaderboard of a bake-off: what is ranked, counted and compared, and over which runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from taciturn.experiments.bakeoff_info import BakeoffInfo, read_info
from taciturn.experiments.recorder import RunRecord, latest_runs
from taciturn.measures import REWARD, RIGHT, Measure, measure_of
from taciturn.registry import library_of, peer_of_zeros
from taciturn.reports.best import TOLD, Best, best_of
from taciturn.reports.cells import (
    Cell,
    SettingKey,
    axis_of,
    mean_of,
    peak_mb,
    run_regret,
    setting_order,
    step_milliseconds,
    without,
)
from taciturn.reports.duels import Duel, Duels
from taciturn.reports.ranks import Ranking, rank_table
from taciturn.reports.standings import Ahead, Standing, Tally
from taciturn.reports.tables import DataKey, data_labels, setting_text

MOST_LINES = 10


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """Runs by cell, and what is counted over them.

    `data` are the labels of data sets with their names, `settings` those of settings, both in the order of tables;
    `replaced` runs are not counted: they had a later one with the same data, setting, method and seed, or fewer steps
    than others on the same data and setting.
    """

    info: BakeoffInfo
    runs: list[RunRecord]
    replaced: int
    data: dict[str, str]
    measures: dict[str, Measure]
    settings: dict[SettingKey, str]
    cells: dict[tuple[str, SettingKey, str], Cell]
    duels: Duels
    _compared: dict[tuple[str, SettingKey, str], Duel | None] = field(default_factory=dict)

    @cached_property
    def ranked_data(self) -> list[str]:
        """The labels of the data sets that count: all on which peers were not tuned."""
        return [label for label, name in self.data.items() if name not in self.info.tuned_on]

    def on_axis(self, axis: str) -> list[SettingKey]:
        """The settings on an axis."""
        return [setting for setting in self.settings if axis_of(setting) == axis]

    @cached_property
    def silence(self) -> list[SettingKey]:
        """The rates of silence, lowest first."""
        return self.on_axis("silence")

    @cached_property
    def all_methods(self) -> list[str]:
        """Every method that has runs or was left out, by name."""
        return sorted({record.method for record in self.runs} | self.info.left_out.keys())

    @cached_property
    def methods(self) -> list[str]:
        """The methods that are ranked, best first: those that finished a cell of a ranked data set and rate."""
        return list(self.mean_ranks)

    @cached_property
    def apart(self) -> dict[str, str]:
        """The methods that are not ranked, with the reason."""
        return {method: self._why_apart(method) for method in self.all_methods if method not in self.methods}

    def _why_apart(self, method: str) -> str:
        if method == TOLD:
            return "told the right arm after every decision"
        if peer_of_zeros(method):
            return "count silence as 0: see the table of zeros"
        runs = [record for record in self.runs if record.method == method]
        if not runs:
            return "left out"
        if all(record.result is None for record in runs):
            return "all runs failed"
        return "finished no run on a ranked data set with rewards missing at random and nothing else changed"

    def entered(self, settings: Iterable[SettingKey]) -> list[str]:
        """The methods, by name, that finished a ranked data set in one of some settings.

        Without `TOLD`, and without peers that count silence as 0, which are compared with themselves without it.
        """
        wanted = set(settings)
        found = {
            method
            for (data, setting, method), cell in self.cells.items()
            if setting in wanted and data in self.ranked_data and cell.finished and method != TOLD
        }
        return sorted(method for method in found if not peer_of_zeros(method))

    def blocks(self, settings: Iterable[SettingKey]) -> list[tuple[str, SettingKey]]:
        """The ranked data sets and settings in which a method that is not told finished."""
        there = {key[:2] for key, cell in self.cells.items() if cell.finished and cell.method != TOLD}
        return [(data, setting) for setting in settings for data in self.ranked_data if (data, setting) in there]

    def ranking(self, settings: Sequence[SettingKey], methods: Sequence[str]) -> Ranking | None:
        """Rank methods over the ranked data sets in some settings; None where nothing was finished."""
        blocks = self.blocks(settings)
        if not blocks or not methods:
            return None
        rows = [[self._ranked_by(data, setting, method) for method in methods] for data, setting in blocks]
        return rank_table(methods, np.array(rows))

    def _ranked_by(self, data: str, setting: SettingKey, method: str) -> float:
        cell = self.cells.get((data, setting, method))
        return float("nan") if cell is None else cell.ranked_by

    @cached_property
    def rate_rankings(self) -> dict[SettingKey, Ranking]:
        """The ranking of all ranked methods at each rate of silence."""
        found = {setting: self.ranking([setting], sorted(self.methods)) for setting in self.silence}
        return {setting: ranked for setting, ranked in found.items() if ranked is not None}

    @cached_property
    def mean_ranks(self) -> dict[str, float]:
        """The mean rank of each method over all ranked data sets and rates of silence, best first."""
        ranked = self.ranking(self.silence, self.entered(self.silence))
        return {} if ranked is None else ranked.mean_ranks

    @cached_property
    def standings(self) -> list[Standing]:
        """The rows of the main table, best first."""
        return [self._standing(method, rank) for method, rank in self.mean_ranks.items()]

    def _standing(self, method: str, rank: float) -> Standing:
        finished = [record for cell in self.ranked_cells(method, self.silence) for record in cell.finished]
        return Standing(
            method=method,
            library=library_of(method),
            rank=rank,
            ranks={setting: ranked.mean_ranks[method] for setting, ranked in self.rate_rankings.items()},
            tally=self.tally(method, self.silence),
            means={measure: self.mean(method, self.silence, measure) for measure in self.ranked_measures},
            ms_per_step=step_milliseconds(finished),
            mb=peak_mb(finished),
            lacks=self.lacks(method, self.silence),
        )

    def duel(self, data: str, setting: SettingKey, method: str) -> Duel | None:
        """Compare a method with the recommended one; None where one of them did not finish."""
        key = data, setting, method
        if key not in self._compared:
            one, two = self.cells.get(key), self.cells.get((data, setting, self.info.recommended))
            if one is None or two is None or one is two:
                self._compared[key] = None
            else:
                self._compared[key] = self.duels.compare(one.finished, two.finished)
        return self._compared[key]

    def tally(self, method: str, settings: Iterable[SettingKey]) -> Tally | None:
        """Count a method's cells against the recommended one's; None where there is none to compare."""
        return Tally.of(self.duel(data, setting, method) for data, setting in self.blocks(settings))

    def ranked_cells(self, method: str, settings: Iterable[SettingKey]) -> list[Cell]:
        """The cells of a method on ranked data sets in some settings."""
        keys = [(data, setting, method) for setting in settings for data in self.ranked_data]
        return [self.cells[key] for key in keys if key in self.cells]

    def mean(self, method: str, settings: Iterable[SettingKey], measure: Measure) -> float | None:
        """The mean result of a method over its finished cells on ranked data sets of a measure."""
        return mean_of(cell.mean for cell in self.ranked_cells(method, settings) if cell.measure == measure)

    def complete_means(self, method: str, measure: Measure) -> list[tuple[int, float]]:
        """The places of rates, and mean results there, where a method finished all ranked data sets of a measure."""
        points = []
        for place, setting in enumerate(self.silence):
            wanted = [data for data, _ in self.blocks([setting]) if self.measures[data] == measure]
            cells = [cell for cell in self.ranked_cells(method, [setting]) if cell.measure == measure]
            means = [cell.mean for cell in cells if cell.mean is not None]
            if means and len(means) == len(wanted):
                points.append((place, float(np.mean(means))))
        return points

    def lacks(self, method: str, settings: Iterable[SettingKey]) -> int:
        """In how many ranked data sets and settings a method failed or was left out: its rank there is the last."""
        return sum(bool(np.isnan(self._ranked_by(data, setting, method))) for data, setting in self.blocks(settings))

    def regret_rate(self, method: str) -> float | None:
        """The regret of a method in 1,000 steps, over all finished runs on ranked data sets with silence alone."""
        runs = [record for cell in self.ranked_cells(method, self.silence) for record in cell.finished]
        steps = sum(record.steps for record in runs)
        return 1000 * sum(run_regret(record) or 0.0 for record in runs) / steps if steps else None

    def change(self, method: str, setting: SettingKey) -> float | None:
        """How much a method's mean differs from that with the same silence alone, over ranked data sets with both."""
        pairs = [
            (cell.mean, alone.mean)
            for cell in self.ranked_cells(method, [setting])
            if (alone := self.cells.get((cell.data, without(setting), method)))
        ]
        return mean_of(there - alone for there, alone in pairs if there is not None and alone is not None)

    def zero_pairs(self, method: str, setting: SettingKey) -> list[tuple[Cell, Cell]]:
        """Return the finished cells of a peer without and with zeros in place of silence, on ranked data sets."""
        pairs = [
            (self.cells.get((cell.data, setting, peer_of_zeros(method) or method)), cell)
            for cell in self.ranked_cells(method, [setting])
        ]
        return [(skipping, cell) for skipping, cell in pairs if skipping and skipping.finished and cell.finished]

    def constant_arm(self, data: str, setting: SettingKey) -> tuple[str, float | None]:
        """The arm that is best if always chosen, and its mean over seeds."""
        by_seed = {
            record.seed: record
            for key, cell in self.cells.items()
            if key[:2] == (data, setting)
            for record in cell.finished
        }
        means = [
            record.constant_accuracy if record.constant_reward is None else record.constant_reward
            for record in by_seed.values()
        ]
        arms = sorted({record.constant_arm for record in by_seed.values()})
        return " or ".join(arms), mean_of(means)

    def best(self, data: str, setting: SettingKey) -> float | None:
        """The highest mean of a method that is not told, on a data set and setting."""
        here = [cell.mean for key, cell in self.cells.items() if key[:2] == (data, setting) and cell.method != TOLD]
        return max((mean for mean in here if mean is not None), default=None)

    def first_by_test(self, data: str, setting: SettingKey) -> Best[str]:
        """Which method is the best on a data set and setting, as far as tests over seeds support it."""
        here = {
            cell.method: cell
            for key, cell in self.cells.items()
            if key[:2] == (data, setting) and cell.finished and cell.method != TOLD
        }
        steps = min((record.steps for cell in here.values() for record in cell.finished), default=1)
        return best_of({method: cell.by_seed for method, cell in here.items()}, steps)

    def not_first(self) -> list[Ahead]:
        """The data sets and settings, ranked or not, in which others have a higher mean than the recommended method."""
        found: dict[tuple[str, SettingKey], list[Cell]] = {}
        for (data, setting, method), cell in self.cells.items():
            ours = self.cells.get((data, setting, self.info.recommended))
            least = -1.0 if ours is None or ours.mean is None else ours.mean
            if method not in (TOLD, self.info.recommended) and cell.mean is not None and cell.mean > least:
                found.setdefault((data, setting), []).append(cell)
        return [Ahead(*key, sorted(cells, key=lambda cell: -(cell.mean or 0.0))) for key, cells in found.items()]

    @cached_property
    def shown_methods(self) -> list[str]:
        """At most ten methods for pictures: recommended, best of each library, linucb, static; then the best others."""
        best_of_each = {library_of(method): method for method in reversed(self.methods)}.values()
        wanted = [self.info.recommended, *best_of_each, "linucb", "static", *self.methods]
        chosen = [method for method in dict.fromkeys(wanted) if method in self.methods][:MOST_LINES]
        return [method for method in self.methods if method in chosen]

    @property
    def ranked_measures(self) -> list[Measure]:
        """The measures of the ranked data sets: accuracy, mean reward or both."""
        return [measure for measure in (RIGHT, REWARD) if measure in {self.measures[data] for data in self.ranked_data}]


def read_leaderboard(folder: Path) -> Leaderboard:
    """Return the leaderboard of a results folder; one without runs has no cells."""
    every = latest_runs(folder)
    graded = {record.data_key[:2] for record in every if record.mean_reward is not None}
    keys = [_data_key(record, graded) for record in every]
    labels = data_labels([record for record, key in zip(every, keys, strict=True) if record.data_key == key])
    counted = _longest([(labels[key], record) for record, key in zip(every, keys, strict=True)])
    kept = {(label, record.setting_key, record.method, record.seed): record for label, record in counted}
    settings = {setting: setting_text(record) for (_, setting, _, _), record in kept.items()}
    measures = {labels[key]: measure_of(graded=key[2] == REWARD.name) for key in keys}
    order = sorted(kept, key=lambda key: (key[0], setting_order(key[1]), key[2], key[3]))
    cells: dict[tuple[str, SettingKey, str], Cell] = {}
    for key in order:
        data, setting, method, _ = key
        fresh = Cell(data=data, setting=setting, method=method, measure=measures[data], runs=[])
        cells.setdefault((data, setting, method), fresh).runs.append(kept[key])
    return Leaderboard(
        info=read_info(folder),
        runs=[kept[key] for key in order],
        replaced=len(every) - len(kept),
        data={key[0]: kept[key].dataset for key in order},
        measures=measures,
        settings={setting: settings[setting] for setting in sorted(settings, key=setting_order)},
        cells=cells,
        duels=Duels(folder),
    )


def _longest(labelled: list[tuple[str, RunRecord]]) -> list[tuple[str, RunRecord]]:
    """Return the runs of each data set and setting that have the most steps, and those that failed.

    A folder can hold a look at 300 rounds beside runs of 1000, which learned for longer: they are not comparable.
    """
    most: dict[tuple[str, SettingKey], int] = {}
    for label, record in labelled:
        key = label, record.setting_key
        most[key] = max(record.steps, most.get(key, 0))
    return [
        (label, record)
        for label, record in labelled
        if record.result is None or record.steps == most[label, record.setting_key]
    ]


def _data_key(record: RunRecord, graded: set[tuple[str, float]]) -> DataKey:
    """Return the data key of a run; one that failed does not say that rewards are graded, others on its data do."""
    fingerprint, weight, name = record.data_key
    failed_graded = record.result is None and (fingerprint, weight) in graded
    return fingerprint, weight, REWARD.name if failed_graded else name
