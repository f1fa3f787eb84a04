"""TFLite's softmax of quantized integers: tables of powers, and one reciprocal a row."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from afterglow.frontends.tflite.importers.quantized.fixed_point import (
    high_product,
    leading_zeros,
    rounded,
)
from afterglow.frontends.tflite.importers.quantized.numbers import divided, negative_exp, scaled_by
from afterglow.frontends.tflite.importers.quantized.scaling import multipliers, rescaled, scale_of
from afterglow.frontends.tflite.importers.quantized.tables import (
    Real,
    between_segments,
    segment_table,
)
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul, ShiftLeft, ShiftRight, Sub, scalar
from afterglow.ops.fixed_point import HIGH_BITS
from afterglow.ops.indexing import Gather
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.types import Array
from afterglow.types.dtype import i16, i32, i64

_DIFFERENCE_BITS = 5
"""Bits above one of the distance from the largest number."""
_SUM_BITS = 12
"""Bits above one of a sum of powers."""
_RANGE = 65535.0


@quantized_op("SOFTMAX")
def softmax(n: TfliteNode) -> Value:
    """Along the last axis."""
    return _wide_softmax(n) if n[0].type.dtype is i16 else _byte_softmax(n)


def _byte_softmax(n: TfliteNode) -> Value:
    """Of each distance from the largest byte there is an entry in two tables."""
    powers = _powers(n)
    distances = _distances(n)
    parts = _looked_up(n, powers, distances)
    sums = _row_sums(n, _looked_up(n, divided(powers, _SUM_BITS).astype(np.int32), distances))
    zeros = leading_zeros(n, sums)
    shifted = n.emit(ShiftLeft(), n.emit(Cast(i64), sums), zeros)
    reciprocal = _reciprocal(n, n.emit(Sub(), shifted, scalar(n.builder, 1 << 31, shifted)))
    product = high_product(n, n.emit(Cast(i64), parts), reciprocal)
    dtype = n.result_type()
    exponent = n.emit(Sub(), scalar(n.builder, _SUM_BITS + 31 - dtype.bits, zeros), zeros)
    least, most = map(int, dtype.limits)
    steps = rounded(n, product, exponent)
    stored = n.emit(Add(), steps, scalar(n.builder, least, steps))
    return n.emit(Cast(dtype), n.emit(Clip(least, most), stored))


def _powers(n: TfliteNode) -> Array:
    """exp(-beta scale distance) in 31 bits, by the distance; 0 where it is too far."""
    beta = float(np.float32(n.real("beta", 1.0)))
    ratio = beta * float(scale_of(n.quantization(0))) * (1 << (31 - _DIFFERENCE_BITS))
    multiplier, shift = (int(part) for part in multipliers(min(ratio, 2.0**31 - 1.0)))
    most = math.floor(((1 << _DIFFERENCE_BITS) - 1) * 2.0 ** (31 - _DIFFERENCE_BITS) / 2.0**shift)
    distances = np.arange(256)
    scaled = scaled_by(-np.minimum(distances, most), multiplier, shift)
    powers = negative_exp(scaled, _DIFFERENCE_BITS)
    return np.where(distances <= most, powers, 0).astype(np.int32)


def _distances(n: TfliteNode) -> Value:
    """How far each element is below the largest of its row, in 32 bits."""
    x = n.emit(Cast(i32), n[0])
    return n.emit(Sub(), n.emit(ReduceMax((x.type.rank - 1,), True), x), x)


def _row_sums(n: TfliteNode, x: Value) -> Value:
    return n.emit(ReduceSum((x.type.rank - 1,), True), x)


def _looked_up(n: TfliteNode, table: Array, places: Value) -> Value:
    return n.emit(Gather(), n.constant(table, "table"), places)


def _reciprocal(n: TfliteNode, x: Value) -> Value:
    """1 / (1 + x) of a fraction of 31 bits, with 31 bits: Newton's method from 48/17 - 32/17 d."""
    one, most = scalar(n.builder, 1, x), scalar(n.builder, (1 << HIGH_BITS) - 1, x)
    total = n.emit(Add(), n.emit(Add(), x, most), one)
    half = n.emit(ShiftRight(), total, one)
    first, slope, unit, two = (
        scalar(n.builder, number, x) for number in (1515870810, -1010580540, 1 << 29, 2)
    )
    guess = n.emit(Add(), first, high_product(n, half, slope))
    for _ in range(3):
        error = n.emit(Sub(), unit, high_product(n, half, guess))
        step = n.emit(ShiftLeft(), high_product(n, guess, error), two)
        guess = n.emit(Add(), guess, step)
    doubled = n.emit(ShiftLeft(), guess, one)
    return n.emit(Clip(-(1 << HIGH_BITS), (1 << HIGH_BITS) - 1), doubled)


def _wide_softmax(n: TfliteNode) -> Value:
    """In 16 bits: exp and 1 / (1 + x) are interpolated between entries of tables."""
    beta = np.float32(n.real("beta", 1.0))
    ratio = float(scale_of(n.quantization(0)) * beta) / (10.0 / _RANGE)
    x = n.emit(Cast(i32), n[0])
    apart = n.emit(Sub(), x, n.emit(ReduceMax((x.type.rank - 1,), True), x))
    places = _places(n, rescaled(n, apart, ratio), 32767)
    exps = _table(math.exp, 10.0 / _RANGE, 32767)
    powers = n.emit(Cast(i32), _looked_up(n, exps, places))
    sums = _row_sums(n, powers)
    zeros = leading_zeros(n, sums)
    one = scalar(n.builder, 1, zeros)
    moved = n.emit(ShiftLeft(), n.emit(Cast(i64), sums), n.emit(Sub(), zeros, one))
    high = rounded(n, moved, scalar(n.builder, 14, moved))
    inverses = _table(_inverse, 1.0 / _RANGE, -32768)
    found = _looked_up(n, inverses, _places(n, high, -((1 << 15) + (1 << 16))))
    product = n.emit(Mul(), n.emit(Cast(i64), powers), n.emit(Cast(i64), found))
    shift = n.emit(Sub(), scalar(n.builder, 31, zeros), zeros)
    return n.emit(Cast(i16), n.emit(Clip(0, 32767), rounded(n, product, shift)))


def _places(n: TfliteNode, x: Value, shift: int) -> Value:
    """The entry of a table of 16 bits for x plus a shift, saturated."""
    moved = n.emit(Clip(-32768, 32767), n.emit(Add(), x, scalar(n.builder, shift, x)))
    return n.emit(Cast(i32), n.emit(Add(), moved, scalar(n.builder, 32768, moved)))


def _inverse(number: float) -> float:
    return 1.0 / (1.0 + number)


@cache
def _table(function: Real, scale: float, zero_point: int) -> Array:
    """A function of all integers of 16 bits."""
    table = segment_table(function, np.float64(scale), zero_point, np.float64(2.0 / _RANGE), 0)
    return between_segments(table, np.arange(-32768, 32768)).astype(np.int16)
