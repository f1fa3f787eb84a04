"""The plan of a convolution by Winograd's algorithm: its tiles, blocks and panels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.backends.cpu.kernels.conv.geometry import conv_of
from afterglow.backends.cpu.kernels.conv.panels import packs_operands
from afterglow.backends.cpu.kernels.conv.winograd.transforms import POINTS
from afterglow.backends.cpu.llvm.emitter import Emitter, Value, smaller
from afterglow.backends.cpu.micro.cost import (
    WINOGRAD_INPUT,
    WINOGRAD_OUTPUT,
    WINOGRAD_WEIGHT,
    memory_bound_extent,
)
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.tile import TileRun, most_rows, split_rows
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr, Region
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import bf16, f16, f32
from afterglow.types.extent import is_ranged, larger_extent, largest, smaller_extent

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
MANY_BLOCKS = 32
"""With fewer blocks than that, they have half as many tiles, for many threads to share."""
FEW_UNITS = 32
"""With fewer panels of blocks than that, threads also share the places of tiles."""
LEAST_HEIGHT = 4
"""Rows of a tile of a product at least: fewer are not faster."""
GAP = 16
"""Elements between lines of transformed tiles, against powers of two that collide in caches."""


@dataclass(frozen=True)
class WinogradPlan:
    """Results in tiles of `size` by `size`; of x a tile is two wider. `tiles` of them are a block.

    Each place of a tile is a matrix product of its own: [tiles, channels] by [channels, results].
    If the number of tiles is ranged, so is that of a block: the rows of a block then go by tiles of
    that product as high as the least of `heights` that holds them.
    """

    size: int
    batch: int
    extents: tuple[int, int]
    channels: int
    panels: Panels
    most: int
    """Tiles of a block, at most."""
    tiles: int
    blocks: int
    lanes: int
    runs: tuple[TileRun, ...]
    heights: tuple[int, ...] = ()
    weight_cost: int = 0
    """The cost of transforming the weight in a run; 0 if that is done before."""
    packs_bias: bool = False
    """Whether a phase packs the bias in a run."""

    @staticmethod
    def of(step: OpInstr, target: Target, size: int, *, in_run: bool = False) -> WinogradPlan:
        """Blocks that are even, and not too large for caches.

        Weights that are not constant are transformed in each run, and others if `in_run` says so.
        """
        batch, height, width, results = step.outs[0].type.shape
        weight = step.required[1]
        channels, lanes = weight.type.shape[-1], max(1, target.vector_bits // f32.bits)
        count = tiles_in((batch, height, width), size)
        rows = min(MOST_ROWS, most_rows(target, VECTORS, f32))
        weight_bytes = (size + 2) ** 2 * f32.itemsize * channels * results
        panels = Panels.narrowed(results, lanes, VECTORS)
        most = _most_tiles(rows, weight_bytes, target)
        if largest(count) <= 2 * most and panels.count >= FEW_PANELS:
            most = largest(count)
        elif FEW_BLOCKS * most < largest(count) < MANY_BLOCKS * most:
            most //= 2
        tiles, runs, heights = block_of(count, most, rows)
        extents, blocks = (height, width), -(-count // most)
        in_run = in_run or weight.region is not Region.CONSTANT
        made = in_run * (size + 2) ** 2 * channels * panels.padded
        return WinogradPlan(
            *(size, batch, extents, channels, panels, most, tiles, blocks, lanes, runs, heights),
            weight_cost=round(WINOGRAD_WEIGHT * made),
            packs_bias=packs_operands(step, 2),
        )

    @property
    def in_run(self) -> bool:
        """Whether the weight is transformed in each run, rather than packed."""
        return self.weight_cost > 0

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
        return self.room * self.line

    @property
    def product(self) -> int:
        """Elements between the products of neighbouring places."""
        return self.room * self.panels.width + GAP

    @property
    def room(self) -> int:
        """Tiles of a block that there is memory for."""
        return -(-self.most // self.heights[-1]) * self.heights[-1] if self.heights else self.tiles

    def left(self, e: Emitter, first: Value) -> Value:
        """How many tiles a block has that begins with tile `first`: all but the last are full."""
        return smaller(e.index(self.count) - first, self.tiles)

    @property
    def shares_panels(self) -> int:
        """Whether the panels of a block are units of their own: 1 if so, else 0."""
        return 1 - smaller_extent(self.blocks // FEW_BLOCKS, 1)

    @property
    def shares_places(self) -> bool:
        """Whether the places of a block are units of their own, and results are made apart.

        Where panels and blocks are few, that makes units enough. All products are kept meanwhile.
        """
        if self.heights or self.shares_panels != 1:
            return False
        weights_first = self.weight_cost == 0 or self.transforms_apart
        return weights_first and self.blocks * self.panels.count < FEW_UNITS

    @property
    def products_at_once(self) -> int:
        """How many products of a panel with a block are kept at a time."""
        return self.panels.count * self.blocks if self.shares_places else 1

    @property
    def panel_size(self) -> int:
        """Elements of a whole panel of the transformed weight."""
        return self.places * self.channels * self.panels.width

    @property
    def transforms_apart(self) -> bool:
        """Whether weights that vary are transformed before anything else.

        Where panels are many and blocks few, the unit of a panel does it while it is at it.
        """
        return self.shares_panels != 1 or self.panels.count < FEW_PANELS

    @property
    def waits(self) -> int:
        """How often threads wait between phases: for what products read, and for results.

        If it depends on extents whether panels are shared, there are phases for both.
        """
        packs = self.packs_bias or (self.in_run and self.transforms_apart)
        reads_made = packs or self.shares_panels != 0
        either = self.shares_panels not in (0, 1)
        return int(reads_made) + int(either) + int(self.shares_places)

    @property
    def work(self) -> float:
        """FLOPs of all products."""
        rows = even_tiles(largest(self.count), self.most) * largest(self.blocks)
        return float(rows * self.products_of_tile)

    @property
    def products_of_tile(self) -> int:
        """FLOPs of the products of a tile."""
        return 2 * self.places * self.channels * self.panels.padded

    def cost_of(self, shape: Sequence[int]) -> int:
        """The cost for images of a shape, with blocks made for them; an extent if it is ranged.

        That of transforming weights in a run is part of it.
        """
        count = tiles_in(shape, self.size)
        rows = even_tiles(count, self.most) * -(-count // self.most)
        weights = self.places * self.channels * self.panels.padded
        channels = WINOGRAD_INPUT * self.channels + WINOGRAD_OUTPUT * self.panels.columns
        transforms = round((self.side / 6) ** 3 * channels)
        products = memory_bound_extent(rows * self.products_of_tile, f32.itemsize * weights)
        return products + count * transforms + self.weight_cost


def tiles_in(shape: Sequence[int], size: int) -> int:
    """Tiles of some height and width in images of a shape [batch, height, width]."""
    batch, height, width = shape
    return batch * -(-height // size) * -(-width // size)


def even_tiles(count: int, most: int) -> int:
    """The tiles of each of the fewest blocks that hold all, if blocks are as even as can be."""
    blocks = larger_extent(1, -(-count // most))
    return larger_extent(1, -(-count // blocks))


def can_transform(step: OpInstr) -> bool:
    """Whether Winograd's algorithm applies to a convolution: 3 x 3, without dilation or strides."""
    conv, (x, weight, *_) = conv_of(step), step.required
    plain = (conv.strides, conv.dilations, conv.groups) == ((1, 1), (1, 1), 1)
    in_lines = x.type.dtype in (f32, f16, bf16) and x.strides[-1] == 1
    return plain and weight.type.shape[1:-1] == (3, 3) and in_lines


def block_of(count: int, most: int, rows: int) -> tuple[int, tuple[TileRun, ...], tuple[int, ...]]:
    """The tiles of a block, and the tiles of their products: by height, or runs of them.

    Where their number is ranged it is even, since heights are: only the last block is rounded up.
    """
    tiles = even_tiles(count, most)
    if not is_ranged(count):
        return tiles, tuple(split_rows(tiles, rows)), ()
    highest = min(rows, largest(count))
    heights = {highest, *range(highest, LEAST_HEIGHT - 1, -2)}
    return smaller_extent(most, -(-tiles // 2) * 2), (), tuple(sorted(heights))


def _most_tiles(rows: int, weight_bytes: int, target: Target) -> int:
    """Few, so that a block stays in near caches; more if the weights come from memory each time."""
    few = rows * math.ceil(FEW_TILES / rows)
    return few if weight_bytes <= target.caches.l3 // 2 else few * MORE
