"""Running accuracies and mean rewards as lines on matplotlib's axes: `taciturn.plot`, `Trace.plot`, and in reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import TaciturnError, how_to_install
from taciturn.figure_style import DASHES, Look, label_ends, look, tidy
from taciturn.intervals import mean_interval
from taciturn.labels import short
from taciturn.measures import RIGHT, Measure, measure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SKIPPED_STEPS = 20
"""The first steps, over which a running accuracy varies too much to show; shorter runs show their last step."""

SETTLED = 0.1
"""The share of the steps after which the whole bands are within the axes: before, they are wide."""

MARKS = 8
"""About how many marks a line has, where it has any."""

SILENCE_BINS = 100
SILENCE_HEIGHT = 0.08
"""The height, as a share of the axes, to which a stretch of steps that are all silent is marked."""


class Steps(Protocol):
    """What is drawn of a trace: see `Trace`."""

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether the arm chosen was right (T,)."""

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The rewards received, NaN for silence (T,)."""

    @property
    def earned(self) -> NDArray[np.float64]:
        """The true rewards of the arms chosen (T,)."""

    @property
    def graded(self) -> bool:
        """Whether every arm has a reward; otherwise one is right."""

    @property
    def best_constant_arm(self) -> tuple[Any, float] | None:
        """The arm of the highest mean reward, and that mean."""


class Curve(NamedTuple):
    """A running accuracy in percent, or a running mean reward: the mean over runs, (T,), and the ends of its band.

    The band is `mean_interval`, None where there is one run.
    """

    label: str
    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    band: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    measure: Measure = RIGHT
    runs: int = 1


def mean_curve(label: str, runs: Sequence[NDArray[np.float64]], measure: Measure = RIGHT) -> Curve:
    """Return the curve over runs, each given by what its steps earned, as long as the shortest of them."""
    length = min(map(len, runs))
    steps = np.arange(1, length + 1)
    shown = slice(min(SKIPPED_STEPS, length - 1), None)
    means = np.array([np.cumsum(run[:length]) / steps for run in runs])[:, shown]
    ends = mean_interval(means)
    band = None if ends is None else (measure.scale * ends[0], measure.scale * ends[1])
    return Curve(label, steps[shown], measure.scale * means.mean(axis=0), band, measure, len(runs))


def band_text(curves: Sequence[Curve]) -> str:
    """Return what the bands of curves are, "" where there are none."""
    counts = sorted({curve.runs for curve in curves if curve.band is not None})
    if not counts:
        return ""
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"95 % interval of the mean over {seeds} seeds"


def draw_curves(axes: Axes, curves: Sequence[Curve], numbers: Sequence[int] | None = None) -> None:
    """Draw curves with bands, which `label_curves` labels at their right ends: no legend is needed.

    Their looks have these numbers; by default they are counted.
    """
    for number, curve in zip(numbers or range(len(curves)), curves, strict=True):
        _draw_curve(axes, curve, look(number), marked=number >= len(DASHES))
    measure = curves[0].measure
    last = max(int(curve.steps[-1]) for curve in curves)
    if last > 1:
        axes.set_xlim(0, last)
    _set_height(axes, curves)
    bands = band_text(curves)
    axes.set(xlabel=f"decisions\n(band: {bands})" if bands else "decisions", ylabel=measure.running)
    tidy(axes)


def label_curves(axes: Axes, curves: Sequence[Curve], numbers: Sequence[int] | None = None) -> None:
    """Label curves that were drawn, with these numbers, when nothing else changes the axes any more."""
    texts = [f"{short(curve.label)} {curve.measure.number(curve.mean[-1])}" for curve in curves]
    ends = [(float(curve.steps[-1]), float(curve.mean[-1])) for curve in curves]
    label_ends(axes, texts, ends, [look(number) for number in numbers or range(len(curves))])


def _draw_curve(axes: Axes, curve: Curve, one: Look, *, marked: bool) -> None:
    alone = len(curve.steps) == 1  # a line through one point is invisible
    marks = {"marker": one.marker, "markevery": max(1, len(curve.steps) // MARKS), "markersize": 4}
    options: dict[str, Any] = marks if marked or alone else {}
    axes.plot(curve.steps, curve.mean, color=one.colour, linestyle=one.dashes, label=curve.label, **options)
    if curve.band is not None:
        axes.fill_between(curve.steps, *curve.band, color=one.colour, alpha=0.15, linewidth=0)


def _set_height(axes: Axes, curves: Sequence[Curve]) -> None:
    """Set the limits of y: all means and, once they are settled, bands; never beyond what the measure can be."""
    edges = [curve.mean for curve in curves]
    for curve in curves:
        settled = curve.steps >= SETTLED * curve.steps[-1]
        edges += [edge[settled] for edge in curve.band or ()]
    low, high = (float(end(np.concatenate(edges))) for end in (np.min, np.max))
    most = curves[0].measure.scale
    margin = 0.05 * (high - low) or 0.05 * most
    axes.set_ylim(max(low - margin, -0.01 * most), min(high + margin, 1.01 * most))


Traces: TypeAlias = "Steps | Sequence[Steps]"
"""One trace, or those of several seeds, which are drawn as their mean and a band."""


def plot(
    traces: Traces | Sequence[Traces] | Mapping[str, Traces],
    *,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the running accuracy of traces, one line each, and return matplotlib's axes.

    Where rewards are graded, it is the mean reward so far. A single trace also shows which steps were silent, as bars
    along the bottom; the best constant arm is a dashed line where it is the same for all.

    Arguments:
        traces: one trace, a list of traces, or {label: trace}. A list in place of a trace holds the traces of several
            seeds: their mean is drawn, with the 95 % interval of the mean as a band, as far as the
            shortest goes.
        labels: a name for each line.
        ax: the axes to draw on; None makes a new figure.
    """
    groups = _groups(traces, labels)
    members = [trace for group in groups.values() for trace in group]
    measure = measure_of(graded=any(trace.graded for trace in members))
    axes = _new_axes() if ax is None else ax
    curves = [mean_curve(label, [trace.earned for trace in group], measure) for label, group in groups.items()]
    draw_curves(axes, curves)
    _mark_best_constant_arm(axes, [trace.best_constant_arm for trace in members], measure)
    if len(members) == 1:
        _mark_silence(axes, members[0].rewards)
    label_curves(axes, curves)
    return axes


