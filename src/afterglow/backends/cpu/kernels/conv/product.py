"""The convolution itself: tiles of pixels times panels of weights, summed up in registers."""

from __future__ import annotations

from dataclasses import replace
from operator import add

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind
from afterglow.backends.cpu.kernels.conv.geometry import Geometry
from afterglow.backends.cpu.kernels.conv.padding import (
    needs_copy,
    padded_storage,
    pointer_to_x,
    strides_of_x,
    write_padded,
)
from afterglow.backends.cpu.kernels.conv.panels import ConvWeights, factors_needs, packs_operands
from afterglow.backends.cpu.kernels.conv.sums import sums_over
from afterglow.backends.cpu.kernels.conv.tiling import ConvPlan
from afterglow.backends.cpu.kernels.table import DIRECT
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value
from afterglow.backends.cpu.micro.kernel import Kernel, KernelRequest, Phase
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import sum_type, tiles_of_block
from afterglow.backends.cpu.micro.unit_order import OrderedUnits
from afterglow.instr import OpInstr
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import largest


def product_algorithm(r: KernelRequest, cost: float) -> Algorithm:
    """The product of all windows with the weight, as it is defined."""
    geometry = Geometry.of(r.step, strides_of_x(r.step))
    plan = ConvPlan.of(geometry, r.target, sum_type(r.step.outs[0].type.dtype))
    needs = factors_needs(r.step, plan.panels, geometry.groups, geometry.depth)
    copy = padded_storage(r.step)
    return Algorithm(
        DIRECT,
        cost,
        lambda k: _write_product(k, plan),
        replace(needs, workspace={**copy, **needs.workspace}),
        {"tile": (plan.tiles.runs[0].rows, plan.panels.width), "blocks": largest(plan.blocks)},
        waits=waits_in_product(r.step),
    )


def waits_in_product(step: OpInstr) -> int:
    """How often threads wait in the product: for operands that are copied or packed before."""
    return int(needs_copy(step) or packs_operands(step, 1, 2))


def _write_product(k: Kernel, plan: ConvPlan) -> None:
    """Write the phases that multiply x, or its padded copy, with the weight."""
    if needs_copy(k.step):
        write_padded(k)
    geometry = plan.geometry
    factors = ConvWeights(k, plan.panels, geometry.groups, geometry.depth)
    factors.write_packing()
    with k.phase(plan.units, geometry.work) as p:
        product = _Product(p, plan, factors)
        with p.units() as unit:
            product.write(unit)


class _Product:
    """The main phase while it is being written."""

    def __init__(self, p: Phase, plan: ConvPlan, factors: ConvWeights) -> None:
        self.e = p.e
        self.plan = plan
        self.weight, self.bias = factors.panels_in(p), factors.bias_in(p)
        self.x = pointer_to_x(p)
        self.sink = p.sink()
        panels = plan.geometry.groups * plan.panels.count
        self.units = OrderedUnits(p, panels, plan.blocks, plan.order)

    def write(self, unit: Value) -> None:
        """One unit: a panel of a group, on a block of tiles."""
        e, panels, geometry = self.e, self.plan.panels, self.plan.geometry
        place, block = self.units.place(unit)
        group, number = (e.index(part) for part in split(place, panels.count))
        first, last = tiles_of_block(e, block, self.plan.tiles.count, self.plan.blocks)
        x = self.x + group * geometry.group_stride
        column = group * panels.padded + number * panels.width
        factors = self.weight + column * geometry.depth
        for columns in each_kind(e, panels, group, number):
            bias = None if self.bias is None else self.bias + column
            side = _Side(x, factors, columns, bias)
            self._write_tiles(side, first, last)

    def _write_tiles(self, side: _Side, first: Index, last: Index) -> None:
        tiles, e = self.plan.tiles, self.e
        with e.loop(last, start=first, name="tile") as number:
            several = largest(tiles.lines) > 1
            line, in_line = split(number, tiles.in_line) if several else (0, number)
            place = e.index(in_line)
            for run in tiles.runs:
                if len(tiles.runs) == 1 and not tiles.tail:
                    self._write_tile(side, run.rows, line, place * run.rows + run.shift)
                    continue
                with e.when(place < run.last if run.first == 0 else place >= run.first):
                    self._write_tile(side, run.rows, line, place * run.rows + run.shift)
            self._write_tail(side, line, place)

    def _write_tail(self, side: _Side, line: Index, place: Value) -> None:
        """The tile that has what is left of a line, in pieces."""
        tiles, e = self.plan.tiles, self.e
        if not tiles.tail:
            return
        with e.when(place >= tiles.runs[0].last):
            begin = place * tiles.runs[0].rows
            with e.loop(tiles.extent, start=begin, step=tiles.tail, name="piece") as piece:
                self._write_tile(side, tiles.tail, line, piece, e.index(tiles.extent) - piece)

    def _write_tile(
        self,
        side: _Side,
        height: int,
        line: Index,
        begin: Value,
        left: Value | None = None,
    ) -> None:
        """Sum up all pixels of a tile, add the bias, and write the results to the sink.

        Of a tile that need not be full, the number of places that are left is given.
        """
        tiles, e = self.plan.tiles, self.e
        first = e.index(line) * tiles.pixels_in_line + begin * len(tiles.within)
        rows = tiles.rows(side.x, height, line, begin, left)
        taps, widths = self.plan.geometry.taps, side.columns.widths
        ranged, fetches = bool(tiles.tail), self.plan.fetches
        found = sums_over(e, taps, rows, side.factors, widths, fetches=fetches, settles=ranged)
        vectors, bias = len(side.columns.widths), side.loaded_bias()
        for number in range(len(rows)):
            values = found[number * vectors : (number + 1) * vectors]
            made = map(add, values, bias) if bias else values
            if left is None or number == 0:
                side.columns.put(self.sink, first + number, made)
                continue
            with e.when(left > number):
                side.columns.put(self.sink, first + number, made)


@dataclass(frozen=True)
class _Side:
    """Shared by the tiles of a panel: x of its group, its factors, its columns, its bias."""

    x: Pointer
    factors: Pointer
    columns: Columns
    bias: Pointer | None

    def loaded_bias(self) -> list[Value]:
        """The bias in the vectors of the columns; empty if there is none."""
        return [] if self.bias is None else self.columns.load(self.bias)
