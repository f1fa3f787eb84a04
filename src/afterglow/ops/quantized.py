"""Convolutions and matrix products of quantized numbers, in integers.

Products of differences from the zero points are summed up exactly, in 32 bits; the sum, plus a
bias of the same scale, is then multiplied by the scale. A scale is one number, or one for each
column of the result; without a scale the result is the sum itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afterglow.graph import Band, Builder, Cut, Halo, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.convolution import Conv, Convolution
from afterglow.ops.elementwise import Add, Sub, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.linear import MatMul
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.rules import (
    require,
    require_dtype,
    require_rank,
    require_same_dtype,
    require_shape,
)
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, f64, i8, i32, u8


@op("quantized_conv")
class QuantizedConv(Convolution):
    """Convolution of (x - zero point) with (weight - zero point), plus bias, times scale.

    Axes are as of `conv`; what pads x is its zero point. Sums are i32, and wrap around. The zero
    point of x is an attribute, or the operand `x_zero` where it is known only at run time.
    """

    x_zero_point: int = 0
    weight_zero_point: int = 0

    @property
    def plain(self) -> Conv:
        """The convolution of the same geometry."""
        return Conv(self.strides, self.pads, self.dilations, self.groups)

    def infer(
        self,
        x: TensorType,
        weight: TensorType,
        scale: TensorType | None = None,
        bias: TensorType | None = None,
        x_zero: TensorType | None = None,
    ) -> TensorType:
        """The shape that the convolution has, in f32; without a scale in i32."""
        _check_bytes(self.x_zero_point, x=x)
        if x_zero is not None:
            require_same_dtype(x=x, x_zero=x_zero)
            require_rank(0, x_zero=x_zero)
            require(self.x_zero_point == 0, "x has two zero points, an attribute and an operand")
        _check_bytes(self.weight_zero_point, weight=weight)
        result = self.plain.infer(x.with_dtype(f32), weight.with_dtype(f32))
        _check_columns(result.shape[-1], scale, bias)
        return result if scale is not None else result.with_dtype(i32)

    def evaluate(
        self,
        x: Array,
        weight: Array,
        scale: Array | None = None,
        bias: Array | None = None,
        x_zero: Array | None = None,
    ) -> Array:
        """In doubles, in which all the integers are exact."""
        zero_point = self.x_zero_point if x_zero is None else int(x_zero)
        lhs, rhs = _shifted(x, zero_point), _shifted(weight, self.weight_zero_point)
        return _scaled(self.plain.evaluate(lhs, rhs), scale, bias)

    def lower(
        self,
        b: Builder,
        x: Value,
        weight: Value,
        scale: Value | None = None,
        bias: Value | None = None,
        x_zero: Value | None = None,
    ) -> Value:
        """In floats, the scale goes to the weight; without one, in 32 bits."""
        if scale is None:
            lhs = _emit_integers(b, x, x_zero or self.x_zero_point)
            rhs = _emit_integers(b, weight, self.weight_zero_point)
            return b.emit(self.plain, lhs, rhs, bias)
        lhs = _emit_floats(b, x, x_zero or self.x_zero_point)
        rhs = _emit_floats(b, weight, self.weight_zero_point, scale, axis=0)
        if bias is None:
            return b.emit(self.plain, lhs, rhs)
        return b.emit(self.plain, lhs, rhs, _emit_floats(b, bias, 0, scale, axis=0))

    def with_halo(self, operands: Sequence[TensorType | None]) -> Halo | None:
        """The zero point all around, if it is known."""
        if any(zero is not None for zero in operands[4:]):
            return None
        x, weight = self.required_of(operands)
        bare = replace(self, pads=(0,) * len(self.pads))
        return self.windows(weight.shape).halo(x, float(self.x_zero_point), bare)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """As of the convolution; vectors follow the rows of the weight."""
        runs = self.plain.parallel(axis, result, operands[:2])
        if runs is None:
            return None
        return (*runs, *(runs[1] if _is_vector(part) else None for part in operands[2:]))

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """As of the convolution; vectors are cut as the rows of the weight."""
        plain = self.plain.band(cut, result, operands[:2])
        if plain is None:
            return None
        assert isinstance(plain.op, Conv)
        op = replace(self, pads=plain.op.pads, groups=plain.op.groups)
        x, weight = plain.cuts
        return Band(op, (x, weight, *(weight if _is_vector(p) else None for p in operands[2:])))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications."""
        return self.plain.work(result, operands[:2])


