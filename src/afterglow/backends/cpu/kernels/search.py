"""Where extremes are, and running sums and products."""

from __future__ import annotations

from dataclasses import replace
from operator import add, mul

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import Value
from afterglow.backends.cpu.micro.access import (
    Reader,
    Writer,
    lines_along,
    open_sink,
    open_source,
    placed_sink,
    placed_source,
)
from afterglow.backends.cpu.micro.cost import SEARCHED_ELEMENT, work_of
from afterglow.backends.cpu.micro.extreme import ExtremeSearch
from afterglow.backends.cpu.micro.kernel import Kernel
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.layout import lay_out, lifted
from afterglow.backends.cpu.micro.reduction_line import Position, ReductionLine, each_line
from afterglow.backends.cpu.micro.reduction_lines import (
    ReductionLines,
    arithmetic_type,
    lanes_of,
)
from afterglow.ops.reduction import CumProd, CumSum, Running
from afterglow.ops.search import ArgExtreme, ArgMax, ArgMin

SIDE = 4
"""Vectors of lines side by side, so that one need not wait for the other."""


@kernel(ArgMax, ArgMin)
def write_arg_extreme(k: Kernel) -> None:
    """Write the kernel that finds the place of the largest or smallest of each line."""
    op, x = k.step.op, k.step.required[0]
    assert isinstance(op, ArgExtreme)
    shape, dtype = x.type.shape, arithmetic_type(x.type.dtype)
    axes = (op.axis % len(shape),)
    placed = {b: lifted(s, axes, keepdims=op.keepdims) for b, s in placed_sink(k).items()}
    layout = lay_out(shape, axes, placed_source(k), placed, full_lanes(k.target, dtype))
    lines = ReductionLines(layout, dtype, lanes_of(k.target, dtype, layout))
    search = ExtremeSearch(largest=isinstance(op, ArgMax), last=op.last_index)
    with k.phase(lines.units, work_of(x.type.size, SEARCHED_ELEMENT)) as p:
        source = open_source(p, layout.shape, layout.source)
        sink = open_sink(p, layout.result_shape, layout.result_sink)
        each_line(p, lines, lambda line: line.put(sink, search.positions(line, source)))


@kernel(CumSum, CumProd)
def write_running(k: Kernel) -> None:
    """Write the kernel of running sums or products: vectors across lines, or else one by one."""
    op, x = k.step.op, k.step.required[0]
    assert isinstance(op, Running)
    along = lines_along(k, op.axis)
    lines = replace(along, lanes=along.lanes if along.layout.across else 1, side=SIDE)
    with k.phase(lines.units, work_of(x.type.size, SEARCHED_ELEMENT)) as p:
        source = open_source(p, lines.layout.shape, lines.layout.source)
        sink = open_sink(p, lines.layout.shape, lines.layout.sink)
        each_line(p, lines, lambda line: _accumulate(line, op, source, sink))


def _accumulate(line: ReductionLine, op: Running, source: Reader, sink: Writer) -> None:
    function, neutral = (add, 0) if isinstance(op, CumSum) else (mul, 1)
    e, lines = line.p.e, line.lines
    length = lines.layout.length

    def step(count: Value, totals: list[Value]) -> list[Value]:
        place = (length - 1) - count if op.reverse else count
        return [one(place, which, total) for which, total in enumerate(totals)]

    def one(place: Value, which: int, total: Value) -> Value:
        offset, mask = line.vectors[which]
        row, column = (place, line.start + offset) if lines.layout.across else (0, place)
        position = Position(line, row, column, mask, which)
        following: Value = function(total, position.load(source))
        position.put(sink, total if op.exclusive else following)
        return following

    start = e.constant(lines.dtype, neutral, lines.lanes)
    e.fold(length, [start] * len(line.vectors), step)
