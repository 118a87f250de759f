"""Arrays that grow at the end, and of which rows are dropped."""

import math
import mmap
from bisect import bisect_left
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import with_spare

LARGE = 2**24
"""Entries of more bytes have room for as many again: spare ones take no memory before they are written, and when all
are copied for the last time they are half of what they become."""

IN_PAGES = 2**20
"""Entries of more bytes have pages of their own, which the system has back as soon as they are not used. Freed memory
of the process is kept for what comes, up to as much as a large array, and what contexts outgrow is not needed again."""


def grown(array: NDArray[Any], length: int, fill: float) -> NDArray[Any]:
    """The array itself if it has `length` rows, else a copy with spare ones, with `fill` in the new rows."""
    if len(array) >= length:
        return array
    shape = with_spare(length), *array.shape[1:]
    # Pages of zeros come from the system when they are first written, not all at once.
    longer = in_pages(math.prod(shape), array.dtype).reshape(shape) if fill == 0 else np.empty(shape, array.dtype)
    longer[: len(array)] = array
    if fill != 0:
        longer[len(array) :] = fill
    return longer


def in_pages(length: int, dtype: Any) -> NDArray[Any]:
    """Zeros (length,) in pages of their own, where they are many; only what is written takes memory.

    Pages are large where the system has such: rows that are read here and there are found with fewer look-ups.
    """
    nbytes = length * np.dtype(dtype).itemsize
    if nbytes < IN_PAGES:
        return np.zeros(length, dtype)
    private: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        pages = mmap.mmap(-1, nbytes, **private)
    except OSError as error:
        raise MemoryError(f"there is no room for {nbytes} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system that has none
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype)


class Cut(NamedTuple):
    """Which of `total` rows are kept (rising), so that what moves is the shorter part of them.

    Where the rows before ``last`` are fewer than those from ``first`` on, they move up and a view begins behind what is
    free: eviction of the oldest costs what is evicted, and the space is used again when the array next grows.
    """

    kept: NDArray[np.int64]
    total: int
    first: int  # of the rows that are dropped
    last: int  # the row after the last that is dropped

    @property
    def dropped(self) -> int:
        """How many rows are not kept."""
        return self.total - len(self.kept)

    @property
    def moves_up(self) -> bool:
        """Whether the rows before `last` move up; otherwise those from `first` on move down."""
        return self.last < self.total - self.first

    @property
    def moved(self) -> NDArray[np.int64]:
        """The rows that move."""
        return self.kept[: self.last - self.dropped] if self.moves_up else self.kept[self.first :]

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The kept rows of an array, and the spare ones behind `total`; what is between has any content."""
        if self.moves_up:
            array[self.dropped : self.last] = array[self.moved]
            return array[self.dropped :]
        array[self.first : len(self.kept)] = array[self.moved]
        return array


def cut_of(kept: NDArray[np.int64], total: int) -> Cut:
    """The cut of `total` rows that keeps these, which rise."""

    def first_moved_by(rows: int) -> int:  # each row moves by as many as are dropped before it
        return bisect_left(range(len(kept)), rows, key=lambda at: kept[at] - at)

    dropped = total - len(kept)
    if not dropped:
        return Cut(kept, total, total, total)
    return Cut(kept, total, first_moved_by(1), first_moved_by(dropped) + dropped)
