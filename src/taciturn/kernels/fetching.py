"""A hint to the processor: a row that will be read soon should be on its way from memory."""

from typing import Any

from llvmlite import ir
from numba.core import config, types
from numba.extending import intrinsic

BYTES, LINES = ir.IntType(8), (0, 64, 128)
"""Of a row the first three lines of a cache are fetched: 48 numbers of single precision."""

HINT = [ir.IntType(32)(argument) for argument in (0, 3, 1)]
"""To read, into all caches, data."""


def _fetch(_: Any, array: Any, _row: Any) -> Any:
    """Let the beginning of ``array[row]`` be fetched; nothing is read or changed, and the row may be any number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.mul(arguments[1], builder.extract_value(made.strides, 0))
        first = builder.bitcast(made.data, BYTES.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [first.type, *(argument.type for argument in HINT)])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [first.type], kind)
        for line in LINES:
            place = builder.gep(first, [builder.add(start, start.type(line))])
            builder.call(prefetch, [place, *HINT])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _interpreted_fetch(array: Any, row: int) -> None:
    """Without compilation there is nothing to hint at."""


if config.DISABLE_JIT:  # type: ignore[attr-defined]  # for those who follow a kernel with a debugger
    fetch: Any = _interpreted_fetch
else:
    fetch = intrinsic(_fetch)
