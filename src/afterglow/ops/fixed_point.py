"""Arithmetic of quantized numbers that needs no floats: tables, new scales, and roots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.activation import Clip
from afterglow.ops.channels import emit_along
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import (
    Add,
    BitCast,
    LessEqual,
    Mul,
    ShiftLeft,
    ShiftRight,
    Sub,
    Unary,
    Where,
    scalar,
)
from afterglow.ops.indexing import Gather
from afterglow.ops.normalization import along_channels
from afterglow.ops.rules import normal_axis, require, require_dtype, require_shape
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import i8, i16, i32, i64, u8

ENTRIES = 256
"""Numbers of a table: one for each byte."""
HIGH_BITS = 31
"""Bits below the high half of a product that is rounded twice."""


@op("byte_table")
class ByteTable(Op):
    """The number of a table for each byte: any function of one byte.

    Entries stand in the order of the bits: those of the negative numbers come last.
    """

    elementwise = True
    inplace = ("x",)
    numbers: tuple[int, ...]
    dtype: DType = u8

    def infer(self, x: TensorType) -> TensorType:
        """The same shape, of the element type of the table."""
        require(x.dtype in (i8, u8), f"x must hold i8 or u8, got {x}")
        require(self.dtype in (i8, u8, i16), f"a table holds i8, u8 or i16, not {self.dtype}")
        count = len(self.numbers)
        require(count == ENTRIES, f"a table has {ENTRIES} numbers, got {count}")
        least, most = self.dtype.limits
        inside = all(least <= number <= most for number in self.numbers)
        require(inside, f"every number of the table must be one of {self.dtype}")
        return x.with_dtype(self.dtype)

    @property
    def table(self) -> Array:
        """The numbers as an array."""
        return np.array(self.numbers, self.dtype.numpy)

    def evaluate(self, x: Array) -> Array:
        """By the bits of the bytes."""
        return self.table[x.view(np.uint8)]

    def lower(self, b: Builder, x: Value) -> Value:
        """As elements of a constant."""
        bits = x if x.type.dtype is u8 else b.emit(BitCast(u8), x)
        return b.emit(Gather(), b.constant(self.table, "table"), b.emit(Cast(i32), bits))


@op("requantize")
class Requantize(Op):
    """x multiplier / 2^shift, rounded to the nearest (halves up), plus the zero point, saturated.

    The multiplier and the shift are numbers, or vectors along `axis`. The product has 64 bits, in
    which it is exact; a shift is 1 to 62. `twice`, the quotient by 2^31 is rounded so, and then its
    own by 2^(shift - 31), with halves away from zero, as TFLite has it; a shift is then 31 to 61,
    the first quotient has 32 bits, and what is added to it afterwards wraps around.
    """

    along_axis = ("multiplier", "shift")
    axis: int = -1
    zero_point: int = 0
    dtype: DType = u8
    twice: bool = False

    def infer(self, x: TensorType, multiplier: TensorType, shift: TensorType) -> TensorType:
        """The shape of x, the given element type."""
        require_dtype(i32, x=x, multiplier=multiplier, shift=shift)
        known = (i8, u8, i16, i32)
        require(self.dtype in known, f"dtype must be i8, u8, i16 or i32, got {self.dtype}")
        if multiplier.rank:
            require_shape((x.shape[normal_axis(self.axis, x)],), multiplier=multiplier)
        require_shape(multiplier.shape, shift=shift)
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array, multiplier: Array, shift: Array) -> Array:
        """As it is written, in 64 bits."""
        factors, shifts = (self._spread(x, part).astype(np.int64) for part in (multiplier, shift))
        product = x.astype(np.int64) * factors
        rounded = (_rounded_twice if self.twice else _rounded)(product, shifts)
        limits = np.iinfo(self.dtype.numpy)
        shifted = np.clip(rounded + rounded.dtype.type(self.zero_point), limits.min, limits.max)
        return np.asarray(shifted.astype(self.dtype.numpy))

    def lower(self, b: Builder, x: Value, multiplier: Value, shift: Value) -> Value:
        """As `evaluate`, from primitive ops."""
        wide = b.emit(Cast(i64), x)
        factors, shifts = (
            b.emit(Cast(i64), self._emit_spread(b, x, part)) for part in (multiplier, shift)
        )
        product = b.emit(Mul(), wide, factors)
        rounding = _emit_rounded_twice if self.twice else _emit_rounded
        rounded = rounding(b, product, shifts)
        shifted = b.emit(Add(), rounded, scalar(b, self.zero_point, rounded))
        limits = np.iinfo(self.dtype.numpy)
        return b.emit(Cast(self.dtype), b.emit(Clip(limits.min, limits.max), shifted))

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Every axis follows x, and vectors their own."""
        along = along_channels(axis, self.axis, result)
        vectors = (part is not None and part.rank == 1 for part in operands[1:])
        return (axis, *(along if vector else None for vector in vectors))

    def permuted(self, perm: tuple[int, ...]) -> Self:
        """Along the place where the axis went."""
        return replace(self, axis=perm.index(self.axis % len(perm))) if perm else self

    def _spread(self, x: Array, part: Array) -> Array:
        """A multiplier or shift shaped so that it broadcasts to x."""
        if not part.ndim:
            return part
        axis = self.axis % x.ndim
        return part.reshape([-1 if i == axis else 1 for i in range(x.ndim)])

    def _emit_spread(self, b: Builder, x: Value, part: Value) -> Value:
        """The same, of values."""
        if not part.type.rank:
            return part
        return emit_along(b, part, normal_axis(self.axis, x.type), x.type.rank)


