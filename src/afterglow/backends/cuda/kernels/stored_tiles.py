"""Products of many rows with a stored matrix: blocks of it become floats, which are multiplied."""

from __future__ import annotations

from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.matrices import LARGE, Matrices
from afterglow.backends.cuda.kernels.packed_matrix import (
    WORDS,
    BlockReader,
    PackedMatrix,
    PackedReader,
)
from afterglow.backends.cuda.kernels.products import Block
from afterglow.backends.cuda.kernels.tile import Tile
from afterglow.backends.cuda.kernels.tile_blocks import load, multiply_add
from afterglow.backends.cuda.tl import Value
from afterglow.backends.pointwise.vocabulary import convert


class StoredTiles(Matrices):
    """Floats of a matrix, and those that a stored one stands for.

    A block has some chunks of each column: words [chunks, 32, columns], which are unpacked part by
    part, and multiplied by the terms of the left matrix that belong to these.
    """

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        super().__init__(kernel, tile)
        self.matrix = PackedMatrix.of(kernel.step)
        self.reader = PackedReader(kernel, self.matrix)
        self.is_large = self.matrix.nbytes >= LARGE
        self.chunks = tile.terms // self.matrix.chunk

    def begin(self, block: Block) -> None:
        """Where the first blocks of both are."""
        code, chunk = self.code, self.matrix.chunk
        self._begin_left(block)
        number = code.range(self.chunks * WORDS)
        terms = number.combined("/", WORDS) * chunk + number.combined("%", WORDS)
        self.own_terms = code.along(code.named(terms if self.chunks > 1 else number), 1, 2)
        near = block.columns.own
        if not block.columns.exact:
            near = code.smaller(near, block.columns.extent - 1)
        self.columns = code.along(near, 2, 3)
        self.chunk = code.along(code.range(self.chunks), 0, 3)
        self.word = code.along(code.range(WORDS), 1, 3)
        self.right_base = code.named(self.columns * self.matrix.pitch + self.word)

    def multiply(self, step: Value, total: Value) -> None:
        """Add the product of two blocks, part by part."""
        chunk = self.code.named(step * self.chunks + self.chunk)
        blocks = BlockReader(self.reader, self.columns, chunk, self.word)
        words, flat = self._words(chunk), (self.chunks * WORDS, self.tile.columns)
        for part in range(self.matrix.parts):
            left, right = self._left(step, part), blocks.reals(words, part)
            right = convert(right, left.dtype)
            right = right.derive(f"tl.reshape({right.text}, {flat})", shape=flat)
            multiply_add(self.code, left, right, total, self.tile.precision)

    def _left(self, step: Value, part: int) -> Value:
        """The terms of a part of words."""
        terms = self.code.named(step * self.tile.terms + part * WORDS + self.own_terms)
        exact = self.extents.terms % self.tile.terms == 0
        masks = [*self.left_masks, *([] if exact else [terms < self.extents.terms])]
        place = self.left_base + terms * self.layout.left[1]
        return load(self.kernel.pointer(self.layout.lhs), place, masks)

    def _words(self, chunk: Value) -> Value:
        whole = self.matrix.chunks % self.chunks == 0
        masks = [] if whole else [chunk < self.matrix.chunks]
        return load(self.reader.words(), self.right_base + chunk * WORDS, masks)

    def finish(self, total: Value, block: Block) -> Value:
        """Sums times the scales of their columns, if there are no others."""
        if not self.reader.is_by_row:
            return total
        return total * self.reader.scale(block.columns.along(1), self.code.index(0))
