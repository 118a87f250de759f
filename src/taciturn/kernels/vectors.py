"""Two steps of a product with a sparse matrix, on as many columns at once as the registers of a processor hold.

numba makes vector instructions of loops over memory only, so that a sum over the nonzeros of a row reads and writes its
result for each few of them. These two are written in LLVM's own vectors: three to four times as fast where matrices
have few columns. A multiplication and the addition that follows are fused where the processor can, as in kernels that
are compiled with "contract", and nonzeros are added in their order; so the bits are those of the plain loops.

Only types are checked here, when a kernel is compiled: what is read or written must be inside of the arrays, and both
dense ones must have as many columns. Where numba is told not to compile (``NUMBA_DISABLE_JIT``), NumPy does the same.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import config, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

INDEX, LANE = ir.IntType(64), ir.IntType(32)
FUSED = ("contract",)


class Lanes(NamedTuple):
    """The two steps for some number of columns.

    ``add_rows(values, columns, dense, out, start, stop, row, column)`` writes ``Σ_p values[p] · dense[columns[p]]``, p
    from `start` to `stop`, to the row ``out[row]``; ``spread_row``, of the same arguments, adds ``values[p] ·
    dense[row]`` to the rows ``out[columns[p]]``. Both take as many columns as there are lanes, from `column` on, of
    ``dense`` (·, U) and ``out`` (·, U), which are of one type; values of double precision are rounded to single where
    these are.
    """

    add_rows: Callable[..., None]
    spread_row: Callable[..., None]


class _Loop:
    """The code of a loop over the nonzeros `start` … `stop` of a row, in vectors of so many lanes."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any, lanes: int) -> None:
        arrays = zip(signature.args[:4], arguments[:4], strict=True)
        made = [context.make_array(kind)(context, builder, array) for kind, array in arrays]
        self._values, self._columns, self._dense, self._out = (array.data for array in made)
        self.width = builder.extract_value(made[3].shape, 1)
        self.start, self.stop, self.row, self.column = arguments[4:]
        self.builder, self._size = builder, signature.args[2].dtype.bitwidth // 8
        self.vector = ir.VectorType(context.get_value_type(signature.args[2].dtype), lanes)

    def pointer(self, array: str, row: Any) -> Any:
        """Where the columns of a row of ``dense`` or ``out`` begin."""
        place = self.builder.add(self.builder.mul(row, self.width), self.column)
        first = self.builder.gep(self._dense if array == "dense" else self._out, [place])
        return self.builder.bitcast(first, self.vector.as_pointer())

    def load(self, pointer: Any) -> Any:
        """The columns there."""
        loaded = self.builder.load(pointer)
        loaded.align = self._size
        return loaded

    def store(self, vector: Any, pointer: Any) -> None:
        """Write columns."""
        self.builder.store(vector, pointer).align = self._size

    def run(self, total: Any, step: Callable[[Any, Any, Any], Any]) -> Any:
        """Run ``total = step(total, value, column)`` over the nonzeros; returns the last total."""
        builder, before = self.builder, self.builder.block
        head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        place, so_far = builder.phi(INDEX), builder.phi(total.type)
        builder.cbranch(builder.icmp_signed("<", place, self.stop), body, after)
        builder.position_at_end(body)
        value = builder.load(builder.gep(self._values, [place]))
        if value.type != self.vector.element:
            value = builder.fptrunc(value, self.vector.element)
        column = builder.sext(builder.load(builder.gep(self._columns, [place])), INDEX)
        stepped = step(so_far, self._repeated(value), column)
        for phi, first, then in ((place, self.start, builder.add(place, INDEX(1))), (so_far, total, stepped)):
            phi.add_incoming(first, before)
            phi.add_incoming(then, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return so_far

    def _repeated(self, value: Any) -> Any:
        """A number in all lanes."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, value, LANE(0))
        places = ir.Constant(ir.VectorType(LANE, self.vector.count), [0] * self.vector.count)
        return self.builder.shuffle_vector(first, nothing, places)

    def fused(self, total: Any, factor: Any, vector: Any) -> Any:
        """``total + factor · vector``."""
        product = self.builder.fmul(factor, vector, flags=FUSED)
        return self.builder.fadd(total, product, flags=FUSED)


def _add_rows(loop: _Loop) -> None:
    zero = ir.Constant(loop.vector, [0.0] * loop.vector.count)
    total = loop.run(
        zero, lambda total, value, column: loop.fused(total, value, loop.load(loop.pointer("dense", column)))
    )
    loop.store(total, loop.pointer("out", loop.row))


def _spread_row(loop: _Loop) -> None:
    spread = loop.load(loop.pointer("dense", loop.row))

    def step(total: Any, value: Any, column: Any) -> Any:
        place = loop.pointer("out", column)
        loop.store(loop.fused(loop.load(place), value, spread), place)
        return total

    loop.run(INDEX(0), step)


def _compiled(write: Callable[[_Loop], None], lanes: int) -> Callable[..., None]:
    """A function for kernels to call, whose code is written by `write`."""

    # numba counts the arguments of this one.
    def function(
        _: Any, values: Any, columns: Any, dense: Any, out: Any, start: Any, stop: Any, row: Any, column: Any
    ) -> Any:
        places = start, stop, row, column

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write(_Loop(context, builder, signature, arguments, lanes))
            return context.get_dummy_value()

        if {array.layout for array in (values, columns, dense, out)} != {"C"}:
            raise TypingError("an array of a product is not contiguous")
        if dense.dtype != out.dtype or values.dtype.bitwidth < dense.dtype.bitwidth:
            raise TypingError("the types of a product do not go together")
        return types.void(values, columns, dense, out, *[types.int64] * len(places)), generate

    function.__name__ = f"{write.__name__[1:]}_{lanes}"
    made: Callable[..., None] = intrinsic(function)
    return made


def _interpreted(count: int) -> Lanes:
    """The two steps in NumPy, for those who follow a kernel with a debugger."""

    def add_rows(values: Any, columns: Any, dense: Any, out: Any, start: int, stop: int, row: int, column: int) -> None:
        here = slice(column, column + count)
        out[row, here] = 0.0
        for p in range(start, stop):
            out[row, here] += out.dtype.type(values[p]) * dense[columns[p], here]

    def spread_row(
        values: Any, columns: Any, dense: Any, out: Any, start: int, stop: int, row: int, column: int
    ) -> None:
        here = slice(column, column + count)
        for p in range(start, stop):
            out[columns[p], here] += out.dtype.type(values[p]) * dense[row, here]

    return Lanes(add_rows, spread_row)


def lanes(count: int) -> Lanes:
    """The two steps for so many columns."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return _interpreted(count)
    return Lanes(_compiled(_add_rows, count), _compiled(_spread_row, count))
