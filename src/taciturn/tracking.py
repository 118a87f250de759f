"""A progress bar over anything that takes long, where somebody waits for it."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from taciturn.system import is_interactive

Item = TypeVar("Item")


def track(items: Iterable[Item], total: int, label: str) -> Iterable[Item]:
    """The same items; where somebody waits for longer than two seconds, a bar shows how many of `total` are done."""
    return _tracked(items, total, label) if is_interactive() else items


def _tracked(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    from taciturn.bars import counting_bar  # noqa: PLC0415 - rich is slow to import, and few calls take long

    with counting_bar(label, total) as advance:
        for item in items:
            yield item
            advance()
