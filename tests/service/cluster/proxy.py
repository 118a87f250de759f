"""A TCP proxy in front of PostgreSQL that can lose connections, refuse them, and hold back what is sent."""

import asyncio
import threading
from contextlib import suppress

CHUNK = 1 << 16


class Proxy:
    """Forwards connections on `port` to a socket of the file system, in a thread of its own.

    It can end all connections, refuse new ones, and hold back everything that either side sends. Faults may overlap:
    each that refuses or holds is undone by one call.
    """

    def __init__(self, target):
        self._target = str(target)
        self._links = set()
        self._refusing = self._holding = 0  # how many faults want it now
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.port = self._call(self._listen())

    def close(self):
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self):
        """End all connections there are now."""
        self._call(self._cut())

    def refuse(self):
        """End all connections, and new ones at once."""
        self._refusing += 1
        self.cut()

    def accept(self):
        """Undo `refuse`."""
        self._refusing -= 1

    def hold(self):
        """Deliver nothing from now on."""
        self._call(self._hold())

    def release(self, *, late):
        """Undo `hold`: what was held arrives `late`, or never, and then the connections there were are ended."""
        self._call(self._release(late=late))

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _listen(self):
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _close(self):
        self._server.close()
        await self._cut()

    async def _hold(self):
        self._holding += 1
        self._flowing.clear()

    async def _release(self, *, late):
        self._holding -= 1
        if not late:
            await self._cut()
        if not self._holding:
            self._flowing.set()

    async def _cut(self):
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def _forward(self, reader, writer):
        """Forward one connection until a side ends it or it is cut."""
        self._links.add(asyncio.current_task())
        ends = [writer]
        try:
            if self._refusing:
                return
            await self._flowing.wait()
            back, forth = await asyncio.open_unix_connection(self._target)
            ends.append(forth)
            sides = [asyncio.ensure_future(self._pump(*side)) for side in ((reader, forth), (back, writer))]
            try:
                await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for side in sides:
                    side.cancel()
                await asyncio.gather(*sides, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # PostgreSQL is being restarted, or the connection is cut
        finally:
            for end in ends:
                end.transport.abort()
            self._links.discard(asyncio.current_task())

    async def _pump(self, reader, writer):
        with suppress(OSError):
            while content := await reader.read(CHUNK):
                await self._flowing.wait()
                writer.write(content)
                await writer.drain()
