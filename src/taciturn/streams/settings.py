"""Settings of a kind and a number: ``0.5``, ``"context:0.5"``, ``"geometric:20"``."""

from collections.abc import Iterable
from typing import Any

from taciturn.errors import TaciturnError
from taciturn.registry import unknown_name


def parse_setting(
    name: str, given: Any, kinds: Iterable[str], *, default: str, most: float, allowed: str
) -> tuple[str, float]:
    """Return the kind, the default one for a bare number, and the number, which must be from 0 to `most`."""
    kind, _, number = given.rpartition(":") if isinstance(given, str) else ("", "", given)
    kind = kind or default
    if kind not in kinds:
        raise unknown_name(f"kind of {name}", kind, kinds)
    try:
        value = float("nan") if isinstance(number, bool) else float(number)
    except (TypeError, ValueError):
        value = float("nan")
    if not 0.0 <= value <= most:
        raise TaciturnError(f"{name}={given!r} is not allowed; {allowed}")
    return kind, value
