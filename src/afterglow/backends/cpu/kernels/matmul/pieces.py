"""Vectors, and parts of them, that cover some columns."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Emitter, Value, first_lanes
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class VectorPiece:
    """A vector of neighbouring columns, of which the first `count` are there."""

    start: int
    lanes: int
    count: int

    def mask(self, e: Emitter) -> Value | None:
        """The condition that holds in the lanes that are there; None if all are."""
        return None if self.count == self.lanes else first_lanes(e.index(self.count), self.lanes)


def pieces_of(columns: int, lanes: int, *, masked: bool) -> list[VectorPiece]:
    """Whole vectors, then a masked one for the rest, or shorter and shorter ones."""
    pieces = [VectorPiece(start, lanes, lanes) for start in range(0, columns - lanes + 1, lanes)]
    start = len(pieces) * lanes
    if masked and start < columns:
        return [*pieces, VectorPiece(start, lanes, columns - start)]
    while start < columns:
        while lanes > columns - start:
            lanes //= 2
        pieces.append(VectorPiece(start, lanes, lanes))
        start += lanes
    return pieces
