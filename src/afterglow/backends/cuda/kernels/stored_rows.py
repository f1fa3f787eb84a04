"""Products of a few rows with a stored matrix: as fast as its bytes come from memory."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cuda.kernels.few_rows import Rows
from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.packed_matrix import (
    WORDS,
    BlockReader,
    PackedMatrix,
    PackedReader,
)
from afterglow.backends.cuda.kernels.strips import Strip
from afterglow.backends.cuda.kernels.tile_blocks import Numbers, load
from afterglow.backends.cuda.tl import Value
from afterglow.backends.pointwise.vocabulary import convert, fma
from afterglow.types.dtype import f32


class StoredRows(Rows):
    """What a program does: blocks are of columns, chunks of their words, and words."""

    def __init__(self, kernel: Kernel, strip: Strip) -> None:
        super().__init__(kernel, strip)
        self.matrix = PackedMatrix.of(kernel.step)
        self.reader = PackedReader(kernel, self.matrix)
        self.chunks = strip.terms // self.matrix.chunk
        self.shape = (strip.columns, self.chunks, WORDS)

    def begin_right(self, columns: Numbers, fixed: Sequence[Value]) -> None:
        """Columns behind the last one read that again, and are not written."""
        code = self.code
        near = columns.own if columns.exact else code.smaller(columns.own, columns.extent - 1)
        self.column, self.word = code.along(near, 0, 3), code.along(code.range(WORDS), 2, 3)
        self.right_base = code.named(self.column * self.matrix.pitch + self.word)

    def add(self, sums: Sequence[Value]) -> None:
        """All words of some iterations are asked for before the first is unpacked."""
        code = self.code
        own = code.along(code.range(self.chunks), 1, 3)
        with self.iterations(self.chunks) as starts:
            chunks = [code.named(start + own) for start in starts]
            words = [self._words(chunk) for chunk in chunks]
            for chunk, some in zip(chunks, words, strict=True):
                self._add_chunks(sums, chunk, some)

    def _words(self, chunk: Value) -> Value:
        whole = self.steps * self.strip.splits * self.chunks
        masks = [] if whole <= self.matrix.chunks else [chunk < self.matrix.chunks]
        return load(self.reader.words(), self.right_base + chunk * WORDS, masks)

    def _add_chunks(self, sums: Sequence[Value], chunk: Value, words: Value) -> None:
        """Add the products of a block of chunks: part by part of their words."""
        code, blocks = self.code, BlockReader(self.reader, self.column, chunk, self.word)
        # a term for each column, though all have the same: threads then have those they need
        everywhere = code.zeros((self.strip.columns, 1, 1))
        for part in range(self.matrix.parts):
            reals = convert(blocks.reals(words, part), f32)
            first = chunk * self.matrix.chunk + part * WORDS
            place = code.named(first + self.word + everywhere)
            for row, total in enumerate(sums):
                x = self._terms_of(row, place)
                code.assign(total, fma(x, reals, total))

    def _terms_of(self, row: int, place: Value) -> Value:
        whole = self.steps * self.strip.splits * self.strip.terms
        masks = [] if whole == self.matrix.depth else [place < self.matrix.depth]
        lhs = self.kernel.numbers(self.layout.lhs)
        return load(lhs, self.left_bases[row] + place * self.layout.left[1], masks)

    def finish(self, totals: Sequence[Value], columns: Numbers) -> Sequence[Value]:
        """Sums times the scales of their columns, if there are no others."""
        if not self.reader.is_by_row:
            return totals
        scale = self.reader.scale(columns.own, self.code.index(0))
        return [total * scale for total in totals]
