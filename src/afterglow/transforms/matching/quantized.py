"""Values that are dequantized from bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import ShiftRight
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType
from afterglow.types.dtype import f32, i8, i16, u8

BYTES = (i8, u8)
STORED_TYPES = (i8, u8, i16)
"""Types in which activations are stored."""


@dataclass(frozen=True)
class Quantized:
    """(stored - zero point) scale: integers with one constant scale, or one along an axis."""

    stored: Value
    scale: Constant
    zero_point: int
    axis: int

    @staticmethod
    def of(value: Value, types: Sequence[DType] = BYTES) -> Quantized | None:
        """What a value is dequantized from, if it is, of these types, and has one zero point."""
        match value:
            case Value(
                Node(
                    DequantizeLinear(dtype=dtype, block_size=0) as op,
                    [Value() as stored, Constant() as scale, *rest],
                )
            ) if dtype is f32 and stored.type.dtype in types and scale.type.dtype is f32:
                zero_point = zero_point_of(rest[0] if rest else None)
                if zero_point is not None and np.isfinite(scale.data).all():
                    rank = max(1, stored.type.rank)
                    return Quantized(stored, scale, zero_point, op.axis % rank)
        return None

    @property
    def has_one_scale(self) -> bool:
        """Whether the scale is one number."""
        return self.scale.type.rank == 0

    def fits_columns(self, axis: int) -> bool:
        """Whether the scale is one number, or one for each place along the axis."""
        return self.has_one_scale or self.axis == axis


@dataclass(frozen=True)
class Storing:
    """A value that is stored as integers, in steps of one number from one zero point."""

    value: Value
    step: float
    zero_point: int
    dtype: DType

    @staticmethod
    def of(node: Node) -> Storing | None:
        """What a node stores, if that is known."""
        match node:
            case Node(
                QuantizeLinear(dtype=dtype, block_size=0),
                [Value() as value, Constant() as scale, *rest],
            ) if dtype in STORED_TYPES and scale.type.rank == 0 and scale.type.dtype is f32:
                zero_point = zero_point_of(rest[0] if rest else None)
                step = float(scale.data)
                if zero_point is not None and step > 0 and np.isfinite(step):
                    return Storing(value, step, zero_point, dtype)
        return None


def emit_high_bytes(b: Builder, x: Value) -> Value:
    """The high bytes of integers of 16 bits, which have the sign."""
    return b.emit(Cast(i8), b.emit(ShiftRight(), x, b.constant(np.array(8, np.int16), "eight")))


def emit_low_bytes(b: Builder, x: Value) -> Value:
    """The low bytes of integers of 16 bits, which have no sign."""
    return b.emit(Cast(u8), x)


def zero_point_of(value: Value | None) -> int | None:
    """The number that a constant zero point holds everywhere; 0 if it is not given."""
    if value is None:
        return 0
    if not isinstance(value, Constant) or not value.type.size:
        return None
    first = int(value.data.reshape(-1)[0])
    return first if bool(np.all(value.data == first)) else None
