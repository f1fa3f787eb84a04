"""Depthwise convolutions of bytes on machines without vectors, in integers.

A tile is a few neighbouring columns of one channel. Of x that has to be padded, only the lines are
copied that a line of the result reads.
"""

from __future__ import annotations

import math

import numpy as np

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.quantized.copying import zero_point_in
from afterglow.backends.cpu.kernels.quantized.line_copy import LineCopy
from afterglow.backends.cpu.kernels.quantized.output import row_of
from afterglow.backends.cpu.kernels.quantized.problem import operands, reading_of_conv
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.micro.tile import split_rows
from afterglow.backends.cpu.target import Target
from afterglow.ops.quantized import QuantizedConv
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, i8, i16, i32
from afterglow.types.extent import is_ranged

MOST_UNROLLED = 32
"""Places of a window that are written one by one; with more, rows of it are a loop."""
MOST_COLUMNS = 6
"""Columns of a tile, whose sums are in general registers."""


def depthwise_by_lines(r: KernelRequest) -> Algorithm | None:
    """The algorithm for such a convolution, where it is one for the machine."""
    x, _ = operands(r.step)
    extents = (*x.type.shape, *r.step.outs[0].type.shape)
    if not _suits(r.target) or any(map(is_ranged, extents)):
        return None
    plan = _Plan(r)
    lines = plan.copy.storage if plan.copy else {}
    needs = KernelNeeds(scratch={**lines, "tile": Storage(i32, MOST_COLUMNS)}, packed=(1,))
    return Algorithm("depthwise by lines", plan.work, lambda k: _write(k, plan), needs)


def _suits(target: Target) -> bool:
    """Whether sums of integers are faster than those of floats, one number at a time."""
    return not target.has_vectors and (target.dot_pairs or not target.fma)


def _write(k: Kernel, plan: _Plan) -> None:
    """Write the kernel: a unit is a line of the result."""
    with k.phase(plan.rows, plan.work) as p:
        writer = _Writer(p, plan)
        with p.units() as row:
            writer.write_row(row)


class _Plan:
    """The geometry of the convolution."""

    def __init__(self, k: KernelRequest) -> None:
        op, (x, weight) = k.step.op, operands(k.step)
        assert isinstance(op, QuantizedConv)
        result = k.step.outs[0].type.shape
        self.op, self.weight = op, weight
        self.reading = reading_of_conv(k.step, op, x.type.dtype)
        copied = self.reading.copied
        self.copy = LineCopy.of_conv(k.step, op, x.type.dtype) if copied else None
        self.kernel = weight.type.shape[1:-1]
        spatial = self.reading.strides[1:-1]
        jumps = [s * n for s, n in zip(spatial, op.strides, strict=True)]
        holes = [s * n for s, n in zip(spatial, op.dilations, strict=True)]
        outer = self.copy.strides if self.copy else tuple(holes[:-1])
        self.lines = Axes.merged(result[:-2], (self.reading.strides[0], *jumps[:-1]))
        self.outer = Axes.merged(self.kernel[:-1], outer)
        self.jump, self.hole = jumps[-1], holes[-1]
        self.rows, self.columns = math.prod(result[:-2]), result[-2]
        self.channels = result[-1]
        self.work = 2.0 * math.prod(result) * math.prod(self.kernel)

    @property
    def width(self) -> int:
        """Places of a window along columns."""
        return self.kernel[-1]

    @property
    def stored(self) -> DType:
        """The element type of packed weights."""
        plain = self.weight.type.dtype is i8 and not self.op.weight_zero_point
        return i8 if plain else i16

    def pack(self, weight: Array) -> Array:
        """The weight as [places, channels]."""
        return self._differences(weight).astype(self.stored.numpy)

    def pack_starts(self, weight: Array) -> Array:
        """What sums begin with.

        If the zero point of x is an operand, that is still to be multiplied by it.
        """
        zero_point = self.op.x_zero_point if self.reading.zero is None else 1
        return np.asarray(self._differences(weight).sum(0) * -zero_point, np.int32)

    def _differences(self, weight: Array) -> Array:
        by_place = weight.reshape(weight.shape[0], -1).T.astype(np.int32)
        return by_place - self.op.weight_zero_point


