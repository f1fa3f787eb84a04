"""Products of bytes by register tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
from afterglow.backends.cpu.micro.cost import BYTE_FLOP, PACKED_ELEMENT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import TileRun, each_height, ranged_tile, tiles_of_block
from afterglow.types.dtype import i32
from afterglow.types.extent import is_ranged, largest


def product_algorithm(r: KernelRequest) -> Algorithm:
    """The algorithm for a product of bytes."""
    problem = problem_of(r.step, r.target)
    plan = plan_of(problem, r.target)
    panels, rows = plan.panels, plan.most
    workspace = {**copy_storage(problem.reading), **panels.storage}
    if problem.weight.zero_point:
        count = problem.batches * problem.groups * problem.rows
        workspace["rows"] = Storage(i32, count)
    needs = KernelNeeds(
        workspace,
        scratch={"tile": Storage(i32, rows * panels.width)},
        packed=(1,) if problem.weight.is_constant else (),
    )
    return Algorithm(
        DIRECT,
        BYTE_FLOP * problem.work,
        lambda k: _write_product(k, problem, plan),
        needs,
        {"tile": (rows, panels.vectors, panels.lanes), "blocks": largest(plan.blocks)},
    )


def _write_product(k: Kernel, problem: QuantizedProblem, plan: QuantizedPlan) -> None:
    """Write the phases of a product; a unit is a panel with a block of rows."""
    write_copy(k, problem.reading)
    plan.panels.write_packing(k)
    if problem.weight.zero_point:
        _write_sums_of_rows(k, problem, plan)
    units = problem.batches * problem.groups * plan.panels.count * plan.blocks
    with k.phase(units, BYTE_FLOP * problem.work) as p:
        _Product(p, problem, plan).write()


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


class _Product(_Rows):
    """The function that multiplies blocks of rows by panels."""

    def __init__(self, p: Phase, problem: QuantizedProblem, plan: QuantizedPlan) -> None:
        super().__init__(p, problem, plan)
        self.lines, self.starts = plan.panels.lines_in(p), plan.panels.starts(p)
        self.shifts = _shifts(p, problem)
        self.output = QuantizedOutput(p, plan.panels)

    def write(self) -> None:
        """Write all of it."""
        with self.p.units() as unit:
            batch, group, panel, block = self._place_of(unit)
            weight = self.problem.numbers.offset(batch) + group
            place = self.e.index(weight) * self.panels.count + panel
            start = self.starts + place * self.panels.width
            lines = self.lines(place)
            column = self.e.index(group) * self.problem.columns + panel * self.panels.width
            side = self.output.panel(panel, column, start)
            rows, number = (
                self.place(batch, group),
                self.e.index(batch) * self.problem.groups + group,
            )
            first, last = tiles_of_block(self.e, block, self.plan.tiles, self.plan.blocks)
            with self.e.loop(last, start=first, name="tile") as tile:
                line, at = split(tile, self.plan.in_line)
                row, x = self.e.index(line) * self.plan.extent, rows + self.plan.outer.offset(line)
                shifts = _further(self.shifts, number * self.problem.rows + row)
                first_row = batch * self.problem.rows + row
                task = _Task(x, lines, side, first_row, shifts)
                self._write_tile(task, self.e.index(at))

    def _place_of(self, unit: Value) -> tuple[Index, Index, Index, Index]:
        """Batch, group, panel and block of a unit."""
        panels, blocks = self.panels.count, self.plan.blocks
        if self.plan.by_block:
            rest, panel = split(unit, panels)
            rest, block = split(rest, blocks)
        else:
            rest, block = split(unit, blocks)
            rest, panel = split(rest, panels)
        batch, group = split(rest, self.problem.groups)
        return batch, group, panel, block

    def _write_tile(self, task: _Task, at: Value) -> None:
        """Write a tile of any height, given its number in its line."""
        if is_ranged(self.plan.extent):
            self._write_any(task, at)
            return
        for run in self.plan.runs:
            if len(self.plan.runs) == 1:
                self._write_run(task, run, at)
                continue
            inside = at < run.last if run.first == 0 else at >= run.first
            with self.e.when(inside):
                self._write_run(task, run, at)

    def _write_run(self, task: _Task, run: TileRun, at: Value) -> None:
        first = at * run.rows + run.shift
        sums = self._sums(task, run.rows, first)
        shifts = _further(task.shifts, first)
        task.side.put(task.row + first, sums, shifts, often=run == self.plan.usual)

    def _write_any(self, task: _Task, at: Value) -> None:
        """Write a tile whose height is found as the code runs."""
        first, rows = ranged_tile(self.e, self.plan.extent, self.plan.in_line, at)
        for height in each_height(self.e, rows, self.plan.most):
            task.side.keep(self._sums(task, height, first))
        task.side.put_kept(task.row + first, rows, _further(task.shifts, first))

    def _sums(self, task: _Task, height: int, first: Value) -> list[Value]:
        """The sums of a tile of some height."""
        base = task.x + first * self.plan.stride
        rows = [base + r * self.plan.stride for r in range(height)]
        return task.lines.add(self.e, rows, task.side.initial * height)


@dataclass(frozen=True)
class _Task:
    """A line of rows times a panel: where both lie, its first row, and what to subtract if any."""

    x: Pointer
    lines: Lines
    side: Side
    row: Value
    shifts: Pointer | None


def _shifts(p: Phase, problem: QuantizedProblem) -> Pointer | None:
    """What to subtract from the sums of each row, if there is something."""
    if not problem.weight.zero_point:
        return None
    return p.workspace("rows")


def _write_sums_of_rows(k: Kernel, problem: QuantizedProblem, plan: QuantizedPlan) -> None:
    """Write the phase that multiplies rows by ones, and the weight's zero point."""
    units = problem.batches * problem.groups * problem.rows
    lanes = plan.panels.lanes
    ones = np.arange(problem.quads * QUAD) < problem.run
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
