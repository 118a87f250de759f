"""`trace.plot()` and `taciturn.plot`: what is drawn is what happened."""

import dataclasses
import itertools
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

import taciturn
from taciturn.errors import TaciturnError
from taciturn.experiments.checks import toy_data
from taciturn.intervals import mean_interval
from taciturn.plotting import SILENCE_HEIGHT, SKIPPED_STEPS


@pytest.fixture(autouse=True)
def figures():
    """Figures are drawn in memory, and closed."""
    with mpl.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


@pytest.fixture
def ax():
    """Empty axes."""
    return Figure().add_subplot()


def trace(seed=0, steps=200, *, best=("a", 0.4), silent=0.5):
    """A made-up trace."""
    rng = np.random.default_rng(seed)
    correct = rng.random(steps) < 0.6
    rewards = np.where(rng.random(steps) < silent, np.nan, correct)
    choices = np.zeros(steps, np.int64)
    return taciturn.Trace(("a", "b"), choices, rewards, correct, np.ones(steps), 1.0, best_constant_arm=best)


def lines(axes):
    """The lines by label: x and y."""
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def texts(axes):
    return [text.get_text().strip() for text in axes.texts]


def test_a_trace_draws_its_running_accuracy_and_the_best_constant_arm(ax):
    one = trace()
    assert one.plot(ax=ax) is ax
    drawn = lines(ax)
    np.testing.assert_array_equal(drawn["right"][:, 0], np.arange(SKIPPED_STEPS + 1, 201))
    np.testing.assert_allclose(drawn["right"][:, 1], 100 * one.running_accuracy[SKIPPED_STEPS:])
    assert set(drawn["best constant arm"][:, 1]) == {40.0}
    assert f"right {100 * one.accuracy:.1f}" in texts(ax)
    assert ax.get_xlabel() == "decisions"
    ax.figure.canvas.draw()


def graded_trace(seed=0, **options):
    """A made-up trace of graded rewards: right or not, an arm earns a little more or less."""
    one = trace(seed, **options)
    earned = np.random.default_rng(seed).random(len(one.correct))
    return dataclasses.replace(one, earned=earned, best_earned=np.ones(len(earned)), graded=True)


def test_graded_rewards_are_drawn_as_their_running_mean(ax):
    one = graded_trace(best=("a", 0.45))
    one.plot(ax=ax)
    drawn = lines(ax)
    np.testing.assert_allclose(drawn["mean reward"][:, 1], np.cumsum(one.earned)[20:] / np.arange(21, 201))
    assert set(drawn["best constant arm"][:, 1]) == {0.45}
    assert f"mean reward {one.mean_reward:.3f}" in texts(ax)
    assert ax.get_ylabel() == "mean reward so far"
    ax.figure.canvas.draw()


def test_a_trace_with_one_right_arm_beside_graded_ones_is_a_mean_reward_too(ax):
    taciturn.plot({"a": [graded_trace(0), graded_trace(1)], "b": trace()}, ax=ax)
    assert ax.get_ylabel() == "mean reward so far"
    np.testing.assert_allclose(lines(ax)["b"][:, 1], trace().running_accuracy[SKIPPED_STEPS:])
    ax.clear()
    taciturn.plot(trace(), ax=ax)
    assert ax.get_ylabel() == "right so far (%)"


def test_labels_of_mean_rewards_stay_beside_their_lines(ax):
    close = [dataclasses.replace(graded_trace(), earned=np.full(200, 0.9 + 0.001 * i)) for i in range(4)]
    taciturn.plot(close, ax=ax)
    heights = sorted(text.xyann[1] for text in ax.texts if "trace" in text.get_text())
    assert np.diff(heights).min() > 0
    assert heights[-1] - heights[0] < 0.3


