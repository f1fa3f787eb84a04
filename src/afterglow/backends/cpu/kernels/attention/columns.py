"""The columns of values, cut into panels that a tile multiplies at a time."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, first_lanes
from afterglow.backends.cpu.micro.accumulate import LoadVector
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Panel:
    """`count` panels of one tile from a column on; of the last vector, `valid` lanes exist."""

    tile: RegisterTile
    start: int
    count: int
    valid: int

    def load(self, e: Emitter, stride: int) -> LoadVector:
        """How to read a vector of a line, given the stride of its elements."""
        lanes = self.tile.lanes
        last = self.tile.vectors - 1
        partial = first_lanes(e.index(self.valid), lanes) if self.valid < lanes else None

        def load(line: Pointer, v: int) -> Value:
            mask = partial if v == last else None
            return Row(line, stride).load(v * lanes, lanes, mask).splat(lanes)

        return load


def panels_of(columns: int, tile: RegisterTile) -> list[Panel]:
    """Whole panels, then one that is narrower."""
    whole, rest = divmod(columns, tile.columns)
    panels = [Panel(tile, 0, whole, tile.lanes)] if whole else []
    if rest:
        vectors = -(-rest // tile.lanes)
        narrow = RegisterTile(tile.rows, vectors, tile.lanes)
        valid = rest - (vectors - 1) * tile.lanes
        panels.append(Panel(narrow, whole * tile.columns, 1, valid))
    return panels


def lane_mask(e: Emitter, left: Index, lanes: int) -> Value | None:
    """The mask of the lanes that exist if `left` elements remain; None for all lanes."""
    if isinstance(left, int) and left >= lanes:
        return None
    return first_lanes(e.index(left), lanes)


def load_vectors(line: Pointer, tile: RegisterTile) -> list[Value]:
    """As many neighbouring vectors as a row of the tile has."""
    return [line.load(v * tile.lanes, tile.lanes) for v in range(tile.vectors)]


def store_vectors(line: Pointer, vectors: Sequence[Value]) -> None:
    """Write vectors one after the other."""
    for number, vector in enumerate(vectors):
        line.store(vector, number * vector.lanes)
