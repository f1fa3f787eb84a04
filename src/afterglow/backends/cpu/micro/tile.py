"""The register tile: rows of one matrix times a panel of another, and how rows are cut into tiles.

A tile is `rows` by `vectors` accumulators; `accumulate.py` computes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Value,
    equal,
    fma,
    larger,
    quotient,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.cost import FAR_PANEL
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, f32, f64, i32, i64, u32, u64
from afterglow.types.extent import is_ranged, larger_extent

LINE = 64
"""Bytes that a prefetch brings."""
MOST_UNROLLED = 4
"""Steps along the depth in one turn of the loop, at most."""
ENOUGH_PRODUCTS = 48
"""Multiplications in one turn of the loop that hide what the loop itself costs."""
FEW_PRODUCTS = 16
"""The same where there is code for many tiles, and it should be short."""
ENOUGH_SUMS = 8
"""Accumulators that hide the latency of an addition."""


@dataclass(frozen=True)
class RegisterTile:
    """Extents of a tile: rows, vectors in a row, lanes in a vector.

    `compact` asks for short code, since there is some for tiles of many heights.
    """

    rows: int
    vectors: int
    lanes: int
    compact: bool = False

    @property
    def columns(self) -> int:
        """Elements in a row."""
        return self.vectors * self.lanes

    @property
    def unroll(self) -> int:
        """Steps along the depth in one turn of the loop."""
        steps, enough = MOST_UNROLLED, FEW_PRODUCTS if self.compact else ENOUGH_PRODUCTS
        while steps > 2 and self.rows * self.vectors * steps >= 2 * enough:
            steps //= 2
        return steps

    def with_rows(self, rows: int) -> RegisterTile:
        """As wide, but with that many rows."""
        return replace(self, rows=rows)


def sum_type(dtype: DType) -> DType:
    """The element type in which products are summed up.

    Narrow floats are rounded at the end only; narrow integers wrap around then as well as before.
    """
    if dtype.is_float:
        return f64 if dtype is f64 else f32
    if dtype.is_signed:
        return i64 if dtype.bits > 32 else i32
    return u64 if dtype.bits > 32 else u32


def multiply_add(a: Value, b: Value, c: Value) -> Value:
    """a * b + c; of floats rounded once where the machine can."""
    return fma(a, b, c) if c.dtype.is_float else a * b + c


def most_rows(target: Target, vectors: int, dtype: DType) -> int:
    """The most rows of a tile with which sums and factors fit in the registers."""
    few = target.vector_bits <= dtype.bits and dtype.is_integer
    registers = 8 if few else target.vector_registers
    products = 0 if target.fma and dtype.is_float else 1
    return max(1, (registers - vectors - 1 - products) // vectors)


def panel_cost(tile: RegisterTile, depth: int, target: Target, dtype: DType = f32) -> float:
    """What a step of a tile costs because its panel is too large for the first cache, if it is.

    A core with two units for the longest vectors computes low tiles faster than panels come.
    """
    near = depth * tile.columns * dtype.itemsize <= target.caches.l1 // 2
    if near or target.vector_bits < 512:
        return 0.0
    return FAR_PANEL * tile.columns * dtype.bits / 512


@dataclass(frozen=True)
class TileRun:
    """Tiles of one height: numbers `first` to `last - 1`; tile j begins at row j * rows + shift."""

    rows: int
    first: int
    last: int
    shift: int


def split_rows(rows: int, most: int) -> list[TileRun]:
    """The fewest tiles that cover all rows, as even as possible: the higher ones come first."""
    tiles = -(-rows // most)
    if tiles == 0:
        return []
    low, high_tiles = divmod(rows, tiles)
    high = TileRun(low + 1, 0, high_tiles, 0)
    return [
        run for run in (high, TileRun(low, high_tiles, tiles, high_tiles)) if run.last > run.first
    ]


def halved_runs(rows: int, most: int) -> list[TileRun]:
    """Tiles that cover all rows; those of a ranged number as high as can be, then half as high."""
    if not is_ranged(rows):
        return split_rows(rows, most)
    runs: list[TileRun] = []
    done, tiles = 0, 0
    while most:
        more = (rows - done) // most
        runs.append(TileRun(most, tiles, tiles + more, done - tiles * most))
        done, tiles, most = done + more * most, tiles + more, most // 2
    return runs


def tiles_of_block(e: Emitter, block: Index, tiles: int, blocks: int) -> tuple[Index, Index]:
    """The first tile of a block, and the one after its last; blocks differ by a tile at most."""
    if blocks == 1:
        return 0, tiles
    first = e.index(block) * tiles
    return quotient(first, blocks), quotient(first + tiles, blocks)


def within_run(
    e: Emitter, run: TileRun, first: Index, last: Index, tiles: int
) -> tuple[Index, Index]:
    """The tiles from `first` to `last` that belong to a run, of all the tiles there are."""
    start = larger(e.index(first), run.first) if run.first else first
    stop = smaller(e.index(last), run.last) if run.last < tiles else last
    return start, stop


def ranged_tile(e: Emitter, rows: int, tiles: int, tile: Value) -> tuple[Value, Value]:
    """The first row of a tile and its height, where as many tiles share a ranged number of rows.

    They are as even as possible; the higher ones come first.
    """
    low, high_tiles = divmod(rows, larger_extent(1, tiles))
    height = select(tile < high_tiles, e.index(low) + 1, e.index(low))
    return tile * low + smaller(tile, high_tiles), height


def least_height(least: int, largest: int, most: int) -> int:
    """The least height that a tile may have, given bounds on the rows and the highest tile."""
    enough = min(largest, max(least, 1) + most * most)
    return min(rows // -(-rows // most) for rows in range(max(least, 1), enough + 1))


def each_height(e: Emitter, height: Value, most: int, least: int = 1) -> Iterator[int]:
    """Write a block for each height that a tile may have; the one with its own height runs."""
    for rows in range(most, least - 1, -1):
        with e.when(equal(height, rows)):
            yield rows


def each_tile(e: Emitter, rows: int, most: int) -> Iterator[tuple[int, Value]]:
    """Write a block for all tiles of each height, given the height and the first row of a tile."""
    if not is_ranged(rows):
        for run in split_rows(rows, most):
            with e.loop(run.last, start=run.first, name="tile") as number:
                yield run.rows, number * run.rows + run.shift
        return
    tiles = -(-rows // most)
    with e.loop(tiles, name="tile") as number:
        row, height = ranged_tile(e, rows, tiles, number)
        for own in each_height(e, height, most):
            yield own, row