def _groups(traces: Any, labels: Sequence[str] | None) -> dict[str, list[Steps]]:
    """The traces of each line by its label."""
    if isinstance(traces, Mapping):
        labels, traces = [*map(str, traces)] if labels is None else labels, list(traces.values())
    lines = [traces] if hasattr(traces, "correct") else list(traces)
    groups = [[line] if hasattr(line, "correct") else list(line) for line in lines]
    if not groups or not all(groups) or not all(len(trace.correct) for group in groups for trace in group):
        raise TaciturnError("there is nothing to plot; at least one trace with a step is needed for each line")
    names = _default_labels(groups) if labels is None else [*map(str, labels)]
    if len(names) != len(groups) or len(set(names)) != len(names):
        raise TaciturnError(f"labels={names[:9]} do not fit {len(groups)} lines; each needs one of its own")
    return dict(zip(names, groups, strict=True))


def _default_labels(groups: Sequence[Sequence[Steps]]) -> list[str]:
    if len(groups) == 1:
        return [measure_of(graded=any(trace.graded for trace in groups[0])).name]
    return [f"trace {i + 1}" for i in range(len(groups))]


def _mark_silence(axes: Axes, rewards: NDArray[np.float64]) -> None:
    """Bars below everything else: the share of silent steps in each of at most `SILENCE_BINS` stretches."""
    edges = np.linspace(0, len(rewards), min(SILENCE_BINS, len(rewards)) + 1).astype(int)
    shares = np.add.reduceat(np.isnan(rewards), edges[:-1]) / np.diff(edges)
    if shares.any():
        low, high = axes.get_ylim()
        axes.set_ylim(low - 2 * SILENCE_HEIGHT * (high - low), high)
        heights, bottom = SILENCE_HEIGHT * shares, axes.get_xaxis_transform()
        axes.bar(edges[:-1], heights, np.diff(edges), align="edge", color="grey", alpha=0.4, transform=bottom)
        axes.annotate("silent", (0.01, SILENCE_HEIGHT), xycoords="axes fraction", color="grey", va="bottom")


def _mark_best_constant_arm(axes: Axes, best: Sequence[tuple[Any, float] | None], measure: Measure) -> None:
    """A dashed line, if all runs know the arm and it is the same; its mean differs a little from seed to seed."""
    known = [arm_and_share for arm_and_share in best if arm_and_share is not None]
    if len(known) == len(best) and len({arm for arm, _ in known}) == 1:
        height = measure.scale * float(np.mean([mean for _, mean in known]))
        low, high = axes.get_ylim()
        margin = 0.04 * (high - low)
        axes.set_ylim(min(low, height - margin), max(high, height + margin))
        axes.axhline(height, color="grey", linestyle="--", linewidth=1, label="best constant arm")
        right_end: Any = ("axes fraction", "data")
        axes.annotate("best constant arm", (0.99, height), xycoords=right_end, color="grey", ha="right", va="bottom")


def _new_axes() -> Axes:
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - slow to import, and an extra
    except ModuleNotFoundError as error:
        raise TaciturnError(f"a plot needs {error.name}; {how_to_install('plot')} installs it") from None
    return plt.subplots(figsize=(6.4, 3.6), layout="constrained")[1]
