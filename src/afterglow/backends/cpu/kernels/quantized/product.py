"""Products of bytes by register tiles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.quantized.copying import copy_storage, pointer_to_x, write_copy
from afterglow.backends.cpu.kernels.quantized.dots import QUAD
from afterglow.backends.cpu.kernels.quantized.lines import EvenLines, Lines
from afterglow.backends.cpu.kernels.quantized.output import QuantizedOutput, Side
from afterglow.backends.cpu.kernels.quantized.plan import QuantizedPlan, plan_of
from afterglow.backends.cpu.kernels.quantized.problem import QuantizedProblem, problem_of
from afterglow.backends.cpu.kernels.table import DIRECT
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value
from afterglow.backends.cpu.micro.cost import PACKED_ELEMENT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import TileRun, each_height, ranged_tile, tiles_of_block
from afterglow.backends.cpu.micro.unit_order import OrderedUnits
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import i32
from afterglow.types.extent import is_ranged, largest


def product_algorithm(r: KernelRequest) -> Algorithm:
    """The algorithm for a product of bytes by tiles of vectors."""
    problem = problem_of(r.step, r.target)
    return register_algorithm(problem, plan_of(problem, r.target))


def register_algorithm(problem: QuantizedProblem, plan: QuantizedPlan) -> Algorithm:
    """The algorithm for a product by tiles of vectors, with a plan."""
    panels, rows = plan.panels, plan.most
    return Algorithm(
        DIRECT,
        panels.dots.cost * problem.work,
        lambda k: write_product(k, problem, plan, RegisterProduct),
        product_needs(problem, plan, {"tile": Storage(panels.dots.sums, rows * panels.width)}),
        {"tile": (rows, panels.vectors, panels.lanes), "blocks": largest(plan.blocks)},
    )


def product_needs(
    problem: QuantizedProblem, plan: QuantizedPlan, scratch: dict[str, Storage]
) -> KernelNeeds:
    """The memory that a product by a plan needs, given that of each thread."""
    workspace = {**copy_storage(problem.reading), **plan.panels.storage}
    if problem.weight.zero_point:
        count = problem.batches * problem.groups * problem.rows
        workspace["rows"] = Storage(i32, count)
    packed = (1,) if problem.weight.is_constant else ()
    return KernelNeeds(workspace, scratch=scratch, packed=packed)


def write_product(
    k: Kernel, problem: QuantizedProblem, plan: QuantizedPlan, product: type[Product]
) -> None:
    """Write the phases of a product; a unit is a panel with a block of rows."""
    write_copy(k, problem.reading)
    plan.panels.write_packing(k)
    if problem.weight.zero_point:
        _write_sums_of_rows(k, problem, plan)
    units = problem.batches * problem.groups * plan.panels.count * plan.blocks
    with k.phase(units, plan.panels.dots.cost * problem.work) as p:
        product(p, problem, plan).write()


class _Rows:
    """Rows of x while they are multiplied by panels."""

    def __init__(self, p: Phase, problem: QuantizedProblem, plan: QuantizedPlan) -> None:
        self.p, self.e = p, p.e
        self.problem, self.plan, self.panels = problem, plan, plan.panels
        self.x = pointer_to_x(p, problem.reading)

    def place(self, batch: Index, group: Index) -> Pointer:
        """Where the rows of a batch begin, for a group."""
        offset = self.problem.batch.offset(batch)
        return self.x + offset + group * self.problem.group_stride


class Product(_Rows, ABC):
    """The function that multiplies blocks of rows by panels."""

    def __init__(self, p: Phase, problem: QuantizedProblem, plan: QuantizedPlan) -> None:
        super().__init__(p, problem, plan)
        self.starts = plan.panels.starts(p)
        self.shifts = _shifts(p, problem)
        self.output = QuantizedOutput(p, plan.panels)
        self.units = OrderedUnits(p, plan.panels.count, plan.blocks, plan.order)

    @abstractmethod
    def write_block(self, block: Block) -> None:
        """Write what multiplies a block of rows by a panel."""

    def write(self) -> None:
        """Write all of it."""
        with self.p.units() as unit:
            batch, group, panel, block = self._place_of(unit)
            weight = self.problem.numbers.offset(batch) + group
            place = self.e.index(weight) * self.panels.count + panel
            start = _further(self.starts, place * self.panels.width)
            column = self.e.index(group) * self.problem.columns + panel * self.panels.width
            side = self.output.panel(panel, column, start)
            number = self.e.index(batch) * self.problem.groups + group
            self.write_block(Block(self.place(batch, group), place, side, batch, number, block))

    def _place_of(self, unit: Value) -> tuple[Index, Index, Index, Index]:
        """Batch, group, panel and block of a unit."""
        panels, blocks = self.panels.count, self.plan.blocks
        several = largest(self.problem.batches) * self.problem.groups > 1
        rest, own = split(unit, panels * blocks) if several else (0, unit)
        panel, block = self.units.place(own)
        batch, group = split(rest, self.problem.groups)
        return batch, group, panel, block

    def line_of(self, block: Block, tile: Value) -> Line:
        """The line of rows that a tile is part of."""
        line, at = split(tile, self.plan.in_line)
        row = self.e.index(line) * self.plan.extent
        return Line(
            block.x + self.plan.outer.offset(line),
            block.batch * self.problem.rows + row,
            _further(self.shifts, block.number * self.problem.rows + row),
            self.e.index(at),
        )


class RegisterProduct(Product):
    """A product by tiles of vectors in registers."""

    def __init__(self, p: Phase, problem: QuantizedProblem, plan: QuantizedPlan) -> None:
        super().__init__(p, problem, plan)
        self.lines = plan.panels.lines_in(p, fetches=plan.fetches)

    def write_block(self, block: Block) -> None:
        """See the base class."""
        lines = self.lines(block.panel)
        first, last = tiles_of_block(
            self.e, block.number_in_panel, self.plan.tiles, self.plan.blocks
        )
        with self.e.loop(last, start=first, name="tile") as tile:
            line = self.line_of(block, tile)
            self._write_tile(_Task(line, lines, block.side))

    def _write_tile(self, task: _Task) -> None:
        """Write a tile of any height, given its number in its line."""
        at = task.line.tile
        if is_ranged(self.plan.extent):
            self._write_any(task)
            return
        for run in self.plan.runs:
            if len(self.plan.runs) == 1:
                self._write_run(task, run)
                continue
            inside = at < run.last if run.first == 0 else at >= run.first
            with self.e.when(inside):
                self._write_run(task, run)

    def _write_run(self, task: _Task, run: TileRun) -> None:
        first = task.line.tile * run.rows + run.shift
        sums = self._sums(task, run.rows, first)
        line = task.line
        task.side.put(line.row + first, sums, line.shifts_at(first), often=run == self.plan.usual)

    def _write_any(self, task: _Task) -> None:
        """Write a tile whose height is found as the code runs."""
        line = task.line
        first, rows = ranged_tile(self.e, self.plan.extent, self.plan.in_line, line.tile)
        for height in each_height(self.e, rows, self.plan.most):
            task.side.keep(self._sums(task, height, first))
        task.side.put_kept(line.row + first, rows, line.shifts_at(first))

    def _sums(self, task: _Task, height: int, first: Value) -> list[Value]:
        """The sums of a tile of some height."""
        base = task.line.x + first * self.plan.stride
        rows = [base + r * self.plan.stride for r in range(height)]
        return task.lines.add(self.e, rows, task.side.initial * height)


@dataclass(frozen=True)
class Block:
    """A block of the rows of a batch times a panel: where both lie, and what sums begin with.

    `number` is that of the batch and group, `number_in_panel` that of the block.
    """

    x: Pointer
    panel: Value
    side: Side
    batch: Index
    number: Value
    number_in_panel: Index


@dataclass(frozen=True)
class Line:
    """A line of rows: where it lies, its first row, what to subtract if any, and a tile of it."""

    x: Pointer
    row: Value
    shifts: Pointer | None
    tile: Value

    def shifts_at(self, first: Value) -> Pointer | None:
        """What to subtract from rows of the line from one on."""
        return _further(self.shifts, first)


@dataclass(frozen=True)
class _Task:
    """A tile of a line, to be multiplied by the lines of a panel."""

    line: Line
    lines: Lines
    side: Side


def _shifts(p: Phase, problem: QuantizedProblem) -> Pointer | None:
    """What to subtract from the sums of each row, if there is something."""
    if not problem.weight.zero_point:
        return None
    return p.workspace("rows")


def _write_sums_of_rows(k: Kernel, problem: QuantizedProblem, plan: QuantizedPlan) -> None:
    """Write the phase that multiplies rows by ones, and the weight's zero point."""
    units = problem.batches * problem.groups * problem.rows
    lanes = plan.panels.lanes
    ones = np.arange(problem.steps * QUAD) < problem.run
    quads = ones.reshape(-1, 1, QUAD).repeat(lanes, 1)
    taps = (math.prod(problem.outer.extents), *[1] * quads.ndim)
    with k.phase(units, PACKED_ELEMENT * units * problem.depth, "rows") as p:
        rows, shifts = _Rows(p, problem, plan), _shifts(p, problem)
        assert shifts is not None
        panel = p.table("ones", np.tile(plan.panels.dots.pack(quads), taps).reshape(-1))
        with p.units() as unit:
            rest, row = split(unit, problem.rows)
            batch, group = split(rest, problem.groups)
            place = rows.place(batch, group) + problem.pixels.offset(row)
            zeros = [p.e.constant(i32, 0, lanes)]
            lines = EvenLines(panel, problem, plan.panels.dots, 1)
            (total,) = lines.add(p.e, [place], zeros)
            shifts.store(total.lane(0) * problem.weight.zero_point, unit)


def _further(pointer: Pointer | None, count: Value) -> Pointer | None:
    return None if pointer is None else pointer + count