class _Writer:
    """Writes the phase that computes the results."""

    def __init__(self, p: Phase, plan: _Plan) -> None:
        self.p, self.e, self.plan = p, p.e, plan
        self.copy = plan.copy.writer(p) if plan.copy else None
        self.x = self.copy.pointer if self.copy else p.pointer(plan.reading.x)
        self.weight = p.packed(plan.weight, "by_place", plan.pack, plan.stored)
        self.starts = p.packed(plan.weight, "starts", plan.pack_starts, i32)
        scale, bias = p.step.optional(2), p.step.optional(3)
        self.scale = None if scale is None else row_of(p, scale)
        self.bias = None if bias is None else row_of(p, bias)
        dynamic = plan.reading.zero is not None
        self.zero = zero_point_in(p, plan.reading, i32) if dynamic else None
        self.sink, self.tile = p.sink(), p.scratch("tile")

    def write_row(self, row: Value) -> None:
        """Write all tiles of a row of results."""
        plan, e, start = self.plan, self.e, self.x
        if self.copy:
            self.copy.write(row)
        else:
            start = self.x + plan.lines.offset(row)
        for run in split_rows(plan.columns, MOST_COLUMNS):
            with e.loop(run.last, start=run.first, name="tile") as tile:
                column = tile * run.rows + run.shift
                self._write_tile(start + column * plan.jump, row * plan.columns + column, run.rows)

    def _write_tile(self, place: Pointer, first: Value, columns: int) -> None:
        """Write some columns from a row of the result on, for all channels."""
        outs = [self.sink.row(first + i) for i in range(columns)]
        with self.e.loop(self.plan.channels, name="channel") as channel:
            begin = self._begin(channel)
            scale = None if self.scale is None else self.scale.load(channel, 1)
            sums = self._sums(place + channel, self.weight + channel, [begin] * columns)
            for out, total in zip(outs, self._kept(sums), strict=True):
                out.put(channel, total if scale is None else convert(total, f32) * scale)

    def _begin(self, channel: Value) -> Value:
        """What the sums of a channel begin with."""
        begin = self.starts.load(channel)
        begin = begin if self.zero is None else begin * self.zero
        return begin if self.bias is None else begin + self.bias.load(channel, 1)

    def _kept(self, sums: list[Value]) -> list[Value]:
        """The sums through memory: so LLVM finishes all of them before what becomes of the first.

        Else it would begin a division early, and keep for that what all sums read.
        """
        for number, total in enumerate(sums):
            self.tile.store(total, number, in_order=True)
        return [self.tile.load(number) for number in range(len(sums))]

    def _sums(self, x: Pointer, weight: Pointer, sums: list[Value]) -> list[Value]:
        """The sums of neighbouring columns, given what they begin with."""
        plan, taps = self.plan, math.prod(self.plan.kernel[:-1])

        def add_row(tap: Index, sums: list[Value]) -> list[Value]:
            factors = weight + tap * (plan.width * plan.channels)
            return self._add(x + plan.outer.offset(tap), factors, sums)

        if taps * plan.width > MOST_UNROLLED:
            return self.e.fold(taps, sums, add_row, name="tap")
        for tap in range(taps):
            sums = add_row(tap, sums)
        return sums

    def _add(self, x: Pointer, weight: Pointer, sums: list[Value]) -> list[Value]:
        """Add what one row of the windows contributes; elements that several see are read once."""
        plan = self.plan
        users: dict[int, list[tuple[int, int]]] = {}
        for column in range(len(sums)):
            for tap in range(plan.width):
                place = column * plan.jump + tap * plan.hole
                users.setdefault(place, []).append((column, tap))
        factors = [
            convert(weight.load(tap * plan.channels, in_order=True), i32)
            for tap in range(plan.width)
        ]
        sums = list(sums)
        for place in sorted(users):
            element = convert((x + place).load(in_order=True), i32)
            for column, tap in users[place]:
                sums[column] = element * factors[tap] + sums[column]
        return sums
