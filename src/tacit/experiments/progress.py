"""The bars that long work shows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[bool], None]


class StepBars:
    """A line for every run, with its steps and the accuracy so far."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def add(self, label: str, steps: int) -> Advance:
        """Start a line, and return what to call after each step with whether it was right."""
        task = self._progress.add_task(label, total=steps, accuracy="")
        seen = right = 0

        def advance(was_right: bool) -> None:  # noqa: FBT001 - one value, and it has one meaning
            nonlocal seen, right
            seen += 1
            right += was_right
            self._progress.update(task, advance=1, accuracy=f"{right / seen:.1%} right")

        return advance


@contextmanager
def step_bars(*, shown: bool = True) -> Iterator[StepBars]:
    """A place on the terminal (stderr) for the lines of several runs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[accuracy]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not shown) as progress:
        yield StepBars(progress)


@contextmanager
def steps_bar(steps: int, *, shown: bool) -> Iterator[Advance]:
    """One line, for one run."""
    with step_bars(shown=shown) as bars:
        yield bars.add("steps", steps)
