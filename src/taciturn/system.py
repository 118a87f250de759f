"""The machine underneath: files that appear whole or not at all, Ctrl-C, memory, sizes as text, who waits."""

import os
import secrets
import signal
import sys
import threading
from _signal import getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

HELD = tuple(int(getattr(signal, name)) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM") if hasattr(signal, name))
"""The signals on which programs raise exceptions: to stop, to save and stop, at a time limit."""

CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def atomic_write(target: Path, content: bytes | Callable[[Path], object], mode: int = 0o666) -> None:
    """Write a file, given as bytes or by a function that writes to a path; a crash leaves the old file or the new one.

    It is written under a temporary name in the same folder, flushed, and moved into place. From its first byte on it
    has the permissions `mode`, less those that the user's umask takes away.
    """
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    os.close(os.open(scratch, os.O_CREAT | os.O_EXCL, mode))
    try:
        scratch.write_bytes(content) if isinstance(content, bytes) else content(scratch)
        atomic_move(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def atomic_move(source: Path, target: Path) -> None:
    """Flush a finished file and move it into place; after a loss of power the target is the old file or the new one."""
    flush(source)
    source.replace(target)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        flush(target.parent)


def flush(path: Path) -> None:
    """Have the disk take what was written to a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Uninterrupted:
    """A block that Ctrl-C waits for, so that what it changes together is never left half changed.

    So does every signal of `HELD` that a program handles, since a handler may raise an exception, as that of Ctrl-C
    does. Handlers run in the main thread alone; in another one there is nothing to do. It takes a microsecond, with the
    functions that `signal` wraps: its own look for a name of every handler, which takes 3 µs a call.
    """

    __slots__ = ("_came", "_handlers")

    def __enter__(self) -> None:
        self._came: list[tuple[Callable[..., object], int, object]] = []
        self._handlers: list[tuple[int, Callable[..., object]]] = []
        try:
            for number in HELD:
                handler = getsignal(number)
                if callable(handler):
                    self._handlers.append((number, handler))
                    set_handler(number, self._note)
        except BaseException as error:
            if any(getsignal(number) == self._note for number, _ in self._handlers):  # a handler that was there raised
                self.__exit__()
                raise
            self._handlers.clear()
            if not isinstance(error, ValueError):  # as raised in another thread than the main one
                raise

    def _note(self, number: int, frame: object) -> None:
        self._came.append((dict(self._handlers)[number], number, frame))

    def __exit__(self, *_: object) -> None:
        try:
            while self._handlers:
                set_handler(*self._handlers[-1])
                self._handlers.pop()
            while self._came:  # called, not raised again: what reads signals from a file has heard them already
                handler, *arguments = self._came.pop(0)
                handler(*arguments)
        finally:
            if self._handlers or self._came:  # a handler that is back has raised
                self.__exit__()


def machine_memory() -> float:
    """The machine's memory in bytes, or the container's limit if that is less."""
    return _least_memory(tuple(CONTAINER_LIMITS))


@cache
def _least_memory(container_limits: tuple[Path, ...]) -> float:
    limits = [float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    for file in container_limits:
        text = file.read_text() if file.is_file() else ""
        limits += [float(text)] if text.strip().isdigit() else []
    return min(limits, default=float("inf"))


def one_thread() -> AbstractContextManager[Any]:
    """Numerical libraries use one thread within the block, whatever the environment says.

    For small fits of scikit-learn, and what else is small: threads that outnumber idle cores wait for each other, and a
    fit takes ten times as long. Libraries that are loaded within the block are not limited.
    """
    return _loaded_libraries(len(sys.modules)).limit(limits=1)  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _loaded_libraries(_: int) -> ThreadpoolController:
    return (
        ThreadpoolController()
    )  # looking for them takes milliseconds, so it is done where modules were imported since


def format_bytes(size: float) -> str:
    """A number of bytes with three digits and a unit: ``1.75 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000.0
    return f"{size:.3g} TB"


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel, which shows HTML; IPython in a terminal is not."""
    ipython = sys.modules.get("IPython")  # it is imported wherever there is a kernel
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def is_interactive() -> bool:
    """Whether a person waits for what this thread does: it is the main one, of a notebook or with a terminal."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return in_notebook() or (sys.stdout is not None and sys.stdout.isatty())
