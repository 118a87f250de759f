"""What results are compared by, and how it is shown: the share of right arms, or the mean reward."""

from typing import NamedTuple


class Measure(NamedTuple):
    """A mean over steps, from 0 to 1, as it is shown: `scale` times as large, with so many `digits` and a `unit`.

    `name` is the header of its column; `axis` and `running` are the labels of axes, of the mean over all steps and of
    the mean so far.
    """

    name: str
    scale: float
    digits: int
    unit: str
    axis: str
    running: str

    def number(self, value: float) -> str:
        """Return a value, as large as it is shown, with its digits."""
        return f"{value:.{self.digits}f}"

    def text(self, mean: float) -> str:
        """Return a mean from 0 to 1 in words: "83.0 % right" or "mean reward 0.884"."""
        number = self.number(self.scale * mean) + self.unit
        return f"{number} {self.name}" if self.unit else f"{self.name} {number}"


RIGHT = Measure("right", 100.0, 1, " %", "right (%)", "right so far (%)")
REWARD = Measure("mean reward", 1.0, 3, "", "mean reward", "mean reward so far")


def measure_of(*, graded: bool) -> Measure:
    """Return the measure for rewards that are graded, or for one right arm."""
    return REWARD if graded else RIGHT
