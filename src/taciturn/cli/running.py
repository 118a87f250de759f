"""Runs experiments and shows their results, for every command that does so."""

import functools
import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taciturn.cli.shared import errors, fail, lazy, out, print_json
from taciturn.errors import TaciturnError
from taciturn.experiments import workers
from taciturn.measures import measure_of

if TYPE_CHECKING:
    from taciturn import registry
    from taciturn.experiments import checks, progress, recorder, runner, spec
    from taciturn.experiments.recorder import RunRecord
    from taciturn.reports import tables
else:
    registry = lazy("taciturn.registry")
    checks = lazy("taciturn.experiments.checks")
    runner = lazy("taciturn.experiments.runner")
    spec = lazy("taciturn.experiments.spec")
    progress = lazy("taciturn.experiments.progress")
    recorder = lazy("taciturn.experiments.recorder")
    tables = lazy("taciturn.reports.tables")


def run_experiments(
    experiments: "list[spec.Experiment]", folder: Path, *, jobs: int, quiet: bool, **options: Any
) -> "list[RunRecord]":
    """Run experiments, as `run_all` does."""
    if jobs > 1 and options.get("engine", "local") == "local":
        workers.start()
    expanded = [run for experiment in experiments for run in spec.expand(experiment, on_left_out=print_left_out)]
    runs = list({run.id: run for run in expanded}.values())
    return run_all(runs, folder, jobs=jobs, quiet=quiet, **options)


def run_all(
    runs: "list[spec.Run]",
    folder: Path,
    *,
    jobs: int,
    quiet: bool,
    meanwhile: Callable[[], object] | None = None,
    after: float = 0.0,
    **options: Any,
) -> "list[RunRecord]":
    """Carry out runs, with a progress bar for each or one for all; returns their records in the order of the runs.

    Where there are several processes, a thread of this one calls `meanwhile` once the first run, and this share of
    all, has finished.
    """
    command = shlex.join(["taciturn", *sys.argv[1:]])
    if jobs == 1 and options.get("engine") != "ray":
        with progress.step_bars(shown=not quiet) as bars:

            def add_bar(run: "spec.Run") -> progress.Advance:
                label = f"{run.dataset.name} {run.task.method} {run.task.setting} seed {run.task.seed}"
                stream = run.task.stream(run.dataset)
                return bars.add(label, len(stream), measure_of(graded=stream.graded))

            records = list(runner.execute(runs, folder, command=command, on_step=add_bar, **options))
    else:
        with progress.runs_bar(len(runs), shown=not quiet) as advance:
            records = []
            for record in runner.execute(runs, folder, jobs=jobs, command=command, **options):
                records.append(record)
                if meanwhile is not None and len(records) >= after * len(runs):
                    threading.Thread(target=meanwhile, daemon=True).start()
                    meanwhile = None
                advance(record.dataset, record.method, record.result, record.measure)
    order = {run.id: i for i, run in enumerate(runs)}
    others = {record.id for record in recorder.read_runs(folder)} - set(order)
    if others and not quiet:
        message = f"{folder} also holds {len(others)} runs of other experiments; they are kept"
        errors.print(message, style="dim", soft_wrap=True, highlight=False)
    return sorted(records, key=lambda record: order[record.id])


def print_left_out(reason: str) -> None:
    """Print one line about what is not run."""
    errors.print(f"left out: {reason}", style="yellow", soft_wrap=True, markup=False, highlight=False)


def show(records: "list[RunRecord]", *, as_json: bool) -> None:
    """Print the results as a table or as JSON, and the failures."""
    if as_json:
        print_json(records)
    else:
        out.print(tables.accuracy_table(records))
    report_failures(records)


def report_failures(records: "list[RunRecord]") -> None:
    """Exit with code 1 and one line if any run failed."""
    failed = [record for record in records if record.error is not None]
    if failed:
        first = failed[0]
        where = f"{first.dataset} {first.method} {first.missing} seed {first.seed}"
        fail(f"{len(failed)} of {len(records)} runs failed; the first, {where}: {first.error}", 1)


def with_agent(agent: str | None, methods: list[str] | None) -> list[str] | None:
    """Add the user's own agent to the methods, after it has passed `check_agent`; a program, after it has started."""
    if agent is None:
        return methods
    if registry.is_command(agent):
        trial: Any = registry.make(agent, arms=["a", "b"])
        trial.start()
        return [*(methods or []), agent]
    sys.path.insert(0, str(Path.cwd()))  # so that modules in the current folder are found
    factory = functools.partial(registry.make, agent)
    try:
        checks.check_agent(factory)
    except TaciturnError:
        raise
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise TaciturnError(f"{agent} does not pass check_agent: {reason}") from None
    return [*(methods or []), agent]
