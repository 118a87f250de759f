"""The machine underneath: files that appear whole or not at all, Ctrl-C, memory, sizes as text, who waits."""

import os
import secrets
import sys
import threading
from _signal import SIGINT, default_int_handler, getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

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

    In the main thread, and where Ctrl-C raises `KeyboardInterrupt`, as it does unless a program decides otherwise:
    elsewhere nothing raises one within the block. It takes 0.7 µs, with the functions that `signal` wraps: its own
    look for a name of every handler, which takes 3 µs a call.
    """

    __slots__ = ("_came", "_waits")

    def __enter__(self) -> None:
        self._came = False
        self._waits = getsignal(SIGINT) is default_int_handler
        if self._waits:
            try:
                set_handler(SIGINT, self._note)
            except ValueError:  # another thread than the main one
                self._waits = False

    def _note(self, *_: object) -> None:
        self._came = True

    def __exit__(self, *_: object) -> None:
        if self._waits:
            set_handler(SIGINT, default_int_handler)
        if self._came:
            raise KeyboardInterrupt


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
