"""A process that answers every line on its stdin by one on its stdout, within limits of time and length."""

import os
import selectors
import signal
import subprocess
import weakref
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import IO, Any

from taciturn.errors import ProgramFailed

MAX_ANSWER = 2**20
"""Bytes of an answer."""

MAX_ERRORS = 500
"""Characters of stderr, its last ones, that an error shows."""

CHUNK = 2**16
PATIENCE = 1.0
"""Seconds that a program has to end by itself once its stdin is closed."""


class LineProgram:
    """A running program, in a session of its own; it ends when this object does, or the interpreter.

    Arguments:
        words: the command and its arguments; no shell reads them.
        timeout: seconds for one answer.
    """

    def __init__(self, words: Sequence[str], timeout: float) -> None:
        if os.name != "posix":
            raise ProgramFailed("programs as agents need Linux, macOS or another POSIX system")
        self._timeout, self._errors = timeout, b""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        try:
            process = subprocess.Popen(words, bufsize=0, start_new_session=True, **pipes)  # noqa: S603 - the user's own
        except (OSError, ValueError) as error:
            raise ProgramFailed(f"cannot start {words[0]!r}: {getattr(error, 'strerror', None) or error}") from None
        self._process = process
        self._stdin, self._stdout, self._stderr = _pipes(process)
        for pipe in _pipes(process):
            os.set_blocking(pipe.fileno(), False)
        self._end = weakref.finalize(self, _end, process, os.getpid())

    def ask(self, line: bytes) -> bytes:
        """Return the answer to a line, both without their line breaks; raise `ProgramFailed`, and end it, otherwise."""
        if not self._end.alive:
            raise ProgramFailed("the program has ended")
        if _read(self._stdout):
            raise self.failed("wrote a line that it was not asked for")
        left, answer = memoryview(line + b"\n"), b""
        deadline = monotonic() + self._timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            for pipe in (self._stdout, self._stderr):
                selector.register(pipe, selectors.EVENT_READ)
            while left or b"\n" not in answer:
                ready = {key.fileobj for key, _ in selector.select(max(deadline - monotonic(), 0.0))}
                if self._stderr in ready and not self._note_errors():
                    selector.unregister(self._stderr)
                if self._stdin in ready:
                    left = left[self._write(left) :]
                    if not left:
                        selector.unregister(self._stdin)
                if self._stdout in ready:
                    read = _read(self._stdout)
                    if not read:
                        raise self.failed("ended without an answer", patience=PATIENCE)
                    answer += read
                if len(answer) > MAX_ANSWER:
                    raise self.failed(f"answered with more than {MAX_ANSWER} bytes")
                if monotonic() > deadline:
                    raise self.failed(f"did not answer within {self._timeout:g} seconds")
        found, _, more = answer.partition(b"\n")
        if more:
            raise self.failed("wrote more than one line")
        return found

    def _write(self, left: memoryview) -> int:
        """Write some bytes and return how many; all of them where nobody reads any more, which stdout will tell."""
        try:
            return os.write(self._stdin.fileno(), left[:CHUNK])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(left)

    def _note_errors(self) -> bool:
        """Read from stderr and keep the end of it; return whether it is still open."""
        read = _read(self._stderr)
        self._errors = (self._errors + (read or b""))[-4 * MAX_ERRORS :]
        return read != b""

    def failed(self, reason: str, patience: float = 0.0) -> ProgramFailed:
        """End the program, which may take so many seconds, and return the error with the end of its stderr."""
        _stop(self._process, patience)
        self._note_errors()
        code = self._process.returncode
        self._end()
        ended = f" (exit code {code})" if patience and code is not None else ""
        said = " ".join(self._errors.decode(errors="replace").split())[-MAX_ERRORS:]
        return ProgramFailed(f"the program {reason}{ended}" + (f"; its stderr: {said}" if said else ""))


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ProgramFailed("the program has no pipes")
    return process.stdin, process.stdout, process.stderr


def _read(pipe: IO[bytes]) -> bytes | None:
    """Return what there is to read: b"" at the end, None where there is nothing yet."""
    try:
        return os.read(pipe.fileno(), CHUNK)
    except BlockingIOError:
        return None


def _stop(process: "subprocess.Popen[bytes]", patience: float) -> None:
    """Close its stdin, kill it unless it ends in time, and kill what is left of all that it started."""
    with suppress(OSError):
        _pipes(process)[0].close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of processes that have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end(process: "subprocess.Popen[bytes]", owner: int) -> None:
    """End a program and close its pipes; a forked copy of the process that started it leaves it alone."""
    if os.getpid() == owner:
        _stop(process, PATIENCE)
    for pipe in _pipes(process):
        with suppress(OSError):
            pipe.close()
