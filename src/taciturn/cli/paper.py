"""``taciturn reproduce`` and ``taciturn report``."""

import enum
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taciturn.cli.running import report_failures, run_experiments
from taciturn.cli.shared import Address, AsJson, Engine, Jobs, errors, lazy, out, print_json, split
from taciturn.contracts import Dataset
from taciturn.errors import TaciturnError
from taciturn.experiments import workers

if TYPE_CHECKING:
    from taciturn import registry
    from taciturn.datasets import catalog
    from taciturn.experiments import reproduce as reproducing
    from taciturn.experiments.recorder import RunRecord
    from taciturn.reports import curves, figures, page, paper
else:
    registry = lazy("taciturn.registry")
    catalog = lazy("taciturn.datasets.catalog")
    reproducing = lazy("taciturn.experiments.reproduce")
    curves = lazy("taciturn.reports.curves")
    figures = lazy("taciturn.reports.figures")
    page = lazy("taciturn.reports.page")
    paper = lazy("taciturn.reports.paper")

app = typer.Typer()

COMPILED = 0.5
"""Once this share of the runs has finished, workers have compiled all kernels, and so long before the end that what
begins then ends before it."""


class Part(enum.StrEnum):
    """A part of the paper that can be reproduced."""

    table1 = enum.auto()
    table2 = enum.auto()
    figures = enum.auto()
    all = enum.auto()


@app.command(epilog="Example: taciturn reproduce table2 --quick")
def reproduce(
    what: Annotated[Part, typer.Argument(help="Which part of the paper.")] = Part.all,
    quick: Annotated[bool, typer.Option("--quick", help="2 resamplings and at most 600 steps of each stream.")] = False,
    datasets: Annotated[str | None, typer.Option(help="Only these data sets, comma-separated.")] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="The results folder.")] = Path("reproduction"),
    jobs: Jobs = None,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures, each number next to the printed one; finished runs are not repeated."""
    loaded = _paper_data(what, split(datasets))
    experiments = list(reproducing.paper_experiments(what.value, loaded, quick=quick))
    if not experiments:
        raise TaciturnError("none of the data sets is available; taciturn datasets says where to get them")
    options: dict[str, Any] = {"jobs": jobs or workers.default_jobs(), "engine": engine, "address": address}
    spaces = _Spaces(out_folder, loaded, what, quick=quick)
    beside: dict[str, Any] = {"meanwhile": spaces.try_to_draw, "after": COMPILED}
    records = run_experiments(experiments, out_folder, quiet=as_json, **options, **beside)
    cells = paper.comparison(records)
    (out_folder / "comparison.md").write_text(paper.comparison_markdown(cells), encoding="utf-8")
    if as_json:
        print_json([cell._asdict() for cell in cells])
    else:
        for table in paper.comparison_tables(cells):
            out.print(table, "")
        if quick:
            out.print("Quick: the printed numbers are for whole streams and 10 resamplings.", style="yellow")
        out.print(f"As Markdown: [bold]{out_folder / 'comparison.md'}[/bold]", soft_wrap=True)
    if spaces.data is not None:
        _paper_figures(out_folder, spaces, records)
    report_failures(records)


@app.command(epilog="Example: taciturn report results")
def report(
    folder: Annotated[Path, typer.Argument(help="A results folder, from taciturn run or taciturn reproduce.")],
    columns: Annotated[
        int, typer.Option(min=1, max=2, help="How many columns of a printed page a figure is wide: 3.3 or 6.9 inches.")
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """Write report.html, a page that needs no network, and tables.md, tables.tex and figures/ next to it.

    Every figure is there as SVG, PNG and PDF. The same results give the same files.
    """
    with errors.status("drawing"):
        drawn = figures.write_figures(folder, page.finished_runs(folder), columns=columns)
        target = page.write_report(folder, drawn)
    if as_json:
        print_json({"report": str(target), "figures": [str(file) for files in drawn.values() for file in files]})
    else:
        count = "1 figure" if len(drawn) == 1 else f"{len(drawn)} figures"
        kinds = "as SVG, PNG and PDF"
        out.print(f"[bold]{target}[/bold], and {count}, {kinds}, in {folder / 'figures'}", soft_wrap=True)


def _paper_data(what: Part, only: list[str] | None) -> list[Dataset]:
    """Load the available data sets of a part of the paper; print one line for each of the others."""
    wanted = reproducing.paper_datasets(what.value)
    unknown = [name for name in only or [] if name not in wanted]
    if unknown:
        raise registry.unknown_name(f"data set of {what.value}", unknown[0], wanted)
    loaded, scaling = [], registry.preset_file("paper")["experiment"]["scaling"]
    for name in only or wanted:
        try:
            loaded.append(catalog.load_dataset(name, scaling=scaling, progress=sys.stderr.isatty()))
        except TaciturnError as error:
            errors.print(f"skipped: {error}", style="yellow", soft_wrap=True, markup=False, highlight=False)
    return loaded


class _Spaces:
    """Figures b and c, of context spaces, if they are wanted and their data set was loaded.

    They take as long as many runs and need none of them, so they are made beside them.
    """

    def __init__(self, folder: Path, loaded: list[Dataset], what: Part, *, quick: bool) -> None:
        wanted = loaded if what in (Part.figures, Part.all) else []
        self.data = next((data for data in wanted if data.name == reproducing.FIGURE_DATA), None)
        self._folder, self._steps = folder, reproducing.QUICK_STEPS if quick else None
        self._lock, self._drawn = threading.Lock(), False

    def draw(self) -> None:
        """Draw them, once; where another thread does, wait for it."""
        with self._lock:
            if self.data is None or self._drawn:
                return
            reproducing.write_spaces(self._folder, self.data, steps=self._steps)
            source, target = self._folder / "spaces", self._folder / "figures"
            target.mkdir(exist_ok=True)
            for letter, method in zip("bc", reproducing.SPACES, strict=True):
                figures.draw_space(source / f"{method}.npz", method, target / f"{letter}-space-{method}")
            self._drawn = True

    def try_to_draw(self) -> None:
        """The same in a thread: what goes wrong is said when it is tried again."""
        with suppress(Exception):
            self.draw()


def _paper_figures(folder: Path, spaces: _Spaces, records: "list[RunRecord]") -> None:
    """Draw figures a, b and c."""
    target = folder / "figures"
    target.mkdir(exist_ok=True)
    setting = ("mcar", reproducing.FIGURE_MISSING)
    shown = [
        record for record in records if record.dataset == reproducing.FIGURE_DATA and record.missing_setting == setting
    ]
    with errors.status("projecting context spaces by t-SNE, about half a minute"):
        spaces.draw()  # before figure a: a style is of the process, so that no two threads draw at once
    drawn = curves.accuracy_curves(folder, shown)
    figures.draw_running_accuracy(drawn, "CNAE-9, half of the rewards missing", target / "a-running-accuracy")
