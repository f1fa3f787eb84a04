"""How TFLite rescales integers: by a multiplier of 31 bits and a shift, rounded twice.

What the reference kernels compute is followed to the bit; ratios of scales are computed in the
same precisions, because they decide the last bit of a multiplier.
"""

from __future__ import annotations

import numpy as np

from afterglow.frontends.tflite.elements import Quantization
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.graph import Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import (
    Add,
    Less,
    Mul,
    ShiftLeft,
    ShiftRight,
    Sub,
    Where,
    scalar,
)
from afterglow.ops.fixed_point import HIGH_BITS, Requantize
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types import Array, DType
from afterglow.types.dtype import f64, i32

MOST_SHIFT = 30
"""Bits that the high half of a product may be shifted by; more leave nothing of it."""
LEAST_SCALE = 2.0**-60
"""Scales lie between this and one by this."""
REDUCED_BITS = 15
"""Bits of the multiplier of sums of 64 bits."""
_BOUNDS = {
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def multipliers(ratios: Array | float) -> tuple[Array, Array]:
    """The multipliers of 31 bits, and the powers of two by which they are to be multiplied."""
    mantissas, exponents = np.frexp(np.asarray(ratios, np.float64))
    wide = np.floor(mantissas * 2.0**HIGH_BITS + 0.5).astype(np.int64)
    rounded_up = wide == 1 << HIGH_BITS
    wide, exponents = np.where(rounded_up, wide >> 1, wide), exponents + rounded_up
    if np.any(exponents > MOST_SHIFT):
        raise UnsupportedError(f"scales whose ratio is above 2^{MOST_SHIFT}")
    lost = exponents < -MOST_SHIFT
    return (
        np.where(lost, 0, wide).astype(np.int32),
        np.where(lost, 0, exponents).astype(np.int32),
    )


def rescaled(
    n: TfliteNode,
    sums: Value,
    ratios: Array | float,
    zero_point: int = 0,
    dtype: DType = i32,
) -> Value:
    """Sums of 32 bits times a ratio, or one for each channel, plus the zero point, saturated."""
    return rescaled_by(n, sums, *multipliers(ratios), zero_point, dtype)


def rescaled_by(
    n: TfliteNode,
    sums: Value,
    factors: Array,
    exponents: Array,
    zero_point: int = 0,
    dtype: DType = i32,
) -> Value:
    """The same by multipliers of 31 bits and powers of two."""
    if np.any(exponents > 0):
        left = n.constant(np.maximum(exponents, 0), "left")
        sums = n.emit(ShiftLeft(), sums, left)
    shifts = (HIGH_BITS - np.minimum(exponents, 0)).astype(np.int32)
    if (factors == factors.flat[0]).all() and (shifts == shifts.flat[0]).all():
        factors, shifts = np.array(factors.flat[0]), np.array(shifts.flat[0])
    op = Requantize(-1, zero_point, dtype, twice=True)
    return n.emit(op, sums, n.constant(factors, "multiplier"), n.constant(shifts, "shift"))


def rescaled_wide(n: TfliteNode, sums: Value, ratios: Array | float, dtype: DType) -> Value:
    """Sums of 64 bits times a ratio, whose multiplier has 15 bits, rounded once, saturated."""
    factors, exponents = (part.astype(np.int64) for part in multipliers(ratios))
    large = factors >= 0x7FFF << 16
    reduced = np.where(large, 0x7FFF, (factors + (1 << 15)) >> 16)
    shifts = REDUCED_BITS - exponents
    if np.any(shifts < 1):
        raise UnsupportedError(f"scales whose ratio is above 2^{REDUCED_BITS - 1} with 16 bits")
    product = n.emit(Mul(), sums, n.constant(reduced, "multiplier"))
    half = n.constant(np.left_shift(np.int64(1), shifts - 1), "half")
    rounded = n.emit(ShiftRight(), n.emit(Add(), product, half), n.constant(shifts, "shift"))
    return n.emit(Cast(dtype), n.emit(Clip(*dtype.limits), rounded))


def rescaled_in_doubles(
    n: TfliteNode, sums: Value, ratios: Array | float, zero_point: int, dtype: DType
) -> Value:
    """Sums times a ratio, or one for each column, rounded with halves away from zero, saturated."""
    product = n.emit(Mul(), n.emit(Cast(f64), sums), n.constant(np.asarray(ratios, np.float64)))
    low, high = (float(limit) - zero_point for limit in dtype.limits)
    whole = rounded_away(n, n.emit(Clip(low, high), product))
    steps = n.emit(Add(), whole, scalar(n.builder, zero_point, whole)) if zero_point else whole
    return n.emit(Cast(dtype), steps)


def rounded_away(n: TfliteNode, x: Value) -> Value:
    """Floats to the nearest integers, halves away from zero, in 32 bits."""
    zero, half = scalar(n.builder, 0, x), np.nextafter(x.type.dtype.numpy.type(0.5), 0)
    up, down = (scalar(n.builder, number, x) for number in (half, -half))
    shift = n.emit(Where(), n.emit(Less(), x, zero), down, up)
    return n.emit(Cast(i32), n.emit(Add(), x, shift))


def scale_of(quantization: Quantization | None) -> np.float32:
    """The one scale of a tensor."""
    scales = scales_of(quantization)
    if len(scales) != 1:
        raise ModelError(f"one scale is needed for the whole tensor, there are {len(scales):,}")
    return np.float32(scales[0])


def scales_of(quantization: Quantization | None) -> Array:
    """The scales of a tensor, which is quantized."""
    if quantization is None or not quantization.scales:
        raise ModelError("a tensor of quantized integers has no scale")
    wrong = [scale for scale in quantization.scales if not LEAST_SCALE < scale < 1 / LEAST_SCALE]
    if wrong:
        raise ModelError(f"a scale must be a number above zero, it is {wrong[0]}")
    return np.array(quantization.scales, np.float32)


def zero_point_of(quantization: Quantization | None) -> int:
    """The one zero point of a tensor."""
    points = set(quantization.zero_points if quantization else ()) or {0}
    if len(points) != 1:
        raise UnsupportedError("zero points that differ from channel to channel")
    (point,) = points
    if abs(point) >= 1 << 16:
        raise ModelError(f"a zero point must be one of the integers, it is {point:,}")
    return point


def difference(n: TfliteNode, index: int) -> Value:
    """Operand `index` less its zero point, in 32 bits."""
    return above(n, n[index], zero_point_of(n.quantization(index)))


def above(n: TfliteNode, x: Value, zero_point: int) -> Value:
    """x less a zero point, in 32 bits."""
    wide = n.emit(Cast(i32), x)
    return n.emit(Sub(), wide, scalar(n.builder, zero_point, wide)) if zero_point else wide


def activated(n: TfliteNode, y: Value) -> Value:
    """Integers of the result within the bounds of the activation function fused to the op."""
    name = n.word("fused_activation_function", "NONE")
    if name == "NONE":
        return y
    if name not in _BOUNDS:
        raise UnsupportedError(f"the fused activation function {name} with quantized integers")
    return bounded(n, y, *_BOUNDS[name])


def bounded(n: TfliteNode, y: Value, low: float | None, high: float | None) -> Value:
    """Integers of the result between those of two numbers."""
    least, most = map(int, y.type.dtype.limits)
    result = n.result_quantization()
    low_steps = least if low is None else max(least, steps_of(result, low))
    high_steps = most if high is None else min(most, steps_of(result, high))
    if (low_steps, high_steps) == (least, most):
        return y
    return n.emit(Clip(low_steps, high_steps), y)


def steps_of(quantization: Quantization | None, number: float) -> int:
    """The integer that stands for a number, halves away from zero."""
    quotient = float(np.float32(number) / scale_of(quantization))
    return zero_point_of(quantization) + int(np.copysign(np.floor(abs(quotient) + 0.5), quotient))
