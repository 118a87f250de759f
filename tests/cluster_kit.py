"""Shards in the process of the test, over a real PostgreSQL, and a front without a network."""

import asyncio
import itertools
import threading
from contextlib import closing

from service_kit import Web
from taciturn.service.api.keys import Keyring
from taciturn.service.cluster.front import front_app
from taciturn.service.cluster.router import Router
from taciturn.service.cluster.shard import Shard, ShardSettings
from taciturn.service.core.limits import Limits
from taciturn.service.journal.directory import Directory

PLACES = itertools.count()


class Near:
    """A shard of this process, asked as one of another is; it answers only while it can be `reached`."""

    def __init__(self, shard, loop):
        self.shard, self._loop, self.reached = shard, loop, True

    async def ask(self, method, *arguments):
        if not self.reached:
            await asyncio.get_running_loop().create_future()
        called = asyncio.run_coroutine_threadsafe(getattr(self.shard, method)(*arguments), self._loop)
        return await asyncio.wrap_future(called)


class Shards:
    """Shards on one event loop, each found by its place; what the supervisor does is left to the test."""

    def __init__(self, address, folder, *, wanted=2, lease_seconds=60.0, limits=None):
        self.address = address
        self.limits = limits or Limits()
        self.settings = ShardSettings(
            postgres=address, snapshots=str(folder), limits=self.limits, lease_seconds=lease_seconds
        )
        self.directory = Directory(address)
        self.directory.create(wanted)
        self.places = {}
        self.fenced = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine):
        """What a coroutine returns on the loop of the shards."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(120)

    def run_later(self, coroutine):
        """The future of what a coroutine returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def start(self, number, *, settle=True):
        """Start a shard; returns its place."""
        place = f"place-{next(PLACES)}"
        shard = Shard(number, place, self.settings, on_fenced=self.fenced.append)
        self.places[place] = Near(shard, self._loop)
        if settle:
            self._loop.call_soon_threadsafe(shard.start)
        return place

    def stop(self, place):
        """Close a shard, which gives its lease back."""
        self.run(self.places.pop(place).shard.close())

    def close(self):
        for place in list(self.places):
            self.stop(place)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.directory.close()


class FrontWeb(Web):
    """Requests to a front of some shards; it reads where they are before each."""

    def __init__(self, shards, keys=(), *, seconds=30.0):
        self.router = Router(lambda place: shards.places[place], seconds=seconds, patience=0.0)
        self.directory = Directory(shards.address)
        self._shards = shards
        super().__init__(front_app(self.router, self.directory, Keyring(keys), shards.limits))

    def __exit__(self, *_):
        super().__exit__()
        self.directory.close()

    def together(self, requests):
        async def update():
            with closing(Directory(self._shards.address)) as directory:
                self.router.update(directory.wanted(), directory.shards())

        self._runner.run(update())
        return super().together(requests)