@pytest.mark.parametrize("steps", [1, 7, 99, 250, 1003])
def test_the_bars_of_silence_add_up_to_the_silent_steps(ax, steps):
    one = trace(steps=steps)
    one.plot(ax=ax)
    bars = [bar for container in ax.containers if isinstance(container, BarContainer) for bar in container]
    area = sum(bar.get_width() * bar.get_height() for bar in bars) / SILENCE_HEIGHT
    assert area == pytest.approx(np.isnan(one.rewards).sum())
    assert ("silent" in texts(ax)) == bool(area)


def test_without_silence_or_a_known_constant_arm_none_is_marked(ax):
    trace(silent=0.0, best=None).plot(ax=ax)
    assert list(lines(ax)) == ["right"]
    assert not ax.containers


def test_several_traces_are_lines_with_labels(ax):
    a, b = trace(0), trace(1)
    for given, labels in (([a, b], ["x", "y"]), ({"x": a, "y": b}, None), ({"p": a, "q": [b]}, ["x", "y"])):
        ax.clear()
        assert taciturn.plot(given, labels=labels, ax=ax) is ax
        drawn = lines(ax)
        assert set(drawn) == {"x", "y", "best constant arm"}
        np.testing.assert_allclose(drawn["y"][:, 1], 100 * b.running_accuracy[SKIPPED_STEPS:])
    ax.clear()
    assert {"trace 1", "trace 2"} <= set(lines(taciturn.plot([a, b], ax=ax)))


def test_seeds_are_drawn_as_their_mean_with_a_band_as_far_as_the_shortest(ax):
    seeds = [trace(0), trace(1, best=("a", 0.42)), trace(2, steps=150)]
    taciturn.plot({"mine": seeds}, ax=ax)
    runs = 100 * np.array([one.running_accuracy[SKIPPED_STEPS:150] for one in seeds])
    np.testing.assert_allclose(lines(ax)["mine"][:, 1], runs.mean(axis=0))
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices[:, 1]
    low, high = mean_interval(runs / 100)
    assert (edges.min(), edges.max()) == pytest.approx((100 * low.min(), 100 * high.max()))
    assert lines(ax)["best constant arm"][0, 1] == pytest.approx((0.4 + 0.42 + 0.4) / 3 * 100)
    assert not ax.containers  # silence differs from seed to seed


def test_traces_with_different_constant_arms_have_no_line_for_it(ax):
    taciturn.plot([trace(0), trace(1, best=("b", 0.4))], ax=ax)
    assert "best constant arm" not in lines(ax)


def test_without_axes_there_is_a_new_figure_each_time():
    first, second = trace().plot(), taciturn.plot(trace(), labels=["x"])
    assert first.figure is not second.figure
    assert "x" in lines(second)


def test_labels_do_not_overlap(ax):
    taciturn.plot([trace(0)] * 4, ax=ax)
    ax.figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in ax.texts if text.get_text().startswith("trace")]
    assert len(boxes) == 4
    assert all(not one.overlaps(two) for one, two in itertools.combinations(boxes, 2))


def test_an_evaluation_knows_the_best_constant_arm(ax):
    stream = taciturn.Stream(toy_data(), missing=0.5)
    found = taciturn.evaluate(taciturn.LinUCB(arms=stream.arms), stream)
    found.plot(ax=ax)
    assert lines(ax)["best constant arm"][0, 1] == pytest.approx(100 * stream.best_constant_arm[1])


@pytest.mark.parametrize(
    ("given", "labels", "problem"),
    [
        ([], None, "nothing to plot"),
        ([[]], None, "nothing to plot"),
        ({}, None, "nothing to plot"),
        ([trace(), trace()], ["a"], "do not fit 2 lines"),
        ([trace(), trace()], ["a", "a"], "each needs one of its own"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_line(given, labels, problem):
    with pytest.raises(TaciturnError, match=problem) as caught:
        taciturn.plot(given, labels=labels)
    assert "\n" not in str(caught.value)
    assert not plt.get_fignums()


def test_without_matplotlib_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TaciturnError, match=r"a plot needs matplotlib; pip install '\.\[plot\]'"):
        trace().plot()
