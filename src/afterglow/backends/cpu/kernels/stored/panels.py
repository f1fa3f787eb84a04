"""A matrix of few bits in panels: [rows / width][depth / 32][bits][width] words of 32 bits.

A chunk, 32 neighbours along the depth, of one row takes as many words as a number has bits. Its
numbers are unsigned there: the least one that the bits can hold is 0. They lie in *quads*, four
neighbours as bytes of a word, so that instructions for sums of four products read them. Bits are
cut into *planes* of 8, 4, 2 or 1 bits: a word of a plane holds a part of several quads, those of
the first in the low bits of its bytes. Scales, minimums, and zero points as unsigned bytes, lie in
panels [rows / width][blocks][width].
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    quotient,
    reinterpret,
)
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.stored import StoredMatrix
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType, f8e4m3fn, f8e5m2, f32, i32, u8, u32

CHUNK = 32
"""Numbers along the depth that are packed together."""
QUAD = 4
"""Numbers that are multiplied at once."""
QUADS = CHUNK // QUAD
"""Quads of a chunk."""
VECTORS = 2
"""Vectors in a line of a panel, at most."""
MANTISSAS = {f8e4m3fn: 3, f8e5m2: 2}
"""Bits of the mantissa of floats of 8 bits."""
F32_MANTISSA, F32_BIAS = 23, 127


@dataclass(frozen=True)
class Plane:
    """Some bits of all numbers: `bits` of them, the lowest at `low`; words begin at `first`."""

    bits: int
    low: int
    first: int

    @property
    def quads(self) -> int:
        """Quads that share a word."""
        return 8 // self.bits

    @property
    def mask(self) -> int:
        """The bits of a number, in each byte of a word."""
        return (((1 << self.bits) - 1) << self.low) * 0x01010101

    def word(self, quad: int) -> int:
        """The word of a chunk that has a part of a quad."""
        return self.first + quad // self.quads

    def shifted(self, word: Value, quad: int) -> Value:
        """The part of a quad, where it belongs in its bytes."""
        left = self.low - quad % self.quads * self.bits
        moved = word << left if left > 0 else word >> -left if left < 0 else word
        return moved if self.bits == 8 else moved & self.mask


def planes_of(bits: int) -> list[Plane]:
    """The planes of numbers, the one of most bits first."""
    planes, low, first = [], 0, 0
    for size in (8, 4, 2, 1):
        if bits & size:
            planes.append(Plane(size, low, first))
            low, first = low + size, first + size
    return planes


@dataclass(frozen=True)
class StoredPanels:
    """A matrix [rows, depth] in panels of `width` rows; vectors have `lanes` of them."""

    stored: Buffer
    scale: Buffer
    zero: Buffer | None
    minimum: Buffer | None
    block_size: int
    bits: int
    width: int
    lanes: int

    @staticmethod
    def of(step: OpInstr, target: Target) -> StoredPanels:
        """The matrix of a step, as every kernel for a target has it: they read the same memory."""
        assert isinstance(step.op, StoredMatrix)
        _, stored, scale = step.required
        lanes = full_lanes(target, f32)
        width = lanes * (VECTORS if stored.type.shape[0] > lanes else 1)
        bits = step.op.bits or stored.type.dtype.bits
        parts = step.optional(3), step.optional(4)
        return StoredPanels(stored, scale, *parts, step.op.block_size, bits, width, lanes)

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
    def chunks(self) -> int:
        """Chunks in a row, of which the last may have numbers that only fill it up."""
        return -(-self.depth // CHUNK)

    @property
    def span(self) -> int:
        """Numbers of a chunk that share a scale: all, or a part that divides chunk and block."""
        return math.gcd(self.block_size, CHUNK) if self.block_size else CHUNK

    @property
    def spans(self) -> int:
        """Spans of a chunk."""
        return CHUNK // self.span

    @property
    def blocks(self) -> int:
        """Scales in a row, up to the end of its last chunk."""
        return -(-self.chunks * CHUNK // self.block_size) if self.block_size else 1

    @property
    def parts(self) -> tuple[int, ...]:
        """The operands that it is packed from."""
        given = (1, self.stored), (2, self.scale), (3, self.zero), (4, self.minimum)
        return tuple(number for number, part in given if part is not None)

    @property
    def middle(self) -> int:
        """What stands for the number 0 where there are no zero points."""
        if self.stored.type.dtype.is_float:
            return 0
        return 1 << (self.bits - 1) if self.stored.type.dtype.is_signed else 0

    @property
    def planes(self) -> list[Plane]:
        """The planes of a number's bits."""
        return planes_of(self.bits)

    def numbers(self, fields: Value) -> Value:
        """What unsigned bytes, as i32, stand for: themselves, or the floats of their bits."""
        dtype = self.stored.type.dtype
        return float_of_byte(fields, dtype) if dtype.is_float else fields

    def quads_of(self, span: int) -> range:
        """The quads of a span of a chunk."""
        size = self.span // QUAD
        return range(span * size, (span + 1) * size)

    def block_at(self, chunk: Index, span: int) -> Index:
        """The block of a span of a chunk."""
        if not self.block_size:
            return 0
        place = chunk * self.spans + span
        per_block = self.block_size // self.span
        if per_block == 1:
            return place
        return quotient(place, per_block) if isinstance(place, Value) else place // per_block

    def pointers(self, p: Phase) -> PanelPointers:
        """Where the panels lie."""
        name, width = f"words{self.bits}x{self.width}", self.width
        words = p.packed(self.stored, name, self._pack_words, u32)
        scale = p.packed(self.scale, f"scales{width}", self._pack_scales)
        zero = minimum = None
        if self.zero is not None:
            zero = p.packed(self.zero, f"zeros{self.bits}x{width}", self._pack_zeros, u8)
        if self.minimum is not None:
            minimum = p.packed(self.minimum, f"minimums{width}", self._pack_scales)
        return PanelPointers(self, words, scale, zero, minimum)

    def _pack_words(self, stored: Array) -> Array:
        rest = self.chunks * CHUNK - self.depth
        if self.stored.type.dtype.is_float:
            numbers = stored.view(np.uint8)
        else:
            numbers = (stored.astype(np.int16) + self.middle).astype(np.uint8)
        padded = np.pad(numbers, ((0, self.count * self.width - self.rows), (0, rest)))
        planes = [self._pack_plane(padded, plane) for plane in self.planes]
        words = np.concatenate(planes, axis=-1).reshape(self.count, self.width, -1)
        return np.ascontiguousarray(words.swapaxes(1, 2))

    def _pack_plane(self, numbers: Array, plane: Plane) -> Array:
        """The words of a plane [rows, chunks, words of the plane]."""
        shape = (len(numbers), self.chunks, plane.bits, plane.quads, QUAD)
        parts = (numbers >> plane.low & ((1 << plane.bits) - 1)).reshape(shape)
        packed = np.zeros((*shape[:3], QUAD), np.uint8)
        for quad in range(plane.quads):
            packed |= parts[:, :, :, quad] << (quad * plane.bits)
        return packed.view(np.uint32).reshape(shape[:3])

    def _pack_scales(self, scales: Array) -> Array:
        apart = scales.reshape(self.rows, -1)
        padded = np.zeros((self.count * self.width, self.blocks), apart.dtype)
        padded[: self.rows, : apart.shape[1]] = apart
        return padded.reshape(self.count, self.width, self.blocks).swapaxes(1, 2)

    def _pack_zeros(self, zeros: Array) -> Array:
        return self._pack_scales((zeros.astype(np.int16) + self.middle).astype(np.uint8))


