"""Critical-difference diagrams (Demšar 2006) as inline SVG."""

from html import escape

from taciturn.labels import short
from taciturn.reports.charts import WIDTH
from taciturn.reports.ranks import Ranking

SIDE, AXIS, ROW, BAR = 200, 46, 18, 7
"""Pixels: the room for labels at each side, the height of the axis, and the distances of labels and of bars."""


def critical_difference_diagram(ranking: Ranking, title: str) -> str:
    """Return the SVG: mean ranks on an axis, and a bar across each set that is not significantly different.

    The better half is labelled at the left, the other at the right.
    """
    ranks = list(ranking.mean_ranks.items())
    bars = ranking.not_different()
    half = (len(ranks) + 1) // 2
    top = AXIS + 14 + BAR * len(bars)
    box = f"0 0 {WIDTH} {top + ROW * half + 6}"
    parts = [
        f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}" class="chart ranks">',
        f"<title>{escape(title)}</title>",
        *_axis(len(ranks)),
    ]
    if ranking.critical_difference is not None:
        parts += _critical_difference(ranking.critical_difference, len(ranks))
    for row, (method, rank) in enumerate(ranks[:half]):
        parts.append(_label(method, rank, top + ROW * row, len(ranks), left=True))
    for row, (method, rank) in enumerate(reversed(ranks[half:])):
        parts.append(_label(method, rank, top + ROW * row, len(ranks), left=False))
    for row, names in enumerate(bars):
        first, last = (_x(ranking.mean_ranks[name], len(ranks)) for name in (names[0], names[-1]))
        y = AXIS + 10 + BAR * row
        parts.append(f'<line class="bar" x1="{first - 3:.1f}" x2="{last + 3:.1f}" y1="{y}" y2="{y}"/>')
    return "".join(parts) + "</svg>"


def _x(rank: float, count: int) -> float:
    """Return the pixel of a rank from 1 to `count`."""
    return SIDE + (rank - 1) / max(count - 1, 1) * (WIDTH - 2 * SIDE)


def _axis(count: int) -> list[str]:
    ends = f'x1="{SIDE}" x2="{WIDTH - SIDE}" y1="{AXIS}" y2="{AXIS}"'
    parts = [f'<line class="rule" {ends}/>']
    step = max(1, round((count - 1) / 8))
    for rank in range(1, count + 1, step):
        x = _x(rank, count)
        parts.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{AXIS - 5}" y2="{AXIS}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{AXIS - 9}" text-anchor="middle">{rank}</text>')
    return parts


def _critical_difference(difference: float, count: int) -> list[str]:
    """Return the critical difference as a length above the axis, which ends where the axis does."""
    first, last = _x(1, count), _x(min(1 + difference, count), count)
    return [
        f'<line class="bar" x1="{first:.1f}" x2="{last:.1f}" y1="14" y2="14"/>',
        f'<text class="tick" x="{SIDE - 8}" y="18" text-anchor="end">critical difference {difference:.1f}</text>',
    ]


def _label(method: str, rank: float, y: float, count: int, *, left: bool) -> str:
    x, side = _x(rank, count), SIDE if left else WIDTH - SIDE
    name, number = escape(short(method)), f"{rank:.1f}"
    text = f"{name} {number}" if left else f"{number} {name}"
    anchor, at = ("end", side - 6) if left else ("start", side + 6)
    return (
        f'<polyline class="stem" points="{x:.1f},{AXIS} {x:.1f},{y} {side},{y}"/>'
        f'<text x="{at}" y="{y + 4}" text-anchor="{anchor}">{text}</text>'
    )
