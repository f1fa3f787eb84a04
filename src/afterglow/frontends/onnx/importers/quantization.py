"""ONNX's quantization."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.quantization import dequantize, quantize
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.activation import Clip
from afterglow.ops.elementwise import Div, Equal, Max, Min, Mul, Neg, Round, Sub, Where, scalar
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.reduction import ReduceMax, ReduceMin
from afterglow.types import dtype as d


@onnx_op("QuantizeLinear")
def quantize_linear(n: NodeContext) -> Value:
    """Quantization; `precision` is the type of the division, by default that of the scale."""
    scale = n[1]
    if n.integer("precision", 0):
        scale = as_dtype(n, scale, n.dtype("precision"))
    return quantize(
        n,
        n[0],
        scale,
        n.get(2),
        axis=n.integer("axis", 1),
        dtype=n.dtype("output_dtype") if n.integer("output_dtype", 0) else None,
        block_size=n.integer("block_size", 0),
        saturate=bool(n.integer("saturate", 1)),
    )


@onnx_op("DequantizeLinear")
def dequantize_linear(n: NodeContext) -> Value:
    """Dequantization; the zero point of 32-bit integers is 0 by definition."""
    return dequantize(
        n,
        n[0],
        n[1],
        n.get(2),
        axis=n.integer("axis", 1),
        dtype=n.dtype("output_dtype") if n.integer("output_dtype", 0) else None,
        block_size=n.integer("block_size", 0),
    )


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(n: NodeContext) -> Sequence[Value]:
    """The quantized x, its scale, its zero point."""
    return dynamic_quantize(n, n[0])


def dynamic_quantize(n: NodeContext, x: Value) -> tuple[Value, Value, Value]:
    """Quantize to u8 by the range of the values themselves, which is made to hold 0."""
    axes, zero = tuple(range(x.type.rank)), scalar(n.builder, 0, x)
    low = n.emit(Min(), n.emit(ReduceMin(axes, False), x), zero)
    high = n.emit(Max(), n.emit(ReduceMax(axes, False), x), zero)
    scale = n.emit(Div(), n.emit(Sub(), high, low), scalar(n.builder, 255, x))
    one = scalar(n.builder, 1, x)
    scale = n.emit(Where(), n.emit(Equal(), scale, zero), one, scale)
    shift = n.emit(Round(), n.emit(Div(), n.emit(Neg(), low), scale))
    zero_point = as_dtype(n, n.emit(Clip(0.0, 255.0), shift), d.u8)
    return n.emit(QuantizeLinear(0, d.u8), x, scale, zero_point), scale, zero_point


def rescale(n: NodeContext, total: Value, scales: tuple[Value, Value]) -> Value:
    """Integer sums of products, whose factors had `scales`, as real numbers."""
    first, second = (as_dtype(n, scale, d.f32) for scale in scales)
    return n.emit(Mul(), as_dtype(n, total, d.f32), n.emit(Mul(), first, second))
