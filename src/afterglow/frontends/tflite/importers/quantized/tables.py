"""TFLite's functions of one quantized number: tables of all that there are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afterglow.frontends.tflite.importers.quantized.numbers import (
    away,
    divided,
    high_product,
    inverse_root,
    scaled,
    scaled_by,
)
from afterglow.frontends.tflite.importers.quantized.scaling import (
    bounded,
    difference,
    multipliers,
    rescaled,
    scale_of,
    zero_point_of,
)
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, scalar
from afterglow.ops.fixed_point import ByteTable
from afterglow.ops.indexing import Gather
from afterglow.support.errors import UnsupportedError
from afterglow.types import Array
from afterglow.types.dtype import i8, i16, i32, u8

Real = Callable[[float], float]
"""A function of real numbers."""

Float = np.float32 | np.float64

SEGMENTS = 512
"""Parts into which the integers of 16 bits are divided, where a function is interpolated."""

_BOUNDS = {
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


def mapped(n: TfliteNode, function: Callable[[Array], Array]) -> Value:
    """The function of each element of the operand, which is computed of all that there may be."""
    x, dtype = n[0], n.result_type()
    if x.type.dtype not in (i8, u8, i16) or dtype not in (i8, u8, i16):
        raise UnsupportedError(f"{x.type.dtype} to {dtype} with quantized integers")
    least, most = map(int, x.type.dtype.limits)
    with np.errstate(all="ignore"):
        values = np.nan_to_num(function(np.arange(least, most + 1)))
    numbers = np.clip(values, *dtype.limits).astype(np.int64)
    if x.type.dtype is not i16:
        ordered = np.roll(numbers, least)
        return n.emit(ByteTable(tuple(ordered.tolist()), dtype), x)
    table = n.constant(numbers.astype(dtype.numpy), "table")
    places = n.emit(Cast(i32), x)
    return n.emit(Gather(), table, n.emit(Add(), places, scalar(n.builder, -least, places)))


@quantized_op(*_BOUNDS)
def rectifiers(n: TfliteNode) -> Value:
    """Rescaled, if the result has another scale, and bounded."""
    ratio = float(scale_of(n.quantization(0)) / scale_of(n.result_quantization()))
    points = zero_point_of(n.quantization(0)), zero_point_of(n.result_quantization())
    same = ratio == 1.0 and points[0] == points[1]
    y = n[0] if same else rescaled(n, difference(n, 0), ratio, points[1], n.result_type())
    return bounded(n, y, *_BOUNDS[n.proto.op_type])


@quantized_op("LEAKY_RELU")
def leaky_relu(n: TfliteNode) -> Value:
    """One ratio for what is negative, one for the rest."""
    x, y = scale_of(n.quantization(0)), scale_of(n.result_quantization())
    slope = np.float32(n.real("alpha"))

    def function(steps: Array) -> Array:
        falling = np.copysign(1, slope) * scaled(steps, abs(float(x * slope / y)))
        return np.where(steps >= 0, scaled(steps, float(x / y)), falling.astype(np.int64))

    return _between(n, function)


@quantized_op("ABS")
def absolute(n: TfliteNode) -> Value:
    """Rescaled, if the result has another scale."""
    x, y = scale_of(n.quantization(0)), scale_of(n.result_quantization())
    return _between(n, lambda steps: abs(steps) if x == y else scaled(abs(steps), float(x / y)))


def _between(n: TfliteNode, function: Callable[[Array], Array]) -> Value:
    """A function of differences from the zero point, to which that of the result is added."""
    below, above = zero_point_of(n.quantization(0)), zero_point_of(n.result_quantization())
    return mapped(n, lambda numbers: function(numbers - below) + above)


@quantized_op("LOGISTIC", "TANH")
def sigmoids(n: TfliteNode) -> Value:
    """Of bytes by the function itself, of 16 bits by one table of it."""
    is_tanh = n.proto.op_type == "TANH"
    if n[0].type.dtype is i16:
        return mapped(n, lambda numbers: _wide_sigmoid(n, numbers, is_tanh))
    return _of_floats(n, _tanh if is_tanh else _logistic)


@quantized_op("ELU", "EXP")
def exponentials(n: TfliteNode) -> Value:
    """By the function itself."""
    return _of_floats(n, _elu if n.proto.op_type == "ELU" else _exp)


@quantized_op("GELU")
def gelu(n: TfliteNode) -> Value:
    """By the function itself, exact or approximated."""
    return _of_floats(n, _approximate_gelu if n.flag("approximate") else _gelu)


@quantized_op("LOG")
def logarithm(n: TfliteNode) -> Value:
    """Of what is not above zero, the least number that there is."""
    result = n.result_quantization()
    least = (int(n.result_type().limits[0]) - zero_point_of(result)) * float(scale_of(result))
    return _of_floats(n, lambda x: math.log(x) if x > 0 else least)


@quantized_op("RSQRT")
def inverse_square_root(n: TfliteNode) -> Value:
    """Of bytes in fixed point; of what is not above zero, the largest number that there is."""
    x, y = scale_of(n.quantization(0)), scale_of(n.result_quantization())
    if n[0].type.dtype is i16:
        most = 32767 * float(y)
        return _of_floats(n, lambda number: 1 / math.sqrt(number) if number > 0 else most)
    ratio = float(np.float64(1) / (np.sqrt(x) * y))

    def function(steps: Array) -> Array:
        return np.array([_inverse_root(int(step), ratio) for step in steps])

    return _between(n, function)


def _inverse_root(step: int, ratio: float) -> int:
    """One over the root of a step, times a ratio, with 20 bits below one in between."""
    if step <= 0:
        return 1 << 16
    multiplier, exponent = inverse_root(step)
    fine = scaled_by(np.array(1), multiplier, exponent + 20)
    multiplier, exponent = (int(part) for part in multipliers(ratio))
    return int(scaled_by(fine, multiplier, exponent - 20))


def _of_floats(n: TfliteNode, function: Real) -> Value:
    """A function of real numbers, in single precision."""
    if n[0].type.dtype is i16:
        return mapped(n, lambda numbers: _interpolated(n, numbers, function))
    x, y = n.quantization(0), n.result_quantization()
    inverse = np.float32(1) / scale_of(y)

    def quantized(numbers: Array) -> Array:
        reals = scale_of(x) * (numbers - zero_point_of(x)).astype(np.float32)
        values = _applied(function, reals)
        return away(values * inverse).astype(np.float64) + zero_point_of(y)

    return mapped(n, quantized)


def _applied(function: Real, reals: Array) -> Array:
    """A function of floats, rounded to their precision."""
    return np.array([function(float(real)) for real in reals], reals.dtype)


def _interpolated(n: TfliteNode, numbers: Array, function: Real) -> Array:
    """A function of real numbers, by the scales of the node, in single precision."""
    x, y = n.quantization(0), n.result_quantization()
    table = segment_table(function, scale_of(x), zero_point_of(x), scale_of(y), zero_point_of(y))
    return between_segments(table, numbers)


def segment_table(
    function: Real, scale: Float, zero_point: int, result_scale: Float, result_zero_point: int
) -> Array:
    """A function at the ends of 512 segments, moved so that it errs less in their middles.

    It is computed in the precision of the scales.
    """
    real = np.asarray(scale).dtype.type
    ends = np.array([-32768, 32767])
    first, last = np.multiply(scale, (ends - zero_point).astype(real))
    low, high = np.multiply(result_scale, (ends - result_zero_point).astype(real))
    step, inverse = (last - first) / real(SEGMENTS), real(65536) / (high - low)
    places = first + np.arange(SEGMENTS + 1, dtype=real) * step
    middles = places[:-1] + step / real(2)
    values = _applied(function, places) * inverse
    samples, exact = away(values), away(_applied(function, middles) * inverse)
    between = away((values[1:] + samples[:-1]) / real(2))
    table = samples[:-1] - away((between - exact) / real(2))
    final = away(_applied(function, np.array([last])) * inverse)
    return np.asarray(np.clip(np.append(table, final), -32768, 32767), np.int64)


def between_segments(table: Array, numbers: Array) -> Array:
    """What lies between the entries of a table of segments, for integers of 16 bits."""
    index, rest = 256 + (numbers >> 7), numbers & 0x7F
    slope = (table[index + 1] - table[index]).astype(np.int16).astype(np.int64)
    return np.asarray(table[index] + ((slope * rest + 64) >> 7))


def _wide_sigmoid(n: TfliteNode, numbers: Array, is_tanh: bool) -> Array:
    """The logistic function in 16 bits: linear between the multiples of 1/24, which have 16 bits.

    tanh(x) is 2 logistic(2 x) - 1.
    """
    factor, shift = _wide_factor(scale_of(n.quantization(0)), is_tanh)
    x = (numbers * factor + ((1 << shift) >> 1)) >> shift
    bits = 8 if is_tanh else 9
    size = abs(x)
    index, rest = np.minimum(size >> bits, 255), size & ((1 << bits) - 1)
    samples = _logistic_samples()
    inside = (samples[index] << bits) + rest * (samples[index + 1] - samples[index])
    if not is_tanh:
        value = np.where(index >= 255, 0x7FFF << 10, inside)
        turned = (1 << 25) - value - 1
        return np.asarray((np.where(x >= 0, value, turned) + (1 << 9)) >> 10)
    value = np.where(index >= 255, 0xFFFF << 8, inside) - (1 << 23)
    return np.asarray((np.where(x >= 0, value, -value - 1) + (1 << 7)) >> 8)


def _logistic_samples() -> Array:
    """65536 logistic(i / 24), moved by half of what a line between neighbours errs by."""
    exact = 65536 / (1 + np.exp(-np.arange(0, 256.5, 0.5) / 24))
    ends, middles = exact[::2], exact[1::2]
    error = (ends[1:] + ends[:-1]) / 2 - middles
    samples = np.rint(ends - np.append(error / 2, 0)).astype(np.int64)
    samples[255:] = 65535
    return np.asarray(samples)


def _wide_factor(scale: np.float32, is_tanh: bool) -> tuple[int, int]:
    """The multiplier and the shift to steps of 1/(3 4096)."""
    mantissa, exponent = math.frexp(float(scale))
    left = 12 + exponent - 1
    if mantissa == 0.5 and (left == 0 or (is_tanh and left == 1)):
        return 3 << left, 0
    factor, shift = float(scale) * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and shift <= 30:
        factor, shift = factor * 2.0, shift + 1
    return int(factor), shift


@quantized_op("HARD_SWISH")
def hard_swish(n: TfliteNode) -> Value:
    """x relu6(x + 3) / 6 in fixed point of 16 bits."""
    x, y = scale_of(n.quantization(0)), scale_of(n.result_quantization())
    fine = np.float32(1 / 128) * x
    outer, right = _narrow(float(fine / y))
    inner, left = _narrow(float(fine / (np.float32(3) / np.float32(32768))))

    def function(steps: Array) -> Array:
        shifted = _short(steps << 7)
        gate = _saturated(shifted, left - 1) if left > 0 else shifted
        gate = high_product(gate, inner, 15)
        gate = _saturated(gate, 1) if left > 0 else divided(gate, -left)
        product = ((gate + (1 << 15)) >> 1) * high_product(shifted, outer, 15)
        return divided(np.trunc(product / (1 << 15)).astype(np.int64), -right)

    return _between(n, function)


def _narrow(ratio: float) -> tuple[int, int]:
    """A multiplier of 15 bits, and the exponent."""
    multiplier, exponent = (int(part) for part in multipliers(ratio))
    return min((multiplier + (1 << 15)) >> 16, 32767), exponent


def _short(x: Array) -> Array:
    """Integers that wrap around in 16 bits."""
    return x.astype(np.int16).astype(np.int64)


def _saturated(x: Array, bits: int) -> Array:
    """Integers shifted to the left, in 16 bits."""
    return np.asarray(np.clip(x << bits, -32768, 32767))


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _logistic(x: float) -> float:
    power = np.float32(_exp(-x))
    return float(np.float32(1) / (np.float32(1) + power))


def _tanh(x: float) -> float:
    return math.tanh(x)


def _elu(x: float) -> float:
    return math.expm1(x) if x < 0 else x


def _gelu(x: float) -> float:
    single = np.float32(x)
    complement = np.float32(math.erfc(float(single * np.float32(-math.sqrt(0.5)))))
    return float(np.float32(0.5) * single * complement)


def _approximate_gelu(x: float) -> float:
    single = np.float32(x)
    root = np.float32(math.sqrt(2 / math.pi))
    inner = root * (single + np.float32(0.044715) * single * single * single)
    return float(np.float32(0.5) * single * (np.float32(1) + np.float32(math.tanh(float(inner)))))
