"""Two steps of a product with a sparse matrix, on as many columns at once as the registers of a processor hold.

numba makes vector instructions of loops over memory only, so that a sum over the nonzeros of a row reads and writes its
result for each few of them. These two are written in LLVM's own vectors: three to four times as fast where matrices
have few columns. A multiplication and the addition that follows are fused where the processor can, as in kernels that
are compiled with "contract", and nonzeros are added in their order; so the bits are those of the plain loops.

``add_rows(values, columns, dense, out, start, stop, row, first, last)`` writes ``Σ_p values[p] · dense[columns[p]]``, p
from `start` to `stop`, to the row ``out[row]``; ``spread_row``, of the same arguments, adds ``values[p] · dense[row]``
to the rows ``out[columns[p]]``. Both take the columns `first` to `last` of ``dense`` (·, U) and ``out`` (·, U), which
are of one type; values of double precision are rounded to single where these are.

Only types are checked here, when a kernel is compiled: what is read or written must be inside of the arrays, and both
dense ones must have as many columns. Where numba is told not to compile (``NUMBA_DISABLE_JIT``), NumPy does the same.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import config, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

INDEX, LANE = ir.IntType(64), ir.IntType(32)
FUSED = ("contract",)

WIDTHS = (32, 16, 4, 2, 1)
"""How many columns are taken at once; the fewer when no more are left."""


class _Row:
    """The code that goes through the nonzeros `start` … `stop` of a row, in vectors of some columns."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        arrays = zip(signature.args[:4], arguments[:4], strict=True)
        made = [context.make_array(kind)(context, builder, array) for kind, array in arrays]
        self._values, self._columns, self._dense, self._out = (array.data for array in made)
        self._width = builder.extract_value(made[3].shape, 1)
        self._start, self._stop, self.row, self._first, self._last = arguments[4:]
        self._builder = builder
        self._real, self._size = context.get_value_type(signature.args[2].dtype), signature.args[2].dtype.bitwidth // 8
        self.vector = ir.VectorType(self._real, 1)
        self._column = self._first

    def over_columns(self, step: "Callable[[_Row], None]") -> None:
        """Take a step for all columns, as many at once as there are left."""
        first = self._first
        for count in WIDTHS:
            self.vector = ir.VectorType(self._real, count)
            more = INDEX(count)

            def is_left(place: Any, more: Any = more) -> Any:
                return self._builder.icmp_signed("<=", self._builder.add(place, more), self._last)

            def body(place: Any, _: Any, more: Any = more) -> tuple[Any, None]:
                self._column = place
                step(self)
                return self._builder.add(place, more), None

            first, _ = self._loop(first, None, is_left, body)

    def over_nonzeros(self, total: Any, step: Callable[[Any, Any, Any], Any]) -> Any:
        """Run ``total = step(total, value, column)`` over the nonzeros; returns the last total."""
        builder = self._builder

        def body(place: Any, total: Any) -> tuple[Any, Any]:
            value = builder.load(builder.gep(self._values, [place]))
            if value.type != self._real:
                value = builder.fptrunc(value, self._real)
            column = builder.sext(builder.load(builder.gep(self._columns, [place])), INDEX)
            stepped = step(total, self._repeated(value), column)
            return builder.add(place, INDEX(1)), stepped

        def is_left(place: Any) -> Any:
            return builder.icmp_signed("<", place, self._stop)

        return self._loop(self._start, total, is_left, body)[1]

    def _loop(
        self, place: Any, total: Any, is_left: Callable[[Any], Any], body: Callable[[Any, Any], tuple[Any, Any]]
    ) -> tuple[Any, Any]:
        """``while is_left(place): place, total = body(place, total)``; returns both. A total may be None."""
        builder, before = self._builder, self._builder.block
        head, inside, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        starts = (place,) if total is None else (place, total)
        phis = [builder.phi(start.type) for start in starts]
        builder.cbranch(is_left(phis[0]), inside, after)
        builder.position_at_end(inside)
        stepped = body(phis[0], None if total is None else phis[1])
        for phi, start, then in zip(phis, starts, stepped, strict=False):
            phi.add_incoming(start, before)
            phi.add_incoming(then, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return phis[0], None if total is None else phis[1]

    def pointer(self, array: str, row: Any) -> Any:
        """Where the columns of a row of ``dense`` or ``out`` begin."""
        place = self._builder.add(self._builder.mul(row, self._width), self._column)
        first = self._builder.gep(self._dense if array == "dense" else self._out, [place])
        return self._builder.bitcast(first, self.vector.as_pointer())

    def load(self, pointer: Any) -> Any:
        """The columns there."""
        loaded = self._builder.load(pointer)
        loaded.align = self._size
        return loaded

    def store(self, vector: Any, pointer: Any) -> None:
        """Write columns."""
        self._builder.store(vector, pointer).align = self._size

    def _repeated(self, value: Any) -> Any:
        """A number in all lanes."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self._builder.insert_element(nothing, value, LANE(0))
        places = ir.Constant(ir.VectorType(LANE, self.vector.count), [0] * self.vector.count)
        return self._builder.shuffle_vector(first, nothing, places)

    def fused(self, total: Any, factor: Any, vector: Any) -> Any:
        """``total + factor · vector``."""
        product = self._builder.fmul(factor, vector, flags=FUSED)
        return self._builder.fadd(total, product, flags=FUSED)


def _add_rows(row: _Row) -> None:
    zero = ir.Constant(row.vector, [0.0] * row.vector.count)
    total = row.over_nonzeros(
        zero, lambda total, value, column: row.fused(total, value, row.load(row.pointer("dense", column)))
    )
    row.store(total, row.pointer("out", row.row))


def _spread_row(row: _Row) -> None:
    spread = row.load(row.pointer("dense", row.row))

    def step(_: Any, value: Any, column: Any) -> None:
        place = row.pointer("out", column)
        row.store(row.fused(row.load(place), value, spread), place)

    row.over_nonzeros(None, step)


def _compiled(write: Callable[[_Row], None]) -> Callable[..., None]:
    """A function for kernels to call, whose code for some columns is written by `write`."""

    # numba counts the arguments of this one.
    def function(
        _: Any, values: Any, columns: Any, dense: Any, out: Any, start: Any, stop: Any, row: Any, first: Any, last: Any
    ) -> Any:
        places = start, stop, row, first, last

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _Row(context, builder, signature, arguments).over_columns(write)
            return context.get_dummy_value()

        if {array.layout for array in (values, columns, dense, out)} != {"C"}:
            raise TypingError("an array of a product is not contiguous")
        if dense.dtype != out.dtype or values.dtype.bitwidth < dense.dtype.bitwidth:
            raise TypingError("the types of a product do not go together")
        return types.void(values, columns, dense, out, *[types.int64] * len(places)), generate

    function.__name__ = write.__name__[1:]
    made: Callable[..., None] = intrinsic(function)
    return made


def _interpreted_add(
    values: Any, columns: Any, dense: Any, out: Any, start: int, stop: int, row: int, first: int, last: int
) -> None:
    out[row, first:last] = 0.0
    for p in range(start, stop):
        out[row, first:last] += out.dtype.type(values[p]) * dense[columns[p], first:last]


def _interpreted_spread(
    values: Any, columns: Any, dense: Any, out: Any, start: int, stop: int, row: int, first: int, last: int
) -> None:
    for p in range(start, stop):
        out[columns[p], first:last] += out.dtype.type(values[p]) * dense[row, first:last]


if config.DISABLE_JIT:  # type: ignore[attr-defined]  # for those who follow a kernel with a debugger
    add_rows, spread_row = _interpreted_add, _interpreted_spread
else:
    add_rows, spread_row = _compiled(_add_rows), _compiled(_spread_row)
