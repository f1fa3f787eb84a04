"""Exact sums of products of rows of small integers with quads of unsigned bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from afterglow.backends.cpu.kernels.stored.panels import QUAD
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    add_dot_quads,
    convert,
    multiply_add_byte_pairs,
    multiply_add_pairs,
    reinterpret,
    shuffle,
)
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, i8, i16, i32, u8, u16

LARGEST = 128
"""The largest number of a row, without its sign."""
SIGNS = 0x80808080
"""The highest bit of each byte of a word."""
EVEN = 0x00FF00FF
"""The even bytes of a word."""


@dataclass(frozen=True)
class QuadSpan:
    """Neighbouring quads of a matrix, and the rows that meet them from the first on.

    `load` gives a quad by its number, as one word of four unsigned bytes for each lane of some
    vectors. With `in_loop`, code is written once for all quads, otherwise for each.
    """

    e: Emitter
    load: Callable[[Index], list[Value]]
    count: int
    rows: Sequence[Pointer]
    vectors: int
    lanes: int
    in_loop: bool = False

    def zeros(self, dtype: DType) -> list[Value]:
        """A vector of zeros, of as many bits as a quad has, for each row and vector."""
        lanes = self.lanes * 32 // dtype.bits
        return [self.e.constant(dtype, 0, lanes)] * (len(self.rows) * self.vectors)

    def fold(
        self,
        sums: Sequence[Value],
        add: Callable[[Index, list[Value], list[Value]], list[Value]],
        first: int = 0,
        count: int | None = None,
    ) -> list[Value]:
        """Add quads to sums, given the number of each and the quad itself."""
        found, last = list(sums), self.count if count is None else first + count
        if not self.in_loop:
            for number in range(first, last):
                found = add(number, self.load(number), found)
            return found

        def body(number: Value, before: list[Value]) -> list[Value]:
            return add(number, self.load(number), before)

        return self.e.fold(last, found, body, start=first, name="quad")


class QuadProducts(ABC):
    """How rows are multiplied by quads, with the instructions of a machine.

    The numbers of a row are in memory as `dtype`, in the order that `arranged` gives.
    """

    name: str
    dtype: DType
    shift: int = 0
    """What is subtracted from the numbers of a quad before they are multiplied."""
    is_native: bool = False
    """Whether one instruction adds four products."""

    def arranged(self, numbers: Value) -> Value:
        """Numbers of a row, i32, as they are stored."""
        return convert(numbers, self.dtype)

    @abstractmethod
    def span(self, quads: QuadSpan) -> list[Value]:
        """The sums of products of rows with quads, i32, by row and vector."""


class DotProducts(QuadProducts):
    """One instruction adds four products of bytes: unsigned ones with signed, or signed only."""

    name, dtype, is_native = "quads", i8, True

    def __init__(self, bits: int, *, mixed: bool) -> None:
        self.mixed = mixed
        self.shift = 0 if mixed or bits < 8 else LARGEST

    def span(self, quads: QuadSpan) -> list[Value]:
        """See the class."""

        def add(number: Index, words: list[Value], sums: list[Value]) -> list[Value]:
            weights = [self._bytes(word) for word in words]
            xs = [_broadcast(row, number, quads.lanes, i8) for row in quads.rows]
            return _each(xs, weights, sums, lambda total, w, x: add_dot_quads(total, w, x))

        return quads.fold(quads.zeros(i32), add)

    def _bytes(self, words: Value) -> Value:
        if self.mixed:
            return reinterpret(words, u8)
        return reinterpret(words ^ SIGNS if self.shift else words, i8)


class BytePairProducts(QuadProducts):
    """One instruction adds two products of bytes to 16 bits, where sums are exact for a while."""

    name, dtype = "pairs", i8

    def __init__(self, bits: int) -> None:
        self.most = 32767 // (2 * LARGEST * ((1 << bits) - 1))
        """Quads whose sums of two products fit in 16 bits."""

    def span(self, quads: QuadSpan) -> list[Value]:
        """See the class."""

        def add(number: Index, words: list[Value], sums: list[Value]) -> list[Value]:
            weights = [reinterpret(word, u8) for word in words]
            xs = [_broadcast(row, number, quads.lanes, i8) for row in quads.rows]
            return _each(xs, weights, sums, lambda a, w, x: a + multiply_add_byte_pairs(w, x))

        joined = quads.zeros(i32)
        for first in range(0, quads.count, self.most):
            count = min(self.most, quads.count - first)
            pairs = quads.fold(quads.zeros(i16), add, first, count)
            wide = [multiply_add_pairs(pair, pair.like(1)) for pair in pairs]
            joined = wide if first == 0 else [a + b for a, b in zip(joined, wide, strict=True)]
        return joined


class HalfPairProducts(QuadProducts):
    """One instruction adds two products of 16 bits: even bytes of a quad, then odd ones."""

    name, dtype = "halves", i16

    def arranged(self, numbers: Value) -> Value:
        """See the base; the even ones of four come before the odd ones."""
        order = [start + i for start in range(0, numbers.lanes, QUAD) for i in (0, 2, 1, 3)]
        return convert(shuffle(numbers, None, order), i16)

    def span(self, quads: QuadSpan) -> list[Value]:
        """See the class."""

        def add(number: Index, words: list[Value], sums: list[Value]) -> list[Value]:
            even = [reinterpret(word & EVEN, i16) for word in words]
            odd = [reinterpret(reinterpret(word, u16) >> 8, i16) for word in words]
            for half, weights in enumerate((even, odd)):
                xs = [_broadcast(row, number * 2 + half, quads.lanes, i16) for row in quads.rows]
                sums = _each(xs, weights, sums, lambda a, w, x: a + multiply_add_pairs(w, x))
            return sums

        return quads.fold(quads.zeros(i32), add)


def quad_products(bits: int, target: Target) -> QuadProducts | None:
    """The multiplication with the best instructions that a machine has, if it has any."""
    if target.vector_bits < 128:
        return None
    if target.dot_mixed_signs or target.dot_same_sign:
        return DotProducts(bits, mixed=target.dot_mixed_signs)
    if target.byte_pairs and bits < 8:
        return BytePairProducts(bits)
    return HalfPairProducts() if target.dot_pairs else None


def _each(
    xs: Sequence[Value],
    weights: Sequence[Value],
    sums: Sequence[Value],
    add: Callable[[Value, Value, Value], Value],
) -> list[Value]:
    """Add the products of all rows with all vectors."""
    pairs = [(w, x) for x in xs for w in weights]
    return [add(total, w, x) for total, (w, x) in zip(sums, pairs, strict=True)]


def _broadcast(row: Pointer, word: Index, lanes: int, dtype: DType) -> Value:
    """32 bits of a row, in all lanes."""
    return reinterpret((row.cast(i32) + word).load().splat(lanes), dtype)
