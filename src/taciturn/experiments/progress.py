"""Progress bars of runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from taciturn.bars import Bars, bars

Advance = Callable[[bool], None]


class StepBars:
    """One progress bar per run, with its steps and the accuracy so far."""

    def __init__(self, progress: Bars) -> None:
        self._progress = progress

    def add(self, label: str, steps: int) -> Advance:
        """Add a bar, and return its callback for each step, which takes whether the arm was right."""
        task = self._progress.add_task(label, total=steps, accuracy="")
        seen = right = 0

        def advance(was_right: bool) -> None:  # noqa: FBT001 - one value, and it has one meaning
            nonlocal seen, right
            seen += 1
            right += was_right
            self._progress.update(task, advance=1, accuracy=f"{right / seen:.1%} right")

        return advance


@contextmanager
def step_bars(*, shown: bool | None = True) -> Iterator[StepBars]:
    """Show the progress bars of several runs; with `shown=None` where somebody waits for longer than two seconds."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[accuracy]}"),
    )
    with bars(*columns, TimeRemainingColumn(), shown=shown) as progress:
        yield StepBars(progress)


@contextmanager
def steps_bar(steps: int, *, shown: bool | None) -> Iterator[Advance]:
    """Show the progress bar of one run; yields the callback for each step."""
    with step_bars(shown=shown) as all_bars:
        yield all_bars.add("steps", steps)


@contextmanager
def runs_bar(runs: int, *, shown: bool) -> Iterator[Callable[[str, str, float | None], None]]:
    """Show one bar over many runs, with the best method so far on each data set.

    Yields the callback for each run, which takes the data set, the method and the accuracy (None where it failed).
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
        seen: dict[str, dict[str, list[float]]] = {}

        def advance(dataset: str, method: str, accuracy: float | None) -> None:
            if accuracy is not None:
                seen.setdefault(dataset, {}).setdefault(method, []).append(accuracy)
            progress.update(task, advance=1, best=_best_so_far(seen))

        yield advance


def _best_so_far(seen: dict[str, dict[str, list[float]]]) -> str:
    parts = []
    for dataset, methods in seen.items():
        means = {method: sum(values) / len(values) for method, values in methods.items()}
        best = max(means, key=lambda method: means[method])
        parts.append(f"{dataset}: {best} {means[best]:.1%}")
    return "  ".join(parts)
