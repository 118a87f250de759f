"""How figures look, in one place: sizes for print, lines that differ in grey too, labels at lines, files for print."""

from __future__ import annotations

from contextlib import AbstractContextManager
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from taciturn.labels import place_labels
from taciturn.system import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = (  # safe for colour-blind eyes, the first seven most
    *("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888"),
    *("#ee8833", "#009988", "#8866cc"),
)
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)))
MARKERS = "os^Dv*XP<>"

WIDTHS = {1: 3.3, 2: 6.9}
"""Inches of a figure across one and across two columns of a page."""

FORMATS = ("svg", "png", "pdf")

LINE = 1.2
"""The distance of two labels in heights of their font."""

LEADER = 9.0
"""Points from the right end of the axes to the labels: room for the lines that lead to them."""

TO_LABEL = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0.0, 0.5), "patchA": None}
"""The thin line from the end of a line to the left of its label."""

SMALLEST_FONT = 5.0
CONTRAST = 4.5
"""The least contrast of a label with white paper, as of WCAG 2 for text."""


class Look(NamedTuple):
    """The colour, dashes and marker of a line: of ten lines, no two have the same dashes and marker."""

    colour: str
    dashes: Any
    marker: str

    @property
    def ink(self) -> tuple[float, float, float]:
        """The colour as dark as text needs to be."""
        from matplotlib.colors import to_rgb  # noqa: PLC0415 - slow to import, and an extra

        rgb = np.array(to_rgb(self.colour))
        while contrast(rgb) < CONTRAST:
            rgb = 0.95 * rgb
        red, green, blue = rgb.tolist()
        return red, green, blue


def contrast(rgb: Any) -> float:
    """Return the contrast of a colour with white, from 1 to 21, by WCAG 2."""
    values = np.asarray(rgb, np.float64)
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05))


def look(number: int) -> Look:
    """Return how line `number` looks."""
    return Look(PALETTE[number % len(PALETTE)], DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)])


def print_style() -> AbstractContextManager[None]:
    """Return a context in which figures are made for print: small fonts that are embedded, and the same file ever."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and an extra

    return mpl.rc_context(
        {
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so that files are the same everywhere
            "font.size": 8,
            "axes.titlesize": 8,
            "axes.linewidth": 0.6,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "lines.linewidth": 1.2,
            "pdf.fonttype": 42,
            "svg.hashsalt": "taciturn",
        }
    )


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure beside `path` in each of `FORMATS`, or only in that of its ending; return the files.

    The same figure gives the same bytes.
    """
    ending = path.suffix.removeprefix(".").lower()
    written = []
    for kind in [ending] if ending in FORMATS else FORMATS:
        target = path if ending in FORMATS else path.with_name(f"{path.name}.{kind}")
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        content = BytesIO()
        figure.savefig(content, format=kind, dpi=200, metadata=undated.get(kind))
        atomic_write(target, content.getvalue())
        written.append(target)
    return written


def tidy(axes: Axes) -> None:
    """Leave what is needed to read values: a left and a bottom axis, and faint lines across."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


def label_ends(axes: Axes, texts: Sequence[str], ends: Sequence[tuple[float, float]], looks: Sequence[Look]) -> None:
    """Write a text beside the axes for each line, joined to its end; call it when limits and layout are final.

    Labels keep the order of the lines, do not overlap, and are within the height of the axes; their font is smaller
    where they would not fit.
    """
    if not texts:
        return
    from matplotlib.transforms import ScaledTranslation  # noqa: PLC0415 - slow to import, and an extra

    figure: Any = axes.figure.figure  # of a subfigure the whole one
    figure.draw_without_rendering()  # so that the layout knows how high the axes are
    box, dots = axes.get_window_extent(), figure.dpi / 72
    font = _font_that_fits(box.height / dots, len(texts))
    heights = [float(axes.transData.transform(end)[1]) for end in ends]
    half = LINE * font * dots / 2
    placed = place_labels(heights, 2 * half, box.y0 + half, box.y1 - half)
    beside = axes.transAxes + ScaledTranslation(LEADER / 72, 0, figure.dpi_scale_trans)
    for text, end, height, one in zip(texts, ends, placed, looks, strict=True):
        axes.annotate(
            text,
            end,
            (1, (height - box.y0) / box.height),
            textcoords=beside,
            color=one.ink,
            fontsize=font,
            va="center",
            annotation_clip=False,
            parse_math=False,
            arrowprops={"color": one.colour} | TO_LABEL,
        )


def _font_that_fits(points: float, count: int) -> float:
    """Return the size of the font of so many labels below each other: that of the style, or what fits."""
    from matplotlib import rcParams  # noqa: PLC0415 - slow to import, and an extra
    from matplotlib.font_manager import FontProperties  # noqa: PLC0415

    usual = FontProperties(size=rcParams["font.size"]).get_size_in_points()
    return float(max(min(usual, points / (LINE * count)), SMALLEST_FONT))
