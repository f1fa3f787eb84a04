"""The plan of a product of bytes: tiles of rows times panels of columns, and units of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from afterglow.backends.cpu.kernels.quantized.dots import Dots, dots_of, lists_lines
from afterglow.backends.cpu.kernels.quantized.listed import ListedPanels, can_list
from afterglow.backends.cpu.kernels.quantized.problem import QuantizedProblem
from afterglow.backends.cpu.kernels.quantized.weights import BytePanels
from afterglow.backends.cpu.micro.accumulate import FEW_TILES
from afterglow.backends.cpu.micro.cost import BYTE_RESULT_VECTOR, BYTE_UNIT
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.micro.tile import ENOUGH_SUMS, TileRun, split_rows
from afterglow.backends.cpu.micro.unit_order import UnitOrder
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged, larger_extent, largest, smaller_extent, smallest

MOST_VECTORS = 4
"""Vectors side by side in a panel."""
MOST_ROWS = 14
"""Rows of a tile: more would make the code long, and nothing faster."""
FEW_ROWS = 6
"""The same where rows are ranged, and there is code for tiles of every height."""
MOST_BLOCKS = 64
WORD_BYTES = 4
"""Bytes of the weights of a column that are multiplied at once."""
MakePanels = Callable[[QuantizedProblem, int, int], BytePanels]
LEAST_LANES = 4
"""Lanes of the shortest vectors."""


@dataclass(frozen=True)
class QuantizedPlan:
    """Panels, and runs of tiles along lines of rows: `outer` says where in x lines begin.

    Runs of a ranged extent are those of the longest line: others have tiles that are not as high.
    """

    panels: BytePanels
    outer: Axes
    extent: int
    stride: int
    runs: tuple[TileRun, ...]
    blocks: int
    order: UnitOrder

    @property
    def most(self) -> int:
        """Rows of the highest tiles."""
        return max((run.rows for run in self.runs), default=0)

    @property
    def in_line(self) -> int:
        """Tiles of a line."""
        if is_ranged(self.extent):
            return -(-self.extent // self.most)
        return self.runs[-1].last if self.runs else 0

    @property
    def usual(self) -> TileRun:
        """The run with the most tiles."""
        return max(self.runs, key=lambda run: run.last - run.first)

    @property
    def tiles(self) -> int:
        """Tiles of a batch."""
        return math.prod(self.outer.extents) * self.in_line

    @property
    def fetches(self) -> bool:
        """Whether panels are fetched ahead."""
        return smallest(self.tiles) <= FEW_TILES


def plan_of(problem: QuantizedProblem, target: Target) -> QuantizedPlan:
    """The plan for a problem of bytes."""
    dots = dots_of(target)
    listed = lists_lines(target) and can_list(problem)
    make = ListedPanels.of_listed if listed else partial(BytePanels.of, dots)
    return best_plan(problem, target, dots, make)


def best_plan(
    problem: QuantizedProblem, target: Target, dots: Dots, make: MakePanels
) -> QuantizedPlan:
    """The plan with the cheapest tile, given how panels of some vectors and lanes are made."""
    full = max(1, target.vector_bits // 32)
    registers = target.vector_registers if target.has_vectors else target.general_registers
    plans = []
    most = FEW_ROWS if any(map(is_ranged, problem.pixels.extents[-1:])) else MOST_ROWS
    for lanes in _lanes(full, problem.columns):
        for vectors in range(1, MOST_VECTORS + 1):
            if vectors == 1 or (vectors - 1) * lanes < problem.columns:
                rows = (registers - vectors - dots.spare) // vectors
                panels = make(problem, vectors, lanes)
                plans.append(cut_rows(problem, panels, max(1, min(rows, most)), target))
    return min(plans, key=lambda plan: _cost(plan, full))


def _lanes(full: int, columns: int) -> list[int]:
    """Lanes of vectors to try: half as many may fill the last panel better."""
    halves = full >= 2 * LEAST_LANES and columns % full
    return [full, full // 2] if halves else [full]


def cut_rows(
    problem: QuantizedProblem, panels: BytePanels, rows: int, target: Target
) -> QuantizedPlan:
    """The plan with tiles of some rows at most, along the last axis of the rows."""
    *before, last = problem.pixels.extents or (1,)
    *jumps, stride = problem.pixels.strides or (0,)
    if is_ranged(last):
        rows = min(rows, largest(last))
        runs: tuple[TileRun, ...] = (TileRun(rows, 0, -(-largest(last) // rows), 0),)
    else:
        runs = tuple(split_rows(last, rows))
    plan = QuantizedPlan(
        panels, Axes(tuple(before), tuple(jumps)), last, stride, runs, 1, UnitOrder.PANELS
    )
    blocks, order = _blocks(problem, panels, plan.tiles, target)
    return replace(plan, blocks=blocks, order=order)


def _blocks(
    problem: QuantizedProblem, panels: BytePanels, tiles: int, target: Target
) -> tuple[int, UnitOrder]:
    """Units large enough to be handed out, in an order that reads slow memory least."""
    units = largest(problem.batches) * problem.groups * panels.count
    wanted = math.ceil(problem.work / BYTE_UNIT / max(1, units))
    row_bytes = largest(problem.rows) * problem.depth * problem.reading.dtype.itemsize
    order = UnitOrder.of(row_bytes, problem.lines * WORD_BYTES * problem.columns, target)
    if order is UnitOrder.CHUNKS and largest(problem.batches) * problem.groups > 1:
        order = UnitOrder.PANELS
    if order is UnitOrder.BLOCKS:
        wanted = max(wanted, 8 * row_bytes // target.caches.l2)
    return larger_extent(1, smaller_extent(min(wanted, MOST_BLOCKS), tiles)), order


def _cost(plan: QuantizedPlan, full: int) -> float:
    """About the time, in multiplications of vectors of full length."""
    share = plan.panels.lanes / full
    vectors, lines = plan.panels.vectors, plan.panels.problem.lines
    total = 0.0
    for run in plan.runs:
        step = max(run.rows * vectors * share, ENOUGH_SUMS, run.rows + vectors)
        tile = lines * step + BYTE_RESULT_VECTOR * run.rows * vectors * share
        total += (run.last - run.first) * tile
    return total * plan.panels.count
