"""SVG paths in a box of 100 × 100 with y upwards; they hold numbers only, so that they need no escaping."""

from collections.abc import Sequence


def _x(i: int, count: int) -> float:
    return 100.0 * i / (count - 1) if count > 1 else 50.0


def line(values: Sequence[float | None]) -> str:
    """A path through values from 0 to 1, with gaps at None; a value without neighbors is a dot."""
    parts: list[str] = []
    pen_down = False
    for i, value in enumerate(values):
        if value is not None:
            point = f"{_x(i, len(values)):.1f} {100 - 100 * min(max(value, 0.0), 1.0):.1f}"
            parts.append(f"L{point}" if pen_down else f"M{point}h0")
        pen_down = value is not None
    return "".join(parts)


def stack(shares: Sequence[Sequence[float]]) -> list[str]:
    """A stacked area for each list of shares."""
    if not shares or not shares[0]:
        return []
    if len(shares[0]) == 1:
        shares = [[share[0], share[0]] for share in shares]
    count = len(shares[0])
    below = [0.0] * count
    areas = []
    for share in shares:
        above = [low + part for low, part in zip(below, share, strict=True)]
        upper = "L".join(f"{_x(i, count):.1f} {100 - 100 * value:.1f}" for i, value in enumerate(above))
        lower = "L".join(f"{_x(i, count):.1f} {100 - 100 * below[i]:.1f}" for i in reversed(range(count)))
        areas.append(f"M{upper}L{lower}Z")
        below = above
    return areas


def bars(heights: Sequence[int]) -> list[tuple[str, str, str, str]]:
    """x, y, width and height of each bar; the tallest has the height of the box."""
    step, tallest = 100.0 / max(len(heights), 1), max([*heights, 1])
    return [
        (
            f"{i * step:.2f}",
            f"{100 - 100 * height / tallest:.2f}",
            f"{0.85 * step:.2f}",
            f"{100 * height / tallest:.2f}",
        )
        for i, height in enumerate(heights)
    ]
