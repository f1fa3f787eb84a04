"""The seven products of each panel, and the quarters of the result that they make."""

from __future__ import annotations

from collections.abc import Iterator

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.strassen.plan import (
    LEAST_TILES,
    PRODUCTS,
    STRASSEN,
    StrassenPlan,
)
from afterglow.backends.cpu.kernels.strassen.sums import write_pair, write_sums
from afterglow.backends.cpu.kernels.strassen.weights import (
    factor_places,
    pack_bias,
    packed_panels,
)
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
from afterglow.backends.cpu.micro.accumulate import Ahead, Span, accumulate, each_span
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.partial_sums import FEW_TERMS
from afterglow.backends.cpu.micro.stretches import Stretch
from afterglow.backends.cpu.micro.tile import (
    LINE,
    each_height,
    least_height,
    ranged_tile,
    tiles_of_block,
    within_run,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32
from afterglow.types.extent import largest


def strassen_algorithm(plan: StrassenPlan, direct: float) -> Algorithm:
    """Strassen's algorithm for a product, by a plan, given what the product costs without it."""
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
        direct * (1 - plan.gain),
        lambda k: write_strassen(k, plan),
        needs,
        {"tile": (plan.tile.rows, plan.tile.columns), "blocks": largest(plan.blocks)},
        is_exact=False,
        waits=plan.waits,
        weight_growth=plan.weight_growth,
    )


def write_strassen(k: Kernel, plan: StrassenPlan) -> None:
    """Write a product: the left factors, unless each unit makes its own, then all products."""
    if not plan.apart:
        write_sums(k, plan)
    with k.phase(plan.units, plan.product.work, STRASSEN) as p:
        multiply = _Multiply(p, plan)
        if not plan.apart:
            p.function.stretches = plan.tile_units.stretches
            plan.tile_units.write(p.e, p.begin, p.end, multiply.write_stretch)
            return
        lhs = p.pointer(plan.product.lhs)
        with p.units() as block:
            multiply.write_block(lhs, block)


@dataclass(frozen=True)
class _Block:
    """Tiles `first` to `last - 1`; the left factors begin with row `row`."""

    first: Index
    last: Index
    row: Index


