"""The seven products of each panel, and the quarters of the result that they make."""

from __future__ import annotations

from dataclasses import dataclass

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.strassen.plan import PRODUCTS, STRASSEN, StrassenPlan
from afterglow.backends.cpu.kernels.strassen.sums import write_pair, write_sums
from afterglow.backends.cpu.kernels.strassen.weights import pack_bias, pack_factors
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    equal,
    first_lanes,
    remainder,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import Ahead, accumulate
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import LINE, TileRun, tiles_of_block, within_run
from afterglow.types.dtype import f32


def strassen_algorithm(plan: StrassenPlan, cost: float) -> Algorithm:
    """Strassen's algorithm for a product, by a plan."""
    product, size = plan.product, plan.tile.rows * plan.tile.columns
    factors = {"factors": Storage(f32, PRODUCTS * plan.factor)}
    products = {"products": Storage(f32, (2 * plan.tiles_of_block + 1) * size)}
    needs = KernelNeeds(
        workspace={} if plan.apart else factors,
        scratch={**factors, **products} if plan.apart else products,
        packed=(1,) if product.bias is None else (1, 2),
    )
    return Algorithm(
        STRASSEN,
        cost,
        lambda k: write_strassen(k, plan),
        needs,
        {"tile": (plan.tile.rows, plan.tile.columns), "blocks": plan.blocks},
        is_exact=False,
        grows_weights=True,
    )


def write_strassen(k: Kernel, plan: StrassenPlan) -> None:
    """Write a product: the left factors, unless each unit makes its own, then all products."""
    if not plan.apart:
        write_sums(k, plan)
    with k.phase(plan.units, plan.product.work, STRASSEN) as p:
        multiply = _Multiply(p, plan)
        with p.units() as unit:
            multiply.write(unit)


@dataclass(frozen=True)
class _Block:
    """Tiles `first` to `last - 1`; the left factors begin with row `row`."""

    first: Index
    last: Index
    row: Index


