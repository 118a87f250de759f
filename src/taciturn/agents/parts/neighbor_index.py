"""Finds the nearest neighbors among many rows without looking at all of them, and measures how many it misses.

Each level above the lists of all rows has about a quarter of the rows of that below, with lists of its own. A search
begins among all rows of the highest level, goes down, and begins at each level with the nearest of the one above
(`kernels.search`). A row joins the level above if none of its k nearest is there, so that a group of rows which only
list each other has one there too.

Why none from a library: an HNSW graph of faiss 1.15 is the faster on 30 000 rows that fill a sphere, but it
finds 0.67 of the neighbors where each row is there 25 times; it needs dense rows in single precision, cannot evict, nor
follow rows that move, and its files cannot be checked. The lists are kept for the graph anyway.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.neighbor_lists import NeighborLists
from taciturn.agents.parts.part import Sizes, check_plain, require
from taciturn.agents.parts.search_level import SearchLevel
from taciturn.agents.parts.searched_rows import SearchedRows
from taciturn.agents.rows import RowStore
from taciturn.kernels.search import Found, Points

Ints = NDArray[np.int64]

TOP = 1024
"""The highest level has at most so many rows: all of them are looked at."""

STARTS, STARTS_ABOVE = 12, 4
"""All rows are searched from so many of the level above, which are found with a beam as wide; that level and those
above it from as many as the second."""

BEAM, WIDEST = 96, 1024
"""How wide the beam is at first, and at most, unless lists are longer: where rows differ by less than a search can see,
none is wide enough."""

SEARCH_WORK, NODE_WORK, SHARED_WORK = 8192, 16, 4
"""What a search costs for each row in its beam, and an exact one for each row and for each entry that two rows share,
measured in multiplications of dense rows."""

SPARSE_SEARCH = 5
"""A search of rows with zeros costs so many times more: two rows are compared entry by entry, without vector code."""

AIM, MEASURED = 0.988, 1000
"""The share of the nearest neighbors to find, and how many are counted before the beam is fitted to it; chance moves
what is counted by 0.004. While rows come, the beam is a little behind what they need, by about 0.002."""

POWER, BOLDEST = 0.2, 2.0
"""What is missed falls about with the 2.5th power of the beam's width: that would be a power of 0.4. Half of the step
is taken, so that chance moves the beam little, and at most this factor."""

CHECKS = 1024
"""One insertion in 1/1024 of the rows is exact, to see what the search finds: about 710 while the rows double."""


SPARSE = 4
"""Where rows are listed in chains, so that each needs another above it, one in so many is above."""

RUSH = 8
"""Until half of the neighbors were counted, one insertion in so many is exact: a beam that does not fit is not kept for
long."""


class NeighborIndex:
    """The levels above some lists.

    Insertions are exact as long as that is faster.

    Arguments:
        contexts: the rows that distances are taken of.
        base: the lists of all rows.
    """

    SAVED: ClassVar[dict[str, str]] = {
        "beam": "beam",
        "unchecked": "_unchecked",
        "found": "_found",
        "wanted": "_wanted",
        "recall": "_recall_before",
        "cost": "_cost",
        "cost_at": "_cost_at",
    }

    def __init__(self, contexts: RowStore, base: NeighborLists) -> None:
        self._contexts, self._base = contexts, base
        self._rows = SearchedRows(contexts)
        self._levels = [SearchLevel(base)]
        self.beam = self._narrowest
        self._unchecked = 0  # insertions since the last that was exact
        self._found = self._wanted = 0  # neighbors, since the beam was last changed
        self._recall_before = 1.0  # what the recall was before, older counts having less weight; 1 if none was counted
        self._cost, self._cost_at = 0.0, 0  # of an exact insertion for each row, and how many rows there were

    @property
    def recall(self) -> float:
        """The share of the k nearest that were found of late."""
        return self._recall_before

    def fit_levels(self) -> None:
        """Take away levels that are not needed, and add those that are."""
        while len(self._levels) > 1 and (self._levels[-2].count <= TOP or not self._levels[-1].count):
            self._levels.pop()
        while self._levels[-1].count > TOP:
            below, level = self._levels[-1], NeighborLists(self._contexts, self._base.k)
            for node in below.nodes[_cover(below.lists.lists.neighbors[: below.count, : below.lists.k])].tolist():
                level.insert(node)
            self._levels.append(SearchLevel(level))

    # Insertion.

    def add(self, node: int) -> Ints:
        """Let a row join; returns the slots of the lists of all rows whose k nearest have changed."""
        self.fit_levels()
        if self.is_exact:
            changed = self._base.insert(node)
            for level in self._levels_to_join():
                level.lists.insert(node)
            return changed
        points = self._rows.points
        starts = self._descend(points, 0, node)
        changed = self._add_by_search(points, node, starts[0])
        for level, near in zip(self._levels_to_join(), starts[1:], strict=False):
            level.join(node, level.search(points, node, near, self._narrowest))  # to begin with, near is enough
        return changed

    def _levels_to_join(self) -> Iterator[SearchLevel]:
        """The levels above that the last row of all is needed in, one after the other."""
        for number in range(1, len(self._levels)):
            if self._is_covered(number):
                break
            yield self._levels[number]

    @property
    def is_exact(self) -> bool:
        """Whether an exact insertion is faster."""
        count = self._base.count
        if count > 1.5 * self._cost_at or count < self._cost_at / 1.5:
            self._cost, self._cost_at = _cost_of_each(self._contexts), count
        return bool(count * self._cost < self.beam * SEARCH_WORK)

    def _add_by_search(self, points: Points, node: int, starts: Ints) -> Ints:
        found = self._levels[0].search(points, node, starts, self.beam)
        self._unchecked += 1
        if self._unchecked < (RUSH if 2 * self._wanted < MEASURED else self._base.count / CHECKS):
            return self._levels[0].join(node, found)
        return self._join_exactly(node, found)

    def _descend(self, points: Points, number: int, node: int) -> list[Ints]:
        """The slots of each level, from one on, where a search for a row begins."""
        starts = [np.arange(self._levels[-1].count)]
        for above in range(len(self._levels) - 1, number, -1):
            found = self._levels[above].search(points, node, starts[0], STARTS if above == 1 else STARTS_ABOVE)
            nodes = self._levels[above].nodes[found.nodes]
            starts.insert(0, np.searchsorted(self._levels[above - 1].nodes, nodes))
        return starts

    def _is_covered(self, number: int) -> bool:
        """Whether one of the k nearest of the last slot of the level below is in a level."""
        below = self._levels[number - 1]
        near = below.lists.lists.neighbors[below.count - 1, : below.lists.k]
        return bool(self._levels[number].is_in(below.nodes[near[near >= 0]]).any())

    def _join_exactly(self, node: int, found: Found) -> Ints:
        """Let a row join by an exact search, and count what the other found."""
        base, k = self._base, self._base.k
        candidates = np.sort(found.candidates)
        changed, slot = base.insert(node), base.count - 1
        lists = base.lists
        parts = lists.neighbors[slot], lists.distances[slot], lists.known[slot : slot + 1], lists.reach[slot : slot + 1]
        exact = [part.copy() for part in parts]
        base.fill(slot, candidates, reverse=False)
        self._found += int((lists.distances[slot, :k] <= exact[1][k - 1]).sum() + np.isin(changed, candidates).sum())
        self._wanted += k + len(changed)
        for part, kept in zip(parts, exact, strict=True):
            part[...] = kept
        self._unchecked = 0
        self._adapt()
        return changed

    def _adapt(self) -> None:
        """Once enough was counted, take the beam that finds as much as it should, and count anew what that finds."""
        found, wanted = self._found, self._wanted
        if wanted < MEASURED:
            return
        missed = (wanted - found + 0.5) / wanted  # half a neighbor more, since none may be missed by chance
        factor = (missed / (1.0 - AIM)) ** POWER
        width = self.beam * min(max(factor, 1.0 / BOLDEST), BOLDEST)
        self.beam = int(max(min(width, WIDEST), self._narrowest))
        self._recall_before = (
            found / wanted if self._recall_before == 1.0 else (self._recall_before + found / wanted) / 2
        )
        self._found = self._wanted = 0

    @property
    def _narrowest(self) -> int:
        return max(BEAM, 2 * int(self._base.lists.neighbors.shape[1]))

    # Eviction, and rows that move.

    def keep(self, node_now: NDArray[np.int32]) -> None:
        """Keep the rows that have a number now, those of the others being −1, and find what lists have lost."""
        short = [level.keep(node_now) for level in self._levels]
        self._rows.keep(np.flatnonzero(node_now >= 0))
        self.fit_levels()
        for number in range(len(self._levels) - 1, -1, -1):
            if number < len(short):
                self._refill(number, short[number])
                self._levels[number].note(short[number])

    def _refill(self, number: int, short: Ints) -> None:
        """Find the nearest of some slots of a level anew."""
        level = self._levels[number]
        if number == len(self._levels) - 1 or self.is_exact:
            level.lists.refill(short)
            return
        points = self._rows.points
        found = [
            np.sort(level.search(points, node, self._descend(points, number, node)[0], self.beam).candidates)
            for node in level.nodes[short].tolist()
        ]
        for slot, candidates in zip(short.tolist(), found, strict=True):
            level.lists.fill(slot, candidates)
        known = level.lists.lists.known[short]  # few where those around it were short too
        level.lists.refill(short[known < min(level.lists.k, level.count - 1)])

    def rescale(self) -> None:
        """Distances are those of the moved rows."""
        self._rows.forget()
        for level in self._levels:
            level.rescale()

    # Size and files.

    def nbytes(self, sizes: Sizes) -> float:
        """The levels, which have a third of the rows together, what all of them have noted, and the rows coded."""
        above, base = sizes._replace(nodes=sizes.nodes // 3, entries=sizes.entries // 3), self._levels[0]
        return base.nbytes(sizes) + base.nbytes(above) + self._base.nbytes(above) + self._rows.nbytes(sizes)

    def state_dict(self) -> dict[str, Any]:
        """Levels, what was noted and counted; the lists of all rows are saved by their owner."""
        counted = {key: getattr(self, attribute) for key, attribute in self.SAVED.items()}
        levels = [level.lists.state_dict() for level in self._levels[1:]]
        return counted | {"levels": levels, "listers": [level.state_dict() for level in self._levels]}

    def load_state_dict(self, state: dict[str, Any], n_nodes: int) -> None:
        """Take them over; the rows of a level are among those of the level below. A file of before has no listers."""
        missing = (self.SAVED.keys() | {"levels"}) - state.keys()
        require(not missing, f"{', '.join(sorted(missing))} is missing")
        for key, attribute in self.SAVED.items():
            check_plain(key, state[key], getattr(self, attribute))
            setattr(self, attribute, state[key])
        require(0 <= self._found <= self._wanted, "the counts of neighbors are not sound")
        require(self.beam >= 2 * self._base.lists.neighbors.shape[1], "the beam is too narrow")
        self._levels = self._levels[:1]
        for slots in state["levels"]:
            level = NeighborLists(self._contexts, self._base.k)
            level.load_state_dict(slots, n_nodes)
            require(np.isin(level.nodes, self._levels[-1].nodes).all(), "a level has rows that the one below has not")
            self._levels.append(SearchLevel(level))
        if "listers" in state:
            require(len(state["listers"]) == len(self._levels), "the listers do not fit")
            for noted, held in zip(state["listers"], self._levels, strict=True):
                held.load_state_dict(noted)


def _cover(lists: NDArray[np.int32]) -> Ints:
    """Slots such that each other one lists one of them, or is listed by one; where these are too many, a quarter."""
    joins, covered = np.zeros(len(lists), np.bool_), np.zeros(len(lists), np.bool_)
    for slot, row in enumerate(lists):
        near = row[row >= 0]
        if not covered[slot] and not joins[near].any():
            joins[slot] = True
            covered[near] = True
    found = np.flatnonzero(joins)
    return found if 2 * len(found) <= len(lists) else np.arange(0, len(lists), SPARSE)


def _cost_of_each(contexts: RowStore) -> float:
    """What an exact insertion costs for each row that there is, where a search of dense rows costs `SEARCH_WORK`.

    By the entries of dense rows, or by those that two rows share.
    """
    rows, count = contexts.rows, max(contexts.count, 1)
    if 2 * len(rows.columns) > count * contexts.n_features:  # as in `knn.postings`
        return NODE_WORK + len(rows.columns) / count
    shared = np.square(np.bincount(rows.columns) / count).sum()
    return float(NODE_WORK + SHARED_WORK * shared) / SPARSE_SEARCH
