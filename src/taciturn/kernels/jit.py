"""The two ways a kernel is compiled."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile with IEEE semantics: sums keep their written order, so equal inputs give equal bits."""
    return cast("Function", numba.njit(cache=True, error_model="numpy")(function))


def fast_kernel(function: Function) -> Function:
    """Compile with fused multiply-add and reordered sums, which vectorise; NaN and infinity stay what they are."""
    flags = {"contract", "reassoc", "nsz"}
    return cast("Function", numba.njit(cache=True, error_model="numpy", fastmath=flags)(function))