class _Multiply:
    """The phase of the products while it is being written.

    The products are s1 t1, a11 b11, a12 b21, s2 t2, s4 b22, s3 t3 and a22 (-t4). The first makes y.
    Each of the others is added to x, which is nothing at first. The even ones are quarters of the
    result then, and the odd ones the next x; the sixth makes a quarter besides.
    """

    def __init__(self, p: Phase, plan: StrassenPlan) -> None:
        self.p, self.e, self.plan, self.tile = p, p.e, plan, plan.tile
        product = plan.product
        width = plan.tile.columns
        self.lhs = p.pointer(product.lhs) if plan.apart else None
        self.factors = p.scratch("factors") if plan.apart else p.workspace("factors")
        self.rhs = p.packed(product.rhs, f"strassen{width}", pack_factors(plan))
        self.bias: Pointer | None = None
        if product.bias is not None:
            self.bias = p.packed(product.bias, f"strassen{width}_bias", pack_bias(plan))
        self.sink = p.sink()
        self.size = plan.tile.rows * width
        self.y = plan.tiles_of_block * self.size
        self.made = 2 * self.y
        self.memory = p.scratch("products")

    def write(self, unit: Value) -> None:
        """One unit: a block of tiles, with a panel of both halves of the columns or all of them."""
        if self.lhs is None:
            block, panel = split(unit, self.plan.panels)
            self._write_panel(_Block(*self._tiles(block), 0), self.e.index(panel))
            return
        first, last = (self.e.index(tile) for tile in self._tiles(unit))
        row = self._row(first)
        with self.e.loop(self._row(last), start=row, name="row") as number:
            to = self.factors + (number - row) * self.plan.line
            write_pair(self.e, self.plan, self.lhs, number, to)
        with self.e.loop(self.plan.panels, name="panel") as panel:
            self._write_panel(_Block(first, last, row), panel)

    def _row(self, tile: Value) -> Value:
        """The row that a tile begins with."""
        high, *low = self.plan.runs
        row = tile * high.rows + high.shift
        return select(tile < high.last, row, tile * low[0].rows + low[0].shift) if low else row

    def _write_panel(self, block: _Block, panel: Value) -> None:
        """All products of a panel."""
        e, plan = self.e, self.plan
        e.zero(self.memory, (block.last - block.first) * self.size)
        line = self.tile.columns * f32.itemsize
        with e.loop(PRODUCTS, name="product") as number:
            right = self.rhs + (panel * PRODUCTS + number) * plan.panel
            right = right.aligned(min(LINE, line & -line))
            left = self.factors + number * plan.factor
            for run in plan.runs:
                start, stop = within_run(e, run, block.first, block.last, plan.tiles)
                with e.loop(stop, start=start, name="tile") as tile:
                    row, slot = tile * run.rows + run.shift, tile - block.first
                    rows = left + (row - block.row) * plan.line
                    self._write_tile(number, run, slot, rows, right)
                    with e.when(equal(number, 2) | (number >= 4)):
                        self._put(number, panel, run, row, slot)

    def _tiles(self, block: Index) -> tuple[Index, Index]:
        return tiles_of_block(self.e, block, self.plan.tiles, self.plan.blocks)

    def _write_tile(
        self, number: Value, run: TileRun, slot: Value, rows: Pointer, right: Pointer
    ) -> None:
        """Add the product of a tile to x; the sum is y, the next x, or a quarter of the result."""
        width, lanes = self.tile.columns, self.tile.lanes
        x = self.memory + slot * self.size
        sums = accumulate(
            self.e,
            self.tile.with_rows(run.rows),
            [rows + r * self.plan.line for r in range(run.rows)],
            right,
            self.plan.half_depth,
            f32,
            ahead=[*self._next_panel(run, slot, right), *self._next_rows(run, rows)],
        )
        to = self._made(number, slot)
        for r, row in enumerate(sums):
            for v, vector in enumerate(row):
                place = r * width + v * lanes
                to.store(x.load(place, lanes) + vector, place)

    def _made(self, number: Value, slot: Value) -> Pointer:
        """Where the sums of a product belong: y, x, or memory for a quarter of the result."""
        place = slot * self.size
        later = select(equal(remainder(number, 2), 1), place, self.e.index(self.made))
        return self.memory + select(equal(number, 0), place + self.y, later)

    def _put(self, number: Value, panel: Value, run: TileRun, row: Value, slot: Value) -> None:
        """Give a tile of a quarter to the sink, row by row; those of the right half with y."""
        plan, lower, e = self.plan, number >= 5, self.e
        right = equal(number, 4) | equal(number, 5)
        made, y = self._made(number, slot), self.memory + slot * self.size + self.y
        count = e.index(run.rows)
        if plan.product.rows % 2:
            count = select(lower, smaller(count, plan.product.rows // 2 - row), count)
        row = row + select(lower, e.index(plan.half_rows), e.index(0))
        column = panel * self.tile.columns + select(right, e.index(plan.half_columns), e.index(0))
        lanes = self.tile.lanes
        left = e.index(plan.product.columns) - column
        whole = plan.product.columns % self.tile.columns == 0
        bias = None if self.bias is None else self.bias + column
        with e.loop(count, name="row") as r:
            out, line = self.sink.row(row + r), r * self.tile.columns
            for v in range(self.tile.vectors):
                start = v * lanes
                value = (made + line).load(start, lanes)
                value = select(right, value + (y + line).load(start, lanes), value)
                if bias is not None:
                    value = value + bias.load(start, lanes)
                mask = None if whole else first_lanes(left - start, lanes)
                out.put(column + start, value, mask)

    def _next_panel(self, run: TileRun, slot: Value, right: Pointer) -> list[Ahead]:
        """What to fetch of the panel of the next product: a part of it for each tile of this."""
        tiles = self.plan.tiles // self.plan.blocks
        unroll = self.tile.with_rows(run.rows).unroll
        lines = max(1, unroll * self.tile.columns * f32.itemsize // LINE)
        share = -(-lines // tiles)
        size = self.plan.half_depth // unroll * share * LINE // f32.itemsize
        place = smaller(slot, -(-lines // share) - 1) * size
        return [Ahead(right + self.plan.panel + place, share, locality=3)]

    def _next_rows(self, run: TileRun, first: Pointer) -> list[Ahead]:
        """The rows of the next tile, if there are more than the second cache holds."""
        rows = self.plan.tiles_of_block * self.tile.rows
        size = PRODUCTS * rows * self.plan.line * f32.itemsize
        if size <= self.p.target.caches.l2:
            return []
        turn = run.rows * self.tile.with_rows(run.rows).unroll * f32.itemsize
        return [Ahead(first + run.rows * self.plan.line, -(-turn // LINE), locality=3)]
