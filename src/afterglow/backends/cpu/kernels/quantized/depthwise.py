"""Depthwise convolutions of bytes: every result channel sees one channel of x.

A tile is a few neighbouring columns of results, a vector of channels at a time.
"""

from __future__ import annotations

import math

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.quantized.copying import copy_storage, write_copy
from afterglow.backends.cpu.kernels.quantized.depthwise_plan import DepthwisePlan
from afterglow.backends.cpu.kernels.quantized.depthwise_sums import FloatSums, QuadSums
from afterglow.backends.cpu.kernels.quantized.output import row_of
from afterglow.backends.cpu.kernels.quantized.problem import is_constant, operands
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.backends.cpu.micro.sliding import each_row
from afterglow.backends.cpu.micro.tile import halved_runs
from afterglow.instr import OpInstr
from afterglow.types.dtype import f32, i32

MOST_TAPS = 128
"""Places of a window whose products of two bytes are exact in f32 when summed up."""
MOST_COLUMNS = 8
"""Columns of a tile."""


def is_depthwise(step: OpInstr) -> bool:
    """Whether a convolution has one channel of x for each result, and not too large windows."""
    x, weight = operands(step)
    results, *kernel, inner = weight.type.shape
    few = 0 < math.prod(kernel) <= MOST_TAPS
    return is_constant(weight) and few and inner == 1 and results == x.type.shape[-1]


def depthwise_algorithm(r: KernelRequest) -> Algorithm:
    """The algorithm for such a convolution."""
    plan = DepthwisePlan(r)
    needs = KernelNeeds(copy_storage(plan.reading), packed=(1,))
    return Algorithm("depthwise", plan.work, lambda k: _write_depthwise(k, plan), needs)


def _write_depthwise(k: Kernel, plan: DepthwisePlan) -> None:
    """Write the kernel of such a convolution."""
    write_copy(k, plan.reading)
    with k.phase(plan.rows * plan.channels.blocks, plan.work) as p:
        each_row(p, plan.rows, plan.channels, _Writer(p, plan).write_row)


class _Writer:
    """Writes the phase that computes the results."""

    def __init__(self, p: Phase, plan: DepthwisePlan) -> None:
        self.p, self.e, self.plan = p, p.e, plan
        self.sums = QuadSums(p, plan) if plan.in_quads else FloatSums(p, plan)
        scale = p.step.optional(2)
        self.scale = None if scale is None else row_of(p, scale)
        self.sink = p.sink()

    def write_row(self, row: Index, bounds: tuple[Index, Index]) -> None:
        """Write all tiles of a row of results."""
        plan, e = self.plan, self.e
        start = self.sums.x + plan.lines.offset(row)
        for run in halved_runs(plan.columns, MOST_COLUMNS):
            with e.loop(run.last, start=run.first, name="tile") as tile:
                column = tile * run.rows + run.shift
                first = e.index(row) * plan.columns + column
                outs = [self.sink.row(first + i) for i in range(run.rows)]
                self._write_tile(start + column * plan.jump, outs, bounds)

    def _write_tile(self, place: Pointer, outs: list[SinkRow], bounds: tuple[Index, Index]) -> None:
        def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
            sums = self.sums.at(place, len(outs), channel, lanes, mask)
            for out, total in zip(outs, sums, strict=True):
                out.put(channel, self._result(total, channel, mask), mask)

        self.plan.channels.each(self.e, bounds, write_vector)

    def _result(self, total: Value, channel: Value, mask: Value | None) -> Value:
        lanes = total.lanes
        if self.scale is None:
            return convert(total, i32)
        return convert(total, f32) * self.scale.load(channel, lanes, mask).splat(lanes)
