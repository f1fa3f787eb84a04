"""The plan of a convolution: tiles of pixels times panels of channels, and units of both."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from afterglow.backends.cpu.kernels.conv.geometry import Geometry
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value
from afterglow.backends.cpu.micro.cost import (
    CACHE_COLLISION,
    CONV_ADDRESS,
    CONV_NO_FREE_REGISTER,
    CONV_STEP,
    CONV_TILE,
    CONV_UNIT,
    FAR_RESULT_VECTOR,
    RESULT_VECTOR,
    TILE_CODE,
)
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.micro.tile import ENOUGH_SUMS, TileRun, most_rows, split_rows
from afterglow.backends.cpu.target import Target
from afterglow.types.dtype import DType

MOST_VECTORS = 6
"""Vectors side by side in a panel."""
LEAST_ROWS = 2
"""Rows of a tile, below which panels are read too often."""
MOST_ROWS = 16
"""Rows of a tile: more would make the code long, and nothing faster."""
MOST_POINTERS = 6
"""Rows of a tile that each have an address of their own."""
MOST_BLOCKS = 64
"""Blocks that tiles are cut into, for threads to share."""
CACHE_ASSOCIATIVITY = 8
"""Lines of the first cache that may share their low address bits."""
FEW_TILES = 32
"""So few tiles do not hide how long a panel takes to come from memory."""


@dataclass(frozen=True)
class PixelTiles:
    """Pixels cut into tiles.

    The pixels are lines: `outer` says where they begin. A line has `extent` places `stride` apart,
    with pixels at the offsets `within` each. Tiles are runs of places. Where places do not lie
    evenly, `outer` says instead where each place lies, and there is one line.
    """

    outer: Axes
    extent: int
    stride: int | None
    within: tuple[int, ...]
    runs: tuple[TileRun, ...]

    @property
    def lines(self) -> int:
        """The number of lines."""
        return 1 if self.stride is None else math.prod(self.outer.extents)

    @property
    def in_line(self) -> int:
        """Tiles in a line."""
        return self.runs[-1].last

    @property
    def count(self) -> int:
        """The number of tiles."""
        return self.lines * self.in_line

    @property
    def pixels_in_line(self) -> int:
        """Pixels in a line."""
        return self.extent * len(self.within)

    def rows(self, x: Pointer, run: TileRun, line: Index, begin: Value) -> list[Pointer]:
        """Where the windows of a tile's pixels begin, given its line and first place."""
        if self.stride is None:
            return [x + self.outer.offset(begin + place) for place in range(run.rows)]
        start = x + self.outer.offset(line) + begin * self.stride
        return [start + place * self.stride + w for place in range(run.rows) for w in self.within]


@dataclass(frozen=True)
class ConvPlan:
    """How a convolution is computed. A unit is a panel of a group, on a block of tiles.

    Neighbouring units share their panel, or their block if `by_block`. Panels that few tiles read
    are fetched ahead.
    """

    geometry: Geometry
    tiles: PixelTiles
    panels: Panels
    blocks: int
    by_block: bool

    @staticmethod
    def of(geometry: Geometry, target: Target, dtype: DType) -> ConvPlan:
        """The division with the least estimated cost; units are large and reuse caches."""
        tiles, panels = _choose_tiles(geometry, target, dtype)
        wanted = math.ceil(geometry.work / CONV_UNIT / (geometry.groups * panels.count))
        rows_bytes = dtype.itemsize * geometry.rows * geometry.inner * geometry.groups
        weight_bytes = dtype.itemsize * geometry.depth * geometry.results * geometry.groups
        fast = target.caches.l2 // 2
        by_block = rows_bytes > fast >= weight_bytes > 0
        if by_block:
            wanted = max(wanted, rows_bytes * 2 // fast)
        blocks = max(1, min(wanted, MOST_BLOCKS, tiles.count))
        return ConvPlan(geometry, tiles, panels, blocks, by_block)

    @property
    def units(self) -> int:
        """The number of units."""
        return self.geometry.groups * self.panels.count * self.blocks

    @property
    def fetches(self) -> bool:
        """Whether panels are fetched ahead."""
        return self.tiles.count <= FEW_TILES


def _choose_tiles(geometry: Geometry, target: Target, dtype: DType) -> tuple[PixelTiles, Panels]:
    """The tiles and panels with the least estimated cost."""
    lanes = max(1, target.vector_bits // dtype.bits)
    choices = []
    for vectors in range(1, MOST_VECTORS + 1):
        panels = Panels.narrowed(geometry.results, lanes, vectors)
        rows = min(MOST_ROWS, most_rows(target, vectors, dtype))
        fits = panels.whole or len(panels.last) == vectors
        if vectors == 1 or (fits and rows >= LEAST_ROWS):
            choices += [(tiles, panels) for tiles in _tilings(geometry.pixels, rows)]
    return min(choices, key=lambda choice: _cost(choice[0], choice[1], geometry, lanes, target))


def _tilings(pixels: Axes, rows: int) -> Iterator[PixelTiles]:
    """Tiles along the last axis; of whole lines, where those are short; of any pixels in a row."""
    *before, last = pixels.extents or (1,)
    *jumps, stride = pixels.strides or (0,)
    outer = Axes(tuple(before), tuple(jumps))
    yield PixelTiles(outer, last, stride, (0,), tuple(split_rows(last, rows)))
    if not before:
        return
    if 2 * last <= rows:
        outer = Axes(outer.extents[:-1], outer.strides[:-1])
        within = tuple(place * stride for place in range(last))
        runs = tuple(split_rows(before[-1], rows // last))
        yield PixelTiles(outer, before[-1], jumps[-1], within, runs)
    count = math.prod(pixels.extents)
    runs = tuple(split_rows(count, min(rows, MOST_POINTERS)))
    yield PixelTiles(pixels, count, None, (0,), runs)


def _cost(
    tiles: PixelTiles, panels: Panels, geometry: Geometry, lanes: int, target: Target
) -> float:
    """Multiplications of whole vectors that take as long as the convolution.

    Results that go to memory are best written a whole row after the other, at no extra cost.
    """
    total, copies = 0.0, 0
    result_bytes = 4 * geometry.rows * geometry.results * geometry.groups
    in_pieces = panels.count * geometry.groups > 1 and result_bytes > target.caches.l2
    line_cost = FAR_RESULT_VECTOR if in_pieces else 0
    for _, count, widths in panels.kinds:
        vectors = sum(widths) / lanes
        for run in tiles.runs:
            rows = run.rows * len(tiles.within)
            step = CONV_STEP + max(rows * vectors, ENOUGH_SUMS, rows + len(widths))
            if _collide(tiles, rows, target):
                step *= CACHE_COLLISION
            if (rows + 1) * len(widths) + 1 >= target.vector_registers:
                step *= CONV_NO_FREE_REGISTER
            tile = (
                geometry.depth * step + CONV_TILE + (RESULT_VECTOR + line_cost) * rows * len(widths)
            )
            if tiles.stride is None:
                tile += rows * CONV_ADDRESS
            total += count * (run.last - run.first) * tiles.lines * tile
            copies += 1
    return total * (1 + TILE_CODE * copies)


def _collide(tiles: PixelTiles, rows: int, target: Target) -> bool:
    """Whether rows push each other out of the first cache, because of a power of two in strides."""
    way = target.caches.l1 // CACHE_ASSOCIATIVITY // 4
    if not way or not tiles.stride:
        return False
    places = way // math.gcd(tiles.stride, way)
    return math.ceil(rows / places) > CACHE_ASSOCIATIVITY - 1
