"""The forms in which rows meet words of a stored matrix: as floats, or as three bytes a number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from afterglow.backends.cpu.kernels.stored.panels import StoredPanels
from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    Value,
    absolute,
    add_dot_quads,
    constant_vector,
    convert,
    fma,
    larger,
    reduce_max,
    reinterpret,
    rint,
    shuffle,
)
from afterglow.backends.cpu.target import Target
from afterglow.types.dtype import DType, f32, i8, i32, u8

QUAD = 4
"""Bytes that are multiplied at once."""
PARTS = 3
"""Bytes of a number."""
MOST = 127 << 16
"""The largest number of which each byte, as a signed one, is at most 127."""
LEAST_PEAK = 1e-30
"""Rows whose largest number is less are as if it were this: its inverse is finite."""
LOW_HALVES = 0x0F0F0F0F
"""The low four bits of each byte of a word."""


class RowForm(ABC):
    """A form of rows, and how they are multiplied by words."""

    name: str
    dtype: DType
    """The type of a row's numbers in this form."""
    sums: int
    """Accumulators of one result."""
    sum_dtype: DType
    is_relative: bool = False
    """Whether rows are multiplied by a factor that depends on their largest number."""

    def __init__(self, panels: StoredPanels) -> None:
        self.panels = panels

    @property
    @abstractmethod
    def size(self) -> int:
        """Elements of `dtype` for the numbers that meet a word."""

    @property
    @abstractmethod
    def registers(self) -> int:
        """Registers that hold what is made of a vector of words."""

    def factor(self, peak: Value) -> tuple[Value, Value]:
        """What rows are multiplied by, given their largest number, and results afterwards."""
        return peak.like(1), peak.like(1)

    @abstractmethod
    def store(self, x: Value, to: Pointer) -> None:
        """Write numbers of a row, those that meet one word."""

    @abstractmethod
    def add(
        self, rows: Sequence[Pointer], lines: Sequence[Value], sums: Sequence[Value]
    ) -> list[Value]:
        """Add products of rows with vectors of words; sums are by row, vector and accumulator."""

    @abstractmethod
    def total(self, sums: Sequence[Value]) -> Value:
        """The f32 that the accumulators of a result stand for."""


class FloatRows(RowForm):
    """Floats, multiplied by the factors of their places in words."""

    name = "floats"
    dtype = sum_dtype = f32

    def __init__(self, panels: StoredPanels, sums: int = 1) -> None:
        super().__init__(panels)
        self.sums = sums

    @property
    def size(self) -> int:
        """See the base."""
        return self.panels.per_word

    @property
    def registers(self) -> int:
        """The words themselves."""
        return 1

    def store(self, x: Value, to: Pointer) -> None:
        """See the base."""
        to.store(x * constant_vector(x.code, f32, self.panels.factors))

    def add(
        self, rows: Sequence[Pointer], lines: Sequence[Value], sums: Sequence[Value]
    ) -> list[Value]:
        """See the base."""
        made, lanes = list(sums), lines[0].lanes
        for place in range(self.panels.per_word):
            xs = [row.load(place).splat(lanes) for row in rows]
            for v, words in enumerate(lines):
                numbers = self.panels.field(words, place)
                for row, x in enumerate(xs):
                    number = (row * len(lines) + v) * self.sums + place % self.sums
                    made[number] = fma(x, numbers, made[number])
        return made

    def total(self, sums: Sequence[Value]) -> Value:
        """See the base."""
        return sums[0] if len(sums) == 1 else sums[0] + sums[1]


class ByteRows(RowForm):
    """Integers of 24 bits, relative to the largest number of the row, as three signed bytes each.

    Sums of products of bytes are exact, so results are as near as sums of floats are.
    """

    name = "bytes"
    dtype, sum_dtype, sums, is_relative = i8, i32, PARTS, True

    @property
    def size(self) -> int:
        """See the base."""
        return PARTS * self.panels.per_word

    @property
    def registers(self) -> int:
        """The bytes of words."""
        return self._quads

    @property
    def _quads(self) -> int:
        """Quads in a word, as bytes."""
        return self.panels.per_word // QUAD

    @staticmethod
    def suits(panels: StoredPanels, target: Target) -> bool:
        """Whether the machine multiplies bytes as these are signed."""
        same = panels.bits == 4 and target.dot_same_sign
        return target.vector_bits >= 128 and (target.dot_mixed_signs or same)

    def factor(self, peak: Value) -> tuple[Value, Value]:
        """See the base."""
        most = larger(peak, LEAST_PEAK)
        return most.like(MOST) / most, most / MOST

    def store(self, x: Value, to: Pointer) -> None:
        """See the base; a word of 4-bit numbers has those at even places in its first quad."""
        left = convert(rint(x), i32, saturate=True)
        if self._quads == 2:
            left = shuffle(left, None, [*range(0, x.lanes, 2), *range(1, x.lanes, 2)])
        for part in reversed(range(PARTS)):
            low = (left << 24) >> 24
            to.store(convert(low, i8), part * x.lanes)
            left = (left - low) >> 8

    def add(
        self, rows: Sequence[Pointer], lines: Sequence[Value], sums: Sequence[Value]
    ) -> list[Value]:
        """See the base."""
        made, lanes = list(sums), lines[0].lanes
        quads = [self._bytes(words) for words in lines]
        for part in range(PARTS):
            for quad in range(self._quads):
                place = part * self._quads + quad
                for row, pointer in enumerate(rows):
                    x = reinterpret(pointer.cast(i32).load(place).splat(lanes), i8)
                    for v, own in enumerate(quads):
                        number = (row * len(lines) + v) * PARTS + part
                        made[number] = add_dot_quads(made[number], own[quad], x)
        return made

    def _bytes(self, words: Value) -> list[Value]:
        """The numbers of words as bytes, by quads."""
        dtype = u8 if words.code.target.dot_mixed_signs else i8
        if self._quads == 1:
            return [reinterpret(words, dtype)]
        return [reinterpret(half & LOW_HALVES, dtype) for half in (words, words >> 4)]

    def total(self, sums: Sequence[Value]) -> Value:
        """See the base."""
        high, middle, low = (convert(part, f32) for part in sums)
        return fma(high, 65536.0, fma(middle, 256.0, low))


def peak_of(x: Value) -> Value:
    """The largest number of a vector, without its sign."""
    return reduce_max(absolute(x))
