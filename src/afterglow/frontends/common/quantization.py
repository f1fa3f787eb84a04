"""Quantization with scales and zero points that are values."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import NodeContext
from afterglow.graph import Value
from afterglow.ops.movement import Reshape
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
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
    """x quantized, computed in the element type of the scale."""
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
    """The numbers that x stands for, in the element type of the scale unless told otherwise."""
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
