"""A matrix of few bits in panels: [rows / width][depth / numbers in a word][width] words.

A word of 32 bits holds neighbours along the depth of one row, those of the low bits first, as
unsigned numbers: the least integer of the type is 0. So a mask and a conversion make a vector of
floats, times a power of two that only depends on the place in the word. Scales, and zero points as
unsigned bytes, lie in panels [rows / width][blocks][width].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, convert, reinterpret
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.stored import Activations, StoredMatrix
from afterglow.types import Array
from afterglow.types.dtype import f32, i32, u8, u32

INT8 = Activations.INT8
WORD = 32
"""Bits of a word."""


@dataclass(frozen=True)
class StoredPanels:
    """A matrix [rows, depth] in panels of `width` rows; vectors have `lanes` of them."""

    stored: Buffer
    scale: Buffer
    zero: Buffer | None
    block_size: int
    width: int
    lanes: int

    @staticmethod
    def of(step: OpInstr, width: int, lanes: int) -> StoredPanels:
        """The matrix of a step."""
        assert isinstance(step.op, StoredMatrix)
        _, stored, scale = step.required
        return StoredPanels(stored, scale, step.optional(3), step.op.block_size, width, lanes)

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return self.stored.type.shape[0]

    @property
    def depth(self) -> int:
        """Numbers in a row."""
        return self.stored.type.shape[1]

    @property
    def count(self) -> int:
        """The number of panels."""
        return -(-self.rows // self.width)

    @property
    def vectors(self) -> int:
        """Vectors in a line of a panel."""
        return self.width // self.lanes

    @property
    def bits(self) -> int:
        """Bits of a number."""
        return self.stored.type.dtype.bits

    @property
    def per_word(self) -> int:
        """Numbers in a word."""
        return WORD // self.bits

    @property
    def words(self) -> int:
        """Words in a row."""
        return -(-self.depth // self.per_word)

    @property
    def blocks(self) -> int:
        """Scales in a row."""
        return -(-self.depth // self.block_size) if self.block_size else 1

    @property
    def parts(self) -> tuple[int, ...]:
        """The operands that it is packed from."""
        return (1, 2) if self.zero is None else (1, 2, 3)

    @property
    def middle(self) -> int:
        """What stands for the number 0."""
        return -self.stored.type.dtype.limits[0]

    @property
    def factors(self) -> list[float]:
        """What the numbers at each place of a word are to be multiplied by, as `field` has them."""
        return [0.5 ** (self.bits * place) for place in range(self.per_word - 1)] + [1.0]

    def field(self, words: Value, place: int) -> Value:
        """The numbers at a place of some words as f32, divided by their factor."""
        shift = self.bits * place
        if place == self.per_word - 1:
            return convert(reinterpret(words >> shift, i32), f32)
        return convert(reinterpret(words & (((1 << self.bits) - 1) << shift), i32), f32)

    def number(self, words: Value, shift: Index | Value) -> Value:
        """The numbers at a place of some words, as integers."""
        return reinterpret((words >> shift) & ((1 << self.bits) - 1), i32)

    def pointers(self, p: Phase) -> PanelPointers:
        """Where the panels lie."""
        words = p.packed(self.stored, f"words{self.width}", self._pack_words, u32)
        scale = p.packed(self.scale, f"scales{self.width}", self._pack_scales)
        zero = None
        if self.zero is not None:
            zero = p.packed(self.zero, f"zeros{self.width}", self._pack_zeros, u8)
        return PanelPointers(self, words, scale, zero)

    def _pack_words(self, stored: Array) -> Array:
        numbers = self._unsigned(stored)
        rest = self.words * self.per_word - self.depth
        padded = np.pad(numbers, ((0, self.count * self.width - self.rows), (0, rest)))
        if self.bits == 4:
            padded = padded[:, 0::2] | padded[:, 1::2] << 4
        words = padded.view(np.uint32).reshape(self.count, self.width, self.words)
        return np.ascontiguousarray(words.swapaxes(1, 2))

    def _pack_scales(self, scales: Array) -> Array:
        apart = scales.reshape(self.rows, self.blocks)
        padded = np.zeros((self.count * self.width, self.blocks), apart.dtype)
        padded[: self.rows] = apart
        return padded.reshape(self.count, self.width, self.blocks).swapaxes(1, 2)

    def _pack_zeros(self, zeros: Array) -> Array:
        return self._pack_scales(self._unsigned(zeros))

    def _unsigned(self, numbers: Array) -> Array:
        """Numbers less the least of their type: that is to change the sign bit, if there is one."""
        mask = np.uint8((1 << self.bits) - 1)
        return np.asarray((numbers.view(np.uint8) ^ np.uint8(self.middle)) & mask)


@dataclass(frozen=True)
class PanelPointers:
    """Where all panels of a matrix lie, or a single one."""

    panels: StoredPanels
    words: Pointer
    scale: Pointer
    zero: Pointer | None

    def panel(self, number: Index) -> PanelPointers:
        """One panel, by its number."""
        own = self.panels
        lines = number * (own.blocks * own.width)
        zero = None if self.zero is None else self.zero + lines
        words = self.words + number * (own.words * own.width)
        return PanelPointers(own, words, self.scale + lines, zero)

    def word_vectors(self, word: Index) -> list[Value]:
        """The vectors of a line of words."""
        line = self.words + word * self.panels.width
        lanes = self.panels.lanes
        return [line.load(v * lanes, lanes) for v in range(self.panels.vectors)]

    def scales(self, block: Index) -> list[Value]:
        """The scales of a block, as f32."""
        return [convert(vector, f32) for vector in self._line(self.scale, block)]

    def zeros(self, e: Emitter, block: Index) -> list[Value]:
        """The numbers that stand for 0 in a block, as i32."""
        if self.zero is None:
            return [e.constant(i32, self.panels.middle, self.panels.lanes)] * self.panels.vectors
        return [convert(vector, i32) for vector in self._line(self.zero, block)]

    def _line(self, start: Pointer, block: Index) -> list[Value]:
        line, lanes = start + block * self.panels.width, self.panels.lanes
        return [line.load(v * lanes, lanes) for v in range(self.panels.vectors)]


def is_packable(step: OpInstr) -> bool:
    """Whether the matrix of a step is known when the code is made, and words lie in one block."""
    op = step.op
    assert isinstance(op, StoredMatrix)
    parts = [buffer for buffer in step.ins[1:] if buffer is not None]
    if op.bits or step.optional(4) is not None or getattr(op, "activations", None) is INT8:
        return False
    known = all(b.root.region is Region.CONSTANT and b.type.size for b in parts)
    per_word = WORD // step.required[1].type.dtype.bits
    return known and op.block_size % per_word == 0
