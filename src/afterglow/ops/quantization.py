"""Quantization of values, and back.

The scale is a scalar, or a vector along `axis`, or (with `block_size`) one number for that many
neighbours along `axis`: then it has the shape of x, but for fewer along that axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.activation import Clip
from afterglow.ops.channels import emit_along
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Mul, Round, Sub
from afterglow.ops.movement import Expand, Reshape, slice_axis
from afterglow.ops.normalization import along_channels, emit_wide
from afterglow.ops.rules import (
    normal_axis,
    require,
    require_dtype,
    require_float,
    require_same_dtype,
    require_shape,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType
from afterglow.types import dtype as d


@dataclass(frozen=True, repr=False)
class Quantizing(Op):
    """Base: how far one scale reaches."""

    along_axis = ("scale", "zero_point")
    axis: int
    dtype: DType
    block_size: int = 0

    def check(self, x: TensorType, scale: TensorType, zero_point: TensorType | None) -> None:
        """The scale has one of the three shapes, and the zero point the same."""
        require_float(scale=scale)
        require(self.block_size >= 0, f"block_size must not be negative, got {self.block_size}")
        if scale.rank:
            axis = normal_axis(self.axis, x)
            extent = x.shape[axis]
            count = -(-extent // self.block_size) if self.block_size else extent
            blocked = (*x.shape[:axis], count, *x.shape[axis + 1 :])
            require_shape(blocked if self.block_size else (count,), scale=scale)
        if zero_point is not None:
            require_shape(scale.shape, zero_point=zero_point)

    def spread(self, x: Array, part: Array) -> Array:
        """A scale or zero point shaped so that it broadcasts to x."""
        if not part.ndim:
            return part
        axis = self.axis % x.ndim
        if not self.block_size:
            return part.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        repeated = np.repeat(part, self.block_size, axis)
        return repeated[(slice(None),) * axis + (slice(x.shape[axis]),)]

    def emit_spread(self, b: Builder, x: Value, part: Value) -> Value:
        """The same, of values."""
        if not part.type.rank:
            return part
        axis = normal_axis(self.axis, x.type)
        if not self.block_size:
            return emit_along(b, part, axis, x.type.rank)
        before, count, after = (
            part.type.shape[:axis],
            part.type.shape[axis],
            x.type.shape[axis + 1 :],
        )
        apart = b.emit(Reshape((*before, count, 1, *after)), part)
        repeated = b.emit(Expand((*before, count, self.block_size, *after)), apart)
        whole = b.emit(Reshape((*before, count * self.block_size, *after)), repeated)
        return b.emit(slice_axis(whole.type, axis, 0, x.type.shape[axis]), whole)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Every axis follows x, and a vector of scales its own; blocks stay together."""
        if self.block_size:
            return None
        vectors = (p is not None and p.rank == 1 for p in operands[1:])
        along = along_channels(axis, self.axis, result)
        return (axis, *(along if vector else None for vector in vectors))

    def permuted(self, perm: tuple[int, ...]) -> Self:
        """Along the place where the axis went."""
        return replace(self, axis=perm.index(self.axis % len(perm))) if perm else self


@op("quantize_linear")
class QuantizeLinear(Quantizing):
    """x / scale, rounded (halves to even), plus the zero point, clipped to the range of `dtype`.

    Floats of few bits are targets too: they round by their own rules, and `saturate` says whether
    what is too large becomes their largest number.
    """

    axis: int = 1
    dtype: DType = d.u8
    saturate: bool = True

    def infer(
        self, x: TensorType, scale: TensorType, zero_point: TensorType | None = None
    ) -> TensorType:
        """The shape of x, the given element type."""
        require_float(x=x)
        require_same_dtype(x=x, scale=scale)
        self.check(x, scale, zero_point)
        if zero_point is not None:
            require_dtype(self.dtype, zero_point=zero_point)
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        """As it is written, in floats: every sum that is not clipped is exact."""
        y = x / self.spread(x, scale)
        y = np.rint(y) if self.dtype.is_integer else y
        if zero_point is not None:
            y = y + self.spread(x, zero_point).astype(y.dtype)
        if self.dtype.is_integer:
            y = np.clip(y, *self.dtype.limits)
        return Cast(self.dtype, self.saturate).evaluate(y)

    def lower(self, b: Builder, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
        """As `evaluate`, from primitive ops."""
        wide = emit_wide(b, x)
        y = b.emit(Div(), wide, self.emit_spread(b, x, emit_wide(b, scale)))
        y = b.emit(Round(), y) if self.dtype.is_integer else y
        if zero_point is not None:
            shift = b.emit(Cast(y.type.dtype), zero_point)
            y = b.emit(Add(), y, self.emit_spread(b, x, shift))
        if self.dtype.is_integer:
            y = b.emit(Clip(*map(float, self.dtype.limits)), y)
        return b.emit(Cast(self.dtype, self.saturate), y)


@op("dequantize_linear")
class DequantizeLinear(Quantizing):
    """(x - zero point) scale, as elements of `dtype`."""

    dequantizes = True
    axis: int = 1
    dtype: DType = d.f32

    def infer(
        self, x: TensorType, scale: TensorType, zero_point: TensorType | None = None
    ) -> TensorType:
        """The shape of x, the given element type."""
        require(self.dtype.is_float, f"dtype must be a float, got {self.dtype}")
        known = x.dtype.is_integer or x.dtype.is_float
        require(known, f"x must hold quantized numbers, got {x}")
        self.check(x, scale, zero_point)
        if zero_point is not None:
            require_same_dtype(x=x, zero_point=zero_point)
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        """Integers are subtracted as integers."""
        middle, wide = self._middle(DType.of(x.dtype)), self._wide()
        y = x.astype(middle.numpy)
        if zero_point is not None:
            y = y - self.spread(x, zero_point).astype(middle.numpy)
        return y.astype(wide.numpy) * self.spread(x, scale).astype(wide.numpy)

    def lower(self, b: Builder, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
        """As `evaluate`, from primitive ops."""
        middle, wide = self._middle(x.type.dtype), self._wide()
        y = _emit_as(b, x, middle)
        if zero_point is not None:
            shift = self.emit_spread(b, x, _emit_as(b, zero_point, middle))
            y = b.emit(Sub(), y, shift)
        factor = self.emit_spread(b, x, _emit_as(b, scale, wide))
        return _emit_as(b, b.emit(Mul(), _emit_as(b, y, wide), factor), self.dtype)

    def _wide(self) -> DType:
        """In which type the product is computed."""
        return d.f64 if self.dtype is d.f64 else d.f32

    def _middle(self, stored: DType) -> DType:
        """In which type the difference is computed."""
        if stored.is_integer:
            return d.i64 if stored.bits > 32 else d.i32
        return self._wide()


def _emit_as(b: Builder, x: Value, dtype: DType) -> Value:
    return x if x.type.dtype is dtype else b.emit(Cast(dtype), x)
