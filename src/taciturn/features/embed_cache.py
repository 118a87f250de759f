"""The last embeddings by the content of their text."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

ENTRY_NBYTES = 340
"""Bytes that an entry takes besides its numbers: the key, the head of the array and a node of the ordered dict."""


def content_key(text: str) -> bytes:
    """A hash (16,) of the text, equal for equal texts and, for all practical purposes, for no others."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class EmbeddingCache:
    """At most `size` vectors by key; the least recently used are dropped first. Threads may share it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def nbytes(self) -> int:
        """Bytes of all entries; the vectors have one length."""
        with self._lock:
            first = next(iter(self._vectors.values()), None)
            return 0 if first is None else len(self._vectors) * (first.nbytes + ENTRY_NBYTES)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        """The vectors of those keys that are here, which become the most recently used."""
        found = {}
        with self._lock:
            for key in keys:
                if key in self._vectors:
                    self._vectors.move_to_end(key)
                    found[key] = self._vectors[key]
        return found

    def put(self, vectors: Mapping[bytes, Vector]) -> None:
        """Hold copies of these vectors, since a row would hold its whole matrix, and drop what is beyond `size`."""
        with self._lock:
            for key, vector in list(vectors.items())[-self.size :] if self.size else ():
                self._vectors[key] = vector.copy()
                self._vectors.move_to_end(key)
                if len(self._vectors) > self.size:
                    self._vectors.popitem(last=False)
