"""Look up functions of 16 bits by their high bytes, and interpolate between neighbours."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Node, Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul, ShiftRight, Sub, scalar
from afterglow.ops.fixed_point import ByteTable
from afterglow.ops.quantization import QuantizeLinear
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.chains import Chain
from afterglow.transforms.matching.quantized import Storing, emit_high_bytes, emit_low_bytes
from afterglow.types import Array
from afterglow.types.dtype import i16, i32

SEGMENTS = 256
"""Parts of the range of 16 bits, in which functions are straight lines."""
ENDS = 256 * np.arange(-128, 129, dtype=np.int32)
"""Where the parts begin, and the last one ends."""


@rewrite(QuantizeLinear)
def interpolate_functions(node: Node, b: Builder) -> Value | None:
    """quantize(f(dequantize(x)))  ->  (t (256 - low(x)) + u low(x)) / 256,  x of 16 bits.

    t is f of the part that the high byte of x says, and u of the next one, by tables.
    """
    storing = Storing.of(node)
    if storing is None:
        return None
    chain = Chain.of(storing.value, {i16: ENDS})
    if chain is None:
        return None
    extra = max(0, 14 - storing.dtype.bits)
    steps = np.rint(chain.result.astype(np.float64) / storing.step * 2.0**extra)
    table = np.clip(np.nan_to_num(steps), *i16.limits).astype(np.int64)
    lines = _emit_lines(b, chain.source, table)
    shift = 8 + extra
    rounded = b.emit(Add(), lines, scalar(b, 1 << (shift - 1), lines))
    total = b.emit(ShiftRight(), rounded, scalar(b, shift, rounded))
    shifted = b.emit(Add(), total, scalar(b, storing.zero_point, total))
    return b.emit(Cast(storing.dtype), b.emit(Clip(*storing.dtype.limits), shifted))


def _emit_lines(b: Builder, x: Value, table: Array) -> Value:
    """256 times the numbers between two entries of a table, in 32 bits."""
    high, low = emit_high_bytes(b, x), b.emit(Cast(i32), emit_low_bytes(b, x))
    first, second = (
        b.emit(Cast(i32), b.emit(ByteTable(_by_bits(part), i16), high))
        for part in (table[:-1], table[1:])
    )
    rest = b.emit(Sub(), scalar(b, SEGMENTS, low), low)
    return b.emit(Add(), b.emit(Mul(), first, rest), b.emit(Mul(), second, low))


def _by_bits(table: Array) -> tuple[int, ...]:
    """Entries in the order of the bits of signed bytes: those of the negative ones come last."""
    return tuple(int(number) for number in np.roll(table, SEGMENTS // 2))


WIDE_TABLES = RewritePass("wide-tables", (interpolate_functions,))
