"""Consistent hashing: which shard an agent should be on."""

import hashlib
from bisect import bisect
from functools import lru_cache

POINTS = 128
"""Points of each shard on the ring; with more of them shards get more equal shares."""


class Ring:
    """Shards 0 … n − 1 as points on a circle; an agent belongs to the first point at or after its own.

    One shard more takes agents from all others, 1 / (n + 1) of them in the mean, and moves none between the others.
    """

    def __init__(self, shards: int) -> None:
        self.shards = shards
        points = sorted((_place(f"{shard}/{i}"), shard) for shard in range(shards) for i in range(POINTS))
        self._places = [place for place, _ in points]
        self._shards = [shard for _, shard in points]

    def owner(self, name: str) -> int:
        """The shard of an agent."""
        return self._shards[bisect(self._places, _place(name)) % len(self._shards)]


@lru_cache(16)
def ring(shards: int) -> Ring:
    """The ring of so many shards."""
    return Ring(shards)


def _place(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
