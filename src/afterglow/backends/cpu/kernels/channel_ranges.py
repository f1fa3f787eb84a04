"""The smallest, the largest and the mean element of each channel in one walk, and their reach.

Many rows are walked in blocks, whose results are joined in a second phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from operator import add

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.reduction import block_cut, lines_side_by_side
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms, kernel
from afterglow.backends.cpu.llvm.emitter import (
    Value,
    absolute,
    any_lane,
    clamp,
    first_lanes,
    is_nan,
    larger,
    maximum,
    minimum,
    reduce_max,
    reinterpret,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.access import Reader, open_source, placed_source
from afterglow.backends.cpu.micro.cost import REDUCED_ELEMENT, plain_cost, work_of
from afterglow.backends.cpu.micro.fusion import SourceRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.layout import lay_out, lifted
from afterglow.backends.cpu.micro.reduction_line import Position, ReductionLine, each_line
from afterglow.backends.cpu.micro.reduction_lines import ReductionLines
from afterglow.backends.cpu.micro.rows import Rows
from afterglow.backends.cpu.micro.staged import Partials, Results, partials_storage
from afterglow.backends.cpu.pointwise import compute
from afterglow.ops.elementwise import Div
from afterglow.ops.histogram import EXPONENT, ONE_MORE, ChannelRanges, Reach
from afterglow.types.dtype import f32, i32

Combine = tuple[Callable[[Value, Value], Value], ...]

_FAST: Combine = (
    lambda old, new: smaller(new, old),
    lambda old, new: larger(new, old),
    add,
)
"""How what was found is combined with an element; NaN shows in the sum alone."""
_CAREFUL: Combine = (minimum, maximum, add)
"""The same, but NaN shows in all results."""
INITIAL = (math.inf, -math.inf, 0.0)
"""What was found before the first element."""
NAMES = ("low", "high", "sum")
"""What is found of each channel."""


@algorithms(ChannelRanges, epilogue=False)
def channel_ranges(r: KernelRequest) -> list[Algorithm]:
    """In blocks, if rows are many."""
    lines = _lines(r)
    blocks = replace(lines, cut=block_cut(lines))
    cost = plain_cost(r.job)
    if blocks.cut is None:
        return [Algorithm(DIRECT, cost, lambda k: _write_in_one(k, lines))]
    needs = KernelNeeds({name: partials_storage(blocks) for name in NAMES})
    return [Algorithm("in-blocks", cost, lambda k: _write_in_blocks(k, blocks), needs)]


def _lines(r: KernelRequest) -> ReductionLines:
    x = r.step.required[0].type
    axes = range(x.rank - 1)
    sink = {out: lifted(out.strides, axes, keepdims=False) for out in r.step.outs}
    layout = lay_out(x.shape, axes, placed_source(r), sink, full_lanes(r.target, f32))
    return lines_side_by_side(r.target, layout, f32, len(NAMES))


def _work(k: Kernel) -> float:
    return work_of(k.step.required[0].type.size, REDUCED_ELEMENT)


def _write_in_one(k: Kernel, lines: ReductionLines) -> None:
    with k.phase(lines.units, _work(k)) as p:
        source = open_source(p, lines.layout.shape, lines.layout.source)
        sinks = _Sinks(p, lines)
        each_line(p, lines, lambda line: sinks.put(line, _walk(line, source)))


def _write_in_blocks(k: Kernel, blocks: ReductionLines) -> None:
    with k.phase(blocks.units, _work(k), "blocks") as p:
        source = open_source(p, blocks.layout.shape, blocks.layout.source)
        partials = [Partials.of(p, name, blocks) for name in NAMES]

        def save(line: ReductionLine) -> None:
            """Leave what is found in a block."""
            for place, found in zip(partials, _walk(line, source), strict=True):
                place.save(line, found)

        each_line(p, blocks, save)
    assert blocks.cut is not None
    lines = replace(blocks, cut=None)
    joined = blocks.cut.blocks * blocks.layout.columns * len(NAMES)
    with k.phase(lines.units, work_of(joined, REDUCED_ELEMENT), "joined") as p:
        partials = [Partials.of(p, name, blocks) for name in NAMES]
        sinks = _Sinks(p, lines)
        each_line(p, lines, lambda line: sinks.put(line, _joined(line, partials)))


def _walk(line: ReductionLine, source: Reader) -> Results:
    """What is found of each of the lines side by side: all low ones, high ones, then sums.

    Only if a sum is NaN, which infinities may be the reason of as well, is it worth the time to
    look for NaN at every element.
    """
    found = _folded(line, source, _FAST)
    strange = is_nan(found[2][0])
    for total in found[2][1:]:
        strange = strange | is_nan(total)
    flat = line.p.e.branch(
        any_lane(strange),
        lambda: [value for part in _folded(line, source, _CAREFUL) for value in part],
        lambda: [value for part in found for value in part],
    )
    count = len(found[0])
    return [list(flat[count * n : count * (n + 1)]) for n in range(len(NAMES))]


def _folded(line: ReductionLine, source: Reader, combine: Combine) -> Results:
    def step(position: Position, carried: list[Value]) -> list[Value]:
        x = position.load(source)
        return [function(old, x) for function, old in zip(combine, carried, strict=True)]

    def join(a: list[Value], b: list[Value]) -> list[Value]:
        return [function(x, y) for function, x, y in zip(combine, a, b, strict=True)]

    start = [line.p.e.constant(f32, number) for number in INITIAL]
    found = line.fold(start, step, join)
    return [list(part) for part in zip(*found, strict=True)]


def _joined(line: ReductionLine, partials: list[Partials]) -> Results:
    """What all blocks have found."""
    how = zip(partials, INITIAL, _CAREFUL, strict=True)
    return [part.joined(line, initial, combine) for part, initial, combine in how]


class _Sinks:
    """The three results."""

    def __init__(self, p: Phase, lines: ReductionLines) -> None:
        layout = lines.layout
        self.count = layout.length
        self.rows = [
            Rows(p.pointer(out), layout.result_shape, layout.result_sink[out])
            for out in p.step.outs
        ]

    def put(self, line: ReductionLine, found: Results) -> None:
        """Write what was found; the last are means of sums."""
        means = [compute(Div(), f32, [total, total.like(self.count)]) for total in found[2]]
        for rows, values in zip(self.rows, [*found[:2], means], strict=True):
            row = rows.row(line.number)
            for (offset, mask), value in zip(line.vectors, values, strict=True):
                row.store(value, line.start + offset, mask)


@kernel(Reach)
def write_reach(k: Kernel) -> None:
    """Write a kernel that finds the largest magnitude, and makes a power of two of its exponent."""
    op, operands = k.step.op, k.step.required
    assert isinstance(op, Reach)
    work = work_of(sum(x.type.size for x in operands), REDUCED_ELEMENT)
    with k.phase(1, work) as p:
        sources, result = [p.source(number) for number in range(len(operands))], p.sink().row(0)
        with p.units():
            found = [_largest_magnitude(p, s.row(0), s.buffer.type.shape[0]) for s in sources]
            size = maximum(*found)
            bits = reinterpret(clamp(size, op.least / 2, op.most / 2), i32)
            power = reinterpret((bits & EXPONENT) + ONE_MORE, f32)
            result.put(0, select(is_nan(size), power.like(op.most), power))


def _largest_magnitude(p: Phase, row: SourceRow, count: int) -> Value:
    """The largest magnitude in a row; NaN if one is."""
    lanes = full_lanes(p.target, f32)
    whole = count // lanes * lanes

    def step(column: Value, found: list[Value]) -> list[Value]:
        return [maximum(found[0], absolute(row.load(column, lanes)))]

    zeros = p.e.constant(f32, 0, lanes)
    (found,) = p.e.fold(whole, [zeros], step, step=lanes)
    rest = first_lanes(p.e.index(count - whole), lanes)  # lanes beyond are zeros
    return reduce_max(maximum(found, absolute(row.load(whole, lanes, rest))))
