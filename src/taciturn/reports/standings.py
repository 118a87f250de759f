"""What a leaderboard says of a method: its row of the main table, its comparisons, and where it is ahead."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from taciturn.measures import Measure
from taciturn.reports.cells import Cell, SettingKey
from taciturn.reports.duels import Duel


class Tally(NamedTuple):
    """How many cells a method won, tied and lost against another, where both finished."""

    won: int
    tied: int
    lost: int

    @classmethod
    def of(cls, duels: Iterable[Duel | None]) -> Self | None:
        """Count comparisons; None where there is none."""
        outcomes = [duel.outcome for duel in duels if duel is not None]
        return cls(outcomes.count(1), outcomes.count(0), outcomes.count(-1)) if outcomes else None

    def __str__(self) -> str:
        return f"{self.won} / {self.tied} / {self.lost}"


class Ahead(NamedTuple):
    """The cells of one data set and setting that are ahead of the recommended method's, the best first."""

    data: str
    setting: SettingKey
    cells: list[Cell]


class Standing(NamedTuple):
    """A row of the main table, over ranked data sets and rates of silence.

    `ranks` are mean ranks by setting; `means` the mean results by measure, from 0 to 1. In `lacks` cells the method
    failed or was left out, so that its rank there is the last and its means do not count them.
    """

    method: str
    library: str
    rank: float
    ranks: dict[SettingKey, float]
    tally: Tally | None
    means: dict[Measure, float | None]
    ms_per_step: float | None
    mb: float | None
    lacks: int
