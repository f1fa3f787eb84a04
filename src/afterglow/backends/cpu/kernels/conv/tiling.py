"""How a convolution is cut: tiles of pixels times panels of channels, and units of both."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from afterglow.backends.cpu.kernels.conv.geometry import Geometry
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.micro.tile import ENOUGH_SUMS, Run, most_rows, split_rows
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
STEP_COST = 1
"""What a step along the depth costs besides its multiplications, in multiplications of vectors."""
TILE_COST = 24
"""What beginning and ending a tile costs, in the same measure."""
POINTER_COST = 8
"""What finding an address costs, in the same measure."""
LINE_COST = 16
"""What writing a line of memory beyond the caches costs, in the same measure."""
COPY_COST = 0.01
"""How much longer a whole convolution may take if that saves a copy of the code of a tile."""
TIGHT = 1.1
"""How much longer steps take that leave no register free: some values go to memory and back."""
WORK_OF_UNIT = 5e5
"""FLOPs that a unit has at least, if there are so many."""
MOST_BLOCKS = 64
"""Blocks that tiles are cut into, for threads to share."""
CACHE_WAYS = 8
"""Lines of the first cache that may share their low address bits."""
FEW_TILES = 32
"""So few tiles do not hide how long a panel takes to come from memory."""


@dataclass(frozen=True)
class Tiles:
    """Pixels cut into tiles.

    The pixels are lines: `outer` says where they begin. A line has `extent` places `stride` apart,
    with pixels at the offsets `within` each. Tiles are runs of places. Where places do not lie
    evenly, `outer` says instead where each place lies, and there is one line.
    """

    outer: Axes
    extent: int
    stride: int | None
    within: tuple[int, ...]
    runs: tuple[Run, ...]

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

    def rows(self, x: Pointer, run: Run, line: Index, begin: Value) -> list[Pointer]:
        """Where the windows of a tile's pixels begin, given its line and first place."""
        if self.stride is None:
            return [x + self.outer.offset(begin + place) for place in range(run.rows)]
        start = x + self.outer.offset(line) + begin * self.stride
        return [start + place * self.stride + w for place in range(run.rows) for w in self.within]


@dataclass(frozen=True)
class Plan:
    """How a convolution is computed. A unit is a panel of a group, on a block of tiles.

    Neighbouring units share their panel, or their block if `by_block`. Panels that few tiles read
    are fetched ahead.
    """

    geometry: Geometry
    tiles: Tiles
    panels: Panels
    blocks: int
    by_block: bool

    @staticmethod
    def of(geometry: Geometry, target: Target, dtype: DType) -> Plan:
        """The way to cut that is cheapest by an estimate; units are large and reuse caches."""
        tiles, panels = _choose_tiles(geometry, target, dtype)
        wanted = math.ceil(geometry.work / WORK_OF_UNIT / (geometry.groups * panels.count))
        rows_bytes = dtype.itemsize * geometry.rows * geometry.inner * geometry.groups
        weight_bytes = dtype.itemsize * geometry.depth * geometry.results * geometry.groups
        fast = target.caches.l2 // 2
        by_block = rows_bytes > fast >= weight_bytes > 0
        if by_block:
            wanted = max(wanted, rows_bytes * 2 // fast)
        blocks = max(1, min(wanted, MOST_BLOCKS, tiles.count))
        return Plan(geometry, tiles, panels, blocks, by_block)

    @property
    def units(self) -> int:
        """The number of units."""
        return self.geometry.groups * self.panels.count * self.blocks

    @property
    def fetches(self) -> bool:
        """Whether panels are fetched ahead."""
        return self.tiles.count <= FEW_TILES


def _choose_tiles(geometry: Geometry, target: Target, dtype: DType) -> tuple[Tiles, Panels]:
    """The cheapest way to cut, by an estimate of the multiplications that it amounts to."""
    lanes = max(1, target.vector_bits // dtype.bits)
    ways = []
    for vectors in range(1, MOST_VECTORS + 1):
        panels = Panels.narrowed(geometry.results, lanes, vectors)
        rows = min(MOST_ROWS, most_rows(target, vectors, dtype))
        fits = panels.whole or len(panels.last) == vectors
        if vectors == 1 or (fits and rows >= LEAST_ROWS):
            ways += [(tiles, panels) for tiles in _ways_to_tile(geometry.pixels, rows)]
    return min(ways, key=lambda way: _cost(way[0], way[1], geometry, lanes, target))


def _ways_to_tile(pixels: Axes, rows: int) -> Iterator[Tiles]:
    """Tiles along the last axis; of whole lines, where those are short; of any pixels in a row."""
    *before, last = pixels.extents or (1,)
    *jumps, stride = pixels.strides or (0,)
    outer = Axes(tuple(before), tuple(jumps))
    yield Tiles(outer, last, stride, (0,), tuple(split_rows(last, rows)))
    if not before:
        return
    if 2 * last <= rows:
        outer = Axes(outer.extents[:-1], outer.strides[:-1])
        within = tuple(place * stride for place in range(last))
        runs = tuple(split_rows(before[-1], rows // last))
        yield Tiles(outer, before[-1], jumps[-1], within, runs)
    count = math.prod(pixels.extents)
    runs = tuple(split_rows(count, min(rows, MOST_POINTERS)))
    yield Tiles(pixels, count, None, (0,), runs)


def _cost(tiles: Tiles, panels: Panels, geometry: Geometry, lanes: int, target: Target) -> float:
    """Multiplications of whole vectors that take as long as the convolution.

    Results that go to memory are best written a whole row after the other, at no extra cost.
    """
    total, copies = 0.0, 0
    result_bytes = 4 * geometry.rows * geometry.results * geometry.groups
    in_pieces = panels.count * geometry.groups > 1 and result_bytes > target.caches.l2
    line_cost = LINE_COST if in_pieces else 0
    for _, count, widths in panels.kinds:
        vectors = sum(widths) / lanes
        for run in tiles.runs:
            rows = run.rows * len(tiles.within)
            step = STEP_COST + max(rows * vectors, ENOUGH_SUMS, rows + len(widths))
            if _collide(tiles, rows, target):
                step *= 1.5
            if (rows + 1) * len(widths) + 1 >= target.vector_registers:
                step *= TIGHT
            tile = geometry.depth * step + TILE_COST + (2 + line_cost) * rows * len(widths)
            if tiles.stride is None:
                tile += rows * POINTER_COST
            total += count * (run.last - run.first) * tiles.lines * tile
            copies += 1
    return total * (1 + COPY_COST * copies)


def _collide(tiles: Tiles, rows: int, target: Target) -> bool:
    """Whether rows push each other out of the first cache, because of a power of two in strides."""
    way = target.caches.l1 // CACHE_WAYS // 4
    if not way or not tiles.stride:
        return False
    places = way // math.gcd(tiles.stride, way)
    return math.ceil(rows / places) > CACHE_WAYS - 1
