"""The plan of a product: its tile, and the units that threads share."""

from __future__ import annotations

import math
from enum import Enum

from afterglow.backends.cpu.kernels.matmul.problem import GemmProblem
from afterglow.backends.cpu.kernels.strassen import StrassenPlan
from afterglow.backends.cpu.micro.cost import GEMM_UNITS, NO_FREE_REGISTER, TWO_HEIGHTS
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.storage_format import storage_type
from afterglow.backends.cpu.micro.tile import LINE, RegisterTile, most_rows, panel_cost, sum_type
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType
from afterglow.types.extent import is_ranged, larger_extent, largest, smaller_extent

MOST_ROWS = 16
"""Rows of a tile at most, however many registers there are."""
ASSOCIATIVITY = 8
"""Associativity of the first cache: lines with equal low address bits that it holds."""
FEW_ROWS = 6
"""Rows up to which the panels are wide, since their memory is what takes time."""
FEW_TO_PACK = 16
"""Rows below which it does not pay to put rhs into panels."""
FEW_VECTORS = 16
"""Vectors of a tile at most where there is code for every height."""
SHORT_LINE = 1024
"""Bytes between lines of rhs up to which a panel spans few pages, and may be read where it is."""
ENOUGH_UNITS = 32
"""Units that are enough for the threads of most machines."""
LEAST_TILES = 4
"""Tiles in a block of rows at least, if it is cut to make units: they share a panel."""


class PanelReading(Enum):
    """How a panel of rhs is read."""

    CONSTANT = "packed when the model is compiled"
    PACKED = "packed by each thread"
    DIRECT = "where it lies"
    DEQUANTIZED = "dequantized by each thread"


@dataclass(frozen=True)
class GemmPlan:
    """The largest tile, and the numbers of panels and blocks of rows of a batch."""

    tile: RegisterTile
    panels: int
    tiles: int
    blocks: int
    reading: PanelReading
    panel_dtype: DType
    """The element type of packed panels."""
    beside: StrassenPlan | None = None
    """The plan for more rows, whose packing begins with the panels."""
    used: int = 1
    """1 in runs that it is for, 0 in those that another algorithm is for."""

    @property
    def makes_panels(self) -> bool:
        """Whether panels are made while the product runs."""
        return self.reading in (PanelReading.PACKED, PanelReading.DEQUANTIZED)


