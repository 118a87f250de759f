"""The two decorators that compile a kernel with numba.

Compiled code is cached beside its source file, and only a change of that file invalidates it: numba does not notice a
change in a kernel imported from another file. Kernels that call each other therefore stay in one file. After a change
of the options here, the caches (``__pycache__/*.nbi``, ``*.nbc``) have to be deleted.

Kernels release the interpreter's lock, so that other threads go on meanwhile. They work on the arrays they are given
and on what they allocate; agents are used by one thread at a time, and no two of them share an array.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile with IEEE semantics: sums keep their written order, so equal inputs give equal bits."""
    return cast("Function", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def fast_kernel(function: Function) -> Function:
    """Compile with fused multiply-add and reordered sums, which vectorize; NaN and infinity keep their meaning."""
    flags = {"contract", "reassoc", "nsz"}
    return cast("Function", numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=flags)(function))