def _rounded(x: Array, shifts: Array) -> Array:
    """x / 2^shift, rounded to the nearest, halves up."""
    return np.asarray(np.right_shift(x + np.left_shift(np.int64(1), shifts - 1), shifts))


def _rounded_twice(x: Array, shifts: Array) -> Array:
    """x / 2^31, rounded so, and what of the shift is left, with halves away from zero."""
    high, rest = _rounded(x, np.asarray(HIGH_BITS)), shifts - HIGH_BITS
    halves = (np.left_shift(np.int64(1), rest) - (high < 0)) >> 1
    return np.asarray(np.right_shift((high + halves).astype(np.int32), rest.astype(np.int32)))


def _emit_rounded(b: Builder, x: Value, shifts: Value) -> Value:
    """As `_rounded`, from primitive ops."""
    one = scalar(b, 1, x)
    halves = b.emit(ShiftLeft(), one, b.emit(Sub(), shifts, one))
    return b.emit(ShiftRight(), b.emit(Add(), x, halves), shifts)


def _emit_rounded_twice(b: Builder, x: Value, shifts: Value) -> Value:
    """As `_rounded_twice`, from primitive ops, in 32 bits."""
    bits = scalar(b, HIGH_BITS, x)
    high = b.emit(Cast(i32), _emit_rounded(b, x, bits))
    rest = b.emit(Cast(i32), b.emit(Sub(), shifts, bits))
    one, sign_bit = scalar(b, 1, high), scalar(b, i32.bits - 1, high)
    unit = b.emit(ShiftLeft(), one, rest)
    # 2^rest / 2 for what is not negative, and one less for the rest; none if nothing is shifted.
    signed = b.emit(Add(), unit, b.emit(ShiftRight(), high, sign_bit))
    halves = b.emit(ShiftRight(), signed, one)
    return b.emit(ShiftRight(), b.emit(Add(), high, halves), rest)


@op("integer_sqrt")
class IntegerSqrt(Unary):
    """The square root of an integer, rounded down; 0 if it is negative."""

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type."""
        require(x.dtype in (i32, i64), f"x must hold i32 or i64, got {x}")
        return x

    def evaluate(self, x: Array) -> Array:
        """Bit by bit, from the highest that a root may have: squares are only compared."""
        rest, root = x.copy(), np.zeros_like(x)
        for bit in root_bits(DType.of(x.dtype)):
            tried = root + x.dtype.type(bit)
            fits = tried <= rest
            rest = np.where(fits, rest - tried, rest)
            root = (root >> 1) + np.where(fits, x.dtype.type(bit), x.dtype.type(0))
        return np.asarray(root)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`, from primitive ops."""
        one, zero = scalar(b, 1, x), scalar(b, 0, x)
        rest, root = x, zero
        for bit in root_bits(x.type.dtype):
            part = scalar(b, bit, x)
            tried = b.emit(Add(), root, part)
            fits = b.emit(LessEqual(), tried, rest)
            rest = b.emit(Where(), fits, b.emit(Sub(), rest, tried), rest)
            half = b.emit(ShiftRight(), root, one)
            root = b.emit(Add(), half, b.emit(Where(), fits, part, zero))
        return root


def root_bits(dtype: DType) -> list[int]:
    """The squares of the bits that a root of an integer may have, from the highest on."""
    return [1 << place for place in range(dtype.bits - 2, -1, -2)]
