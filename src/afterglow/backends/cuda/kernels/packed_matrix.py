"""A stored matrix as kernels read it: words of 32 bits, with eight or four numbers in each.

A row is a whole number of chunks of 32 words. Neighbouring words hold neighbouring numbers: in
their lowest bits the first 32 of a chunk, above them the 32 behind those, and so on. So threads
that load neighbouring words whole multiply them by neighbours of the other factor, and no number
changes threads as it is unpacked. Integers are unsigned there: the least one is 0, and zero points
are moved as far.
"""

from __future__ import annotations

import numpy as np

from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.tl import Pointer, Value
from afterglow.backends.pointwise.vocabulary import convert, reinterpret
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.stored import StoredMatrix
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType, f8e4m3fn, f16, f32, i16, u8, u16, u32

WORDS = 32
"""Words of a chunk."""
WORD_BITS = 32
HALF = 4
"""Bits of a number, if they are not eight."""
INTEGERS = 0x4B000000
"""The bits of 2^23 as f32: numbers of up to 23 bits in their low end are added to it."""
FIRST = 2.0**23
NATIVE_FLOATS = 89
"""The compute capability from which on instructions convert floats of 8 bits."""
SMALL_BIAS = 256.0
"""What e4m3 is divided by if its bits become those of f16: exponents are biased by 8 less."""


