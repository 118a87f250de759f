"""The access log and the audit log: lines of JSON, written on a thread: a slow reader of them delays no request."""

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

AUDITED = {
    "create": "create",
    "delete": "delete",
    "load": "import",
    "save": "export",
    "addArm": "add-arm",
    "retireArm": "retire-arm",
}
"""Endpoints whose requests are also lines of the audit log, at every log level; and what it calls them."""

MAX_LINES = 50_000
"""Lines that may wait to be written; further ones are dropped and counted."""

MAX_KNOWN = 1_000
"""Combinations of caller, route and agent whose part of a line is kept: encoding it takes longest."""

MAX_SHOWN = 4_000
"""Bytes up to which a body is a part of its line."""

PAUSE = 0.05
"""Seconds in which lines are collected before they are written together."""

ANONYMOUS = "anonymous"


class AccessLog:
    """One line for each request: who asked what, the outcome, and how long it took.

    Arguments:
        write: writes text of whole lines.
        requests: whether all requests are logged; otherwise only those of `AUDITED`.
        contexts: whether the lines of decisions have the bodies of their requests.
    """

    def __init__(self, write: Callable[[str], object], *, requests: bool = True, contexts: bool = False) -> None:
        self._write, self.requests, self._contexts = write, requests, contexts
        self._numbers = count(1)
        self._lines: deque[str] = deque()
        self._known: dict[tuple[str, str, str, str, str | None], str] = {}
        self._dropped = 0
        self._filled, self._closed = threading.Event(), threading.Event()
        self._second, self._prefix = 0, ""
        self._thread = threading.Thread(target=self._run, name="taciturn-access-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is left; a reader that takes nothing for some seconds is not waited for."""
        self._closed.set()
        self._filled.set()
        self._thread.join(5.0)

    def note(
        self,
        scope: Any,
        name: str,
        route: str,
        status: int,
        seconds: float,
        received: bytes = b"",
        sent: int = 0,
    ) -> None:
        """Add a request: its ASGI scope, the name and path of its endpoint, its outcome, its body and answer's size."""
        event = AUDITED.get(name)
        if event is None and not self.requests:
            return
        client = scope.get("client")
        path = scope.get("path_params") or {}
        what = (
            scope.get("taciturn.key", ANONYMOUS),
            client[0] if client else "",
            scope["method"],
            route,
            path.get("agent"),
        )
        line = (
            f'"request":{next(self._numbers)},{self._known.get(what) or self._encoded(what)},"status":{status},'
            f'"ms":{1000.0 * seconds:.2f},"bytes_in":{len(received)},"bytes_out":{sent}'
        )
        if self.requests:
            shown = self._contexts and name == "decide" and status == 200 and len(received) <= MAX_SHOWN
            self._add("access", line + (f',"body":{_compact(received)}' if shown else ""))
        if event is not None:
            given = f',"arm":{_json(path["arm"])}' if "arm" in path else ""
            if name in {"create", "addArm"} and status < 300 and len(received) <= MAX_SHOWN:
                given += f',"given":{_compact(received)}'
            self._add("audit", f'"event":"{event}",{line}{given}')

    def audit(self, event: str, **fields: Any) -> None:
        """Add a line to the audit log that is no request."""
        self._add("audit", _json({"event": event} | fields)[1:-1])

    def _encoded(self, what: tuple[str, str, str, str, str | None]) -> str:
        """The parts of a line that come again and again, as JSON."""
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        fields = dict(zip(("who", "client", "method", "route", "agent"), what, strict=True))
        encoded = self._known[what] = _json(fields)[1:-1]
        return encoded

    def _add(self, logger: str, line: str) -> None:
        if len(self._lines) >= MAX_LINES:
            self._dropped += 1
            return
        self._lines.append(self._format(logger, line))
        if not self._filled.is_set():
            self._filled.set()

    def _format(self, logger: str, line: str) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._prefix = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        at = f"{self._prefix}.{int(1000 * (now - second)):03}Z"
        return f'{{"time":"{at}","level":"info","logger":"taciturn.{logger}",{line}}}\n'

    def _run(self) -> None:
        while True:
            self._filled.wait()
            last = self._closed.wait(PAUSE)
            self._filled.clear()  # before the lines are taken: one that is added now is seen here or wakes this again
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                lines.append(self._format("audit", f'"event":"dropped-lines","count":{dropped}'))
            self._write("".join(lines))
            if last:
                return


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _compact(body: bytes) -> str:
    """A body that is valid JSON, on one line."""
    return msgspec.json.format(body, indent=-1).decode()
