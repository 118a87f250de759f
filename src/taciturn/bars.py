"""Progress bars, drawn by rich: on stderr in a terminal, as one output of the cell in a notebook."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from taciturn.system import in_notebook, is_interactive

PATIENCE = 2.0
"""Seconds of work after which a bar appears that nobody asked for."""

PERIOD = 0.25
"""Seconds between two drawings in a notebook: each is a message to the browser."""

NOTEBOOK_WIDTH = 96


class Bars(Progress):
    """Progress bars in a terminal that appear when the work has taken `after` seconds.

    Arguments:
        columns: what rich shows of each task.
        after: seconds before the bars appear; work that is done by then shows none.
        options: those of `rich.progress.Progress`.
    """

    def __init__(self, *columns: ProgressColumn, after: float = 0.0, **options: Any) -> None:
        super().__init__(*columns, **{"console": Console(stderr=True), **options})
        self._due = self.get_time() + after

    @property
    def shown(self) -> bool:
        """Whether the bars have appeared."""
        return self.live.is_started

    def start(self) -> None:
        """Show the bars if it is time."""
        if not self.shown and self.get_time() >= self._due:
            super().start()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a task, and show the bars once it is time."""
        super().update(task_id, **changes)
        self.start()

    def stop(self) -> None:
        """Leave the bars as they are now."""
        if self.shown:
            super().stop()


class NotebookBars(Bars):
    """The same in a notebook: one output that is replaced, so that a saved notebook has only the last one.

    rich itself needs the package ipywidgets there.
    """

    def __init__(self, *columns: ProgressColumn, **options: Any) -> None:
        plain = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, color_system=None, force_jupyter=False)
        super().__init__(*columns, **options | {"console": plain})
        self._output: Any = None
        self._drawn = float("-inf")

    @property
    def shown(self) -> bool:
        """Whether the bars have appeared."""
        return self._output is not None

    def start(self) -> None:
        """Show the bars if it is time, and once more in a while."""
        if not self.disable and self.get_time() >= max(self._due, self._drawn + PERIOD):
            self._draw()

    def refresh(self) -> None:
        """Draw again, if the last time was a while ago."""
        if self.shown:
            self.start()

    def stop(self) -> None:
        """Draw the bars as they are now."""
        if self.shown:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display  # noqa: PLC0415 - there is a kernel, so it is imported already

        with self.console.capture() as drawn:
            self.console.print(self.get_renderable())
        text = drawn.get().rstrip()
        content = {"text/plain": text, "text/html": f'<pre style="line-height:1.2">{escape(text)}</pre>'}
        if self._output is None:
            self._output = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._output.update(content, raw=True)
        self._drawn = self.get_time()


def bars(*columns: ProgressColumn, shown: bool | None) -> Bars:
    """Progress bars for where this runs; `shown` is None for those that appear by themselves where somebody waits."""
    kind = NotebookBars if in_notebook() else Bars
    disabled = not (is_interactive() if shown is None else shown)
    return kind(*columns, after=PATIENCE if shown is None else 0.0, disable=disabled)


@contextmanager
def counting_bar(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Show one bar where somebody waits; yields the callback for each item that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with bars(*columns, shown=None) as progress:
        task = progress.add_task(label, total=total)
        yield lambda: progress.update(task, advance=1)