@dataclass(frozen=True)
class PackedMatrix:
    """The matrix of a step, with what there is beside it."""

    stored: Buffer
    scale: Buffer
    zero: Buffer | None
    minimum: Buffer | None
    block_size: int
    promised: int
    """Bits in which all numbers fit, if they are fewer than their type has; else 0."""

    @staticmethod
    def of(step: OpInstr) -> PackedMatrix:
        """That of a product or a look-up."""
        assert isinstance(step.op, StoredMatrix)
        stored, scale = step.operand(1), step.operand(2)
        parts = step.optional(3), step.optional(4)
        return PackedMatrix(stored, scale, *parts, step.op.block_size, step.op.bits)

    @staticmethod
    def constants(step: OpInstr) -> list[Buffer]:
        """The operands of a step that kernels read in another form than that of their type."""
        if not isinstance(step.op, StoredMatrix):
            return []
        parts = [step.operand(1), step.optional(3)]
        return [p for p in parts if p is not None and p.root.region is Region.CONSTANT]

    @property
    def is_known(self) -> bool:
        """Whether all of it is there when the program is compiled."""
        parts = [self.stored, self.scale, self.zero, self.minimum]
        return all(p is None or p.root.region is Region.CONSTANT for p in parts)

    @property
    def rows(self) -> int:
        """Rows of the matrix, which are columns of products."""
        return self.stored.type.shape[0]

    @property
    def depth(self) -> int:
        """Numbers of a row."""
        return self.stored.type.shape[1]

    @property
    def dtype(self) -> DType:
        """The type of its numbers."""
        return self.stored.type.dtype

    @property
    def bits(self) -> int:
        """Bits of a number in memory."""
        return HALF if (self.promised or self.dtype.bits) <= HALF else 8

    @property
    def parts(self) -> int:
        """Numbers of a word."""
        return WORD_BITS // self.bits

    @property
    def chunk(self) -> int:
        """Numbers of a chunk."""
        return WORDS * self.parts

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return -(-self.depth // self.chunk)

    @property
    def pitch(self) -> int:
        """Words of a row."""
        return self.chunks * WORDS

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers in memory, without the scales."""
        return self.rows * self.pitch * WORD_BITS // 8

    @property
    def saved(self) -> int:
        """Bytes by which its numbers take less memory than the elements of its type."""
        return self.stored.type.nbytes - self.nbytes

    @property
    def middle(self) -> int:
        """The integer that stands for the number 0 where there are no zero points."""
        if self.dtype.is_float or not self.dtype.is_signed:
            return 0
        return 1 << ((self.promised or self.dtype.bits) - 1)

    @property
    def shares(self) -> bool:
        """Whether neighbours that are in the same bits of words share a scale."""
        return self.block_size % WORDS == 0

    def block_of(self, part: int) -> int:
        """Which of the scales of a chunk a part of its words has: parts of one share a number."""
        size = min(self.block_size, self.chunk)
        is_whole = self.shares and max(self.block_size, self.chunk) % size == 0
        return part * WORDS // size if is_whole else part

    @property
    def order(self) -> str:
        """What tells copies of the matrix apart."""
        return f"chunks of {self.chunk} from {self.middle}"

    def pack(self, data: Array) -> Array:
        """The words [rows, words of a row] of the numbers [rows, depth]."""
        if self.dtype.is_float:
            raw = data.view(np.uint8)
        else:
            raw = (data.astype(np.int16) + self.middle).astype(np.uint8)
        rest = self.chunks * self.chunk - self.depth
        padded = np.pad(raw, ((0, 0), (0, rest)))
        apart = padded.reshape(self.rows, self.chunks, self.parts, WORDS)
        words = np.zeros((self.rows, self.chunks, WORDS), np.uint32)
        for part in range(self.parts):
            words |= apart[:, :, part].astype(np.uint32) << np.uint32(part * self.bits)
        return words.reshape(self.rows, self.pitch)


class PackedReader:
    """What a kernel reads of a packed matrix, and the reals that it makes of that."""

    def __init__(self, kernel: Kernel, matrix: PackedMatrix) -> None:
        self.kernel, self.code, self.matrix = kernel, kernel.code, matrix
        is_native = kernel.target.arch >= NATIVE_FLOATS
        self._by_bits = matrix.dtype is f8e4m3fn and not is_native
        self.factor = SMALL_BIAS if self._by_bits else 1.0
        """What scales are multiplied by, as numbers are divided by it."""

    def words(self) -> Pointer:
        """All words, row by row."""
        return self.kernel.packed(self.matrix.stored, self.matrix.order, self.matrix.pack, u32)

    def number(self, words: Value, part: int, zero: Value | None) -> Value:
        """The numbers of a part of words, less their zero points: exact, f16 or f32."""
        bits = self.matrix.bits
        field = words >> part * bits if part else words
        if part < self.matrix.parts - 1:
            field = field & (1 << bits) - 1
        return self._number(field, zero)

    def number_at(self, words: Value, part: Value, zero: Value | None) -> Value:
        """The same, of a part that is known when the kernel runs."""
        bits = self.matrix.bits
        shift = convert(self.code.number(part * bits), u32)
        return self._number((words >> shift) & (1 << bits) - 1, zero)

    def _number(self, field: Value, zero: Value | None) -> Value:
        """The number of some bits, less its zero point."""
        if self.matrix.dtype.is_float:
            return self._float(field)
        above = reinterpret(field | INTEGERS, f32)
        return above - (FIRST + self.matrix.middle if zero is None else zero)

    def _float(self, field: Value) -> Value:
        """Floats of 8 bits as f16, which has all of their numbers."""
        if self._by_bits:
            bits = (field & 0x7F) << 7 | (field & 0x80) << 8
            return reinterpret(convert(bits, u16), f16)
        raw = convert(field, u8)
        name = "float8e4nv" if self.matrix.dtype is f8e4m3fn else "float8e5"
        return raw.derive(f"{raw.text}.to(tl.{name}, bitcast=True).to(tl.float16)", f16)

    def scale(self, row: Value, place: Value) -> Value:
        """The scales at places of a row, f32."""
        found = self._of_block(self.matrix.scale, row, place)
        return found * self.factor if self.factor != 1 else found

    def zero(self, row: Value, place: Value) -> Value | None:
        """What is subtracted from integers at places of a row, f32; None: what all have."""
        zero, matrix = self.matrix.zero, self.matrix
        if zero is None:
            return None
        moved, dtype = matrix.middle, i16 if matrix.promised else u8

        def pack(data: Array) -> Array:
            return (data.astype(np.int16) + moved).astype(dtype.numpy)

        pointer = self.kernel.packed(zero, f"zeros from {moved}", pack, dtype)
        return convert(self._of_block(zero, row, place, pointer), f32) + FIRST

    def minimum(self, row: Value, place: Value) -> Value | None:
        """What is added to reals at places of a row, f32, if anything is."""
        if self.matrix.minimum is None:
            return None
        return self._of_block(self.matrix.minimum, row, place)

    def _of_block(
        self, part: Buffer, row: Value, place: Value, source: Pointer | None = None
    ) -> Value:
        """What a part of the matrix has for a row, or for a block of it."""
        size, pointer = self.matrix.block_size, source or self.kernel.numbers(part)
        blocks = part.type.shape[1] if size else 1
        strides = part.strides if source is None else (blocks, 1)
        number = row * strides[0]
        return pointer.load(number + place.combined("/", size) * strides[1] if size else number)

    @property
    def is_by_row(self) -> bool:
        """Whether a row has one scale, and nothing is added to its reals."""
        return not self.matrix.block_size and self.matrix.minimum is None


class BlockReader:
    """The reals of a block of chunks; what parts of it share is read once."""

    def __init__(self, reader: PackedReader, row: Value, chunk: Value, word: Value) -> None:
        self.reader, self.row, self.chunk, self.word = reader, row, chunk, word
        self._known: dict[int, tuple[Value | None, Value | None, Value | None]] = {}

    def reals(self, words: Value, part: int) -> Value:
        """What a part of words stands for, f16 or f32; less the scales of whole rows."""
        scale, zero, minimum = self._of_part(part)
        reals = self.reader.number(words, part, zero)
        if scale is not None:
            reals = convert(reals, f32) * scale
        return reals if minimum is None else convert(reals, f32) + minimum

    def _of_part(self, part: int) -> tuple[Value | None, Value | None, Value | None]:
        """Scales, zero points and minimums."""
        matrix, reader = self.reader.matrix, self.reader
        block = matrix.block_of(part) if matrix.block_size else 0
        if block not in self._known:
            place = self.chunk * matrix.chunk + part * WORDS
            if matrix.block_size and not matrix.shares:
                place = place + self.word
            place = reader.code.named(place)
            with reader.code.when(place < matrix.depth):
                scale = None if reader.is_by_row else reader.scale(self.row, place)
                zero, minimum = reader.zero(self.row, place), reader.minimum(self.row, place)
            self._known[block] = scale, zero, minimum
        return self._known[block]
