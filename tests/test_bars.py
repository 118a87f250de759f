"""Progress bars: for those who wait, after two seconds, in terminals and notebooks; never in scripts and pipes."""

import io
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

import taciturn
from rewards_kit import graded_data
from taciturn import bars, system
from taciturn.adapters.sklearn import PartialFitAgent
from taciturn.bars import PATIENCE, PERIOD, Bars, NotebookBars
from taciturn.experiments.checks import toy_data
from taciturn.experiments.progress import runs_bar
from taciturn.measures import REWARD, RIGHT
from taciturn.tracking import track

COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())


class Clock:
    """A time that tests set."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """The clock of the bars in a test."""
    return Clock()


class Output:
    """What a notebook shows: the content of one output, and how often it was sent."""

    def __init__(self):
        self.content, self.sent, self.outputs = None, 0, 0

    def display(self, content, *, raw, display_id):
        assert raw
        assert display_id
        self.outputs += 1
        self.update(content, raw=raw)
        return self

    def update(self, content, *, raw):
        assert raw
        self.content, self.sent = content, self.sent + 1


@pytest.fixture
def notebook(monkeypatch):
    """A notebook's output in place of that of a kernel."""
    output = Output()
    monkeypatch.setitem(sys.modules, "IPython", kernel_module())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=output.display))
    return output


def kernel_module(kernel=True):
    """IPython as it is in a kernel, or in a terminal."""
    shell = SimpleNamespace(kernel=object()) if kernel else SimpleNamespace()
    return SimpleNamespace(get_ipython=lambda: shell)


def terminal_bars(clock, after):
    console = Console(file=io.StringIO(), force_terminal=True, width=80, get_time=clock)
    return Bars(*COLUMNS, after=after, console=console, auto_refresh=False), console.file


def test_in_a_terminal_bars_appear_once_the_work_has_taken_so_long(clock):
    shown, file = terminal_bars(clock, after=2.0)
    with shown:
        task = shown.add_task("steps", total=10)
        shown.update(task, advance=4)
        clock.now = 1.9
        shown.update(task, advance=1)
        assert file.getvalue() == ""
        clock.now = 2.0
        shown.update(task, advance=1)
        assert "6/10" in file.getvalue()
    assert "6/10" in file.getvalue()


def test_in_a_terminal_work_that_is_done_sooner_shows_nothing(clock):
    shown, file = terminal_bars(clock, after=2.0)
    with shown:
        shown.update(shown.add_task("steps", total=1), advance=1)
    assert file.getvalue() == ""


def test_in_a_notebook_bars_are_one_output_that_is_replaced_now_and_then(clock, notebook):
    with NotebookBars(*COLUMNS, after=2.0, get_time=clock) as shown:
        task = shown.add_task("<steps>", total=1000)
        for step in range(1000):
            clock.now = step / 100
            shown.update(task, advance=1)
            assert (notebook.sent > 0) == (clock.now >= 2.0)
    assert notebook.outputs == 1
    assert notebook.sent <= 8 / PERIOD + 2
    assert "1000/1000" in notebook.content["text/plain"]
    assert "&lt;steps&gt;" in notebook.content["text/html"]
    assert "\x1b" not in notebook.content["text/plain"]


def test_in_a_notebook_work_that_is_done_sooner_shows_nothing(clock, notebook):
    with NotebookBars(*COLUMNS, after=2.0, get_time=clock) as shown:
        shown.update(shown.add_task("steps", total=1), advance=1)
    assert notebook.outputs == 0


def test_an_evaluation_in_a_notebook_shows_one_bar_and_writes_no_lines(notebook, capsys):
    stream = taciturn.Stream(toy_data())
    taciturn.evaluate(taciturn.LinUCB(arms=stream.arms), stream, progress=True)
    assert notebook.outputs == 1
    assert "87/87" in notebook.content["text/plain"]
    assert "% right" in notebook.content["text/plain"]
    assert capsys.readouterr() == ("", "")


def test_a_bar_shows_the_mean_reward_where_rewards_are_graded(notebook):
    stream = taciturn.Stream(graded_data())
    trace = taciturn.evaluate(taciturn.LinUCB(arms=stream.arms), stream, progress=True)
    (shown,) = re.findall(r"mean reward (0\.\d{3}) ", notebook.content["text/plain"])
    assert float(shown) == pytest.approx(trace.mean_reward, abs=0.0006)
    assert "right" not in notebook.content["text/plain"]


def test_the_bar_over_runs_shows_the_best_method_of_each_data_set(notebook):
    with runs_bar(4, shown=True) as advance:
        for method, accuracy, reward in (("one", 0.7, 0.2), ("two", 0.6, 0.8844)):
            advance("toy", method, accuracy, RIGHT)
            advance("routing", method, reward, REWARD)
        advance("toy", "three", None, RIGHT)  # it failed
    assert "toy: one 70.0% right" in notebook.content["text/plain"]
    assert "routing: two mean reward 0.884" in notebook.content["text/plain"]


@pytest.mark.parametrize("progress", [None, False])
def test_in_a_pipe_nothing_is_shown_unless_it_is_asked_for(progress, monkeypatch, capsys):
    monkeypatch.setattr(bars, "PATIENCE", 0.0)
    stream = taciturn.Stream(toy_data())
    taciturn.evaluate(taciturn.LinUCB(arms=stream.arms), stream, progress=progress)
    assert list(track([1, 2], 2, "numbers")) == [1, 2]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("patience", [0.0, 1e9])
def test_what_takes_long_shows_a_bar_by_default_where_somebody_waits(patience, monkeypatch, notebook):
    monkeypatch.setattr(bars, "PATIENCE", patience)
    stream = taciturn.Stream(toy_data())
    agent = taciturn.LinUCB(arms=stream.arms)
    estimator, X = PartialFitAgent(taciturn.LinUCB(arms=stream.arms)), stream.dataset.X
    for work in (
        lambda: taciturn.evaluate(taciturn.LinUCB(arms=stream.arms), stream),
        lambda: agent.warm_start(X, [stream.arms[k] for k in stream.dataset.y]),
        lambda: agent.decide_batch(X),
        lambda: taciturn.check_agent(taciturn.LinUCB),
        lambda: estimator.partial_fit(X[:5], stream.arms[:1] * 5, [1] * 5),
        lambda: estimator.predict(X[:5]),
    ):
        before = notebook.outputs
        work()
        assert (notebook.outputs > before) == (patience == 0.0)


def test_nothing_is_shown_while_somebody_waits_if_it_was_declined(notebook):
    stream = taciturn.Stream(toy_data())
    taciturn.evaluate(taciturn.LinUCB(arms=stream.arms), stream, progress=False)
    assert notebook.outputs == 0


def test_who_waits(monkeypatch):
    assert PATIENCE == 2.0
    for tty, ipython, notebook, interactive in (
        (False, None, False, False),  # a script in a pipe
        (True, None, False, True),  # Python in a terminal
        (True, kernel_module(kernel=False), False, True),  # IPython in a terminal
        (False, kernel_module(), True, True),
    ):
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda tty=tty: tty))
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        assert system.in_notebook() == notebook
        assert system.is_interactive() == interactive
        with ThreadPoolExecutor(1) as threads:
            assert not threads.submit(system.is_interactive).result()  # nobody waits for a service's threads
    monkeypatch.setattr(sys, "stdout", None)  # a program without a console
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert not system.is_interactive()
