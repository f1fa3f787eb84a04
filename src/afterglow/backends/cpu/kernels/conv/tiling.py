"""The plan of a convolution: tiles of pixels times panels of channels, and units of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import truediv

from afterglow.backends.cpu.kernels.conv.geometry import Geometry
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, smaller
from afterglow.backends.cpu.micro.accumulate import FEW_TILES
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
from afterglow.backends.cpu.micro.unit_order import UnitOrder
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType
from afterglow.types.extent import (
    bind_extent,
    dims_of,
    is_ranged,
    larger_extent,
    largest,
    smaller_extent,
    smallest,
)

MOST_VECTORS = 6
"""Vectors side by side in a panel."""
LEAST_ROWS = 2
"""Rows of a tile, below which panels are read too often."""
MOST_ROWS = 16
"""Rows of a tile: more would make the code long, and nothing faster."""
MOST_POINTERS = 6
"""Rows of a tile that each have an address of their own."""
FEW_ROWS = 64
"""Ranged pixels up to which tiles are to fit numbers between the ends of their range as well."""
MOST_BLOCKS = 64
"""Blocks that tiles are cut into, for threads to share."""
CACHE_ASSOCIATIVITY = 8
"""Lines of the first cache that may share their low address bits."""


Corner = Callable[[int], int]
"""What an extent is at one end of its range, or between."""


@dataclass(frozen=True)
class PixelTiles:
    """Pixels cut into tiles.

    The pixels are lines: `outer` says where they begin. A line has `extent` places `stride` apart,
    with pixels at the offsets `within` each. Tiles are runs of places. Where places do not lie
    evenly, `outer` says instead where each place lies, and there is one line.

    A line of a ranged extent has tiles of one height, of which the last may not be full. That one
    is done in pieces of `tail` places.
    """

    outer: Axes
    extent: int
    stride: int | None
    within: tuple[int, ...]
    runs: tuple[TileRun, ...]
    tail: int = 0

    @staticmethod
    def along(outer: Axes, extent: int, stride: int | None, rows: int) -> PixelTiles:
        """Tiles of at most some rows along lines."""
        if not is_ranged(extent):
            return PixelTiles(outer, extent, stride, (0,), tuple(split_rows(extent, rows)))
        rows = min(rows, largest(extent))  # so that some line has a whole tile
        run = TileRun(rows, 0, extent // rows, 0)
        return PixelTiles(outer, extent, stride, (0,), (run,), -(-rows // 2))

    @property
    def lines(self) -> int:
        """The number of lines."""
        return 1 if self.stride is None else math.prod(self.outer.extents)

    @property
    def in_line(self) -> int:
        """Tiles in a line."""
        return -(-self.extent // self.runs[0].rows) if self.tail else self.runs[-1].last

    @property
    def count(self) -> int:
        """The number of tiles."""
        return self.lines * self.in_line

    @property
    def pixels_in_line(self) -> int:
        """Pixels in a line."""
        return self.extent * len(self.within)

    def rows(
        self, x: Pointer, rows: int, line: Index, begin: Value, left: Value | None = None
    ) -> list[Pointer]:
        """Where the windows of a tile's pixels begin, given its line and first place.

        If only some places are `left`, those behind the last have its address.
        """
        places: list[Index] = list(range(rows))
        if left is not None:
            places = [0, *(smaller(left - 1, place) for place in range(1, rows))]
        if self.stride is None:
            return [x + self.outer.offset(begin + place) for place in places]
        start = x + self.outer.offset(line) + begin * self.stride
        return [start + place * self.stride + w for place in places for w in self.within]

    def heights(self, at: Corner) -> Iterator[tuple[int, int]]:
        """Rows and number of the tiles of a line, with the extents of a corner."""
        for run in self.runs:
            yield run.rows * len(self.within), at(run.last) - at(run.first)
        left = at(self.extent) % self.runs[0].rows if self.tail else 0
        if left:
            yield self.tail, -(-left // self.tail)


@dataclass(frozen=True)
class ConvPlan:
    """How a convolution is computed. A unit is a panel of a group, on a block of tiles.

    Panels that few tiles read are fetched ahead.
    """

    geometry: Geometry
    tiles: PixelTiles
    panels: Panels
    blocks: int
    order: UnitOrder

    @staticmethod
    def of(geometry: Geometry, target: Target, dtype: DType) -> ConvPlan:
        """The division with the least estimated cost; units are large and reuse caches."""
        tiles, panels = _choose_tiles(geometry, target, dtype)
        wanted = _wanted_blocks(geometry, panels)
        rows_bytes = dtype.itemsize * geometry.rows * geometry.inner * geometry.groups
        weight_bytes = dtype.itemsize * geometry.depth * geometry.results * geometry.groups
        order = UnitOrder.of(rows_bytes, weight_bytes, target)
        if order is UnitOrder.BLOCKS:
            wanted = larger_extent(wanted, rows_bytes * 4 // target.caches.l2)
        blocks = smaller_extent(smaller_extent(wanted, MOST_BLOCKS), tiles.count)
        return ConvPlan(geometry, tiles, panels, larger_extent(blocks, 1), order)

    @property
    def units(self) -> int:
        """The number of units."""
        return self.geometry.groups * self.panels.count * self.blocks

    @property
    def fetches(self) -> bool:
        """Whether panels are fetched ahead."""
        return smallest(self.tiles.count) <= FEW_TILES


def _wanted_blocks(geometry: Geometry, panels: Panels) -> int:
    """Blocks whose units have work enough, however many tiles there are."""
    most = math.ceil(geometry.work / CONV_UNIT / (geometry.groups * panels.count))
    if not is_ranged(geometry.rows):
        return most
    return -(-geometry.rows // max(1, largest(geometry.rows) // max(1, most)))


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
    costs = [
        [_cost(*choice, geometry, lanes, target, at) for choice in choices]
        for at in _corners(geometry.rows)
    ]
    return choices[least_regret(costs)]


def _corners(rows: int) -> Sequence[Corner]:
    """Where the costs of a convolution are compared, given the number of its pixels."""
    if not is_ranged(rows):
        return (largest,)
    if largest(rows) > FEW_ROWS:
        return smallest, largest
    middle = {dim.name: (dim.low + dim.high) // 2 // dim.step * dim.step for dim in dims_of(rows)}
    return smallest, lambda extent: bind_extent(extent, middle), largest


def least_regret(costs: Sequence[Sequence[float]]) -> int:
    """The number of the choice that is nowhere much worse than the best, given costs by place."""
    if len(costs) == 1:
        return costs[0].index(min(costs[0]))
    best = [min(here) or 1.0 for here in costs]
    worst = [max(map(truediv, place, best)) for place in zip(*costs, strict=True)]
    return worst.index(min(worst))


def _tilings(pixels: Axes, rows: int) -> Iterator[PixelTiles]:
    """Tiles along the last axis; of whole lines, where those are short; of any pixels in a row."""
    *before, last = pixels.extents or (1,)
    *jumps, stride = pixels.strides or (0,)
    outer = Axes(tuple(before), tuple(jumps))
    yield PixelTiles.along(outer, last, stride, rows)
    if not before:
        return
    if 2 * largest(last) <= rows and not is_ranged(last) and not is_ranged(before[-1]):
        outer = Axes(outer.extents[:-1], outer.strides[:-1])
        within = tuple(place * stride for place in range(last))
        runs = tuple(split_rows(before[-1], rows // last))
        yield PixelTiles(outer, before[-1], jumps[-1], within, runs)
    one = Axes.merged(pixels.extents, pixels.strides)
    if len(one.extents) == 1:
        yield PixelTiles.along(Axes((), ()), one.extents[0], one.strides[0], rows)
    count = math.prod(pixels.extents)
    yield PixelTiles.along(pixels, count, None, min(rows, MOST_POINTERS))


def _cost(
    tiles: PixelTiles,
    panels: Panels,
    geometry: Geometry,
    lanes: int,
    target: Target,
    at: Corner,
) -> float:
    """Multiplications of whole vectors that take as long as the convolution, at one corner.

    Results that go to memory are best written a whole row after the other, at no extra cost.
    """
    total, copies = 0.0, 0
    result_bytes = 4 * at(geometry.rows) * geometry.results * geometry.groups
    in_pieces = panels.count * geometry.groups > 1 and result_bytes > target.caches.l2
    line_cost = FAR_RESULT_VECTOR if in_pieces else 0
    for _, count, widths in panels.kinds:
        vectors = sum(widths) / lanes
        copies += len(tiles.runs) + bool(tiles.tail)
        for rows, number in tiles.heights(at):
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
            total += count * number * at(tiles.lines) * tile
    return total * (1 + TILE_CODE * copies)


def _collide(tiles: PixelTiles, rows: int, target: Target) -> bool:
    """Whether rows push each other out of the first cache, because of a power of two in strides."""
    way = target.caches.l1 // CACHE_ASSOCIATIVITY // 4
    if not way or not tiles.stride:
        return False
    places = way // math.gcd(tiles.stride, way)
    return math.ceil(rows / places) > CACHE_ASSOCIATIVITY - 1
