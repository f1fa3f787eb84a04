"""Reductions: sums, means, products and extremes along axes.

Long lines are reduced in blocks of a fixed size, whose results are joined in a second phase: so
threads can share one line, the order of additions is always the same, and their error stays small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from operator import add, mul

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.line_tile import LineTile, tile_of
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms
from afterglow.backends.cpu.kernels.tiled_reduction import TileFold, write_tiled
from afterglow.backends.cpu.llvm.emitter import Value, maximum, minimum
from afterglow.backends.cpu.micro.access import (
    Reader,
    open_sink,
    open_source,
    placed_sink,
    placed_source,
)
from afterglow.backends.cpu.micro.cost import REDUCED_ELEMENT, plain_cost, work_of
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.layout import LineLayout, lay_out, lifted
from afterglow.backends.cpu.micro.reduction_line import ReductionLine, each_line
from afterglow.backends.cpu.micro.reduction_lines import (
    LineCut,
    ReductionLines,
    arithmetic_type,
    lanes_of,
)
from afterglow.backends.cpu.micro.staged import Fold, Partials, Results, partials_storage
from afterglow.backends.cpu.pointwise import compute
from afterglow.backends.cpu.target import Target
from afterglow.graph import Op
from afterglow.ops.elementwise import Div, Mul
from afterglow.ops.reduction import (
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reduction,
)
from afterglow.types.dtype import DType, boolean, f32, f64
from afterglow.types.extent import largest

BLOCK = 1 << 14
"""Elements of a block: enough to be worth handing out, few enough to be summed exactly."""
SIDE = 8
"""Vectors of lines side by side, so that memory is read in long runs."""
TILED = 0.5
"""How long a reduction takes whose elements are loaded once for several lines."""
ENOUGH_GROUPS = 8
"""So many groups of lines side by side are enough for threads to share."""

_COMBINE: dict[type[Op], Callable[[Value, Value], Value]] = {
    ReduceSum: add,
    ReduceMean: add,
    ReduceProd: mul,
    ReduceMax: maximum,
    ReduceMin: minimum,
}


@algorithms(ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, fuses=("x",))
def reduction(r: KernelRequest) -> list[Algorithm]:
    """A reduction: of long lines in blocks."""
    op, x = r.step.op, r.step.required[0]
    assert isinstance(op, Reduction)
    dtype = arithmetic_type(x.type.dtype)
    lines = lines_side_by_side(r.target, _layout(r, op, full_lanes(r.target, dtype)), dtype)
    blocks = replace(lines, cut=block_cut(lines))
    cost = plain_cost(r.job)
    tile = tile_of(r, lines)
    tiled = [] if tile is None else [_tiled(op, tile, cost)]
    if blocks.cut is None:
        return [*tiled, Algorithm(DIRECT, cost, lambda k: _write_in_one(k, op, lines))]
    needs = KernelNeeds(workspace={"partials": partials_storage(blocks)})
    in_blocks = Algorithm("in-blocks", cost, lambda k: _write_in_blocks(k, op, blocks), needs)
    return [*tiled, in_blocks]


def _tiled(op: Reduction, tile: LineTile, cost: float) -> Algorithm:
    """The algorithm that loads elements once for several lines."""
    settings = {"tile": (tile.height, tile.side)}
    return Algorithm(
        "tiled", TILED * cost, lambda k: _write_tiled(k, op, tile), tile.needs, settings
    )


def _work(k: Kernel) -> float:
    x = k.step.required[0]
    return work_of(x.type.size, REDUCED_ELEMENT)


def _write_in_one(k: Kernel, op: Reduction, lines: ReductionLines) -> None:
    """Reduce each line as a whole."""
    with k.phase(lines.units, _work(k)) as p:
        fold = _fold(p, op, lines.layout)
        _write_results(p, lines, fold, lambda line: fold.run(line, []))


def _write_tiled(k: Kernel, op: Reduction, tile: LineTile) -> None:
    """Reduce lines that share operands side by side."""
    length = tile.layout.length

    def finish(total: Value) -> Value:
        if isinstance(op, ReduceMean):
            return compute(Div(), total.dtype, [total, total.like(length)])
        return total

    dtype = k.step.required[0].type.dtype
    is_product = isinstance(k.job.before[-1].op, Mul) and dtype in (f32, f64)
    products = is_product and _COMBINE[type(op)] is add
    fold = TileFold(_initial(op, dtype), _COMBINE[type(op)], finish, products)
    write_tiled(k, tile, fold, _work(k))


def _layout(k: KernelRequest, op: Reduction, lanes: int) -> LineLayout:
    x = k.step.required[0]
    shape = x.type.shape
    axes = [axis % len(shape) for axis in op.axes]
    sink = {b: lifted(s, axes, keepdims=op.keepdims) for b, s in placed_sink(k).items()}
    return lay_out(shape, axes, placed_source(k), sink, lanes)


def lines_side_by_side(
    target: Target, layout: LineLayout, dtype: DType, carried: int = 1
) -> ReductionLines:
    """The lines of a layout, in groups that leave registers free if each carries some values."""
    lanes = lanes_of(target, dtype, layout)
    columns = largest(layout.columns) // lanes
    side = max(1, min(SIDE, target.vector_registers // (carried + 1), columns))
    lines = ReductionLines(layout, dtype, lanes, side)
    while lines.side > 2 and largest(replace(lines, cut=block_cut(lines)).units) < ENOUGH_GROUPS:
        lines = replace(lines, side=lines.side // 2)
    return lines


def block_cut(lines: ReductionLines) -> LineCut | None:
    """Blocks of lines that are long; None if they are not."""
    layout = lines.layout
    columns = lines.side * lines.lanes if layout.across else largest(layout.columns)
    cut = LineCut(layout, BLOCK)
    if not cut.is_along_row:
        cut = LineCut(layout, max(1, BLOCK // max(1, columns)))
    return cut if largest(cut.blocks) > 1 else None


def _write_in_blocks(k: Kernel, op: Reduction, blocks: ReductionLines) -> None:
    """Reduce each block of each line in one phase, join what they have found in another."""
    with k.phase(blocks.units, _work(k), "blocks") as p:
        fold = _fold(p, op, blocks.layout)
        partials = Partials.of(p, "partials", blocks)
        each_line(p, blocks, lambda line: partials.save(line, fold.run(line, [])))
    assert blocks.cut is not None
    lines, joined = replace(blocks, cut=None), blocks.cut.blocks * k.step.outs[0].type.size
    with k.phase(lines.units, work_of(joined, REDUCED_ELEMENT), "joined") as p:
        fold = _fold(p, op, blocks.layout)
        joining = Partials.of(p, "partials", blocks)
        _write_results(
            p, lines, fold, lambda line: joining.joined(line, fold.initial, fold.combine)
        )


def _write_results(
    p: Phase, lines: ReductionLines, fold: Fold, reduced: Callable[[ReductionLine], list[Value]]
) -> None:
    sink = open_sink(p, lines.layout.result_shape, lines.layout.result_sink)
    each_line(p, lines, lambda line: line.put(sink, fold.finished(reduced(line), [])))


def _fold(p: Phase, op: Reduction, layout: LineLayout) -> Fold:
    source: Reader = open_source(p, layout.shape, layout.source)

    def mean(total: Value, _: Results, __: int) -> Value:
        return compute(Div(), total.dtype, [total, total.like(layout.length)])

    def same(value: Value, _: Results, __: int) -> Value:
        return value

    x = p.step.required[0]
    return Fold(
        _initial(op, x.type.dtype),
        lambda position, _: position.load(source),
        _COMBINE[type(op)],
        mean if isinstance(op, ReduceMean) else same,
    )


def _initial(op: Op, dtype: DType) -> float:
    """What is reduced with anything and leaves it as it is."""
    match op:
        case ReduceSum() | ReduceMean():
            return 0
        case ReduceProd():
            return 1
    smallest = isinstance(op, ReduceMin)
    if dtype is boolean:
        return int(smallest)
    if dtype.is_float:
        return math.inf if smallest else -math.inf
    values = 1 << dtype.bits
    low = -(values // 2) if dtype.is_signed else 0
    return low + values - 1 if smallest else low
