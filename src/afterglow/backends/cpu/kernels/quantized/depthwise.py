"""Depthwise convolutions of bytes: every result channel sees one channel of x.

A tile is a few neighbouring columns of results, a vector of channels at a time. The arithmetic is
in floats, in which the sums of few enough products of bytes are exact.
"""

from __future__ import annotations

import math

import numpy as np

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.quantized.copying import (
    copy_storage,
    pointer_to_x,
    write_copy,
    zero_point_in,
)
from afterglow.backends.cpu.kernels.quantized.output import row_of
from afterglow.backends.cpu.kernels.quantized.problem import (
    is_constant,
    operands,
    reading_of_conv,
)
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert, fma
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.backends.cpu.micro.rows import Axes, Row
from afterglow.backends.cpu.micro.sliding import Channels, each_row
from afterglow.backends.cpu.micro.tile import halved_runs
from afterglow.instr import OpInstr
from afterglow.ops.quantized import QuantizedConv
from afterglow.types import Array
from afterglow.types.dtype import f32, i32

MOST_TAPS = 128
"""Places of a window whose products of two bytes are exact in f32 when summed up."""
MOST_UNROLLED = 32
"""Places of a window that are written one by one; with more, rows of it are a loop."""
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
    conv = _Depthwise(r)
    needs = KernelNeeds(copy_storage(conv.reading), packed=(1,))
    return Algorithm("depthwise", conv.work, lambda k: _write_depthwise(k, conv), needs)


def _write_depthwise(k: Kernel, conv: _Depthwise) -> None:
    """Write the kernel of such a convolution."""
    write_copy(k, conv.reading)
    with k.phase(conv.rows * conv.channels.blocks, conv.work) as p:
        each_row(p, conv.rows, conv.channels, _Writer(p, conv).write_row)


class _Depthwise:
    """The geometry of the convolution."""

    def __init__(self, k: KernelRequest) -> None:
        op, (x, weight) = k.step.op, operands(k.step)
        assert isinstance(op, QuantizedConv)
        result = k.step.outs[0].type.shape
        self.op, self.weight = op, weight
        self.reading = reading_of_conv(k.step, op, x.type.dtype)
        self.kernel = weight.type.shape[1:-1]
        spatial = self.reading.strides[1:-1]
        jumps = [s * n for s, n in zip(spatial, op.strides, strict=True)]
        holes = [s * n for s, n in zip(spatial, op.dilations, strict=True)]
        self.lines = Axes.merged(result[:-2], (self.reading.strides[0], *jumps[:-1]))
        self.outer = Axes.merged(self.kernel[:-1], holes[:-1])
        self.jump, self.hole = jumps[-1], holes[-1]
        self.rows, self.columns = math.prod(result[:-2]), result[-2]
        self.channels = Channels.of(k.target, result[-1], f32, x.type.dtype, self.rows)
        self.padded = -(-result[-1] // self.channels.lanes) * self.channels.lanes
        self.work = 2.0 * math.prod(result) * math.prod(self.kernel)

    @property
    def width(self) -> int:
        """Places of a window along columns."""
        return self.kernel[-1]

    def pack(self, weight: Array) -> Array:
        """The weight as [places, channels] of floats, and then what sums begin with.

        If the zero point of x is an operand, that is still to be multiplied by it.
        """
        by_place = weight.reshape(weight.shape[0], -1).T.astype(np.float32)
        differences = by_place - self.op.weight_zero_point
        zero_point = self.op.x_zero_point if self.reading.zero is None else 1
        starts = differences.sum(0, keepdims=True) * -zero_point
        rows = np.concatenate([differences, starts])
        return np.pad(rows, ((0, 0), (0, self.padded - rows.shape[1])))


class _Writer:
    """Writes the phase that computes the results."""

    def __init__(self, p: Phase, conv: _Depthwise) -> None:
        self.p, self.e, self.conv = p, p.e, conv
        self.x = pointer_to_x(p, conv.reading)
        self.weight = p.packed(conv.weight, "by_place", conv.pack, f32)
        scale, bias = p.step.optional(2), p.step.optional(3)
        self.scale = None if scale is None else row_of(p, scale)
        self.bias = None if bias is None else row_of(p, bias)
        self.zero = None if conv.reading.zero is None else zero_point_in(p, conv.reading, f32)
        self.sink = p.sink()

    def write_row(self, row: Index, bounds: tuple[Index, Index]) -> None:
        """Write all tiles of a row of results."""
        conv, e = self.conv, self.e
        start = self.x + conv.lines.offset(row)
        for run in halved_runs(conv.columns, MOST_COLUMNS):
            with e.loop(run.last, start=run.first, name="tile") as tile:
                column = tile * run.rows + run.shift
                first = e.index(row) * conv.columns + column
                outs = [self.sink.row(first + i) for i in range(run.rows)]
                self._write_tile(start + column * conv.jump, outs, bounds)

    def _write_tile(self, place: Pointer, outs: list[SinkRow], bounds: tuple[Index, Index]) -> None:
        def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
            sums = self._sums(place, len(outs), channel, lanes, mask)
            for out, total in zip(outs, sums, strict=True):
                out.put(channel, self._result(total, channel, mask), mask)

        self.conv.channels.each(self.e, bounds, write_vector)

    def _sums(
        self, place: Pointer, columns: int, channel: Value, lanes: int, mask: Value | None
    ) -> list[Value]:
        conv = self.conv
        weight, taps = self.weight + channel, math.prod(conv.kernel[:-1])
        begin = weight.load(math.prod(conv.kernel) * conv.padded, lanes)
        if self.zero is not None:
            begin = begin * self.zero.splat(lanes)

        def add_row(tap: Index, sums: list[Value]) -> list[Value]:
            factors = weight + tap * (conv.width * conv.padded)
            return self._add(
                Row(place + conv.outer.offset(tap), 1), factors, sums, channel, lanes, mask
            )

        sums = [begin] * columns
        if taps * conv.width > MOST_UNROLLED:
            return self.e.fold(taps, sums, add_row, name="tap")
        for tap in range(taps):
            sums = add_row(tap, sums)
        return sums

    def _add(
        self,
        x: Row,
        weight: Pointer,
        sums: list[Value],
        channel: Value,
        lanes: int,
        mask: Value | None,
    ) -> list[Value]:
        """Add what one row of the windows contributes; elements that several see are read once."""
        conv = self.conv
        users: dict[int, list[tuple[int, int]]] = {}
        for column in range(len(sums)):
            for tap in range(conv.width):
                place = column * conv.jump + tap * conv.hole
                users.setdefault(place, []).append((column, tap))
        factors = [weight.load(tap * conv.padded, lanes) for tap in range(conv.width)]
        sums = list(sums)
        for place in sorted(users):
            element = convert(Row(x.pointer + place, 1).load(channel, lanes, mask), f32)
            for column, tap in users[place]:
                sums[column] = fma(element, factors[tap], sums[column])
        return sums

    def _result(self, total: Value, channel: Value, mask: Value | None) -> Value:
        lanes = total.lanes
        if self.bias is not None:
            bias = self.bias.load(channel, lanes, mask).splat(lanes)
            total = convert(total, i32) + bias
        if self.scale is None:
            return convert(total, i32)
        return convert(total, f32) * self.scale.load(channel, lanes, mask).splat(lanes)
