"""Winograd's products: the matrix of each place of a block times a panel of the weight."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind, starts
from afterglow.backends.cpu.kernels.conv.panels import ConvWeights
from afterglow.backends.cpu.kernels.conv.sums import sums_over
from afterglow.backends.cpu.kernels.conv.winograd.output import OutputTransform
from afterglow.backends.cpu.kernels.conv.winograd.plan import WinogradPlan
from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, quotient
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.types.dtype import f32


class BlockProducts:
    """Writes the products of a block with a panel, and their transformation into results."""

    def __init__(self, p: Phase, plan: WinogradPlan, factors: ConvWeights) -> None:
        self.e, self.plan = p.e, plan
        self.products = p.scratch("products")
        self.multiply = PlaceProduct(p, plan)
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
                self.multiply.write(matrix, factors, columns, to, first)
            with e.loop(plan.left(e, first), name="tile") as tile:
                self.output.write(first + tile, self.products + tile * columns.width, columns)


class PlaceProduct:
    """Writes the products of one place of a block with a panel."""

    def __init__(self, p: Phase, plan: WinogradPlan) -> None:
        self.e, self.plan = p.e, plan
        self.module, self.name = p.kernel.module, p.kernel.name

    def write(
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
