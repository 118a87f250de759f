"""Shared by the tests of the service: a journal in memory that can fail, and a client without a network."""

import asyncio
import time

import httpx

from taciturn.service.journal.base import JournalUnavailable, Record


def until(condition, seconds=60):
    """Wait until a condition is true, which another thread or process will make it, and return what it is then.

    Fails if that takes too long.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)
    return found


class MemoryJournal:
    """A journal whose next `failing` appends fail before they write, or the next `failing_after` after it."""

    responsive = True

    def __init__(self):
        self.records, self._keys = [], {}
        self.failing = self.failing_after = 0
        self.read_from = None

    def append(self, entries):
        if self.failing:
            self.failing -= 1
            raise JournalUnavailable("the disk is full")
        for entry in entries:
            self.records.append(Record(len(self.records) + 1, *entry))
        if self.failing_after:
            self.failing_after -= 1
            raise JournalUnavailable("the connection was lost")
        return len(self.records)

    def read(self, after=0):
        self.read_from = after
        yield from self.records[after:]

    def last(self):
        return len(self.records)

    def keys(self):
        return list(self._keys.values())

    def put_key(self, key):
        self._keys[key.name] = key

    def drop_key(self, name):
        return self._keys.pop(name, None) is not None

    def probe(self):
        if self.failing:
            self.failing -= 1
            raise JournalUnavailable("the disk is full")

    def close(self):
        pass


class Web:
    """Sends requests to an application without a network, one after the other or many at once."""

    def __init__(self, app, token=None):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)
        self._runner = asyncio.Runner()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._runner.run(self._client.aclose())
        self._runner.close()

    def __call__(self, method, path, **options):
        return self.together([(method, path, options)])[0]

    def together(self, requests):
        async def send():
            return await asyncio.gather(*(self._client.request(m, p, **options) for m, p, options in requests))

        return self._runner.run(send())


class FakeTime:
    """A clock for a `Client` that only pauses move; the pauses are kept."""

    def __init__(self, client):
        self.now, self.pauses = 0.0, []
        client.connection.clock, client.connection.sleep = lambda: self.now, self.sleep
        client.connection.jitter = lambda: 1.0

    def sleep(self, seconds):
        assert seconds >= 0
        self.pauses.append(seconds)
        self.now += seconds
