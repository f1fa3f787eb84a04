"""The forms in which rows meet quads of a stored matrix: floats, or one or three small integers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from afterglow.backends.cpu.kernels.stored.panels import CHUNK, QUAD, float_of_byte
from afterglow.backends.cpu.kernels.stored.quads import QuadProducts, QuadSpan
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    constant_vector,
    convert,
    fma,
    larger,
    reinterpret,
    rint,
)
from afterglow.ops.rounded_rows import LEAST_PEAK
from afterglow.types.dtype import DType, f32, i32

PARTS = 3
"""Bytes of a number that is nearly as exact as a float."""
MOST = 127 << 16
"""The largest number of which each of three bytes, as a signed one, is at most 127."""
PLACES = (1.0, 2.0**-8, 2.0**-16, 1.0)
"""What bytes of a quad are to be multiplied by, as `_field` has them."""


class RowForm(ABC):
    """A form of rows, and how they are multiplied by quads."""

    name: str
    dtype: DType
    """The type of a row's numbers in this form."""
    parts: int = 1
    """Numbers in memory for one of a row; a chunk has the first of all, then the second, …"""
    shift: int = 0
    """What is subtracted from the numbers of quads before they are multiplied."""
    is_relative: bool = False
    """Whether rows are multiplied by a factor that depends on their largest number."""
    is_native: bool = False
    """Whether the machine has instructions for products in this form."""

    @property
    def size(self) -> int:
        """Elements of `dtype` for a chunk."""
        return self.parts * CHUNK

    def factor(self, peak: Value) -> tuple[Value, Value]:
        """What rows are multiplied by, given their largest number, and results afterwards."""
        return peak.like(1), peak.like(1)

    @abstractmethod
    def store(self, numbers: Value, to: Pointer) -> None:
        """Write neighbouring numbers of a row, whole quads of them."""

    @abstractmethod
    def span(self, quads: QuadSpan) -> list[Value]:
        """The sums of products of rows with quads, as f32, by row and vector."""


class FloatRows(RowForm):
    """Floats, multiplied by the factors of their places in quads."""

    name, dtype = "floats", f32

    def store(self, numbers: Value, to: Pointer) -> None:
        """See the base."""
        factors = PLACES * (numbers.lanes // QUAD)
        to.store(numbers * constant_vector(numbers.code, f32, factors))

    def span(self, quads: QuadSpan) -> list[Value]:
        """See the base."""

        def add(number: Index, words: list[Value], sums: list[Value]) -> list[Value]:
            for place in range(QUAD):
                fields = [self.field(word, place) for word in words]
                xs = [(row + number * QUAD).load(place).splat(quads.lanes) for row in quads.rows]
                pairs = [(x, field) for x in xs for field in fields]
                sums = [fma(x, f, total) for (x, f), total in zip(pairs, sums, strict=True)]
            return sums

        return quads.fold(quads.zeros(f32), add)

    def field(self, words: Value, place: int) -> Value:
        """The numbers at a place of quads as f32, divided by their factor."""
        return _field(words, place)


class RowsForFloats(FloatRows):
    """Floats, multiplied by numbers that are floats of 8 bits themselves."""

    name = "floats of 8 bits"

    def __init__(self, matrix: DType) -> None:
        self.matrix = matrix

    def store(self, numbers: Value, to: Pointer) -> None:
        """See the base."""
        to.store(numbers)

    def field(self, words: Value, place: int) -> Value:
        """See the base."""
        return float_of_byte(reinterpret(words >> 8 * place, i32), self.matrix)


class IntegerRows(RowForm):
    """Integers of 8 bits, or of 24 bits relative to the largest number of the row, as three bytes.

    Sums of products are exact, so those of 24 bits are as near as sums of floats are.
    """

    def __init__(self, products: QuadProducts, parts: int) -> None:
        self.products, self.parts = products, parts
        self.name = "bytes" if parts > 1 else "int8"
        self.dtype, self.shift = products.dtype, products.shift
        self.is_relative, self.is_native = parts > 1, products.is_native

    def factor(self, peak: Value) -> tuple[Value, Value]:
        """See the base."""
        most = larger(peak, LEAST_PEAK)
        return most.like(MOST) / most, most / MOST

    def store(self, numbers: Value, to: Pointer) -> None:
        """See the base."""
        left = convert(rint(numbers), i32, saturate=True)
        for part in reversed(range(1, self.parts)):
            low = (left << 24) >> 24
            to.store(self.products.arranged(low), part * CHUNK)
            left = (left - low) >> 8
        to.store(self.products.arranged(left))

    def span(self, quads: QuadSpan) -> list[Value]:
        """See the base."""
        every = [row + part * CHUNK for row in quads.rows for part in range(self.parts)]
        sums = [convert(x, f32) for x in self.products.span(replace(quads, rows=every))]
        if self.parts == 1:
            return sums
        count = quads.vectors
        first = range(0, len(sums), PARTS * count)
        return [self._joined(sums, start + v, count) for start in first for v in range(count)]

    def _joined(self, sums: Sequence[Value], place: int, step: int) -> Value:
        high, middle, low = (sums[place + part * step] for part in range(PARTS))
        return fma(high, 65536.0, fma(middle, 256.0, low))


def _field(words: Value, place: int) -> Value:
    """The numbers at a place of quads as f32, divided by their factor."""
    if place == QUAD - 1:
        return convert(reinterpret(words >> 24, i32), f32)
    return convert(reinterpret(words & (0xFF << 8 * place), i32), f32)
