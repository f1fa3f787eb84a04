"""Products by register tiles."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.output import GemmOutput, goes_through_memory
from afterglow.backends.cpu.kernels.matmul.packing import Packer, pack_panels
from afterglow.backends.cpu.kernels.matmul.plan import (
    GemmPlan,
    PanelReading,
    any_rows,
    plan_with,
    tile_costs,
)
from afterglow.backends.cpu.kernels.matmul.problem import GemmProblem
from afterglow.backends.cpu.kernels.strassen import StrassenPlan, packed_panels
from afterglow.backends.cpu.kernels.table import DIRECT
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    equal,
    first_lanes,
    load_masked,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import (
    Ahead,
    LoadVector,
    Span,
    accumulate,
    each_span,
)
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.partial_sums import FEW_TERMS
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.storage_format import load_stored
from afterglow.backends.cpu.micro.tile import (
    LINE,
    RegisterTile,
    each_height,
    least_height,
    ranged_tile,
    split_rows,
    sum_type,
    tiles_of_block,
    within_run,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged, largest, smallest

ROW_GAP = 16
"""Elements that are left between converted rows."""
MOST_TILES = 4
"""Tiles that are worth comparing: those with the least estimates."""


def gemm_algorithms(r: KernelRequest, problem: GemmProblem, used: int = 1) -> list[Algorithm]:
    """Products by register tiles, the cheapest tile first; `used` is 0 in runs without them."""
    tiles = tile_costs(problem, r.target)[:MOST_TILES]
    plans = [(replace(plan_with(tile, problem, r.target), used=used), cost) for tile, cost in tiles]
    return [_algorithm(r, problem, plan, cost) for plan, cost in plans]


def _algorithm(r: KernelRequest, problem: GemmProblem, plan: GemmPlan, cost: float) -> Algorithm:
    tile, dtype = plan.tile, sum_type(problem.lhs.dtype)
    scratch = {}
    if plan.reading is PanelReading.PACKED:
        scratch["panel"] = Storage(plan.panel_dtype, largest(problem.depth) * tile.columns)
    if widens_rows(problem):
        scratch["rows"] = Storage(dtype, tile.rows * row_room(problem))
    if keeps_tiles(r, problem, tile):
        scratch["tile"] = Storage(dtype, tile.rows * tile.columns)
    packed = (1,) if plan.reading is PanelReading.CONSTANT else ()
    return Algorithm(
        DIRECT,
        cost,
        lambda k: _write_gemm(k, problem, plan),
        KernelNeeds(scratch=scratch, packed=packed),
        {"tile": (tile.rows, tile.vectors, tile.lanes), "blocks": largest(plan.blocks)},
    )


def widens_rows(problem: GemmProblem) -> bool:
    """Whether the rows of a tile are converted to the type of sums before they are multiplied.

    Single elements of narrow floats would take longer to convert than to multiply.
    """
    lhs = problem.lhs
    known = not (is_ranged(problem.rows) or is_ranged(problem.depth))
    return known and problem.rows > 1 and lhs.dtype.is_narrow_float and lhs.column_stride == 1


def row_room(problem: GemmProblem) -> int:
    """Elements between the converted rows of a tile: no power of two, which collides in caches."""
    return -(-problem.depth // ROW_GAP) * ROW_GAP + ROW_GAP


def keeps_tiles(r: KernelRequest, problem: GemmProblem, tile: RegisterTile) -> bool:
    """Whether tiles lie in memory before they are put."""
    return goes_through_memory(r, problem.columns, tile) or _adds_blocks(problem)


def _adds_blocks(problem: GemmProblem) -> bool:
    """Whether blocks of long sums meet in memory: for tiles of many heights that is less code."""
    known = is_ranged(problem.rows) and not is_ranged(problem.depth)
    return known and problem.depth > FEW_TERMS and sum_type(problem.lhs.dtype).is_float


def few_rows(r: KernelRequest, problem: GemmProblem, many: StrassenPlan) -> Algorithm:
    """The product of so few rows that they are not left to Strassen's algorithm."""
    tile = many.tile.with_rows(min(any_rows(many.tile.vectors), many.tile.rows))
    plan = replace(plan_with(tile, problem, r.target), beside=many, used=1 - many.used)
    return _algorithm(r, problem, plan, 0.0)


def _write_gemm(kernel: Kernel, problem: GemmProblem, plan: GemmPlan) -> None:
    """Write a product; a unit is a panel of columns with a block of rows of a batch."""
    units, work, many = problem.batches * plan.blocks * plan.panels, problem.work, plan.beside
    units *= plan.used
    if many is not None:
        work = work / largest(problem.rows) * many.least_rows
    with kernel.phase(units, work, "" if many is None else "few") as p:
        Gemm(p, problem, plan).write()


