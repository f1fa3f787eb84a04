"""Numbers as integers in fixed point: what rules that leave no floats share."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, And, Div, Min, Mul, ShiftRight, Sub, scalar
from afterglow.ops.fixed_point import Requantize
from afterglow.transforms.matching.quantized import Quantized, Storing
from afterglow.types import Array
from afterglow.types.dtype import i32, i64

MULTIPLIER_BITS = 31
MOST_SHIFT = 62
MOST_RATIO = 2.0 ** (MULTIPLIER_BITS - 2)
"""Ratios below which a multiplier of 31 bits leaves a shift of at least one bit."""
EXPONENT_BITS = 15
"""Bits below one of an exponent of two, and of the power."""
POWER = (22667, 7586, 1303)
"""2^-f is about 1 - f (a - f (b - f c)) for f from 0 to 1, within 0.00013: a, b, c times 2^15."""


def ratio_constants(b: Builder, ratio: Array) -> tuple[Value, Value]:
    """The multiplier and the shift that a ratio is, to 31 bits."""
    mantissa, exponent = np.frexp(ratio.astype(np.float64))
    multiplier = np.rint(mantissa * 2.0**MULTIPLIER_BITS).astype(np.int64)
    shift = MULTIPLIER_BITS - exponent
    rounded_up = np.abs(multiplier) == 2**MULTIPLIER_BITS
    multiplier, shift = np.where(rounded_up, multiplier >> 1, multiplier), shift - rounded_up
    far = np.maximum(shift - MOST_SHIFT, 0)
    multiplier, shift = multiplier >> np.minimum(far, MULTIPLIER_BITS), shift - far
    return (
        b.constant(np.asarray(multiplier, np.int32), f"{b.name}.multiplier"),
        b.constant(np.asarray(shift, np.int32), f"{b.name}.shift"),
    )


def emit_difference(b: Builder, source: Quantized) -> Value:
    """Bytes less their zero point, in 32 bits."""
    wide = b.emit(Cast(i32), source.stored)
    return b.emit(Sub(), wide, scalar(b, source.zero_point, wide)) if source.zero_point else wide


def emit_negative_powers(b: Builder, distance: Value, ratio: float, largest: int) -> Value:
    """largest 2^-(ratio distance), rounded: distances of i32 that are not negative."""
    exact = np.array(ratio * 2.0**EXPONENT_BITS)
    exponent = b.emit(Requantize(-1, 0, i32), distance, *ratio_constants(b, exact))
    bits = scalar(b, EXPONENT_BITS, exponent)
    fraction = b.emit(And(), exponent, scalar(b, (1 << EXPONENT_BITS) - 1, exponent))
    power = scalar(b, POWER[-1], exponent)
    for factor in (*POWER[-2::-1], 1 << EXPONENT_BITS):
        part = b.emit(ShiftRight(), b.emit(Mul(), power, fraction), bits)
        power = b.emit(Sub(), scalar(b, factor, exponent), part)
    whole = b.emit(Min(), b.emit(ShiftRight(), exponent, bits), scalar(b, 31, exponent))
    if largest == 1 << EXPONENT_BITS:
        return b.emit(ShiftRight(), power, whole)
    scaled = b.emit(ShiftRight(), b.emit(Mul(), power, scalar(b, largest, power)), whole)
    half = scalar(b, 1 << (EXPONENT_BITS - 1), scaled)
    return b.emit(ShiftRight(), b.emit(Add(), scaled, half), bits)


def quotient_shift(ratio: float, least: int) -> int | None:
    """The shift with which ratio / total has 31 bits where the total is the least; None if far."""
    shift = MULTIPLIER_BITS - 1 + int(math.log2(least)) - math.frexp(ratio)[1]
    return shift if 1 <= shift <= MOST_SHIFT else None


def emit_quotient(b: Builder, ratio: float, total: Value, shift: int) -> Value:
    """2^shift ratio / total in 64 bits, rounded to the nearest; totals of i64 above 0."""
    scaled = b.constant(np.array(round(ratio * 2.0**shift), np.int64), f"{b.name}.ratio")
    half = b.emit(ShiftRight(), total, scalar(b, 1, total))
    return b.emit(Div(), b.emit(Add(), half, scaled), total)


def emit_stored(
    b: Builder,
    integers: Value,
    factor: Value,
    shift: int,
    storing: Storing,
    bias: Array | None = None,
) -> Value:
    """integers factor / 2^shift + bias in 64 bits, rounded (halves up), as bytes."""
    offset = 0.0 if bias is None else np.rint(bias.astype(np.float64) * 2.0**shift)
    rounding = np.asarray(offset, np.int64) + (1 << (shift - 1))
    product = b.emit(Mul(), b.emit(Cast(i64), integers), factor)
    total = b.emit(Add(), product, b.constant(np.asarray(rounding), f"{b.name}.rounding"))
    steps = b.emit(ShiftRight(), total, scalar(b, shift, total))
    shifted = b.emit(Add(), steps, scalar(b, storing.zero_point, steps))
    return b.emit(Cast(storing.dtype), b.emit(Clip(*storing.dtype.limits), shifted))


def fits(ratios: Array | float) -> bool:
    """Whether a multiplier and a shift can stand for ratios."""
    return bool(np.all(np.abs(ratios) < MOST_RATIO))
