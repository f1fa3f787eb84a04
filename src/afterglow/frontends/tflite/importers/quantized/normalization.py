"""TFLite's normalization of rows of quantized integers by their lengths."""

from __future__ import annotations

from afterglow.frontends.tflite.importers.quantized.fixed_point import (
    high_product,
    leading_zeros,
    rounded_away,
)
from afterglow.frontends.tflite.importers.quantized.scaling import difference, zero_point_of
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import (
    Add,
    Less,
    Max,
    Min,
    Mul,
    ShiftLeft,
    ShiftRight,
    Sub,
    Where,
    scalar,
)
from afterglow.ops.fixed_point import HIGH_BITS
from afterglow.ops.reduction import ReduceSum
from afterglow.types.dtype import i64, u8

_RESULT_BITS = 7
"""Bits below one of the result."""
_STEPS = 5
"""Steps of Newton's method."""


@quantized_op("L2_NORMALIZATION")
def l2_normalization(n: TfliteNode) -> Value:
    """Each number times one by the root of the sum of squares of its row."""
    x, dtype = difference(n, 0), n.result_type()
    squares = n.emit(ReduceSum((x.type.rank - 1,), True), n.emit(Mul(), x, x))
    root, shift = _inverse_root(n, squares)
    wide, bits = n.emit(Cast(i64), x), scalar(n.builder, _RESULT_BITS, shift)
    if dtype is u8:
        wide = n.emit(ShiftLeft(), wide, bits)
    else:
        shift = n.emit(Sub(), shift, bits)
    zero = scalar(n.builder, 0, shift)
    left = n.emit(Max(), n.emit(Sub(), zero, shift), zero)
    high = high_product(n, n.emit(ShiftLeft(), wide, left), root)
    steps = rounded_away(n, high, n.emit(Max(), shift, zero))
    point = scalar(n.builder, zero_point_of(n.result_quantization()), steps)
    stored = n.emit(Clip(*dtype.limits), n.emit(Add(), steps, point))
    return n.emit(Cast(dtype), stored)


def _inverse_root(n: TfliteNode, x: Value) -> tuple[Value, Value]:
    """One by the root of i32 above zero: a multiplier of 31 bits, and a shift to the right."""
    x = n.emit(Max(), x, scalar(n.builder, 1, x))
    near, shift = _normalized(n, x)
    one = scalar(n.builder, 1, near)
    half = n.emit(ShiftRight(), n.emit(Add(), n.emit(ShiftRight(), near, one), one), one)
    number = {k: scalar(n.builder, k, near) for k in (3, 6, 3 << 27, 1 << 28, 1518500250)}
    root = number[1 << 28]
    for _ in range(_STEPS):
        cube = high_product(n, high_product(n, root, root), root)
        part = high_product(n, half, n.emit(ShiftLeft(), cube, number[6]))
        apart = n.emit(Sub(), high_product(n, number[3 << 27], root), part)
        root = n.emit(ShiftLeft(), apart, number[3])
    root = high_product(n, root, number[1518500250])
    negative = n.emit(Min(), shift, scalar(n.builder, 0, shift))
    root = n.emit(ShiftLeft(), root, n.emit(Sub(), scalar(n.builder, 0, shift), negative))
    shift = n.emit(Max(), shift, scalar(n.builder, 0, shift))
    is_one = n.emit(Less(), n.emit(Cast(i64), x), scalar(n.builder, 2, root))
    most = scalar(n.builder, (1 << HIGH_BITS) - 1, root)
    zero = scalar(n.builder, 0, shift)
    return n.emit(Where(), is_one, most, root), n.emit(Where(), is_one, zero, shift)


def _normalized(n: TfliteNode, x: Value) -> tuple[Value, Value]:
    """x, shifted by an even number of bits to between 2^27 and 2^29, and what that leaves to do."""
    wide = n.emit(Cast(i64), x)
    number = {k: scalar(n.builder, k, wide) for k in (0, 1, 2, 4, 11, 1 << 29)}
    is_large = n.emit(Less(), n.emit(Sub(), number[1 << 29], number[1]), wide)
    down = n.emit(Where(), is_large, number[2], number[0])
    zeros = n.emit(Add(), leading_zeros(n, x), down)
    pairs = n.emit(ShiftRight(), n.emit(Sub(), zeros, number[1]), number[1])
    pairs = n.emit(Sub(), pairs, number[1])
    lowered = n.emit(ShiftRight(), wide, down)
    near = n.emit(ShiftLeft(), lowered, n.emit(ShiftLeft(), pairs, number[1]))
    more = n.emit(ShiftRight(), down, number[1])
    return near, n.emit(Sub(), n.emit(Add(), number[11], more), pairs)
