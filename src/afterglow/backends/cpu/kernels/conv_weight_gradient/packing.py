"""What taps see of x, packed: a line of columns for each window, and where its slopes lie."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from afterglow.backends.cpu.kernels.conv.columns import Columns
from afterglow.backends.cpu.kernels.conv.padding import copy_run
from afterglow.backends.cpu.kernels.conv_weight_gradient.plan import WeightGradientPlan
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    equal,
    first_lanes,
    larger,
    quotient,
    remainder,
    smaller,
)
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.rows import Axes, Row, split
from afterglow.backends.cpu.micro.sliding import WindowAxis
from afterglow.support.lazy_dataclass import dataclass

Span = tuple[Value, Value]
"""The first of some windows along an axis, and the one after the last."""


@dataclass(frozen=True)
class Block:
    """Lines of windows from `first` to before `last`; of each those from `left` to before `right`.

    Lines are numbered through the images, and the windows of all axes but the last in `seen`.
    """

    seen: Sequence[Span]
    first: Value
    last: Value
    left: Value
    right: Value

    @property
    def width(self) -> Value:
        """Windows of a line."""
        return self.right - self.left

    @property
    def count(self) -> Value:
        """All windows."""
        return (self.last - self.first) * self.width

    def line(self, number: Value) -> tuple[Value, list[Value]]:
        """The image of a line, and its windows along all axes but the last."""
        windows: list[Value] = []
        for low, high in self.seen[-2::-1]:
            windows.insert(0, remainder(number, high - low) + low)
            number = quotient(number, high - low)
        return number, windows


def seen_windows(axis: WindowAxis, tap: Value) -> Span:
    """The windows along an axis in which a tap lies inside x."""
    before, stride = 0 - tap * axis.dilation + axis.begin, axis.stride
    first = larger(quotient(larger(before + (stride - 1), 0), stride), 0)
    behind = quotient(larger(before + (axis.extent - 1 + stride), 0), stride)
    return first, larger(smaller(behind, axis.count), first)


def seen_lines(e: Emitter, plan: WeightGradientPlan, seen: Sequence[Span]) -> Value:
    """How many lines of windows there are in all images, if those are seen along each axis."""
    return math.prod((high - low for low, high in seen[:-1]), start=e.index(plan.batch))


def each_block(
    e: Emitter, plan: WeightGradientPlan, seen: Sequence[Span], chunk: Value, chunks: int
) -> Iterator[Block]:
    """Write code for each block of a chunk of the windows that are seen."""
    lines, size = seen_lines(e, plan, seen), plan.lines_of_block
    count, (left, right) = quotient(lines + (size - 1), size), seen[-1]
    first, last = (quotient((chunk + n) * count, chunks) for n in (0, 1))
    with e.loop(last, start=first, name="block") as number:
        begin = number * size
        end = smaller(begin + size, lines)
        if not plan.cuts_lines:
            yield Block(seen, begin, end, left, right)
            return
        with e.loop(right, start=left, step=plan.block, name="piece") as piece:
            yield Block(seen, begin, end, piece, smaller(piece + plan.block, right))


class Packing:
    """Writes the code that packs the windows of a block, in one phase."""

    def __init__(self, p: Phase, plan: WeightGradientPlan) -> None:
        self.e, self.plan = p.e, plan
        self.x = p.pointer(plan.x)
        self.packed, self.offsets = p.scratch("packed"), p.scratch("offsets")

    def write_panel(
        self, block: Block, group: Value, taps: Sequence[Value], columns: Columns
    ) -> None:
        """Pack the channels that one tap sees."""
        e, axis, step = self.e, self.plan.axes[-1], self.plan.x.strides[-1]
        masks = masks_of(e, columns)
        for image, windows, place in self._lines(block):
            source = self._group(group, image) + columns.first * step
            for own, window, tap in zip(self.plan.axes, (*windows, block.left), taps, strict=True):
                source = source + place_of(own, window, tap) * own.step
            with e.loop(block.width, name="window") as window:
                row = Row(source + window * (axis.stride * axis.step), step)
                to = self.packed + (place + window) * columns.width
                for (start, lanes), mask in zip(columns.vectors, masks, strict=True):
                    loaded = row.load(start, lanes, mask).splat(lanes)
                    to.store(convert(loaded, to.dtype), start)

    def write_windows(self, block: Block, group: Value) -> None:
        """Pack the channels that all taps see, zeros for those outside of x."""
        e, plan = self.e, self.plan
        *outer, last = plan.axes
        for image, windows, place in self._lines(block):
            begin = self._group(group, image)
            with e.loop(math.prod(axis.kernel for axis in outer), name="tap") as number:
                inside, source = equal(number, number), begin
                taps = tap_indices(e, outer, number)
                for axis, window, tap in zip(outer, windows, taps, strict=True):
                    index = place_of(axis, window, tap)
                    inside = inside & (index >= 0) & (index < axis.extent)
                    source = source + index * axis.step
                with e.loop(block.width, name="window") as window:
                    to = self.packed + (place + window) * plan.packed_line
                    to = to + number * (last.kernel * plan.inner)
                    self._write_run(source, to, (block.left + window) * last.stride, inside)

    def _write_run(self, source: Pointer, to: Pointer, index: Value, inside: Value) -> None:
        """Pack what the taps along the last axis see in one window."""
        e, plan, axis = self.e, self.plan, self.plan.axes[-1]
        step, first = plan.x.strides[-1], index - axis.begin
        whole = inside & (first >= 0) & (first <= axis.extent - axis.reach)
        run = Axes.merged((axis.kernel, plan.inner), (axis.dilation * axis.step, step))
        with e.when(whole):
            if len(run.extents) <= 1:
                length, stride = (*run.extents, 1)[0], (*run.strides, 1)[0]
                copy_run(e, source + first * axis.step, to, length, stride)
            else:
                self._copy_taps(source, to, first, None)
        with e.when(~whole):
            self._copy_taps(source, to, first, inside)

    def _copy_taps(self, source: Pointer, to: Pointer, first: Value, inside: Value | None) -> None:
        """Pack the channels of one tap after the other; zeros for those outside, if there are."""
        e, plan, axis = self.e, self.plan, self.plan.axes[-1]
        step = plan.x.strides[-1]
        with e.loop(axis.kernel, name="tap") as tap:
            index, place = first + tap * axis.dilation, to + tap * plan.inner
            if inside is None:
                copy_run(e, source + index * axis.step, place, plan.inner, step)
                return
            seen = inside & (index >= 0) & (index < axis.extent)
            with e.when(seen):
                copy_run(e, source + index * axis.step, place, plan.inner, step)
            with e.when(~seen):
                e.zero(place, plan.inner)

    def _lines(self, block: Block) -> Iterator[tuple[Value, list[Value], Value]]:
        """Write a block for each line: given its image, its windows, its first place in the block.

        Where the slopes of its windows lie is written as well.
        """
        e, strides = self.e, self.plan.slopes.strides
        with e.loop(block.last, start=block.first, name="line") as line:
            image, windows = block.line(line)
            places = (image, *windows, block.left)
            start = sum((index * s for index, s in zip(places, strides, strict=False)), e.index(0))
            place = (line - block.first) * block.width
            with e.loop(block.width, name="window") as window:
                offset = convert(start + window * strides[-2], self.plan.offset_type)
                self.offsets.store(offset, place + window)
            yield image, windows, place

    def _group(self, group: Value, image: Value) -> Pointer:
        """Where the channels of a group of an image begin in x."""
        batch, *_, channel = self.plan.x.strides
        return self.x + group * (self.plan.inner * channel) + image * batch


def tap_indices(e: Emitter, axes: Sequence[WindowAxis], number: Index) -> list[Value]:
    """The tap along each axis, given its number among all."""
    found: list[Value] = []
    for axis in reversed(axes):
        number, own = split(number, axis.kernel)
        found.insert(0, e.index(own))
    return found


def place_of(axis: WindowAxis, window: Value, tap: Value) -> Value:
    """Where a tap of a window lies in x."""
    return window * axis.stride + tap * axis.dilation - axis.begin


def masks_of(e: Emitter, columns: Columns) -> list[Value | None]:
    """For each vector of a panel, the lanes that x has."""
    left = [(columns.channels - start, lanes) for start, lanes in columns.vectors]
    return [None if n >= lanes else first_lanes(e.index(n), lanes) for n, lanes in left]