def plan_with(tile: RegisterTile, problem: GemmProblem, target: Target) -> GemmPlan:
    """The plan for a problem, with a tile."""
    panels = -(-problem.columns // tile.columns)
    tiles = -(-problem.rows // tile.rows)
    blocks = _blocks(problem, target, tile, panels, tiles)
    reading = _reading(problem, target, tile)
    return GemmPlan(tile, panels, tiles, blocks, reading, _panel_dtype(problem, target))


def _reading(problem: GemmProblem, target: Target, tile: RegisterTile) -> PanelReading:
    rhs = problem.rhs
    if rhs.is_constant:
        return PanelReading.CONSTANT
    whole = problem.columns % tile.columns == 0
    masks = target.avx512 or (target.vector_bits >= 256 and rhs.dtype.itemsize >= 4)
    few = largest(problem.rows) < FEW_TO_PACK and (whole or masks)
    near = whole and _stays_in_cache(problem.largest, target)
    return PanelReading.DIRECT if rhs.column_stride == 1 and (few or near) else PanelReading.PACKED


def _stays_in_cache(problem: GemmProblem, target: Target) -> bool:
    """Whether rhs is read as fast where it lies: it is small and dense, or there is no cache."""
    line = problem.rhs.row_stride * problem.rhs.dtype.itemsize
    half = target.caches.l2 // 2
    return half == 0 or (line <= SHORT_LINE and problem.depth * line <= half)


def _panel_dtype(problem: GemmProblem, target: Target) -> DType:
    """The storage type of packed constants: of integers their own, if few rows read them."""
    own = problem.rhs.dtype
    if not problem.rhs.is_constant:
        return sum_type(own)
    few = own.is_integer and largest(problem.rows) <= FEW_ROWS
    return own if few else storage_type(own, target)


def tile_costs(problem: GemmProblem, target: Target) -> list[tuple[RegisterTile, float]]:
    """The tiles to choose from, the cheapest first, with the cost of the product in FLOPs."""
    most, even = problem.largest, not is_ranged(problem.rows)
    lanes = full_lanes(target, sum_type(problem.lhs.dtype))
    scale = 2.0 * lanes * most.batches * most.rows * most.depth
    tiles = _tiles_by_cost(most, target, even=even)
    return [(tile, scale * _cost(most, tile, target)) for tile in tiles]


def _tiles_by_cost(problem: GemmProblem, target: Target, *, even: bool) -> list[RegisterTile]:
    dtype = sum_type(problem.lhs.dtype)
    full = full_lanes(target, dtype)
    tiles = [
        RegisterTile(min(rows, max(1, problem.rows)), vectors, lanes, compact=not even)
        for lanes in _lanes(full, problem.columns, target)
        for vectors in (4, 3, 2, 1)
        for rows in _heights(problem, target, vectors, even=even)
    ]
    whole = [tile for tile in tiles if tile.rows >= problem.rows]
    fitting = whole if whole and problem.rows <= FEW_ROWS else tiles
    distinct = dict.fromkeys(fitting)
    return sorted(distinct, key=lambda tile: _cost(problem, tile, target))


def _lanes(full: int, columns: int, target: Target) -> list[int]:
    """Lanes of vectors to try: halves of very long vectors may fill the last panel better."""
    while full > 1 and columns <= full // 2:
        full //= 2
    halves = target.vector_bits >= 512 and full > 4 and columns < 8 * full
    return [full, full // 2] if halves else [full]


def _heights(problem: GemmProblem, target: Target, vectors: int, *, even: bool) -> list[int]:
    """Rows of tiles to try: as many as registers and the first cache allow, or a part of all.

    Where rows cannot be divided evenly, since their number is not known, there is code for a tile
    of every height, so tiles are not high.
    """
    most = min(
        most_rows(target, vectors, sum_type(problem.lhs.dtype)),
        _rows_in_cache(problem, target),
        MOST_ROWS if even else any_rows(vectors),
    )
    if not even:
        return [most]
    return [most] + [n for n in range(most - 1, most // 2, -1) if problem.rows % n == 0]


def any_rows(vectors: int) -> int:
    """Rows of a tile at most where there is code for every height."""
    return min(FEW_ROWS, FEW_VECTORS // vectors)


def _rows_in_cache(problem: GemmProblem, target: Target) -> int:
    """Rows of which each has a line in the first cache, even if their addresses share low bits."""
    way = target.caches.l1 // ASSOCIATIVITY
    stride = problem.lhs.row_stride * problem.lhs.dtype.itemsize
    if way == 0 or stride == 0:
        return MOST_ROWS
    return max(1, ASSOCIATIVITY * way // max(LINE, math.gcd(stride, way)))


def _cost(problem: GemmProblem, tile: RegisterTile, target: Target) -> float:
    """About the time of a step along the depth, for all columns and a row.

    There are two loads at a time, and two products, but only one of the longest vectors.
    """
    bits = tile.lanes * sum_type(problem.lhs.dtype).bits
    panels = -(-problem.columns // tile.columns)
    tiles = -(-problem.rows // tile.rows)
    rows = problem.rows / tiles
    products = rows * tile.vectors * max(0.5, bits / 512)
    loads = (rows + tile.vectors) / 2
    crowding = loads / (4 if bits >= 512 else 2)
    crowding += panel_cost(tile, problem.depth, target, sum_type(problem.lhs.dtype))
    code = TWO_HEIGHTS if problem.rows % tiles else 1.0
    used = (tile.rows + 1) * tile.vectors + 1
    tight = NO_FREE_REGISTER if used >= target.vector_registers and problem.rows > FEW_ROWS else 1.0
    return code * tight * panels * (max(products, loads) + crowding) / rows


def _blocks(
    problem: GemmProblem, target: Target, tile: RegisterTile, panels: int, tiles: int
) -> int:
    """Blocks whose rows stay in the second cache; more if there were too few units."""
    blocks = 1
    row_bytes = largest(problem.depth) * problem.lhs.dtype.itemsize
    fitting = int(0.6 * target.caches.l2) // max(1, row_bytes)
    if target.caches.l2 and fitting > 2 * tile.columns:
        blocks = larger_extent(1, -(-problem.rows // fitting))
    apart = largest(problem.batches * panels)
    if apart * largest(blocks) < ENOUGH_UNITS and problem.work >= GEMM_UNITS:
        wanted = -(-ENOUGH_UNITS // apart)
        blocks = larger_extent(blocks, smaller_extent(wanted, tiles // LEAST_TILES))
    return smaller_extent(blocks, tiles)
