"""Progress bars of runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from taciturn.bars import Bars, bars
from taciturn.measures import RIGHT, Measure

Advance = Callable[[float], None]


class StepBars:
    """One progress bar per run, with its steps and the accuracy or mean reward so far."""

    def __init__(self, progress: Bars) -> None:
        self._progress = progress

    def add(self, label: str, steps: int, measure: Measure = RIGHT) -> Advance:
        """Add a bar, and return its callback for each step, which takes its reward, or whether the arm was right."""
        if self._progress.disable:
            return lambda _: None
        task = self._progress.add_task(label, total=steps, result="")
        seen, total = 0, 0.0

        def advance(earned: float) -> None:
            nonlocal seen, total
            seen += 1
            total += earned
            self._progress.update(task, advance=1, result=_short(measure, total / seen))

        return advance


@contextmanager
def step_bars(*, shown: bool | None = True) -> Iterator[StepBars]:
    """Show the progress bars of several runs; with `shown=None` where somebody waits for longer than two seconds."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[result]}"),
    )
    with bars(*columns, TimeRemainingColumn(), shown=shown) as progress:
        yield StepBars(progress)


@contextmanager
def steps_bar(steps: int, *, shown: bool | None, measure: Measure = RIGHT) -> Iterator[Advance]:
    """Show the progress bar of one run; yields the callback for each step."""
    with step_bars(shown=shown) as all_bars:
        yield all_bars.add("steps", steps, measure)


@contextmanager
def runs_bar(runs: int, *, shown: bool) -> Iterator[Callable[[str, str, float | None, Measure], None]]:
    """Show one bar over many runs, with the best method so far on each data set.

    Yields the callback for each run, which takes the data set, the method, the accuracy or mean reward (None where it
    failed) and which of them it is.
    """
    columns = (
        TextColumn("runs"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[best]}"),
    )
    with bars(*columns, shown=shown) as progress:
        task = progress.add_task("runs", total=runs, best="")
        seen: dict[tuple[str, Measure], dict[str, list[float]]] = {}

        def advance(dataset: str, method: str, result: float | None, measure: Measure) -> None:
            if result is not None:
                seen.setdefault((dataset, measure), {}).setdefault(method, []).append(result)
            progress.update(task, advance=1, best=_best_so_far(seen))

        yield advance


def _short(measure: Measure, mean: float) -> str:
    """Return "83.0% right" or "mean reward 0.884"."""
    return measure.text(mean).replace(" %", "%")


def _best_so_far(seen: dict[tuple[str, Measure], dict[str, list[float]]]) -> str:
    parts = []
    for (dataset, measure), methods in seen.items():
        means = {method: sum(values) / len(values) for method, values in methods.items()}
        best = max(means, key=lambda method: means[method])
        parts.append(f"{dataset}: {best} {_short(measure, means[best])}")
    return "  ".join(parts)