def float_of_byte(fields: Value, dtype: DType) -> Value:
    """The floats of 8 bits, finite ones, that bytes in words hold, as f32.

    Their bits are moved to where those of f32 are; what is left is the bias of exponents, which a
    product corrects, also that of subnormal numbers.
    """
    mantissa = MANTISSAS[dtype]
    words = reinterpret(fields, u32)
    moved = (words & 0x7F) << F32_MANTISSA - mantissa | (words & 0x80) << 24
    bias = (1 << 7 - mantissa - 1) - 1
    return reinterpret(moved, f32) * 2.0 ** (F32_BIAS - bias)


@dataclass(frozen=True)
class PanelPointers:
    """Where all panels of a matrix lie, or a single one."""

    panels: StoredPanels
    words: Pointer
    scale: Pointer
    zero: Pointer | None
    minimum: Pointer | None

    def panel(self, number: Index) -> PanelPointers:
        """One panel, by its number."""
        own = self.panels
        lines = number * (own.blocks * own.width)
        words = self.words + number * (own.chunks * own.bits * own.width)
        return PanelPointers(own, words, *self._moved(lines))

    def lane(self, number: Index) -> PanelPointers:
        """The same, as a row of a panel has them."""
        return PanelPointers(self.panels, self.words + number, *self._moved(number))

    def _moved(self, offset: Index) -> tuple[Pointer, Pointer | None, Pointer | None]:
        zero = None if self.zero is None else self.zero + offset
        return self.scale + offset, zero, None if self.minimum is None else self.minimum + offset

    def chunk(self, number: Index, lanes: int | None = None) -> ChunkWords:
        """The words of a chunk: of the lines of a panel, or as vectors of so many lanes."""
        own = self.panels
        words = self.words + number * (own.bits * own.width)
        if lanes is None:
            return ChunkWords(own, words, own.vectors, own.lanes, {})
        return ChunkWords(own, words, 1, lanes, {})

    def scales(self, block: Index) -> list[Value]:
        """The scales of a block, as f32."""
        return [convert(vector, f32) for vector in self._line(self.scale, block)]

    def minimums(self, block: Index) -> list[Value] | None:
        """The minimums of a block, as f32, if there are any."""
        if self.minimum is None:
            return None
        return [convert(vector, f32) for vector in self._line(self.minimum, block)]

    def zeros(self, e: Emitter, block: Index) -> list[Value]:
        """The numbers that stand for 0 in a block, as i32."""
        if self.zero is None:
            return [e.constant(i32, self.panels.middle, self.panels.lanes)] * self.panels.vectors
        return [convert(vector, i32) for vector in self._line(self.zero, block)]

    def _line(self, start: Pointer, block: Index) -> list[Value]:
        line, lanes = start + block * self.panels.width, self.panels.lanes
        return [line.load(v * lanes, lanes) for v in range(self.panels.vectors)]