@dataclass(frozen=True)
class _Product:
    """One of the products of a panel, and where its factors lie."""

    number: Value
    panel: Value
    left: Pointer
    right: Pointer


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
        self.factors = p.scratch("factors") if plan.apart else p.workspace("factors")
        self.rhs = packed_panels(p, plan)
        self.places = p.table("places", factor_places(plan)) if plan.is_ranged else None
        self.bias: Pointer | None = None
        if product.bias is not None:
            self.bias = p.packed(product.bias, f"strassen{width}_bias", pack_bias(plan))
        self.sink = p.sink()
        self.size = plan.tile.rows * width
        self.y = plan.tiles_of_block * self.size
        self.made = 2 * self.y
        self.memory = p.scratch("products")

    def write_stretch(self, stretch: Stretch) -> None:
        """Tiles of a block, with a panel of both halves of the columns."""
        self._write_panel(_Block(stretch.first, stretch.last, 0), stretch.panel)

    def write_block(self, lhs: Pointer, block: Value) -> None:
        """A block of tiles and all panels, left factors included."""
        tiles = tiles_of_block(self.e, block, self.plan.tiles, self.plan.blocks)
        first, last = (self.e.index(tile) for tile in tiles)
        row = self._row(first)
        with self.e.loop(self._row(last), start=row, name="row") as number:
            to = self.factors + (number - row) * self.plan.line
            write_pair(self.e, self.plan, lhs, number, to)
        with self.e.loop(self.plan.panels, name="panel") as panel:
            self._write_panel(_Block(first, last, row), panel)

    def _row(self, tile: Value) -> Value:
        """The row that a tile begins with."""
        if self.plan.is_ranged:
            return ranged_tile(self.e, self.plan.half_rows, self.plan.tiles, tile)[0]
        high, *low = self.plan.runs
        row = tile * high.rows + high.shift
        return select(tile < high.last, row, tile * low[0].rows + low[0].shift) if low else row

    def _write_panel(self, block: _Block, panel: Value) -> None:
        """All products of a panel."""
        e, plan = self.e, self.plan
        e.zero(self.memory, (block.last - block.first) * self.size)
        line = self.tile.columns * f32.itemsize
        with e.loop(PRODUCTS, name="product") as number:
            right = self._right(panel, number)
            right = right.aligned(min(LINE, line & -line))
            left = self.factors + number * plan.factor
            at = _Product(number, panel, left, right)
            if plan.is_ranged:
                self._write_any(block, at)
            else:
                self._write_runs(block, at)

    def _right(self, panel: Value, number: Value) -> Pointer:
        """Where the panel of a right factor lies."""
        if self.places is None:
            return self.rhs + (panel * PRODUCTS + number) * self.plan.panel
        factor, start = (self.e.index(self.places.load(number * 2 + i)) for i in range(2))
        return self.rhs + (panel * factor + start) * self.plan.panel

    def _write_runs(self, block: _Block, at: _Product) -> None:
        """Tiles of one height or two."""
        e, plan = self.e, self.plan
        for run in plan.runs:
            start, stop = within_run(e, run, block.first, block.last, plan.tiles)
            with e.loop(stop, start=start, name="tile") as tile:
                row, slot = tile * run.rows + run.shift, tile - block.first
                rows = at.left + (row - block.row) * plan.line
                self._write_tile(at, run.rows, slot, rows)
                with e.when(equal(at.number, 2) | (at.number >= 4)):
                    self._put(at, e.index(run.rows), row, slot)

    def _write_any(self, block: _Block, at: _Product) -> None:
        """Tiles whose height is found as the code runs."""
        e, plan = self.e, self.plan
        least = least_height(-(-plan.least_rows // 2), largest(plan.half_rows), plan.tile.rows)
        with e.loop(block.last, start=block.first, name="tile") as tile:
            row, count = ranged_tile(e, plan.half_rows, plan.tiles, tile)
            slot = tile - block.first
            rows = (at.left + (row - block.row) * plan.line).settled()
            if plan.half_depth <= FEW_TERMS:
                for height in each_height(e, count, plan.tile.rows, least):
                    self._write_tile(at, height, slot, rows)
            else:
                for block_number, span in each_span(e, plan.half_depth):
                    for height in each_height(e, count, plan.tile.rows, least):
                        self._write_tile(at, height, slot, rows, (block_number, span))
            with e.when(equal(at.number, 2) | (at.number >= 4)):
                self._put(at, count, row, slot)

    def _write_tile(
        self,
        at: _Product,
        height: int,
        slot: Value,
        rows: Pointer,
        part: tuple[Value, Span] | None = None,
    ) -> None:
        """Add the product of a tile to x; the sum is y, the next x, or a quarter of the result.

        Of a block of long sums, what comes later is added to what the first one made.
        """
        width, lanes = self.tile.columns, self.tile.lanes
        x = self.memory + slot * self.size
        sums = accumulate(
            self.e,
            self.tile.with_rows(height),
            [rows + r * self.plan.line for r in range(height)],
            at.right,
            self.plan.half_depth,
            f32,
            ahead=[*self._next_panel(at, height, slot), *self._next_rows(height, rows)],
            span=None if part is None else part[1],
        )
        to = self._made(at.number, slot)
        if part is not None:
            x = self.memory + select(
                equal(part[0], 0), slot * self.size, self._place(at.number, slot)
            )
        for r, row in enumerate(sums):
            for v, vector in enumerate(row):
                place = r * width + v * lanes
                to.store(x.load(place, lanes) + vector, place)

    def _made(self, number: Value, slot: Value) -> Pointer:
        """Where the sums of a product belong: y, x, or memory for a quarter of the result."""
        return self.memory + self._place(number, slot)

    def _place(self, number: Value, slot: Value) -> Value:
        place = slot * self.size
        later = select(equal(remainder(number, 2), 1), place, self.e.index(self.made))
        return select(equal(number, 0), place + self.y, later)

    def _put(self, at: _Product, count: Value, row: Value, slot: Value) -> None:
        """Give a tile of a quarter to the sink, row by row; those of the right half with y."""
        plan, lower, e = self.plan, at.number >= 5, self.e
        right = equal(at.number, 4) | equal(at.number, 5)
        made, y = self._made(at.number, slot), self.memory + slot * self.size + self.y
        if plan.product.rows % 2 != 0:
            count = select(lower, smaller(count, plan.product.rows // 2 - row), count)
        row = row + select(lower, e.index(plan.half_rows), e.index(0))
        column = at.panel * self.tile.columns + select(
            right, e.index(plan.half_columns), e.index(0)
        )
        lanes = self.tile.lanes
        left = e.index(plan.product.columns) - column
        whole = plan.product.columns % self.tile.columns == 0
        bias = None if self.bias is None else self.bias + column
        with e.loop(count, name="row") as r:
            out, line = self.sink.row(row + r), r * self.tile.columns
            for start in self._vectors():
                value = (made + line).load(start, lanes)
                value = select(right, value + (y + line).load(start, lanes), value)
                if bias is not None:
                    value = value + bias.load(start, lanes)
                mask = None if whole else first_lanes(left - start, lanes)
                out.put(column + start, value, mask)

    def _vectors(self) -> Iterator[Index]:
        """Write a block for each vector of a row of a tile, or a loop, which is less code."""
        width, lanes = self.tile.columns, self.tile.lanes
        if not self.tile.compact:
            yield from range(0, width, lanes)
            return
        with self.e.loop(width, step=lanes, name="column") as start:
            yield start

    def _next_panel(self, at: _Product, height: int, slot: Value) -> list[Ahead]:
        """What to fetch of the panel of the next product: a part of it for each tile of this."""
        ranged = self.plan.is_ranged
        tiles = LEAST_TILES if ranged else self.plan.tiles // self.plan.blocks
        following = self._right(at.panel, at.number + 1) if ranged else at.right + self.plan.panel
        unroll = self.tile.with_rows(height).unroll
        lines = max(1, unroll * self.tile.columns * f32.itemsize // LINE)
        share = -(-lines // tiles)
        size = self.plan.half_depth // unroll * share * LINE // f32.itemsize
        place = smaller(slot, -(-lines // share) - 1) * size
        return [Ahead(following + place, share, locality=3)]

    def _next_rows(self, height: int, first: Pointer) -> list[Ahead]:
        """The rows of the next tile, if there are more than the second cache holds."""
        rows = self.plan.tiles_of_block * self.tile.rows
        size = PRODUCTS * rows * self.plan.line * f32.itemsize
        if size <= self.p.target.caches.l2:
            return []
        turn = height * self.tile.with_rows(height).unroll * f32.itemsize
        return [Ahead(first + height * self.plan.line, -(-turn // LINE), locality=3)]