@op("quantized_matmul")
class QuantizedMatMul(Op):
    """Matrix product of (lhs - zero point) and (rhs - zero point), plus bias, times scale.

    Axes are as of `matmul`. Sums are i32, and wrap around.
    """

    transpose_lhs: bool = False
    transpose_rhs: bool = False
    lhs_zero_point: int = 0
    rhs_zero_point: int = 0

    @property
    def plain(self) -> MatMul:
        """The product of the same geometry."""
        return MatMul(self.transpose_lhs, self.transpose_rhs)

    def infer(
        self,
        lhs: TensorType,
        rhs: TensorType,
        scale: TensorType | None = None,
        bias: TensorType | None = None,
    ) -> TensorType:
        """The shape that the product has, in f32; without a scale in i32."""
        _check_bytes(self.lhs_zero_point, lhs=lhs)
        _check_bytes(self.rhs_zero_point, rhs=rhs)
        result = self.plain.infer(lhs.with_dtype(f32), rhs.with_dtype(f32))
        _check_columns(result.shape[-1], scale, bias)
        return result if scale is not None else result.with_dtype(i32)

    def evaluate(
        self, lhs: Array, rhs: Array, scale: Array | None = None, bias: Array | None = None
    ) -> Array:
        """In doubles, in which all the integers are exact."""
        left, right = _shifted(lhs, self.lhs_zero_point), _shifted(rhs, self.rhs_zero_point)
        return _scaled(self.plain.evaluate(left, right), scale, bias)

    def lower(
        self,
        b: Builder,
        lhs: Value,
        rhs: Value,
        scale: Value | None = None,
        bias: Value | None = None,
    ) -> Value:
        """In floats, the scale goes to the columns of rhs; without one, in 32 bits."""
        if scale is None:
            left = _emit_integers(b, lhs, self.lhs_zero_point)
            right = _emit_integers(b, rhs, self.rhs_zero_point)
            product = b.emit(self.plain, left, right)
            return product if bias is None else b.emit(Add(), product, bias)
        columns = rhs.type.rank - (2 if self.transpose_rhs else 1)
        left = _emit_floats(b, lhs, self.lhs_zero_point)
        right = _emit_floats(b, rhs, self.rhs_zero_point, scale, axis=columns)
        product = b.emit(self.plain, left, right)
        if bias is None:
            return product
        return b.emit(Add(), product, _emit_floats(b, bias, 0, scale, axis=0))

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """As of the product; vectors follow the columns."""
        runs = self.plain.parallel(axis, result, operands[:2])
        if runs is None:
            return None
        along = 0 if axis == result.rank - 1 else None
        return (*runs, *(along if _is_vector(part) else None for part in operands[2:]))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications."""
        return self.plain.work(result, operands[:2])


def _check_bytes(zero_point: int, **operand: TensorType) -> None:
    """An operand holds bytes, of which the zero point is one."""
    ((name, type),) = operand.items()
    require(type.dtype in (i8, u8), f"{name} must hold i8 or u8, got {type}")
    least = -128 if type.dtype is i8 else 0
    inside = least <= zero_point < least + 256
    require(inside, f"the zero point of {name} must be one of its numbers, got {zero_point}")


def _check_columns(columns: int, scale: TensorType | None, bias: TensorType | None) -> None:
    """A scale is a number or has one a column, a bias has one a column."""
    if scale is not None:
        require_dtype(f32, scale=scale)
        require_shape((columns,) if scale.rank else (), scale=scale)
    if bias is not None:
        require_dtype(i32, bias=bias)
        require_shape((columns,), bias=bias)


def _is_vector(operand: TensorType | None) -> bool:
    return operand is not None and operand.rank == 1


def _shifted(x: Array, zero_point: int) -> Array:
    return x.astype(f64.numpy) - zero_point


def _scaled(total: Array, scale: Array | None, bias: Array | None) -> Array:
    """Sums, which are integers, as results."""
    integers = total.astype(np.int64)
    if bias is not None:
        integers += bias
    sums = integers.astype(np.int32)
    return sums if scale is None else np.asarray(sums.astype(np.float32) * scale)


def _emit_floats(
    b: Builder, x: Value, zero_point: int | Value, scale: Value | None = None, axis: int = 0
) -> Value:
    """(x - zero point) scale, along an axis if the scale is a vector."""
    factor = b.constant(np.array(1, np.float32), "one") if scale is None else scale
    if isinstance(zero_point, Value):
        return b.emit(DequantizeLinear(axis), x, factor, zero_point)
    if not zero_point:
        return b.emit(DequantizeLinear(axis), x, factor)
    if factor.type.is_ranged:
        filled = b.emit(Fill(factor.type.shape, float(zero_point), x.type.dtype))
        return b.emit(DequantizeLinear(axis), x, factor, filled)
    shift = np.full(factor.type.shape, zero_point, x.type.dtype.numpy)
    return b.emit(DequantizeLinear(axis), x, factor, b.constant(shift, "zero_point"))


def _emit_integers(b: Builder, x: Value, zero_point: int | Value) -> Value:
    """x - zero point, in 32 bits."""
    wide = b.emit(Cast(i32), x)
    if isinstance(zero_point, Value):
        return b.emit(Sub(), wide, b.emit(Cast(i32), zero_point))
    return b.emit(Sub(), wide, scalar(b, zero_point, wide)) if zero_point else wide
