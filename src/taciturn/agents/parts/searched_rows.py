"""Rows in the form that a search takes distances of."""

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import Sizes, with_spare
from taciturn.agents.rows import RowStore
from taciturn.agents.table import Table
from taciturn.kernels.search import COLUMNS, SCALE, Points, points_of

PIECE = 2**16
"""So many rows are coded at a time."""


class SearchedRows:
    """The rows of a store, in few bytes: a search waits for thousands of them to come from memory.

    Rows at unit length without zeros are coded as whole numbers of 16 bits; others are read as they are held.

    Arguments:
        contexts: the rows.
    """

    def __init__(self, contexts: RowStore) -> None:
        self._contexts = contexts
        self._use_width(0)

    def _use_width(self, width: int) -> None:
        self._width, self._coded = width, Table()  # of fewer rows than there are, where some have come since
        self._codes = self._coded.column("codes", np.int16, _padded(width))

    @property
    def points(self) -> Points:
        """All rows."""
        rows, count, width = self._contexts.approximate, self._contexts.count, self._contexts.n_features
        if not self._contexts.at_unit_length or len(rows.values) != count * width:
            return points_of(rows, width)
        if self._width != width:
            self._use_width(width)
        for first in range(self._coded.count, count, PIECE):
            stop = min(first + PIECE, count)
            self._coded.extend(stop - first)
            values = rows.values[first * width : stop * width].reshape(-1, width)
            self._codes.data[first:stop, :width] = np.rint(values * SCALE)
        return points_of(rows, width, self._codes.data[:count])

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Evict all rows but these, which are renumbered in their order."""
        self._coded.keep(nodes[: np.searchsorted(nodes, self._coded.count)])

    def forget(self) -> None:
        """Rows have moved."""
        self._use_width(0)

    def nbytes(self, sizes: Sizes) -> float:
        """The codes, if rows have no zeros."""
        is_coded = self._contexts.at_unit_length and sizes.entries >= sizes.nodes * sizes.features
        return 2.0 * _padded(sizes.features) * with_spare(sizes.nodes) * is_coded


def _padded(width: int) -> int:
    """So many columns, in whole lines of a cache."""
    return -(-width // COLUMNS) * COLUMNS
