"""The plan of a convolution by Winograd's algorithm: its tiles, blocks and panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from afterglow.backends.cpu.kernels.conv.geometry import conv_of
from afterglow.backends.cpu.kernels.conv.tiling import least_regret
from afterglow.backends.cpu.kernels.conv.winograd.transforms import POINTS
from afterglow.backends.cpu.llvm.emitter import Emitter, Value, smaller
from afterglow.backends.cpu.micro.cost import (
    CONV_STEP,
    WINOGRAD_INPUT,
    WINOGRAD_OUTPUT,
    memory_bound_extent,
)
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.tile import TileRun, most_rows, split_rows
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr, Region
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged, larger_extent, largest, smaller_extent, smallest

VECTORS = 2
"""Vectors side by side in a panel."""
MOST_ROWS = 14
"""Tiles multiplied at once."""
FEW_TILES = 12
"""Tiles in a block at least, so that the weights are worth reading."""
MORE = 4
"""How many times more tiles a block has whose weights do not fit into caches."""
FEW_PANELS = 8
"""With fewer panels than that, even a small image is cut into blocks, for threads to share."""
FEW_BLOCKS = 8
"""With fewer blocks than that, threads also share the panels of a block."""
GAP = 16
"""Elements between lines of transformed tiles, against powers of two that collide in caches."""


@dataclass(frozen=True)
class WinogradPlan:
    """Results in tiles of `size` by `size`; of x a tile is two wider. `tiles` of them are a block.

    Each place of a tile is a matrix product of its own: [tiles, channels] by [channels, results].
    If the number of tiles is ranged, few rows of a block that do not fill a tile of that product
    are multiplied by one of the least height of `tail` that holds them.
    """

    size: int
    batch: int
    extents: tuple[int, int]
    channels: int
    panels: Panels
    most: int
    """Tiles of a block, at most, whose extents are known."""
    tiles: int
    blocks: int
    lanes: int
    runs: tuple[TileRun, ...]
    tail: tuple[int, ...] = ()

    @staticmethod
    def of(step: OpInstr, target: Target, size: int) -> WinogradPlan:
        """Blocks that are even, and not too large for caches."""
        batch, height, width, results = step.outs[0].type.shape
        weight = step.required[1]
        channels, lanes = weight.type.shape[-1], max(1, target.vector_bits // f32.bits)
        count = tiles_in((batch, height, width), size)
        rows = min(MOST_ROWS, most_rows(target, VECTORS, f32))
        weight_bytes = (size + 2) ** 2 * f32.itemsize * channels * results
        panels = Panels.narrowed(results, lanes, VECTORS)
        most = known = _most_tiles(rows, weight_bytes, target)
        if is_ranged(count):
            rows = _ranged_rows(count, rows)
            most = _most_tiles(rows, weight_bytes, target)
        if smallest(count) <= 2 * most and panels.count >= FEW_PANELS:
            most = smallest(count)
        tiles, runs, tail = _block(count, most, rows)
        extents, blocks = (height, width), -(-count // tiles)
        return WinogradPlan(
            size, batch, extents, channels, panels, known, tiles, blocks, lanes, runs, tail
        )

    @property
    def points(self) -> tuple[float, ...]:
        """Where polynomials are evaluated."""
        return POINTS[self.size]

    @property
    def side(self) -> int:
        """The width of a tile of x."""
        return self.size + 2

    @property
    def places(self) -> int:
        """Elements of a tile of x."""
        return self.side * self.side

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across an image."""
        height, width = self.extents
        return -(-height // self.size), -(-width // self.size)

    @property
    def count(self) -> int:
        """Tiles of all images."""
        return tiles_in((self.batch, *self.extents), self.size)

    @property
    def line(self) -> int:
        """Elements between the transforms of neighbouring tiles of x."""
        return -(-self.channels // self.lanes) * self.lanes + GAP

    @property
    def matrix(self) -> int:
        """Elements between the matrices of neighbouring places of x."""
        return self.tiles * self.line

    @property
    def product(self) -> int:
        """Elements between the products of neighbouring places."""
        return self.tiles * self.panels.width + GAP

    def left(self, e: Emitter, first: Value) -> Value:
        """How many tiles a block has that begins with tile `first`: all but the last are full."""
        return smaller(e.index(self.count) - first, self.tiles)

    @property
    def shares_panels(self) -> int:
        """Whether the panels of a block are units of their own: 1 if so, else 0."""
        return 1 - smaller_extent(self.blocks // FEW_BLOCKS, 1)

    @property
    def work(self) -> float:
        """FLOPs of all products."""
        rows = self.tiles * largest(self.blocks)
        if self.tail:
            left = largest(self.count) % self.runs[0].rows
            rows = largest(self.count) - left + _held(left, self.runs[0].rows)
        return float(rows * self.products_of_tile)

    @property
    def products_of_tile(self) -> int:
        """FLOPs of the products of a tile."""
        return 2 * self.places * self.channels * self.panels.padded

    def cost_of(self, shape: Sequence[int]) -> int:
        """The cost for images of a shape, with blocks made for them; an extent if it is ranged."""
        count = tiles_in(shape, self.size)
        rows = count
        if is_ranged(count) or count > 2 * self.most or self.panels.count < FEW_PANELS:
            rows = _in_even_blocks(count, self.most)
        weights = self.places * self.channels * self.panels.padded
        channels = WINOGRAD_INPUT * self.channels + WINOGRAD_OUTPUT * self.panels.columns
        transforms = round((self.side / 6) ** 3 * channels)
        products = memory_bound_extent(rows * self.products_of_tile, f32.itemsize * weights)
        return products + count * transforms


def tiles_in(shape: Sequence[int], size: int) -> int:
    """Tiles of some height and width in images of a shape [batch, height, width]."""
    batch, height, width = shape
    return batch * -(-height // size) * -(-width // size)


def _in_even_blocks(count: int, most: int) -> int:
    """The tiles of the fewest blocks that hold some tiles, if all blocks are as large."""
    tiles = -(-count // larger_extent(1, -(-count // most)))
    return tiles * -(-count // larger_extent(1, tiles))


def can_transform(step: OpInstr) -> bool:
    """Whether Winograd's algorithm applies to a convolution: 3 x 3, without dilation or strides."""
    conv, (x, weight, *_) = conv_of(step), step.required
    plain = (conv.strides, conv.dilations, conv.groups) == ((1, 1), (1, 1), 1)
    in_lines = x.type.dtype is f32 and x.strides[-1] == 1
    return (
        plain
        and weight.type.shape[1:-1] == (3, 3)
        and in_lines
        and weight.region is Region.CONSTANT
    )


def _block(count: int, most: int, rows: int) -> tuple[int, tuple[TileRun, ...], tuple[int, ...]]:
    """The tiles of a block, and how they are multiplied: whole tiles of rows, then a tail."""
    if not is_ranged(count):
        tiles = math.ceil(count / math.ceil(count / most))
        return tiles, tuple(split_rows(tiles, rows)), ()
    number = -(-most // rows)
    return number * rows, (TileRun(rows, 0, number, 0),), _tail(rows)


def _ranged_rows(count: int, most: int) -> int:
    """The rows of a tile of the product that suit both the least and the largest number of them."""
    heights = range(most, most // 2, -1)
    costs = [[_steps(at(count), rows) for rows in heights] for at in (smallest, largest)]
    return heights[least_regret(costs)]


def _steps(count: int, rows: int) -> float:
    """About the time of a step along the depth of all rows."""
    whole, left = divmod(count, rows)
    more = CONV_STEP + VECTORS * _held(left, rows) if left else 0
    return whole * (CONV_STEP + VECTORS * rows) + more


def _tail(rows: int) -> tuple[int, ...]:
    """Heights of tiles for at most half of the rows of a tile: the lowest first."""
    return tuple(sorted({-(-rows // 4), -(-rows // 2)} - {rows}))


def _held(left: int, rows: int) -> int:
    """Rows of the tile that some rows take which do not fill one."""
    return next(height for height in (0, *_tail(rows), rows) if height >= left)


def _most_tiles(rows: int, weight_bytes: int, target: Target) -> int:
    """Few, so that a block stays in near caches; more if the weights come from memory each time."""
    few = rows * math.ceil(FEW_TILES / rows)
    return few if weight_bytes <= target.caches.l3 // 2 else few * MORE
