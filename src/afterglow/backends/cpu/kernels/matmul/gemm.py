"""Products by register tiles."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.output import GemmOutput, goes_through_memory
from afterglow.backends.cpu.kernels.matmul.packing import Packer, pack_panels
from afterglow.backends.cpu.kernels.matmul.plan import GemmPlan, PanelReading, plan_with, tile_costs
from afterglow.backends.cpu.kernels.matmul.problem import GemmProblem
from afterglow.backends.cpu.kernels.table import DIRECT
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    first_lanes,
    load_masked,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import Ahead, LoadVector, accumulate
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.storage_format import load_stored
from afterglow.backends.cpu.micro.tile import (
    LINE,
    TileRun,
    split_rows,
    sum_type,
    tiles_of_block,
    within_run,
)

MOST_TILES = 4
"""Tiles that are worth comparing: those with the least estimates."""


def gemm_algorithms(r: KernelRequest, problem: GemmProblem) -> list[Algorithm]:
    """Products by register tiles, the cheapest tile first."""
    tiles = tile_costs(problem, r.target)[:MOST_TILES]
    return [
        _algorithm(r, problem, plan_with(tile, problem, r.target), cost) for tile, cost in tiles
    ]


def _algorithm(r: KernelRequest, problem: GemmProblem, plan: GemmPlan, cost: float) -> Algorithm:
    tile, dtype = plan.tile, sum_type(problem.lhs.dtype)
    scratch = {}
    if plan.reading is PanelReading.PACKED:
        scratch["panel"] = Storage(plan.panel_dtype, problem.depth * tile.columns)
    if goes_through_memory(r, problem.columns, tile):
        scratch["tile"] = Storage(dtype, tile.rows * tile.columns)
    packed = (1,) if plan.reading is PanelReading.CONSTANT else ()
    return Algorithm(
        DIRECT,
        cost,
        lambda k: _write_gemm(k, problem, plan),
        KernelNeeds(scratch=scratch, packed=packed),
        {"tile": (tile.rows, tile.vectors, tile.lanes), "blocks": plan.blocks},
    )


def _write_gemm(kernel: Kernel, problem: GemmProblem, plan: GemmPlan) -> None:
    """Write a product; a unit is a panel of columns with a block of rows of a batch."""
    units = problem.batches * plan.blocks * plan.panels
    with kernel.phase(units, problem.work) as p:
        _Gemm(p, problem, plan).write()


class _Gemm:
    """The function that multiplies blocks of rows by panels."""

    def __init__(self, p: Phase, problem: GemmProblem, plan: GemmPlan) -> None:
        self.p, self.e = p, p.e
        self.problem, self.plan, self.tile = problem, plan, plan.tile
        self.dtype = sum_type(problem.lhs.dtype)
        self.output = GemmOutput(p, problem.columns, plan.tile)
        self.lhs = p.pointer(problem.lhs.buffer)
        self.panel_size = problem.depth * self.tile.columns
        self.rhs = self._rhs()
        self.panel = self._own_panel()

    def _rhs(self) -> Pointer:
        rhs, width = self.problem.rhs, self.tile.columns
        if self.plan.reading is not PanelReading.CONSTANT:
            return self.p.pointer(rhs.buffer)
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
            rest, panel = split(unit, self.plan.panels)
            batch, block = split(rest, self.plan.blocks)
            lhs = self.lhs + self.problem.lhs.batch.offset(batch)
            rhs = self._panel(batch, panel)
            first, last = tiles_of_block(self.e, block, self.plan.tiles, self.plan.blocks)
            for run in split_rows(self.problem.rows, self.tile.rows):
                start, stop = within_run(self.e, run, first, last, self.plan.tiles)
                with self.e.loop(stop, start=start, name="tile") as tile:
                    row = tile * run.rows + run.shift
                    rows = lhs + row * self.problem.lhs.row_stride
                    ahead = [*self._next_panel(run, tile - first, rhs), *self._next_rows(run, rows)]
                    sums = self._sums(run, rows, rhs, panel, ahead)
                    number = batch * self.problem.rows + row
                    self.output.put(number, panel * self.tile.columns, sums)

    def _panel(self, batch: Index, panel: Index) -> Pointer:
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
        self, run: TileRun, first: Pointer, rhs: Pointer, panel: Index, ahead: list[Ahead]
    ) -> list[list[Value]]:
        """The sums of one tile, whose first row begins at `first`."""
        direct = self.plan.reading is PanelReading.DIRECT
        return accumulate(
            self.e,
            self.tile.with_rows(run.rows),
            [first + r * self.problem.lhs.row_stride for r in range(run.rows)],
            rhs,
            self.problem.depth,
            self.dtype,
            row_step=self.problem.lhs.column_stride,
            panel_step=self.problem.rhs.row_stride if direct else None,
            load=self._masked_load(panel) if direct else load_stored(self.tile, rhs.dtype),
            ahead=ahead,
        )

    def _masked_load(self, panel: Index) -> LoadVector | None:
        """How to read a panel that lies in rhs, if some have fewer columns than others."""
        columns, tile = self.problem.columns, self.tile
        if columns % tile.columns == 0:
            return None
        left = self.e.index(columns) - panel * tile.columns
        masks = [first_lanes(left - v * tile.lanes, tile.lanes) for v in range(tile.vectors)]
        return lambda line, v: load_masked(line, masks[v], v * tile.lanes)

    def _next_panel(self, run: TileRun, number: Value, rhs: Pointer) -> list[Ahead]:
        """What to fetch of the next constant panel: a part of it for each tile of this one."""
        tiles = self.plan.tiles // self.plan.blocks
        if self.plan.reading is not PanelReading.CONSTANT or tiles == 1:
            return []
        unroll, itemsize = self.tile.with_rows(run.rows).unroll, self.rhs.dtype.itemsize
        lines = max(1, unroll * self.tile.columns * itemsize // LINE)
        share = -(-lines // tiles)
        size = self.problem.depth // unroll * share * LINE // itemsize
        place = smaller(number, -(-lines // share) - 1) * size
        return [Ahead(rhs + self.panel_size + place, share)]

    def _next_rows(self, run: TileRun, rows: Pointer) -> list[Ahead]:
        """The rows of the next tile, if there are more than the second cache holds."""
        matrix, depth = self.problem.lhs, self.problem.depth
        size = self.problem.rows * depth * matrix.dtype.itemsize
        dense = matrix.column_stride == 1 and matrix.row_stride == depth
        if not dense or size <= self.p.target.caches.l2:
            return []
        turn = run.rows * self.tile.with_rows(run.rows).unroll * matrix.dtype.itemsize
        return [Ahead(rows + run.rows * depth, -(-turn // LINE), locality=3)]
