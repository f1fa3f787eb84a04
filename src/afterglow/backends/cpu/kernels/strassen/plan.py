"""The plan of a product by Strassen's algorithm, and its estimated gain."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cpu.kernels.strassen.product import StrassenProduct
from afterglow.backends.cpu.micro.cost import (
    FAR_STRASSEN_RESULT,
    FAR_STRASSEN_SUM,
    NO_FREE_REGISTER,
    STRASSEN_RESULT,
    STRASSEN_SUM,
    STRASSEN_WEIGHT,
    TWO_HEIGHTS,
    unevenness,
    waiting,
)
from afterglow.backends.cpu.micro.stretches import TileUnits
from afterglow.backends.cpu.micro.tile import (
    LINE,
    RegisterTile,
    TileRun,
    most_rows,
    panel_cost,
    split_rows,
)
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged, largest, smaller_extent

PRODUCTS = 7
"""Products of quarters."""
MOST_ROWS = 14
"""Rows of a tile at most, however many registers there are."""
STRASSEN = "strassen"
"""The name of the algorithm among others."""
MOST_LOSS = 0.05
"""The estimated loss up to which the algorithm is offered for tuning."""
LARGE_RESULT = 4
"""How many times the second cache such a result takes."""
MOST_DEPTH = 8192
"""Products summed for an element, up to which errors stay below 1e-5 of the largest element."""
CACHE_PART = 0.7
"""How much of the second cache left factors of a block of rows may take."""
LEAST_ROWS = 64
"""Rows of a left factor in a block at least: blocks of fewer would read rhs too often."""
MANY_BLOCKS = 16
"""Blocks that are enough for threads to share."""
UNITS_APART = 64
"""Blocks that are enough for many threads, if each is a unit."""
ENOUGH_BLOCKS = 16
"""Panels of blocks that are enough for a few threads, each of which keeps a block near."""
LEAST_TILES = 4
"""Tiles in a block at least, if rows are cut for that: they share a panel."""


@dataclass(frozen=True)
class StrassenPlan:
    """Halves of rows in tiles, and blocks of tiles; halves of columns in panels.

    Row m is paired with row m + `half_rows`, column n with column n + `half_columns`.
    """

    product: StrassenProduct
    tile: RegisterTile
    panels: int
    blocks: int
    sum_cost: float = STRASSEN_SUM
    result_cost: float = STRASSEN_RESULT
    least_rows: int = 0
    """Rows from which it is used, if they are ranged; fewer are left to another algorithm."""
    most_tiles: int = 0
    """Tiles of a block at most, if rows are ranged."""

    @staticmethod
    def of(
        product: StrassenProduct, target: Target, most: int = MOST_ROWS, *, compact: bool = False
    ) -> StrassenPlan | None:
        """With the cheapest tile that cuts columns into an even number of panels, if one does."""
        lanes = target.vector_bits // f32.bits
        half = -(-product.rows // 2)
        tiles = [
            RegisterTile(rows, vectors, lanes, compact)
            for vectors in (2, 3, 4)
            if -(-product.columns // (vectors * lanes)) % 2 == 0
            for rows in _heights(half, min(most, most_rows(target, vectors, f32)))
        ]
        if not tiles:
            return None
        tile = min(tiles, key=lambda tile: _step_cost(product, target, tile))
        panels = -(-product.columns // tile.columns) // 2
        plan = StrassenPlan(product, tile, panels, _blocks(product, target, tile, panels))
        if PRODUCTS * plan.factor * f32.itemsize > target.caches.l2:
            plan = replace(plan, sum_cost=FAR_STRASSEN_SUM)
        if product.rows * product.columns * f32.itemsize > LARGE_RESULT * target.caches.l2:
            plan = replace(plan, result_cost=FAR_STRASSEN_RESULT)
        return plan

    @property
    def gain(self) -> float:
        """The estimated part of the direct product's time that is saved."""
        rows, depth, columns = self.product.rows, self.product.depth, self.product.columns
        costs = self.sum_cost / columns + self.result_cost / depth + STRASSEN_WEIGHT / rows
        padded = 2 * self.half_columns / columns * PRODUCTS / (PRODUCTS + 1)
        return 1 - padded - costs / 2

    @property
    def pays(self) -> bool:
        """Whether it saves more, by the estimate, than it loses by having few units and waiting."""
        lost = unevenness(self.units) - 1 + waiting(self.waits) / self.product.work
        return self.gain > lost

    @property
    def half_rows(self) -> int:
        """Rows of the upper half; the lower has as many or one less."""
        return -(-self.product.rows // 2)

    @property
    def half_depth(self) -> int:
        """Columns of the left half of lhs; the right has as many or one less."""
        return -(-self.product.depth // 2)

    @property
    def half_columns(self) -> int:
        """Columns of the left half of rhs; the right has as many or less."""
        return self.panels * self.tile.columns

    @property
    def runs(self) -> list[TileRun]:
        """The tiles of half of the rows."""
        return split_rows(self.half_rows, self.tile.rows)

    @property
    def is_ranged(self) -> bool:
        """Whether the number of rows is found as the code runs."""
        return is_ranged(self.product.rows)

    @property
    def used(self) -> int:
        """1 where the algorithm is used, 0 where there are too few rows."""
        return smaller_extent(1, self.product.rows // self.least_rows) if self.is_ranged else 1

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        if self.is_ranged:
            return -(-self.half_rows // self.tile.rows)
        return self.runs[-1].last

    @property
    def tiles_of_block(self) -> int:
        """The tiles of a block, at most."""
        if self.is_ranged:
            return self.most_tiles
        return -(-self.tiles // self.blocks)

    @property
    def apart(self) -> bool:
        """Whether a unit is a whole block, and makes its left factors itself.

        Otherwise it is a tile with a panel, and the left factors of all blocks are made before.
        """
        return largest(self.blocks) >= MANY_BLOCKS

    @property
    def waits(self) -> int:
        """How often threads wait between phases: for left factors that are made before."""
        return int(not self.apart)

    @property
    def units(self) -> int:
        """Pieces of work that threads share."""
        return self.used * (self.blocks if self.apart else self.tile_units.count)

    @property
    def tile_units(self) -> TileUnits:
        """Tiles with panels, if they are units."""
        return TileUnits(self.tiles, self.blocks, self.panels)

    @property
    def line(self) -> int:
        """Elements between rows of left factors: an odd number of lines of a cache.

        So rows of a tile do not push each other out.
        """
        size = LINE // f32.itemsize
        return (-(-self.half_depth // size) | 1) * size

    @property
    def factor(self) -> int:
        """Elements between left factors."""
        rows = self.tiles_of_block * self.tile.rows if self.apart else self.half_rows
        return rows * self.line

    @property
    def packed_size(self) -> int:
        """Elements of the packed rhs: of all right factors, of ranged rows those of rhs, too."""
        return self.panels * self.panel * (PRODUCTS + self.is_ranged)

    @property
    def weight_growth(self) -> int:
        """Bytes that the packed rhs takes besides those of rhs."""
        rhs = self.product.depth * self.product.columns
        return max(1, self.packed_size - rhs) * f32.itemsize

    @property
    def panel(self) -> int:
        """Elements of a panel of a right factor."""
        return self.half_depth * self.tile.columns


def plan_strassen(product: StrassenProduct, step: OpInstr, target: Target) -> StrassenPlan | None:
    """The plan for a product, if Strassen's algorithm applies to it and might be faster.

    Sums of weights take three quarters more memory than weights, and results have errors of about
    twice the size.
    """
    if not applies(product, step, target) or is_ranged(product.rows):
        return None
    plan = StrassenPlan.of(product, target)
    return plan if plan is not None and plan.gain > -MOST_LOSS else None


def applies(product: StrassenProduct, step: OpInstr, target: Target) -> bool:
    """Whether Strassen's algorithm can compute a product."""
    if not product.is_suitable(step) or target.vector_bits <= f32.bits or target.caches.l2 == 0:
        return False
    return product.work > 0 and product.depth <= MOST_DEPTH


def rows_in_cache(product: StrassenProduct, target: Target) -> int:
    """Rows of left factors that stay in the second cache."""
    row_bytes = PRODUCTS * -(-product.depth // 2) * f32.itemsize
    return max(LEAST_ROWS, int(CACHE_PART * target.caches.l2) // row_bytes)


def _blocks(product: StrassenProduct, target: Target, tile: RegisterTile, panels: int) -> int:
    """Blocks whose left factors stay in the second cache, and enough of them for threads."""
    half = -(-product.rows // 2)
    blocks = -(-half // rows_in_cache(product, target))
    tiles = -(-half // tile.rows)
    if blocks >= MANY_BLOCKS:
        return min(tiles, max(blocks, min(UNITS_APART, tiles // LEAST_TILES)))
    wanted = min(-(-ENOUGH_BLOCKS // panels), tiles // LEAST_TILES)
    return min(tiles, max(blocks, min(wanted, MANY_BLOCKS - 1)))


def _heights(rows: int, most: int) -> list[int]:
    """Rows of tiles to try: as many as there are registers for, or a part of all rows."""
    most = min(rows, most)
    return [most, *(n for n in range(most - 1, max(1, most // 2) - 1, -1) if rows % n == 0)]


def _step_cost(product: StrassenProduct, target: Target, tile: RegisterTile) -> float:
    """About the time of a step along the depth: products of vectors, and some of their loads."""
    half = -(-product.rows // 2)
    tiles = -(-half // tile.rows)
    rows = half / tiles
    panels = -(-product.columns // tile.columns)
    code = TWO_HEIGHTS if half % tiles else 1.0
    if (tile.rows + 1) * tile.vectors + 1 >= target.vector_registers:
        code *= NO_FREE_REGISTER
    loads = (rows + tile.vectors) / (8 if target.vector_bits >= 512 else 2)
    loads += panel_cost(tile, -(-product.depth // 2), target)
    uneven = unevenness(tiles * panels // 2)
    return code * uneven * tiles * panels * (rows * tile.vectors + loads)