@dataclass(frozen=True)
class _Panel:
    """A panel in a batch, the rows that meet it, and the first of their tiles."""

    batch: Index
    panel: Index
    lhs: Pointer
    rhs: Pointer
    first: Index


class Gemm:
    """The function that multiplies blocks of rows by panels."""

    def __init__(self, p: Phase, problem: GemmProblem, plan: GemmPlan) -> None:
        self.p, self.e = p, p.e
        self.problem, self.plan, self.tile = problem, plan, plan.tile
        self.dtype = sum_type(problem.lhs.dtype)
        kept = keeps_tiles(p.kernel, problem, plan.tile)
        self.output = GemmOutput(p, problem.columns, plan.tile, kept=kept)
        self.lhs = p.pointer(problem.lhs.buffer)
        many = plan.beside
        self.most_rows = largest(problem.rows) if many is None else many.least_rows - 1
        depth = problem.depth if many is None else 2 * many.half_depth
        self.panel_size = depth * self.tile.columns
        self.rhs = self.find_rhs()
        self.panel = self._own_panel()
        self.wide = p.scratch("rows") if widens_rows(problem) else None

    def find_rhs(self) -> Pointer:
        """Where rhs, or what is packed of it, begins."""
        rhs, width = self.problem.rhs, self.tile.columns
        if self.plan.reading is not PanelReading.CONSTANT:
            return self.p.pointer(rhs.buffer)
        if self.plan.beside is not None:
            return packed_panels(self.p, self.plan.beside)
        dtype = self.plan.panel_dtype
        pack = pack_panels(self.tile, dtype, self.problem.transposed_rhs)
        return self.p.packed(rhs.buffer, f"panels{width}", pack, dtype)

    def _own_panel(self) -> Pointer | None:
        """Memory for a panel that each thread packs."""
        if self.plan.reading is not PanelReading.PACKED:
            return None
        return self.p.scratch("panel")

    def write(self) -> None:
        """Write all of it."""
        with self.p.units() as unit:
            batch, panel, block = self._place(unit)
            lhs = self.lhs + self.problem.lhs.batch.offset(batch)
            with self._before_first(unit, block):
                rhs = self.find_panel(batch, panel)
            first, last = tiles_of_block(self.e, block, self.plan.tiles, self.plan.blocks)
            at = _Panel(batch, panel, lhs, rhs, first)
            if is_ranged(self.problem.rows):
                self._write_any(at, last)
            else:
                self._write_runs(at, last)

    def _place(self, unit: Value) -> tuple[Index, Index, Index]:
        """The batch, the panel and the block of a unit.

        Blocks that share a panel follow each other if that must be made.
        """
        plan = self.plan
        if plan.makes_panels:
            rest, block = split(unit, plan.blocks)
            batch, panel = split(rest, plan.panels)
        else:
            rest, panel = split(unit, plan.panels)
            batch, block = split(rest, plan.blocks)
        return batch, panel, block

    def _before_first(self, unit: Value, block: Index) -> AbstractContextManager[None]:
        """Where a panel is made: before the first block of it that a thread has."""
        if not self.plan.makes_panels or largest(self.plan.blocks) == 1:
            return nullcontext()
        return self.e.when(equal(self.e.index(block), 0) | equal(unit, self.p.begin))

    def _write_runs(self, at: _Panel, last: Index) -> None:
        """Tiles of one height or two."""
        for run in split_rows(self.problem.rows, self.tile.rows):
            start, stop = within_run(self.e, run, at.first, last, self.plan.tiles)
            with self.e.loop(stop, start=start, name="tile") as tile:
                row = tile * run.rows + run.shift
                number, column = self._number(at, row), at.panel * self.tile.columns
                self.output.fetch(number, column, run.rows)
                self.output.put(number, column, self._tile(at, run.rows, tile, row))

    def _write_any(self, at: _Panel, last: Index) -> None:
        """Tiles of whatever height is found as the code runs; there is code for each."""
        e = self.e
        least = least_height(smallest(self.problem.rows), self.most_rows, self.tile.rows)
        with e.loop(last, start=at.first, name="tile") as tile:
            row, rows = ranged_tile(e, self.problem.rows, self.plan.tiles, tile)
            at = replace(at, rhs=at.rhs.settled())
            number, column = self._number(at, row), at.panel * self.tile.columns
            if _adds_blocks(self.problem):
                self.output.clear(rows)
                for _, span in each_span(e, self.problem.depth):
                    for height in each_height(e, rows, self.tile.rows, least):
                        self.output.add(self._tile(at, height, tile, row, span))
            else:
                for height in each_height(e, rows, self.tile.rows, least):
                    self.output.begin(number, column, self._tile(at, height, tile, row))
            self.output.finish(number, column, rows)

    def _number(self, at: _Panel, row: Value) -> Index:
        """The row of the result that a row of a batch is."""
        return at.batch * self.problem.rows + row

    def _tile(
        self, at: _Panel, height: int, tile: Value, row: Value, span: Span | None = None
    ) -> list[list[Value]]:
        """The sums of a tile, or of a block of them."""
        rows = at.lhs + row * self.problem.lhs.row_stride
        if self.wide is not None:
            rows = self._widened(rows, height, self.wide)
        if is_ranged(self.problem.rows):
            rows = rows.settled()
        ahead: list[Ahead] = []
        if not self._is_alone(height):
            ahead += self._next_panel(height, tile - at.first, at)
            ahead += self._next_rows(height, rows)
        return self._sums(height, rows, at, ahead, span)

    def _widened(self, rows: Pointer, height: int, to: Pointer) -> Pointer:
        """A tile of rows in the type of sums, in memory of this thread."""
        e, depth = self.e, self.problem.depth
        lanes = e.lanes(to.dtype)
        whole = depth - depth % lanes
        with e.loop(height, name="row") as row:
            source = rows + row * self.problem.lhs.row_stride
            target = to + row * row_room(self.problem)
            with e.loop(whole, step=lanes, name="k") as k:
                target.store(convert((source + k).load(0, lanes), to.dtype), k)
            with e.loop(depth, start=whole, name="k") as k:
                target.store(convert((source + k).load(), to.dtype), k)
        return to

    def _is_alone(self, height: int) -> bool:
        """Whether a tile of that height is the only one, or the lower of two."""
        return is_ranged(self.problem.rows) and height <= self.tile.rows // 2

    def find_panel(self, batch: Index, panel: Index) -> Pointer:
        """Where the panel lies, or where it has been put."""
        matrix, tile = self.problem.rhs, self.tile
        if self.plan.reading is PanelReading.CONSTANT:
            number = matrix.numbers.offset(batch) * self.plan.panels + panel
            line = tile.columns * self.rhs.dtype.itemsize
            return (self.rhs + number * self.panel_size).aligned(min(LINE, line & -line))
        rhs = self.rhs + matrix.batch.offset(batch)
        if self.panel is None:
            return rhs + panel * tile.columns
        packer = Packer(self.e, matrix, tile, self.problem.depth, self.problem.columns)
        packer.write(self.panel, rhs, self.e.index(panel * tile.columns))
        return self.panel

    def _sums(
        self, height: int, first: Pointer, at: _Panel, ahead: list[Ahead], span: Span | None
    ) -> list[list[Value]]:
        """The sums of one tile, whose first row begins at `first`."""
        rhs, panel = at.rhs, at.panel
        direct = self.plan.reading is PanelReading.DIRECT
        stride = self.problem.lhs.row_stride if self.wide is None else row_room(self.problem)
        return accumulate(
            self.e,
            self.tile.with_rows(height),
            [first + r * stride for r in range(height)],
            rhs,
            self.problem.depth,
            self.dtype,
            row_step=self.problem.lhs.column_stride,
            panel_step=self.problem.rhs.row_stride if direct else None,
            load=self._masked_load(panel) if direct else load_stored(self.tile, rhs.dtype),
            ahead=ahead,
            span=span,
        )

    def _masked_load(self, panel: Index) -> LoadVector | None:
        """How to read a panel that lies in rhs, if some have fewer columns than others."""
        columns, tile = self.problem.columns, self.tile
        if columns % tile.columns == 0:
            return None
        left = self.e.index(columns) - panel * tile.columns
        masks = [first_lanes(left - v * tile.lanes, tile.lanes) for v in range(tile.vectors)]
        return lambda line, v: load_masked(line, masks[v], v * tile.lanes)

    def _next_panel(self, height: int, number: Value, at: _Panel) -> list[Ahead]:
        """What to fetch of the next constant panel: a part of it for each tile of this one."""
        tiles = -(-self.most_rows // self.tile.rows) // largest(self.plan.blocks)
        if self.plan.reading is not PanelReading.CONSTANT or tiles <= 1:
            return []
        unroll, itemsize = self.tile.with_rows(height).unroll, self.rhs.dtype.itemsize
        lines = max(1, unroll * self.tile.columns * itemsize // LINE)
        share = -(-lines // tiles)
        size = self.problem.depth // unroll * share * LINE // itemsize
        place = smaller(number, -(-lines // share) - 1) * size
        return [Ahead(at.rhs + self.panel_size + place, share)]

    def _next_rows(self, height: int, rows: Pointer) -> list[Ahead]:
        """The rows of the next tile, if there are more than the second cache holds."""
        matrix, depth = self.problem.lhs, self.problem.depth
        size = self.most_rows * largest(depth) * matrix.dtype.itemsize
        dense = matrix.column_stride == 1 and matrix.row_stride == depth and self.wide is None
        if not dense or size <= self.p.target.caches.l2:
            return []
        turn = height * self.tile.with_rows(height).unroll * matrix.dtype.itemsize
        return [Ahead(rows + height * depth, -(-turn // LINE), locality=3)]
