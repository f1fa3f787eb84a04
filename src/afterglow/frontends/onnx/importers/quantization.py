"""ONNX's quantization."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.conversion import as_dtype
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.activation import Clip
from afterglow.ops.elementwise import Div, Equal, Max, Min, Mul, Neg, Round, Sub, Where, scalar
from afterglow.ops.movement import Reshape
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.ops.reduction import ReduceMax, ReduceMin
from afterglow.types import DType
from afterglow.types import dtype as d


def quantize(
    n: NodeContext,
    x: Value,
    scale: Value,
    zero_point: Value | None,
    *,
    axis: int = 1,
    dtype: DType | None = None,
    block_size: int = 0,
    saturate: bool = True,
) -> Value:
    """QuantizeLinear, computed in the element type of the scale."""
    dtype = zero_point.type.dtype if zero_point is not None else dtype or d.u8
    scale = _whole(n, scale)
    op = QuantizeLinear(_axis(axis, x), dtype, block_size, saturate)
    return n.emit(op, as_dtype(n, x, scale.type.dtype), scale, _whole_if(n, zero_point))


def dequantize(
    n: NodeContext,
    x: Value,
    scale: Value,
    zero_point: Value | None,
    *,
    axis: int = 1,
    dtype: DType | None = None,
    block_size: int = 0,
) -> Value:
    """DequantizeLinear, to the element type of the scale unless told otherwise."""
    op = DequantizeLinear(_axis(axis, x), dtype or scale.type.dtype, block_size)
    return n.emit(op, x, _whole(n, scale), _whole_if(n, zero_point))


def _axis(axis: int, x: Value) -> int:
    """A vector has no other axis than 0, whatever the model says."""
    return 0 if x.type.rank < 2 else axis


def _whole(n: NodeContext, part: Value) -> Value:
    """One number is a scalar, also where the model writes a list of one."""
    return n.emit(Reshape(()), part) if part.type.shape == (1,) else part


def _whole_if(n: NodeContext, part: Value | None) -> Value | None:
    return None if part is None else _whole(n, part)


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
