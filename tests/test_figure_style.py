"""Figures for print: labels meet their lines, looks differ in grey, and files are the same every time."""

import itertools
import re

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from taciturn.figure_style import CONTRAST, PALETTE, WIDTHS, contrast, label_ends, look, print_style, save
from taciturn.measures import RIGHT
from taciturn.plotting import Curve, draw_curves, label_curves, mean_curve
from taciturn.reports.figures import draw_running_accuracy


def runs(*means, seeds=3, steps=60):
    """Curves of made-up runs."""
    rng = np.random.default_rng(0)
    earned = [[(rng.random(steps) < mean).astype(float) for _ in range(seeds)] for mean in means]
    return [mean_curve(f"method {i}", group) for i, group in enumerate(earned)]


@settings(deadline=None, max_examples=8)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=12), st.sampled_from([1, 2]), st.booleans())
def test_labels_meet_their_lines_in_order_without_overlap_inside_the_axes(heights, columns, inverted):
    with print_style():
        figure = Figure(figsize=(WIDTHS[columns], 2.4), layout="constrained")
        axes = figure.add_subplot()
        ends = [(3, height) for height in heights]
        for (x, y), number in zip(ends, itertools.count(), strict=False):
            axes.plot([0, x], [50, y], color=look(number).colour)
        if inverted:
            axes.invert_yaxis()
        texts = [f"method {i}" for i in range(len(heights))]
        label_ends(axes, texts, ends, [look(i) for i in range(len(heights))])
        figure.draw_without_rendering()
    box = axes.get_window_extent()
    labels = [Text.get_window_extent(text) for text in axes.texts]  # without the lines to them
    middles = np.array([(text.y0 + text.y1) / 2 for text in labels])
    pixels = axes.transData.transform(ends)[:, 1]
    assert np.all(np.diff(middles[np.argsort(pixels, kind="stable")]) > 0)
    assert all(not one.overlaps(two) for one, two in itertools.pairwise(sorted(labels, key=lambda text: text.y0)))
    assert min(middles) >= box.y0
    assert max(middles) <= box.y1
    assert all(text.x0 > box.x1 and text.x1 <= figure.bbox.x1 + 1 for text in labels)
    for text, label, (x, y) in zip(axes.texts, labels, ends, strict=True):
        path = text.arrow_patch.get_path().vertices  # in pixels, from the label to the line
        np.testing.assert_allclose(path[-1], axes.transData.transform((x, y)), atol=0.5)
        assert abs(path[0][0] - label.x0) <= 4
        assert label.y0 <= path[0][1] <= label.y1


def test_ten_lines_differ_without_colour_and_their_labels_are_dark():
    looks = [look(number) for number in range(10)]
    assert len({(str(one.dashes), one.marker) for one in looks}) == 10
    assert len({one.colour for one in looks}) == 10 == len(PALETTE)
    for one in looks:
        assert contrast(one.ink) >= CONTRAST
        assert contrast(to_rgb(one.colour)) <= contrast(one.ink)
    assert contrast((1, 1, 1)) == pytest.approx(1)
    assert contrast((0, 0, 0)) == pytest.approx(21)


def test_a_figure_is_three_files_of_the_same_bytes_every_time(tmp_path):
    curves = runs(0.5, 0.6)
    first = draw_running_accuracy(curves, "a $title$", tmp_path / "one.two")
    assert [path.name for path in first] == ["one.two.svg", "one.two.png", "one.two.pdf"]
    second = draw_running_accuracy(curves, "a $title$", tmp_path / "again")
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    svg, png, pdf = (path.read_bytes() for path in first)
    assert png.startswith(b"\x89PNG")
    assert b"<dc:date>" not in svg
    assert b"CreationDate" not in pdf
    assert b"/FontFile2" in pdf, "TrueType fonts are embedded"
    assert b"/Type3" not in pdf
    (only,) = draw_running_accuracy(curves, "b", tmp_path / "alone.pdf", columns=1)
    width = float(re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", only.read_bytes())[1])
    assert width == pytest.approx(72 * WIDTHS[1], abs=1)


def test_files_are_the_same_whatever_the_user_has_set(tmp_path):
    curves = runs(0.5)
    (one,) = draw_running_accuracy(curves, "t", tmp_path / "one.svg")
    with mpl.rc_context({"font.size": 20, "font.family": "serif", "lines.linewidth": 9}):
        (two,) = draw_running_accuracy(curves, "t", tmp_path / "two.svg")
    assert one.read_bytes() == two.read_bytes()


def test_bands_are_said_and_axes_stay_where_shares_are():
    axes = Figure().add_subplot()
    curves = runs(0.02, 0.98, seeds=2)
    draw_curves(axes, curves)
    label_curves(axes, curves)
    assert axes.get_xlabel() == "decisions\n(band: 95 % interval of the mean over 2 seeds)"
    low, high = axes.get_ylim()
    assert -1 <= low < high <= 101
    for band in axes.collections:
        edges = band.get_paths()[0].vertices[:, 1]
        assert 0 <= edges.min() <= edges.max() <= 100
    for curve in curves:
        assert np.all(curve.band[0] <= curve.mean + 1e-12)
        assert np.all(curve.mean <= curve.band[1] + 1e-12)


def test_one_line_at_the_same_height_throughout_has_axes(tmp_path):
    flat = Curve("flat", np.arange(1, 30), np.full(29, 100.0), None, RIGHT)
    assert len(draw_running_accuracy([flat], "flat", tmp_path / "flat")) == 3
    axes = Figure().add_subplot()
    draw_curves(axes, [flat])
    assert axes.get_ylim()[0] < 100 <= axes.get_ylim()[1]


def test_a_format_that_figures_have_not_is_part_of_the_name(tmp_path):
    figure = Figure()
    assert {path.name for path in save(figure, tmp_path / "99.5")} == {"99.5.svg", "99.5.png", "99.5.pdf"}
