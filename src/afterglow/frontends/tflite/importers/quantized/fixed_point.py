"""Arithmetic in fixed point of i64 that is emitted: multipliers and shifts that data decide."""

from __future__ import annotations

from afterglow.frontends.tflite.node import TfliteNode
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, BitCast, Mul, ShiftLeft, ShiftRight, Sub, scalar
from afterglow.ops.fixed_point import HIGH_BITS
from afterglow.types.dtype import f64, i64


def leading_zeros(n: TfliteNode, x: Value) -> Value:
    """Zero bits before the first one of positive i32, as i64: by the exponent of a double."""
    bits = n.emit(BitCast(i64), n.emit(Cast(f64), x))
    exponent = n.emit(ShiftRight(), bits, scalar(n.builder, 52, bits))
    return n.emit(Sub(), scalar(n.builder, 1023 + 31, bits), exponent)


def rounded(n: TfliteNode, x: Value, bits: Value) -> Value:
    """x / 2^bits of i64 that is not negative, rounded to the nearest."""
    one = scalar(n.builder, 1, x)
    half = n.emit(ShiftRight(), n.emit(ShiftLeft(), one, bits), one)
    return n.emit(ShiftRight(), n.emit(Add(), x, half), bits)


def high_product(n: TfliteNode, a: Value, b: Value) -> Value:
    """a b / 2^31 of i64, rounded to the nearest."""
    half, bits = (scalar(n.builder, number, a) for number in (1 << (HIGH_BITS - 1), HIGH_BITS))
    return n.emit(ShiftRight(), n.emit(Add(), n.emit(Mul(), a, b), half), bits)


def rounded_away(n: TfliteNode, x: Value, bits: Value) -> Value:
    """x / 2^bits of i64, rounded to the nearest, halves away from zero."""
    one, sign = scalar(n.builder, 1, x), scalar(n.builder, i64.bits - 1, x)
    unit = n.emit(Add(), n.emit(ShiftLeft(), one, bits), n.emit(ShiftRight(), x, sign))
    return n.emit(ShiftRight(), n.emit(Add(), x, n.emit(ShiftRight(), unit, one)), bits)
