"""Convolutions of 3 x 3 by Winograd's minimal filtering: fewer products, at the cost of transforms.

Tiles of x are transformed, multiplied place by place with transformed weights, and transformed
back. Blocks of tiles go through all three while they are in the second cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind, starts
from afterglow.backends.cpu.kernels.conv.panels import ConvWeights, bias_needs
from afterglow.backends.cpu.kernels.conv.sums import sums_over
from afterglow.backends.cpu.kernels.conv.winograd.input import InputTransform, TileReading
from afterglow.backends.cpu.kernels.conv.winograd.output import OutputTransform
from afterglow.backends.cpu.kernels.conv.winograd.plan import FEW_BLOCKS, WinogradPlan
from afterglow.backends.cpu.kernels.conv.winograd.weights import (
    WeightPanels,
    weight_needs,
    write_weight,
)
from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, quotient
from afterglow.backends.cpu.micro.cost import WINOGRAD_INPUT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.instr import OpInstr, Region
from afterglow.types.dtype import f32
from afterglow.types.extent import largest

IN_RUN = "in run"
"""The setting of plans that transform constant weights in each run, which takes less memory."""


def winograd_algorithm(step: OpInstr, plan: WinogradPlan) -> Algorithm:
    """Winograd's algorithm for a convolution, by a plan."""
    weight, bias = weight_needs(step, plan), bias_needs(step, plan.panels, 1)
    matrices = plan.places * plan.matrix
    is_constant = step.required[1].region is Region.CONSTANT
    scratch = {
        "products": Storage(f32, plan.places * plan.product),
        "between": Storage(f32, plan.size * plan.side * plan.panels.width),
        **weight.scratch,
    }
    workspace = {**weight.workspace, **bias.workspace}
    if plan.shares_panels != 0:
        blocks = min(largest(plan.blocks), FEW_BLOCKS - 1)
        workspace["matrices"] = Storage(f32, blocks * matrices)
    if plan.shares_panels != 1:
        scratch["matrices"] = Storage(f32, matrices)
    scratch |= TileReading.of_x(step, plan).scratch(step, plan)
    return Algorithm(
        "winograd",
        float(plan.cost_of([largest(n) for n in (plan.batch, *plan.extents)])),
        lambda k: _write_winograd(k, plan),
        KernelNeeds(workspace, scratch, (*weight.packed, *bias.packed)),
        {"size": plan.size, **({"weights": IN_RUN} if plan.in_run and is_constant else {})},
        is_exact=False,
        weight_growth=_weight_growth(step, plan),
    )


def _weight_growth(step: OpInstr, plan: WinogradPlan) -> int:
    """Bytes that a transformed weight takes besides those of the weight, if it is packed."""
    if plan.in_run:
        return 0  # it is filled up to whole panels, as by any algorithm
    size = plan.panels.padded * plan.places * plan.channels
    return size * f32.itemsize - step.required[1].type.nbytes


def _write_winograd(k: Kernel, plan: WinogradPlan) -> None:
    """Write the kernel: blocks one by one; where they are few, panels are shared too.

    If that depends on extents, it is written in both ways, of which one has no units in a run.
    """
    factors = ConvWeights(k, plan.panels, 1, plan.channels * plan.places)
    factors.write_bias()
    write_weight(k, plan)
    if plan.shares_panels != 0:
        _write_apart(k, plan, factors)
    if plan.shares_panels != 1:
        _write_in_one(k, plan, factors)


def _write_in_one(k: Kernel, plan: WinogradPlan, factors: ConvWeights) -> None:
    """One phase: a unit transforms the tiles of a block, then computes all their results."""
    units = plan.blocks * (1 - plan.shares_panels)
    name = "" if plan.shares_panels == 0 else "_blocks"
    with k.phase(units, plan.work, f"winograd{plan.size}{name}") as p:
        matrices = p.scratch("matrices")
        products, transform = (
            _Products(p, plan, factors),
            InputTransform(p, plan, TileReading.of_x(p.step, plan)),
        )
        weight = WeightPanels(p, plan)
        with p.units() as block:
            first = block * plan.tiles
            with p.e.loop(plan.left(p.e, first), name="tile") as tile:
                transform.write(first + tile, matrices + tile * plan.line)
            with p.e.loop(plan.panels.count, name="panel") as panel:
                products.write(matrices, block, panel, weight.panel(panel))


