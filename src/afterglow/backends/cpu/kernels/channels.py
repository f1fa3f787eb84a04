"""Moments and sums of channels: each element is read once from memory, in blocks of rows.

The moments of a block are found in two walks, while it is in the cache; those of all blocks are
joined by how far their means lie from the mean of all. So the variance is as exact as if all
elements were read twice, and threads can share the blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import add

from afterglow.backends.broadcast import strides_within
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.reduction import block_cut, lines_side_by_side
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms
from afterglow.backends.cpu.llvm.emitter import Value, convert, fma, smaller
from afterglow.backends.cpu.micro.cost import REDUCED_ELEMENT, plain_cost, work_of
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.layout import LineLayout, lay_out, lifted
from afterglow.backends.cpu.micro.reduction_line import Position, ReductionLine, each_line
from afterglow.backends.cpu.micro.reduction_lines import ReductionLines, arithmetic_type
from afterglow.backends.cpu.micro.rows import Rows
from afterglow.backends.cpu.micro.staged import Partials, partials_storage
from afterglow.instr import OpInstr
from afterglow.ops.channels import ChannelMoments, ChannelReduction, ChannelSums
from afterglow.types.extent import smallest

Pair = tuple[list[Value], list[Value]]
"""Two numbers for each of the vectors of a line."""
PARTIALS = "partials0", "partials1"


def has_elements(step: OpInstr) -> bool:
    """Whether there is an element of each channel, for certain."""
    return smallest(step.required[0].type.size) > 0


@algorithms(ChannelMoments, ChannelSums, epilogue=False, accepts=has_elements)
def channel_reduction(r: KernelRequest) -> list[Algorithm]:
    """Two numbers for each channel."""
    op, x = r.step.op, r.step.required[0]
    assert isinstance(op, ChannelReduction)
    dtype = arithmetic_type(x.type.dtype)
    layout = _layout(r, op, full_lanes(r.target, dtype))
    lines = lines_side_by_side(r.target, layout, dtype, carried=2)
    lines = replace(lines, cut=block_cut(lines))
    work = work_of(x.type.size, REDUCED_ELEMENT * len(r.step.required))
    needs = KernelNeeds()
    if lines.cut is not None:
        needs = KernelNeeds(workspace={name: partials_storage(lines) for name in PARTIALS})
    return [Algorithm(DIRECT, plain_cost(r.job), lambda k: _write(k, op, lines, work), needs)]


def _layout(r: KernelRequest, op: ChannelReduction, lanes: int) -> LineLayout:
    shape = r.step.required[0].type.shape
    axes = op.others(len(shape))
    source = {b: strides_within(b, shape, op.axis) for b in r.step.required}
    sink = {b: lifted(b.strides, axes, keepdims=False) for b in r.step.outs}
    return lay_out(shape, axes, source, sink, lanes)


def _write(k: Kernel, op: ChannelReduction, lines: ReductionLines, work: float) -> None:
    make = _Moments if isinstance(op, ChannelMoments) else _Sums
    if lines.cut is None:
        with k.phase(lines.units, work) as p:
            found = make(p, lines)
            put = _writer(p, lines.layout)
            each_line(p, lines, lambda line: put(line, found.of_one(line)))
        return
    with k.phase(lines.units, work, "blocks") as p:
        found, partials = make(p, lines), _partials(p, lines)
        each_line(p, lines, lambda line: _save(line, partials, found.of_block(line)))
    joined = replace(lines, cut=None)
    count = 2 * lines.cut.blocks * k.step.outs[0].type.size
    with k.phase(joined.units, work_of(count, REDUCED_ELEMENT), "joined") as p:
        found, partials = make(p, lines), _partials(p, lines)
        put = _writer(p, lines.layout)
        each_line(p, joined, lambda line: put(line, found.of_all(line, partials)))


def _partials(p: Phase, lines: ReductionLines) -> tuple[Partials, Partials]:
    first, second = (Partials.of(p, name, lines) for name in PARTIALS)
    return first, second


def _save(line: ReductionLine, partials: tuple[Partials, Partials], found: Pair) -> None:
    for partial, values in zip(partials, found, strict=True):
        partial.save(line, values)


def _writer(p: Phase, layout: LineLayout) -> Callable[[ReductionLine, Pair], None]:
    """What writes both numbers."""
    sinks = [Rows(p.pointer(b), layout.result_shape, layout.result_sink[b]) for b in p.step.outs]

    def put(line: ReductionLine, found: Pair) -> None:
        for rows, out, values in zip(sinks, p.step.outs, found, strict=True):
            row = rows.row(line.number)
            for (offset, mask), value in zip(line.vectors, values, strict=True):
                row.store(convert(value, out.type.dtype), line.start + offset, mask)

    return put


class _Walks:
    """What the walks of a phase read: the operands, in the layout of the lines."""

    def __init__(self, p: Phase, lines: ReductionLines) -> None:
        self.p, self.lines = p, lines
        layout = lines.layout
        self.operands = [
            Rows(p.pointer(b), layout.shape, layout.source[b]) for b in p.step.required
        ]
        self.zero = p.e.constant(lines.dtype, 0)


class _Sums(_Walks):
    """The sum of a gradient, and that of its products with what differs from the mean."""

    def of_block(self, line: ReductionLine) -> Pair:
        """Those of the elements of a block, or of all."""
        grad, x, mean = self.operands

        def step(position: Position, sums: list[Value]) -> list[Value]:
            slope = position.load(grad)
            centred = position.load(x) - position.load(mean)
            return [sums[0] + slope, fma(slope, centred, sums[1])]

        found = line.fold([self.zero] * 2, step, _added)
        return [total for total, _ in found], [product for _, product in found]

    def of_one(self, line: ReductionLine) -> Pair:
        """The same: all elements are one block."""
        return self.of_block(line)

    def of_all(self, line: ReductionLine, partials: tuple[Partials, Partials]) -> Pair:
        """The sums of all blocks."""
        first, second = (partial.joined(line, 0, add) for partial in partials)
        return first, second


class _Moments(_Walks):
    """Mean and variance; of a block the sum, and the squares of what differs from its mean."""

    def of_block(self, line: ReductionLine) -> Pair:
        """Those of a block."""
        (x,), count = self.operands, self._count(line)
        totals = line.fold([self.zero], lambda position, sums: [sums[0] + position.load(x)], _added)
        means = [total / count.splat(total.lanes) for (total,) in totals]

        def step(position: Position, sums: list[Value]) -> list[Value]:
            centred = position.load(x) - means[position.which]
            return [fma(centred, centred, sums[0])]

        squares = line.fold([self.zero], step, _added)
        return [total for (total,) in totals], [square for (square,) in squares]

    def of_one(self, line: ReductionLine) -> Pair:
        """Those of all elements, which are few."""
        totals, squares = self.of_block(line)
        return self._shared(totals), self._shared(squares)

    def of_all(self, line: ReductionLine, partials: tuple[Partials, Partials]) -> Pair:
        """Those of all blocks."""
        means = self._shared(partials[0].joined(line, 0, add))
        return means, self._shared(self._spread(line, partials, means))

    def _spread(
        self, line: ReductionLine, partials: tuple[Partials, Partials], means: list[Value]
    ) -> list[Value]:
        """The squares of what differs from the mean of all."""
        layout, cut = self.lines.layout, self.lines.cut
        assert cut is not None
        lanes = means[0].lanes

        def step(block: Value, sums: list[Value]) -> list[Value]:
            extent = smaller(self.p.e.index(cut.extent) - block * cut.size, cut.size)
            across = layout.across or cut.is_along_row
            count = self._number(extent if across else extent * layout.columns).splat(lanes)
            total, square = (
                partial.rows.row(line.number * partial.blocks + block) for partial in partials
            )
            found = []
            for (offset, mask), mean, before in zip(line.vectors, means, sums, strict=True):
                place = line.start + offset
                away = total.load(place, lanes, mask) / count - mean
                found.append(before + fma(away * away, count, square.load(place, lanes, mask)))
            return found

        start = self.p.e.constant(self.lines.dtype, 0, lanes)
        return self.p.e.fold(cut.blocks, [start] * len(means), step, name="block")

    def _shared(self, totals: list[Value]) -> list[Value]:
        """Totals divided by the number of elements of a channel."""
        length = self._number(self.p.e.index(self.lines.layout.length))
        return [total / length.splat(total.lanes) for total in totals]

    def _count(self, line: ReductionLine) -> Value:
        """How many elements of each line a block has."""
        window, e = line.window, self.p.e
        rows = e.index(window.last_row) - window.first_row
        if self.lines.layout.across:
            return self._number(rows)
        return self._number(rows * (e.index(window.last_column) - window.first_column))

    def _number(self, count: Value) -> Value:
        """A count as a number to divide by."""
        return convert(count, self.lines.dtype)


def _added(a: list[Value], b: list[Value]) -> list[Value]:
    return [x + y for x, y in zip(a, b, strict=True)]
