"""How two neighbouring bf16 of a row are multiplied by a line of a panel."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.kernels.quantized.dots import Dots, quad_of
from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    Value,
    add_dot_bf16,
    interleave,
    reinterpret,
)
from afterglow.backends.cpu.micro.cost import BF16_FLOP
from afterglow.types import Array
from afterglow.types.dtype import bf16, f32

PAIR = 2
"""Elements that are multiplied at once."""


class Bf16Dots(Dots):
    """One instruction adds two products: the two weights of a column lie next to each other."""

    name = "bf16_pairs"
    weight = bf16
    sums = f32
    together = PAIR
    cost = BF16_FLOP
    wide = bf16
    spare = 1

    def pack(self, quads: Array) -> Array:
        """See the class."""
        return quads

    def packed(self, rows: Sequence[Value]) -> list[Value]:
        """See the class."""
        return [interleave(*rows)]

    def add(
        self, sums: Sequence[Value], rows: Sequence[Pointer], line: Pointer, vectors: int
    ) -> list[Value]:
        """See the class."""
        lanes = sums[0].lanes
        weights = [line.load(v * PAIR * lanes, PAIR * lanes) for v in range(vectors)]
        added = []
        for number, row in enumerate(rows):
            x = reinterpret(quad_of(row, lanes), bf16)
            for v, weight in enumerate(weights):
                added.append(add_dot_bf16(sums[number * vectors + v], x, weight))
        return added
