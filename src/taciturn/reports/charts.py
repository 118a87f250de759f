"""Charts as inline SVG, coloured by the page's style sheet, for light and dark mode and any width."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.labels import place_labels, short
from taciturn.plotting import SETTLED

Floats = NDArray[np.float64]

WIDTH, HEIGHT = 740, 400
LEFT, RIGHT, TOP, BOTTOM = 52, 190, 16, 44
COLOURS = 10
LABEL_GAP = 15.0
MAX_POINTS = 160  # per line: more cannot be seen


class Series(NamedTuple):
    """A line with an optional band, given by its ends, or marks where `line` is False; `colour` is below `COLOURS`.

    A `hidden` series is drawn and not shown: a script can show it.
    """

    label: str
    colour: int
    x: Floats
    y: Floats
    band: tuple[Floats, Floats] | None = None
    line: bool = True
    dashed: bool = False
    hidden: bool = False


class _Scale:
    """Maps data to pixels, linearly or by logarithm."""

    def __init__(self, values: Floats, start: float, stop: float, *, log: bool = False) -> None:
        self.log = log
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        if log:
            low, high = np.log10(max(low, 1e-9)), np.log10(max(high, 1e-9))
        margin = 0.04 * (high - low) or 0.5
        self._low, self._high = low - margin, high + margin
        self._start, self._stop = start, stop

    def __call__(self, values: Floats) -> Floats:
        raw = np.log10(np.maximum(values, 1e-9)) if self.log else values
        share = (raw - self._low) / (self._high - self._low)
        return np.asarray(self._start + share * (self._stop - self._start))

    def ticks(self) -> list[float]:
        """Return about five round numbers within the scale."""
        if self.log:
            exponents = range(int(np.floor(self._low)), int(np.floor(self._high)) + 1)
            round_ones = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
            return [tick for tick in round_ones if self._low <= np.log10(tick) <= self._high]
        step = 10.0 ** np.floor(np.log10((self._high - self._low) / 4))
        step *= next(m for m in (1, 2, 5, 10) if (self._high - self._low) / (step * m) <= 6)
        first = np.ceil(self._low / step) * step
        return [float(round(tick, 10)) + 0.0 for tick in np.arange(first, self._high, step)]


def chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    digits: int = 1,
    log_x: bool = False,
    x_names: Sequence[str] = (),
) -> str:
    """Return the SVG of lines or marks, each labelled with its name and last value, to so many digits, at the right.

    With `x_names`, x is 0, 1, 2, … and these are the names of its values.
    """
    xs = np.concatenate([np.arange(len(x_names), dtype=np.float64), *(s.x for s in series)])
    ys = np.concatenate([edge for s in series for edge in (s.y, *_settled_band(s))])
    x_scale = _Scale(xs, LEFT, WIDTH - RIGHT, log=log_x)
    y_scale = _Scale(ys, HEIGHT - BOTTOM, TOP)
    x_ticks = list(enumerate(x_names)) if x_names else [(tick, f"{tick:g}") for tick in x_scale.ticks()]
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" class="chart">',
        f"<title>{escape(title)}</title>",
        *_axes(x_scale, y_scale, x_ticks, x_label, y_label),
        *(_draw_band(s, x_scale, y_scale) for s in series),
    ]
    ends = [float(y_scale(s.y[-1:])[0]) for s in series]
    shown = [end for s, end in zip(series, ends, strict=True) if not s.hidden]
    heights = iter(place_labels(shown, LABEL_GAP, TOP, HEIGHT - BOTTOM).tolist())
    for one, end in zip(series, ends, strict=True):
        label = _label(one, (float(x_scale(one.x[-1:])[0]), end), end if one.hidden else next(heights), digits)
        hidden = " hidden" if one.hidden else ""
        parts.append(f'<g data-line="{escape(one.label)}"{hidden}>{_draw(one, x_scale, y_scale)}{label}</g>')
    return "".join(parts) + "</svg>"


def _label(one: Series, end: tuple[float, float], height: float, digits: int) -> str:
    """Return the label of a line at a height, and a thin line to it from the end; scripts may move both."""
    x, y = end
    text = escape(f"{short(one.label)} {one.y[-1]:.{digits}f}")
    start = f"M{x:.1f} {y:.1f}"
    leader = f'<path class="s{one.colour} leader" data-from="{start}" d="{start}L{WIDTH - RIGHT + 6} {height:.1f}"/>'
    place = f'x="{WIDTH - RIGHT + 8}" y="{height + 4:.1f}" data-y="{y:.1f}"'
    return f'{leader}<text class="f{one.colour}" {place}>{text}</text>'


def _settled_band(one: Series) -> tuple[Floats, ...]:
    """Return the ends of a band without its start, where it is wide: the axes need not hold that."""
    return tuple(edge[int(SETTLED * len(edge)) :] for edge in one.band or ())


def _axes(
    x_scale: _Scale, y_scale: _Scale, x_ticks: Sequence[tuple[float, str]], x_label: str, y_label: str
) -> list[str]:
    parts = []
    for tick in y_scale.ticks():
        y = float(y_scale(np.array([tick]))[0])
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick, name in x_ticks:
        x = float(x_scale(np.array([tick]))[0])
        place = f'x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}"'
        parts.append(f'<text class="tick" {place} text-anchor="middle">{escape(name)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    turned = f'transform="translate(13 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"'
    parts.append(f'<text class="axis" {turned} text-anchor="middle">{escape(y_label)}</text>')
    return parts


def _shown_points(one: Series) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, len(one.x) - 1, MAX_POINTS).astype(np.int64))


def _draw_band(one: Series, x_scale: _Scale, y_scale: _Scale) -> str:
    if one.band is None:
        return ""
    shown = _shown_points(one)
    x = x_scale(one.x[shown])
    low, high = (np.clip(y_scale(edge[shown]), TOP, HEIGHT - BOTTOM) for edge in one.band)
    around = [*zip(x, high, strict=True), *zip(x[::-1], low[::-1], strict=True)]
    return f'<polygon class="f{one.colour} band" points="{_points(around)}"/>'


def _draw(one: Series, x_scale: _Scale, y_scale: _Scale) -> str:
    shown = _shown_points(one)
    x, y = x_scale(one.x[shown]), y_scale(one.y[shown])
    parts = []
    dashed = " dashed" if one.dashed else ""
    if one.line:
        parts.append(f'<polyline class="s{one.colour} line{dashed}" points="{_points([*zip(x, y, strict=True)])}"/>')
    if not one.line or len(shown) < 12:
        marks = zip(x, y, strict=True)
        parts += [f'<circle class="f{one.colour}" cx="{a:.1f}" cy="{b:.1f}" r="4"/>' for a, b in marks]
    return "".join(parts)


def _points(pairs: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def plane(points: Floats, weights: Floats, shade: NDArray[np.int64], bold: NDArray[np.bool_], title: str) -> str:
    """Return the SVG of contexts (N, 2) as dots, faint where not `bold`, and arm vectors (K, 2) as diamonds."""
    side = 480
    both = np.concatenate([points, weights])
    low, size = both.min(axis=0), np.ptp(both, axis=0)
    pixels = 14 + (both - low) / np.where(size > 0, size, 1.0) * (side - 28)
    parts = [
        f'<svg viewBox="0 0 {side} {side}" role="img" aria-label="{escape(title)}" class="chart plane">',
        f"<title>{escape(title)}</title>",
    ]
    for i in np.argsort(bold, kind="stable"):
        x, y = pixels[i]
        look = "" if bold[i] else " faint"
        parts.append(f'<circle class="f{shade[i] % COLOURS}{look}" cx="{x:.1f}" cy="{y:.1f}" r="2.4"/>')
    for k, (x, y) in enumerate(pixels[len(points) :]):
        parts.append(f'<path class="cross f{k % COLOURS}" d="M{x - 7:.1f} {y:.1f}l7 -7l7 7l-7 7z"/>')
    return "".join(parts) + "</svg>"
