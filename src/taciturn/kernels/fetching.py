"""A hint to the processor: a row that will be read soon should be on its way from memory."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from taciturn.kernels.jit import fast_kernel

LINE, LINES = 64, 3
"""Bytes of a line of a cache, and how many of a row are fetched: 48 numbers of single precision."""

BYTES, HINT = ir.IntType(8), [ir.IntType(32)(argument) for argument in (0, 3, 1)]
"""The hint says: to read, into all caches, data."""


def _fetch_line(_: Any, array: Any, _row: Any, _offset: Any) -> Any:
    """Let the line with the byte at an offset in ``array[row]`` be fetched; nothing is read or changed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.mul(arguments[1], builder.extract_value(made.strides, 0))
        first = builder.bitcast(made.data, BYTES.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [first.type, *(argument.type for argument in HINT)])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [first.type], kind)
        builder.call(prefetch, [builder.gep(first, [builder.add(start, arguments[2])]), *HINT])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


def _interpreted_fetch(array: Any, row: int, offset: int) -> None:
    """Without compilation there is nothing to hint at."""


if config.DISABLE_JIT:  # type: ignore[attr-defined]  # for those who follow a kernel with a debugger
    fetch_line: Any = _interpreted_fetch
else:
    fetch_line = intrinsic(_fetch_line)


@fast_kernel
def fetch(array: NDArray[Any], row: int) -> None:
    """Let the beginning of ``array[row]`` be fetched; the row may be any number."""
    for line in range(min((array.strides[0] + LINE - 1) // LINE, LINES)):
        fetch_line(array, np.int64(row), line * LINE)