def _write_apart(k: Kernel, plan: WinogradPlan, factors: ConvWeights) -> None:
    """Two phases: all tiles are transformed; then a unit is a panel of a block."""
    size, share = plan.places * plan.matrix, plan.shares_panels
    work = largest(plan.count) * plan.channels * WINOGRAD_INPUT
    with k.phase(plan.count * share, work, f"winograd{plan.size}_input") as p:
        matrices = p.workspace("matrices")
        transform = InputTransform(p, plan, TileReading.of_x(p.step, plan))
        with p.units() as tile:
            block, place = split(tile, plan.tiles) if largest(plan.blocks) > 1 else (0, tile)
            transform.write(tile, matrices + p.e.index(block) * size + place * plan.line)
    blocks = plan.blocks if plan.transforms_apart else 1
    with k.phase(blocks * plan.panels.count * share, plan.work, f"winograd{plan.size}") as p:
        matrices, weight = p.workspace("matrices"), WeightPanels(p, plan)
        products = _Products(p, plan, factors)
        with p.units() as unit:
            panel, first = split(unit, blocks)
            factor = weight.panel(p.e.index(panel))
            last = p.e.index(first) + (1 if plan.transforms_apart else plan.blocks)
            with p.e.loop(last, start=first, name="block") as block:
                products.write(matrices + block * size, block, panel, factor)


class _Products:
    """Writes the products of a block with a panel, and their transformation into results."""

    def __init__(self, p: Phase, plan: WinogradPlan, factors: ConvWeights) -> None:
        self.e, self.plan = p.e, plan
        self.module, self.name = p.kernel.module, p.kernel.name
        self.products = p.scratch("products")
        self.output = OutputTransform(p, plan, factors.bias_in(p))

    def write(self, matrices: Pointer, block: Index, panel: Index, weight: Pointer) -> None:
        """All places of a block, then its tiles of the result, given a panel of the weight."""
        e, plan = self.e, self.plan
        number, first = e.index(panel), e.index(block) * plan.tiles
        for columns in each_kind(e, plan.panels, e.index(0), number):
            with e.loop(plan.places, name="place") as place:
                factors = weight + place * (plan.channels * columns.width)
                to = self.products + place * plan.product
                matrix = matrices + place * plan.matrix
                self._multiply_block(matrix, factors, columns, to, first)
            with e.loop(plan.left(e, first), name="tile") as tile:
                self.output.write(first + tile, self.products + tile * columns.width, columns)

    def _multiply_block(
        self, matrix: Pointer, factors: Pointer, columns: Columns, to: Pointer, first: Value
    ) -> None:
        """The matrix of one place of the block that begins with a tile, times the panel."""
        e, plan = self.e, self.plan
        if not plan.heights:
            for run in plan.runs:
                with e.loop(run.last, start=run.first, name="rows") as number:
                    begin = number * run.rows + run.shift
                    memory = matrix, factors, to
                    _multiply(e, plan, columns.widths, memory, begin, run.rows)
            return
        name = f"{self.name}_rows{plan.size}x{columns.width}"
        function = self.module.helper(name, lambda e: _write_rows(e, plan, columns.widths))
        e.run(function, matrix, factors, to, plan.left(e, first))


def _write_rows(e: Emitter, plan: WinogradPlan, widths: Sequence[int]) -> None:
    """A function that multiplies as many rows of a matrix as it is told by a panel.

    Tiles are as even as can be; what lies behind the last row is multiplied with it.
    """
    matrix, factors, to = (e.pointer(name, f32) for name in ("matrix", "factors", "to"))
    count, most = e.count("count"), plan.heights[-1]
    tiles = quotient(count + (most - 1), most) if plan.room > most else e.index(1)
    rows = quotient(count + tiles - 1, tiles) if plan.room > most else count
    for lower, height in pairwise((0, *plan.heights)):
        with e.when((rows > lower) & (rows <= height)), e.loop(tiles, name="rows") as number:
            _multiply(e, plan, widths, (matrix, factors, to), number * rows, height)


def _multiply(
    e: Emitter,
    plan: WinogradPlan,
    widths: Sequence[int],
    memory: tuple[Pointer, Pointer, Pointer],
    begin: Value,
    height: int,
) -> None:
    """Some rows of a matrix times a panel: `memory` is the matrix, the panel and the products."""
    matrix, factors, to = memory
    base, place = matrix + begin * plan.line, to + begin * sum(widths)
    rows = [base + row * plan.line for row in range(height)]
    taps = Axes((plan.channels,), (1,))
    ranged = bool(plan.heights)
    found = iter(sums_over(e, taps, rows, factors, widths, fetches=True, settles=ranged))
    for row in range(height):
        for start, _ in starts(widths):
            place.store(next(found), row * sum(widths) + start)
