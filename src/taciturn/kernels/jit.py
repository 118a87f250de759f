"""The two decorators that compile a kernel with numba, and what is said while they compile.

Compiled code is cached beside its source file, or in the user's cache folder where that cannot be written to. A change
of any file in this folder invalidates all of it (`STAMP`).

An index that is read from an array, or counted, is cast to ``np.uint64`` where loops are hot: numba looks at a signed
one first whether it is negative, and counts from the end then, which takes as long as the access.

Kernels release the interpreter's lock, so that other threads go on meanwhile. They work on the arrays they are given
and on what they allocate; agents are used by one thread at a time, and no two of them share an array.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.caching import FunctionCache

from taciturn.system import atomic_write

Function = TypeVar("Function", bound=Callable[..., object])

PATIENCE = 1.0
"""Seconds of compiling after which `NOTE` is written to stderr."""

HERE = Path(__file__).parent

STAMP = "taciturn-kernels.stamp"
"""A file beside compiled kernels that names the sources they were compiled from, with their times and sizes."""

NOTE = (
    "taciturn compiles its kernels, once for each method, which takes seconds; "
    "`python -m taciturn.warm` does it beforehand"
)
UNCACHED = (
    "taciturn cannot write its compiled kernels to any folder, so every process compiles them anew; "
    "set NUMBA_CACHE_DIR to a folder that can be written to"
)


def kernel(function: Function) -> Function:
    """Compile with IEEE semantics: sums keep their written order, so equal inputs give equal bits."""
    return _compiled(function)


def inner_kernel(function: Function) -> Function:
    """As `kernel`, of a function that only kernels call: what Python would call it by is not compiled."""
    return _compiled(function, no_cpython_wrapper=True)


def fast_kernel(function: Function) -> Function:
    """Compile with fused multiply-add and reordered sums, which vectorize; NaN and infinity keep their meaning."""
    return _compiled(function, fastmath={"contract", "reassoc", "nsz"})


def _compiled(function: Function, **options: Any) -> Function:
    """Compile with the options of every kernel, and some more."""
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    made: Any = numba.njit(**options)(function)
    if can_cache(function) and hasattr(made, "enable_caching"):  # a plain function where numba is told not to compile
        made._cache = KernelCache(function)  # type: ignore[no-untyped-call]  # noqa: SLF001 - numba has no other way
    return cast("Function", made)


class KernelCache(FunctionCache):
    """numba's cache on disk, of which a damaged file is made anew, and which is done without where there is no room."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for a signature; None if it is not there, or cannot be read."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001 - of pickle, LLVM or the system, by where it was cut
            self._when_written(self.flush)  # an index that cannot be read cannot be added to either
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled."""
        self._when_written(super().save_overload, sig, data)

    def _when_written(self, write: Callable[..., None], *arguments: Any) -> None:
        """Write, or say that it cannot be, once in the life of a process."""
        try:
            write(*arguments)
        except OSError:
            self.disable()  # type: ignore[no-untyped-call]
            _say_uncached()


_CACHED_FOLDERS: dict[Path, bool] = {}


def can_cache(function: Callable[..., object]) -> bool:
    """Whether numba has a folder to keep the compiled function in; the first time that it has none, a line says so."""
    folder = Path(function.__code__.co_filename).parent
    if folder not in _CACHED_FOLDERS:
        try:
            cache_path = FunctionCache(function).cache_path  # type: ignore[no-untyped-call]
            if folder == HERE:
                drop_stale(Path(cache_path))
            _CACHED_FOLDERS[folder] = True
        except (RuntimeError, OSError):
            _say_uncached()
            _CACHED_FOLDERS[folder] = False
    return _CACHED_FOLDERS[folder]


def drop_stale(cache: Path) -> None:
    """Forget what was compiled from other sources than those of now.

    numba compares a kernel with its own file only, not with those of kernels that it calls, and it fails on an index
    that names a class which an upgrade has removed.
    """
    sources = sorted(HERE.glob("*.py"))
    now = "".join(f"{source.name} {source.stat().st_mtime_ns} {source.stat().st_size}\n" for source in sources).encode()
    stamp = cache / STAMP
    if stamp.exists() and stamp.read_bytes() == now:
        return
    for index in cache.glob("*.nbi"):
        index.unlink(missing_ok=True)
    atomic_write(stamp, now)


@cache
def _say_uncached() -> None:
    _write_line(UNCACHED)


def _write_line(text: str) -> None:
    if sys.stderr is not None:  # it is None where a program has no console
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class NoCollection(event.Listener):
    """Lets the garbage collector rest while a kernel is compiled: it makes millions of objects, few of them garbage."""

    def __init__(self) -> None:
        self._depth = 0  # kernels compile those that they call
        self._was_enabled = False

    def on_start(self, event: Any) -> None:
        """Numba holds its lock for compiling now."""
        if self._depth == 0:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """As it was before."""
        self._depth -= 1
        if self._depth == 0 and self._was_enabled:
            gc.enable()


class CompileNote(event.Listener):
    """Writes one line in the life of a process, once its kernels have been compiling for `PATIENCE` seconds.

    Nothing is written where kernels come from the cache: numba reports only what it compiles.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0  # kernels compile those that they call
        self._started = self._spent = 0.0
        self._timer: threading.Timer | None = None
        self.written = False

    def on_start(self, event: Any) -> None:
        """Write the line in a while, if this one takes long enough."""
        if self.written or not _is_ours(event):
            return
        self._depth += 1
        if self._depth == 1:
            self._started = time.monotonic()
            self._timer = threading.Timer(PATIENCE - self._spent, self._write)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Add up the time; many kernels that compile quickly take long together."""
        if self._timer is None or not _is_ours(event):
            return
        self._depth -= 1
        if self._depth == 0:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._started
            if self._spent >= PATIENCE:
                self._write()

    def _write(self) -> None:
        with self._lock:
            if not self.written:
                self.written = True
                _write_line(NOTE)


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("taciturn.")


_COMPILE_NOTE = CompileNote()

for listener in (_COMPILE_NOTE, NoCollection()):
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]


def say_nothing() -> None:
    """Write no line about compiling in this process."""
    _COMPILE_NOTE.written = True
