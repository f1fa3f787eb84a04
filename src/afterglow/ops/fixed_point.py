"""Arithmetic of quantized numbers that needs no floats: look-up tables."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import BitCast
from afterglow.ops.indexing import Gather
from afterglow.ops.rules import require
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import i8, i32, u8

ENTRIES = 256
"""Numbers of a table: one for each byte."""


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
        require(self.dtype in (i8, u8), f"a table holds i8 or u8, not {self.dtype}")
        count = len(self.numbers)
        require(count == ENTRIES, f"a table has {ENTRIES} numbers, got {count}")
        least = -128 if self.dtype is i8 else 0
        inside = all(least <= number < least + ENTRIES for number in self.numbers)
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