@dataclass(frozen=True)
class ChunkWords:
    """The words of a chunk, each loaded when it is first asked for."""

    panels: StoredPanels
    start: Pointer
    vectors: int
    lanes: int
    loaded: dict[tuple[int, int], Value]

    def quad(self, number: Index) -> list[Value]:
        """A quad, as words of four unsigned bytes: a vector for each one of a line."""
        assert isinstance(number, int)  # how it is taken from words is known when code is made
        return [self._quad(number, v) for v in range(self.vectors)]

    def _quad(self, number: int, v: int) -> Value:
        planes = self.panels.planes
        parts = [plane.shifted(self._word(plane, number, v), number) for plane in planes]
        return functools.reduce(operator.or_, parts)

    def _word(self, plane: Plane, quad: int, v: int) -> Value:
        key = plane.word(quad), v
        if key not in self.loaded:
            place = key[0] * self.panels.width + v * self.lanes
            self.loaded[key] = self.start.load(place, self.lanes)
        return self.loaded[key]


def is_packable(step: OpInstr) -> bool:
    """Whether the matrix of a step is known when the code is made, and quads lie in one block.

    Rows of 16-bit floats are cast to f32 before.
    """
    op = step.op
    assert isinstance(op, StoredMatrix)
    if step.outs[0].type.dtype is not f32:
        return False
    parts = [buffer for buffer in step.ins[1:] if buffer is not None]
    if not all(b.root.region is Region.CONSTANT and b.type.size for b in parts):
        return False
    return op.block_size % QUAD == 0 and _fits(op, parts[0], step.optional(3))


def _fits(op: StoredMatrix, stored: Buffer, zero: Buffer | None) -> bool:
    """Whether all numbers and zero points are as the op promises, if it promises any."""
    if not op.bits or op.bits == stored.type.dtype.bits:
        return True
    low = -1 << (op.bits - 1) if stored.type.dtype.is_signed else 0
    return _is_within(stored, low, low + (1 << op.bits)) and (
        zero is None or _is_within(zero, low, low + 256)
    )


def _is_within(buffer: Buffer, low: int, high: int) -> bool:
    if buffer.root.data is None:
        return False
    numbers = buffer.root.data.astype(np.int16)
    return bool(low <= numbers.min() and numbers.max() < high)
