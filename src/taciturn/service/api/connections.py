"""Connections that nobody can hold open or fill without end: bounded in number, in the size of headers and in time."""

import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from taciturn.service.api.problems import MEDIA_TYPE, Problem
from taciturn.service.core.limits import Limits

MAX_PIPELINED = 100
"""Requests that a connection may send ahead of their answers; each is parsed and kept until its turn."""

CUT = "taciturn.cut"
"""The key of a scope for what closes the connection after all that was sent, to break off an answer that has begun."""


class Connections:
    """The open connections of a server, oldest first: those whose request is incomplete, and those without a request.

    A connection that is in neither is being answered. Used on the event loop only.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.count = 0
        self.incomplete: dict[Connection, float] = {}  # with the time at which its request began
        self.idle: dict[Connection, None] = {}
        self.unread: dict[Connection, tuple[int, float]] = {}  # bytes left when some were last read, and that time

    def make_room(self) -> bool:
        """Close the oldest connection that is not being answered, if all are taken; returns whether there is room."""
        if self.count < self.limits.connections:
            return True
        oldest = next(iter(self.incomplete), None) or next(iter(self.idle), None)
        if oldest is None:
            return False
        oldest.abort()
        return True

    def sweep(self, now: float) -> None:
        """Close connections whose headers take too long, and those whose client does not read; called every second."""
        for connection, since in list(self.incomplete.items()):
            if now - since <= self.limits.header_seconds:
                break  # the others began later
            if not connection.reads_body:  # the application has a time limit of its own for a body that it reads
                connection.abort()
        for connection, (left, since) in list(self.unread.items()):
            size = connection.transport.get_write_buffer_size()
            if size < left:
                self.unread[connection] = size, now
            elif now - since > self.limits.seconds:
                connection.abort()


class Connection(HttpToolsProtocol):
    """One connection of uvicorn's, which tells `Connections` what it is waiting for; its server sets `shared`."""

    shared: Connections

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_headers = True
        self._in_message = False
        self._counted = False
        self._header_bytes = 0

    @property
    def reads_body(self) -> bool:
        """Whether the application is still waiting for the rest of a body."""
        return self.cycle is not None and not self._in_headers and not self.cycle.response_complete

    def abort(self) -> None:
        """Close the connection at once."""
        self._forget()
        self.transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: Any) -> None:
        """Take the connection, or refuse it while all others are being answered."""
        super().connection_made(transport)
        if not self.shared.make_room():
            self._refuse(Problem(503, "unavailable", f"all {self.shared.limits.connections} connections are in use"))
            return
        self._counted = True
        self.shared.count += 1
        self.shared.incomplete[self] = time.monotonic()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes; refuses headers that are too long."""
        if self.transport.is_closing():
            return  # refused already
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes > self.shared.limits.headers:
            self._refuse_headers()

    def pause_writing(self) -> None:
        """Note when the client stopped to read."""
        super().pause_writing()
        self.shared.unread[self] = self.transport.get_write_buffer_size(), time.monotonic()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self.shared.unread.pop(self, None)

    # Called by the parser.

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope[CUT] = self.transport.close  # type: ignore[literal-required]
        self._in_headers = self._in_message = True
        if self._counted and self not in self.shared.incomplete:
            self.shared.idle.pop(self, None)
            self.shared.incomplete[self] = time.monotonic()

    def on_headers_complete(self) -> None:
        """Start to answer, unless the headers are too long or too many requests wait for their turn."""
        if self._header_bytes > self.shared.limits.headers:  # they may have come with a part of the body
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.shared.limits.headers:
                self._refuse_headers()
        if len(self.pipeline) >= MAX_PIPELINED:
            self._refuse(Problem(429, "limit-exceeded", f"more than {MAX_PIPELINED} requests sent ahead"))
        self._in_headers, self._header_bytes = False, 0
        if not self.transport.is_closing():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of a body for the application, unless the request was refused."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_headers, self._in_message = True, False
        if self.transport.is_closing():
            return
        self.shared.incomplete.pop(self, None)
        super().on_message_complete()
        if self.cycle.response_complete:
            self.shared.idle[self] = None

    def on_response_complete(self) -> None:
        """The answer is complete; the request need not be, where it was refused before its body was read."""
        super().on_response_complete()
        if self._counted and not self._in_message and not self.pipeline:
            self.shared.idle[self] = None

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request to upgrade as if it had not asked, without a line in the log for each."""

    def _refuse_headers(self) -> None:
        self._refuse(Problem(431, "too-large", f"the headers may have {self.shared.limits.headers} bytes"))

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem and close the connection."""
        body = problem.body
        head = b"content-type: %s\r\ncontent-length: %d\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[problem.status] + head % (MEDIA_TYPE.encode(), len(body)) + body)
        self.transport.close()

    def _forget(self) -> None:
        self.shared.incomplete.pop(self, None)
        self.shared.idle.pop(self, None)
        self.shared.unread.pop(self, None)
        self.shared.count -= self._counted
        self._counted = False
