"""Values that are dequantized from bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afterglow.graph import Constant, Node, Value
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.types import DType
from afterglow.types.dtype import f32, i8, u8


@dataclass(frozen=True)
class Quantized:
    """(stored - zero point) scale: bytes with a constant scale, one number or one along an axis."""

    stored: Value
    scale: Constant
    zero_point: int
    axis: int

    @staticmethod
    def of(value: Value) -> Quantized | None:
        """What a value is dequantized from, if it is and has one zero point."""
        match value:
            case Value(
                Node(
                    DequantizeLinear(dtype=dtype, block_size=0) as op,
                    [Value() as stored, Constant() as scale, *rest],
                )
            ) if dtype is f32 and stored.type.dtype in (i8, u8) and scale.type.dtype is f32:
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
    """A value that is stored as bytes, in steps of one number from one zero point."""

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
            ) if dtype in (i8, u8) and scale.type.rank == 0 and scale.type.dtype is f32:
                zero_point = zero_point_of(rest[0] if rest else None)
                step = float(scale.data)
                if zero_point is not None and step > 0 and np.isfinite(step):
                    return Storing(value, step, zero_point, dtype)
        return None


def zero_point_of(value: Value | None) -> int | None:
    """The number that a constant zero point holds everywhere; 0 if it is not given."""
    if value is None:
        return 0
    if not isinstance(value, Constant) or not value.type.size:
        return None
    first = int(value.data.reshape(-1)[0])
    return first if bool(np.all(value.data == first)) else None
