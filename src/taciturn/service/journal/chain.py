"""The chain of digests: each record's digest covers the one before, so that damage is found at its position.

Compaction replaces records of deleted agents by runs. The row of a run stands at the position of its last record, keeps
that record's digest, to which the next record is chained, and is of the kind `REMOVED`; its body, `Run`, says where the
run begins and has a digest of its own.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from taciturn.service.journal.base import REMOVED, Record

GENESIS = bytes(16)
"""The digest that the first record is chained to."""

FIRST_VERSION = "0.1.0"
"""The version that wrote the records of schema 1, which do not say it."""

_RUN = struct.Struct("<Q16s16s")


class BadRecord(Exception):
    """A record that is not what was appended at its position; `good` is the last position before it."""

    def __init__(self, position: int, fault: str) -> None:
        super().__init__(f"record {position} {fault}")
        self.good = position - 1


def chain(previous: bytes, position: int, agent: str, kind: str, body: bytes, version: str | None) -> bytes:
    """Digest of a record, over the digest of the one before: a changed, removed or moved record is detected.

    Records of schema 1 have no version, given as None.
    """
    agent_bytes, kind_bytes = agent.encode(), kind.encode()
    if version is None:
        lengths, version_bytes = struct.pack("<QII", position, len(agent_bytes), len(kind_bytes)), b""
    else:
        version_bytes = version.encode()
        lengths = struct.pack("<QIII", position, len(agent_bytes), len(kind_bytes), len(version_bytes))
    return _blake2b(previous, lengths, agent_bytes, kind_bytes, version_bytes, body)


def _blake2b(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


class Run(NamedTuple):
    """A run of removed records: its first position, and the digest of the record before that."""

    first: int
    before: bytes

    def body(self, last: int, digest: bytes) -> bytes:
        """The body of the run's row, for the position and the digest of its last record."""
        return _RUN.pack(*self, self._seal(last, digest))

    @classmethod
    def of(cls, position: int, body: bytes, digest: bytes) -> Self | None:
        """The run whose row has this position, body and digest; None if these do not belong together."""
        try:
            first, before, seal = _RUN.unpack(body)
        except (struct.error, TypeError):  # damage can change the types of columns
            return None
        run = cls(first, before)
        return run if 1 <= first <= position and seal == run._seal(position, digest) else None

    def _seal(self, last: int, digest: bytes) -> bytes:
        return _blake2b(b"removed", struct.pack("<QQ", self.first, last), self.before, digest)


def verified(rows: Iterable[Sequence[Any]], after: int = 0, digest: bytes = GENESIS) -> Iterator[Record]:
    """Yield rows (position, agent, kind, body, version, digest) that follow position `after`; raises `BadRecord`.

    `digest` is the stored digest at position `after`. The rows of removed runs are yielded too. A run may begin before
    `after`: reading can start inside it, and it can grow while it is read.
    """
    position = after
    for found, agent, kind, body, version, stored in rows:
        expected = position + 1
        try:
            fault = None
            if kind == REMOVED:
                fault = _fault_of_run(Run.of(found, body, stored), expected, digest)
            elif found != expected:
                fault = "is missing"
            elif chain(digest, expected, agent, kind, body, version) != stored:
                fault = "was changed"
        except (TypeError, AttributeError, UnicodeError, struct.error):  # damage can change the types of columns
            fault = "was changed"
        if fault is not None:
            raise BadRecord(expected, fault)
        position, digest = found, stored
        yield Record(found, agent, kind, body, FIRST_VERSION if version is None else version)


def _fault_of_run(run: Run | None, expected: int, digest: bytes) -> str | None:
    if run is None:
        return "was changed"
    if run.first > expected:
        return "is missing"
    return "was changed" if run.first == expected and run.before != digest else None
