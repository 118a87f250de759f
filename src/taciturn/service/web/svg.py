"""Shapes on a plane of 100 × 100 with the origin on the lower left; numbers only, so that they are safe in a page."""

from collections.abc import Sequence


def _at(i: int, count: int) -> float:
    return 100.0 * i / (count - 1) if count > 1 else 50.0


def line(values: Sequence[float | None]) -> str:
    """A path through values from 0 to 1, with gaps where there is none; a lonely value is a dot."""
    parts: list[str] = []
    pen = False
    for i, value in enumerate(values):
        if value is not None:
            place = f"{_at(i, len(values)):.1f} {100 - 100 * min(max(value, 0.0), 1.0):.1f}"
            parts.append(f"L{place}" if pen else f"M{place}h0")
        pen = value is not None
    return "".join(parts)


def stack(shares: Sequence[Sequence[float]]) -> list[str]:
    """An area for each list of shares, each on top of those before it."""
    if not shares or not shares[0]:
        return []
    if len(shares[0]) == 1:
        shares = [[share[0], share[0]] for share in shares]
    count = len(shares[0])
    below = [0.0] * count
    areas = []
    for share in shares:
        above = [low + part for low, part in zip(below, share, strict=True)]
        there = "L".join(f"{_at(i, count):.1f} {100 - 100 * value:.1f}" for i, value in enumerate(above))
        back = "L".join(f"{_at(i, count):.1f} {100 - 100 * below[i]:.1f}" for i in reversed(range(count)))
        areas.append(f"M{there}L{back}Z")
        below = above
    return areas


def bars(heights: Sequence[int]) -> list[tuple[str, str, str, str]]:
    """x, y, width and height of bars side by side, the tallest as high as the plane."""
    step, most = 100.0 / max(len(heights), 1), max([*heights, 1])
    return [
        (f"{i * step:.2f}", f"{100 - 100 * height / most:.2f}", f"{0.85 * step:.2f}", f"{100 * height / most:.2f}")
        for i, height in enumerate(heights)
    ]
