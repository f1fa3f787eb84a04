"""TFLite's arithmetic of two quantized operands, which are broadcast."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.tflite.importers.quantized.scaling import (
    activated,
    difference,
    rescaled,
    scale_of,
    zero_point_of,
)
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.ops.elementwise import Less, Mul, ShiftLeft, Where, scalar
from afterglow.support.errors import UnsupportedError
from afterglow.types.dtype import i16

_SUMS: dict[str, type[Op]] = {"ADD": e.Add, "SUB": e.Sub}
_EXTREMES: dict[str, type[Op]] = {"MAXIMUM": e.Max, "MINIMUM": e.Min}
_COMPARISONS: dict[str, type[Op]] = {
    "EQUAL": e.Equal,
    "LESS": e.Less,
    "LESS_EQUAL": e.LessEqual,
}
_NEGATED: dict[str, type[Op]] = {
    "NOT_EQUAL": e.Equal,
    "GREATER_EQUAL": e.Less,
    "GREATER": e.LessEqual,
}
_COMPARED_BITS = 8
"""Bits below a step with which operands are compared."""


@quantized_op(*_SUMS)
def sums(n: TfliteNode) -> Value:
    """Both in steps of twice the larger scale, with many bits below one."""
    if n.flag("pot_scale_int16") and n[0].type.dtype is i16 and _are_powers(n):
        raise UnsupportedError("scales of 16 bits that are powers of two, by pot_scale_int16")
    bits = 15 if n[0].type.dtype is i16 else 20
    scale, left, right = _in_common_steps(n, bits)
    total = n.emit(_SUMS[n.proto.op_type](), left, right)
    result = n.result_quantization()
    ratio = scale / float(np.float32(1 << bits) * scale_of(result))
    return activated(n, rescaled(n, total, ratio, zero_point_of(result), n.result_type()))


def _are_powers(n: TfliteNode) -> bool:
    """Whether all scales are powers of two."""
    each = n.quantization(0), n.quantization(1), n.result_quantization()
    return all(np.frexp(scale_of(quantization))[0] == 0.5 for quantization in each)


def _in_common_steps(n: TfliteNode, bits: int) -> tuple[float, Value, Value]:
    """Twice the larger scale, and both operands in steps of it, with so many bits below one."""
    scales = [scale_of(n.quantization(index)) for index in (0, 1)]
    common = float(np.float32(2) * max(scales))
    parts = []
    for index, scale in enumerate(scales):
        wide = difference(n, index)
        shifted = n.emit(ShiftLeft(), wide, scalar(n.builder, bits, wide))
        parts.append(rescaled(n, shifted, float(scale) / common))
    return common, parts[0], parts[1]


@quantized_op("SQUARED_DIFFERENCE")
def squared_difference(n: TfliteNode) -> Value:
    """The square of a difference in common steps."""
    bits = 7
    scale, left, right = _in_common_steps(n, bits)
    apart = n.emit(e.Sub(), left, right)
    result = n.result_quantization()
    ratio = scale * scale / float(np.float32(1 << (2 * bits)) * scale_of(result))
    square = n.emit(Mul(), apart, apart)
    return rescaled(n, square, ratio, zero_point_of(result), n.result_type())


@quantized_op("MUL")
def product(n: TfliteNode) -> Value:
    """The product of the differences from zero points."""
    result = n.result_quantization()
    ratio = scale_of(n.quantization(0)) * scale_of(n.quantization(1)) / scale_of(result)
    total = n.emit(Mul(), difference(n, 0), difference(n, 1))
    scaled = rescaled(n, total, float(ratio), zero_point_of(result), n.result_type())
    return activated(n, scaled)


@quantized_op(*_EXTREMES)
def extremes(n: TfliteNode) -> Value:
    """Of integers as they are: all have one scale."""
    return n.emit(_EXTREMES[n.proto.op_type](), n[0], n[1])


@quantized_op(*_COMPARISONS, *_NEGATED)
def comparisons(n: TfliteNode) -> Value:
    """Of both operands times their scales, with 8 bits below one."""
    name = n.proto.op_type
    parts = []
    for index in (0, 1):
        wide = difference(n, index)
        shifted = n.emit(ShiftLeft(), wide, scalar(n.builder, _COMPARED_BITS, wide))
        parts.append(rescaled(n, shifted, float(scale_of(n.quantization(index)))))
    if name in _COMPARISONS:
        return n.emit(_COMPARISONS[name](), *parts)
    return n.emit(e.Not(), n.emit(_NEGATED[name](), *parts))


@quantized_op("PRELU")
def prelu(n: TfliteNode) -> Value:
    """What is negative is multiplied by slopes."""
    result, x = n.result_quantization(), difference(n, 0)
    point, dtype = zero_point_of(result), n.result_type()
    ratio = scale_of(n.quantization(0)) / scale_of(result)
    sloped = scale_of(n.quantization(0)) * scale_of(n.quantization(1)) / scale_of(result)
    kept = rescaled(n, x, float(ratio), point, dtype)
    product = n.emit(Mul(), x, difference(n, 1))
    falling = rescaled(n, product, float(sloped), point, dtype)
    return n.emit(Where(), n.emit(Less(), x, scalar(n.builder, 0, x)), falling, kept)
