"""How four neighbouring bytes of a row are multiplied by a line of a panel.

A line has, for each of its columns, the four weights that meet those bytes. How they lie follows
from the instructions that the machine has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    Value,
    add_dot_quads,
    add_dot_words,
    convert,
    interleave,
    multiply_add_pairs,
    reinterpret,
    vector,
    widen_word,
)
from afterglow.backends.cpu.micro.cost import BYTE_FLOP
from afterglow.backends.cpu.target import Target
from afterglow.types import Array
from afterglow.types.dtype import DType, i8, i16, i32, u8, u16

QUAD = 4
"""Bytes that are multiplied at once."""


class Dots(ABC):
    """How four bytes of each row are multiplied by a line, with the instructions of a machine."""

    name: str
    weight: DType
    """The type of packed weights."""
    sums: DType = i32
    """The type of sums."""
    together: int = QUAD
    """Elements of a row that are multiplied at once."""
    cost: float = BYTE_FLOP
    """What a multiplication or an addition costs."""
    wide: DType = i16
    """A type that has all weights, and all differences of two of them if they are integers."""
    spare: int
    """Registers that are needed beside sums and weights."""

    @abstractmethod
    def pack(self, quads: Array) -> Array:
        """Put weights [..., columns, 4] of one line into the order in which they are read."""

    @abstractmethod
    def packed(self, rows: Sequence[Value]) -> list[Value]:
        """The same of one vector of columns, given as four vectors: parts of a line, in order."""

    @abstractmethod
    def add(
        self, sums: Sequence[Value], rows: Sequence[Pointer], line: Pointer, vectors: int
    ) -> list[Value]:
        """Add the products of the next four bytes of each row to its sums, `vectors` a row."""


class QuadDots(Dots):
    """One instruction adds four products: weights are bytes, in the order of columns."""

    name = "quads"
    weight = i8
    spare = 1

    def pack(self, quads: Array) -> Array:
        """See the class."""
        return quads.astype(np.int8)

    def packed(self, rows: Sequence[Value]) -> list[Value]:
        """See the class."""
        return [interleave(interleave(rows[0], rows[2]), interleave(rows[1], rows[3]))]

    def add(
        self, sums: Sequence[Value], rows: Sequence[Pointer], line: Pointer, vectors: int
    ) -> list[Value]:
        """See the class."""
        width = QUAD * sums[0].lanes
        weights = [line.load(v * width, width) for v in range(vectors)]
        added = []
        for number, row in enumerate(rows):
            x = reinterpret(quad_of(row, sums[0].lanes), row.dtype)
            for v, weight in enumerate(weights):
                added.append(add_dot_quads(sums[number * vectors + v], x, weight))
        return added


class PairDots(Dots):
    """One instruction adds two products of 16 bits: even weights, then odd ones.

    Weights are negative, and their products subtracted: sums LLVM would reorder, so that they wait
    for fewer others, and run out of registers.
    """

    name = "pairs"
    weight = i16
    spare = 3

    def pack(self, quads: Array) -> Array:
        """See the class."""
        wide = -quads.astype(np.int16)
        return np.stack([wide[..., ::2], wide[..., 1::2]], axis=-3)

    def packed(self, rows: Sequence[Value]) -> list[Value]:
        """See the class."""
        return [0 - convert(interleave(rows[i], rows[i + 2]), i16) for i in range(2)]

    def add(
        self, sums: Sequence[Value], rows: Sequence[Pointer], line: Pointer, vectors: int
    ) -> list[Value]:
        """See the class."""
        width = 2 * sums[0].lanes
        added = []
        for number, row in enumerate(rows):
            even, odd = _halves(quad_of(row, sums[0].lanes), row.dtype)
            for v in range(vectors):
                total = sums[number * vectors + v]
                total = total - multiply_add_pairs(even, line.load(v * width, width))
                odds = line.load((vectors + v) * width, width)
                added.append(total - multiply_add_pairs(odd, odds))
        return added


class WordDots(Dots):
    """One instruction adds two products, of halves of scalars: weights are bytes, as they are."""

    name = "words"
    weight = i8
    spare = 6

    def pack(self, quads: Array) -> Array:
        """See the class."""
        return quads.astype(np.int8)

    def packed(self, rows: Sequence[Value]) -> list[Value]:
        """See the class."""
        return [vector(rows)]

    def add(
        self, sums: Sequence[Value], rows: Sequence[Pointer], line: Pointer, vectors: int
    ) -> list[Value]:
        """See the class."""
        added = list(sums)
        weights = [
            widen_word((line + v * QUAD).cast(i32).load(align=1), signed=True)
            for v in range(vectors)
        ]
        for number, row in enumerate(rows):
            x = widen_word(quad_of(row, 1), signed=row.dtype is i8)
            for v, weight in enumerate(weights):
                place = number * vectors + v
                for part, factor in zip(x, weight, strict=True):
                    added[place] = add_dot_words(added[place], part, factor)
        return added


class ColumnDots(Dots):
    """One instruction adds two products, of halves of scalars: a row has 16 bits an element.

    A word of weights is for two columns: the bytes of one lie between those of the other, so that
    one instruction widens each.
    """

    name = "columns"
    weight = i8
    spare = 6

    def pack(self, quads: Array) -> Array:
        """See the class; the weights are [..., columns, 2]."""
        *outer, columns, together = quads.shape
        pairs = quads.astype(np.int8).reshape(*outer, columns // 2, 2, together)
        return np.ascontiguousarray(pairs.swapaxes(-1, -2))

    def packed(self, rows: Sequence[Value]) -> list[Value]:
        """Weights that are packed when the kernel runs have another form."""
        raise NotImplementedError

    def add(
        self, sums: Sequence[Value], rows: Sequence[Pointer], line: Pointer, vectors: int
    ) -> list[Value]:
        """Add the products of the next two elements of each row."""
        added: list[Value] = list(sums)
        weights: list[Value] = []
        for v in range(0, vectors, 2):
            word = (line + v * 2).cast(i32).load(align=4, in_order=True)
            weights.extend(widen_word(word, signed=True))
        for number, row in enumerate(rows):
            x = row.cast(i32).load(align=row.known_align, in_order=True)
            for v, weight in enumerate(weights):
                place = number * vectors + v
                added[place] = add_dot_words(added[place], x, weight)
        return added


class ByteDots(Dots):
    """One byte of a row times a line of weights, widened: a line for each of the four bytes."""

    name = "lines"
    weight = i8
    spare = 6

    def pack(self, quads: Array) -> Array:
        """See the class."""
        return quads.astype(np.int8).swapaxes(-1, -2)

    def packed(self, rows: Sequence[Value]) -> list[Value]:
        """See the class."""
        return list(rows)

    def add(
        self, sums: Sequence[Value], rows: Sequence[Pointer], line: Pointer, vectors: int
    ) -> list[Value]:
        """See the class."""
        lanes, added = sums[0].lanes, list(sums)
        for byte in range(QUAD):
            first = line + byte * vectors * lanes
            weights = [_widened(first.load(v * lanes, lanes)) for v in range(vectors)]
            for number, row in enumerate(rows):
                x = _widened(row.load(byte)).splat(lanes)
                for v, weight in enumerate(weights):
                    place = number * vectors + v
                    added[place] = added[place] + convert(x, i32) * convert(weight, i32)
        return added


def dots_of(target: Target) -> Dots:
    """The multiplication with the best instructions that a machine has."""
    if target.dot_mixed_signs or target.dot_same_sign:
        return QuadDots()
    if not target.dot_pairs:
        return ByteDots()
    return PairDots() if target.has_vectors else WordDots()


def lists_lines(target: Target) -> bool:
    """Whether the best that a machine has for bytes is exact for small weights only."""
    return target.byte_pairs and target.has_vectors and not target.dot_mixed_signs


def read_type(target: Target, stored: DType, *, constant: bool) -> DType:
    """The type of bytes that a machine's instructions multiply by signed, constant weights."""
    if target.dot_mixed_signs or (constant and lists_lines(target)):
        return u8
    return i8 if target.dot_same_sign else stored


def quad_of(row: Pointer, lanes: int) -> Value:
    """Four bytes, in all lanes."""
    return row.cast(i32).load(align=1).splat(lanes)


def _widened(x: Value) -> Value:
    """Bytes as 16 bits: products of those are what many machines have."""
    return convert(x, i16)


def _halves(quads: Value, dtype: DType) -> tuple[Value, Value]:
    """The even and the odd bytes of quads, each widened to 16 bits."""
    if dtype is u8:
        halves = reinterpret(quads, u16)
        return reinterpret(halves & 0xFF, i16), reinterpret(halves >> 8, i16)
    halves = reinterpret(quads, i16)
    return (halves << 8) >> 8, halves >> 8
