"""A library as peers use it: the events that it learns, and what is held of it."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.parts.part import MAX_COUNT, Part, Sizes, in_range, require
from taciturn.features.scale import Change

if TYPE_CHECKING:
    from taciturn.agents.lifecycle import Example


class Events(NamedTuple):
    """What a library learns, in the order in which it came.

    `chances` are the probabilities with which decisions were made as they were; 1 for labelled rows.
    """

    rows: sp.csr_matrix  # (n, D)
    arms: NDArray[np.int64]  # (n,)
    rewards: NDArray[np.float64]  # (n,)
    chances: NDArray[np.float64]  # (n,)


def named_rows(rows: sp.csr_matrix) -> Iterator[dict[int, float]]:
    """The entries of each row, by their columns."""
    columns, values = rows.indices.tolist(), rows.data.tolist()
    for start, stop in pairwise(rows.indptr.tolist()):
        yield dict(zip(columns[start:stop], values[start:stop], strict=True))


class Library(Protocol):
    """A bandit of another library, for a fixed number of arms and features."""

    def learn(self, events: Events) -> None:
        """Learn events: those since the last call or, of a library that is refitted, all there are."""

    def scores(self, row: sp.csr_matrix) -> NDArray[np.float64]:
        """A number for each arm (K,) at a context (1, D): the highest is chosen, or probabilities of being chosen."""


class Held(Part):
    """The library and what it has not learned yet; files hold neither, but all that makes them again.

    Arguments:
        flush: has the library learn all that waits.
        size: the bytes that it takes with so many arms and features.
        refitted: whether the same library can be fitted to other contexts.
    """

    SAVED: ClassVar[dict[str, str]] = {"learned": "learned"}

    def __init__(self, flush: Callable[[], object], size: Callable[[Sizes], float], *, refitted: bool) -> None:
        super().__init__()
        self._flush, self._size, self._refitted = flush, size, refitted
        self.learned = 0  # examples so far
        self.library: Library | None = None
        self.stale = True  # whether the library is to learn everything before it is used next
        self.builds = 0  # how many libraries were made
        self.waiting: list[Example] = []
        self._model = self.array("copied_from", np.int64, "arm")  # 1 + the arm that an arm began as; 0 for none
        self._since = self.array("copied_at", np.int64, "arm")  # the number of examples learned by then

    def copies(self, turn: int) -> list[tuple[int, int]]:
        """The arms that were made later than the example `turn`, and the arms that they are copies of."""
        made = np.flatnonzero((self._model.data > 0) & (self._since.data > turn))
        return [(arm, int(self._model.data[arm]) - 1) for arm in made.tolist()]

    def discard(self) -> None:
        """Have a new library learn everything."""
        self.library, self.stale, self.waiting = None, True, []

    def _begin_anew(self) -> None:
        """Have the library learn everything again, or a new one where it cannot."""
        if self._refitted:
            self.stale, self.waiting = True, []
        else:
            self.discard()

    def add_features(self, n_features: int) -> None:
        """Begin anew."""
        self._begin_anew()

    def add_arm(self, like: int | None) -> None:
        """Begin anew; an arm like another is told what that one was."""
        super().add_arm(None)
        if like is not None:
            self._model.data[-1], self._since.data[-1] = like + 1, self.learned
        self.discard()

    def rescale(self, change: Change) -> None:
        """Begin anew."""
        self._begin_anew()

    def evicting(self, nodes: NDArray[np.int64]) -> None:
        """Learn what waits, while its contexts are held."""
        self._flush()

    def nbytes(self, sizes: Sizes) -> float:
        """Bytes of the library."""
        return super().nbytes(sizes) + self._size(sizes)

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Arms are copies of earlier ones."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        earlier = (self._model.data >= 0) & (self._model.data <= np.arange(n_arms))
        require(
            earlier.all() and in_range(self._since.data, 0, MAX_COUNT), "arms are copies of arms that are not there"
        )
        self.discard()
