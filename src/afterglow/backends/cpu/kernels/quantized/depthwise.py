"""Depthwise convolutions of bytes: every result channel sees one channel of x.

A tile is a few neighbouring columns of results, a vector of channels at a time. The arithmetic is
in floats, in which the sums of few enough products of bytes are exact; on machines without vectors
it may be in integers, and then only the lines of x are copied that a line of the result reads.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.quantized.copying import (
    copy_storage,
    pointer_to_x,
    write_copy,
    zero_point_in,
)
from afterglow.backends.cpu.kernels.quantized.line_copy import LineCopy
from afterglow.backends.cpu.kernels.quantized.output import row_of
from afterglow.backends.cpu.kernels.quantized.problem import (
    is_constant,
    operands,
    reading_of_conv,
)
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import Axes, Row
from afterglow.backends.cpu.micro.sliding import Channels, each_row
from afterglow.backends.cpu.micro.tile import halved_runs, multiply_add
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.ops.quantized import QuantizedConv
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, i8, i16, i32
from afterglow.types.extent import is_ranged

MOST_TAPS = 128
"""Places of a window whose products of two bytes are exact in f32 when summed up."""
MOST_UNROLLED = 32
"""Places of a window that are written one by one; with more, rows of it are a loop."""
MOST_COLUMNS = 8
"""Columns of a tile."""
FEW_COLUMNS = 6
"""The same where sums are in general registers."""


def is_depthwise(step: OpInstr) -> bool:
    """Whether a convolution has one channel of x for each result, and not too large windows."""
    x, weight = operands(step)
    results, *kernel, inner = weight.type.shape
    few = 0 < math.prod(kernel) <= MOST_TAPS
    return is_constant(weight) and few and inner == 1 and results == x.type.shape[-1]


def _suits_integers(target: Target) -> bool:
    """Whether sums of integers are faster than those of floats: one number at a time, at least."""
    return not target.has_vectors and (target.dot_pairs or not target.fma)


def depthwise_algorithm(r: KernelRequest) -> Algorithm:
    """The algorithm for such a convolution."""
    conv = _Depthwise(r)
    lines = conv.lines_of_x
    needs = KernelNeeds(
        {} if lines else copy_storage(conv.reading),
        scratch={
            **(lines.storage if lines else {}),
            "tile": Storage(i32, conv.most_columns),
        },
        packed=(1,),
    )
    return Algorithm("depthwise", conv.work, lambda k: _write_depthwise(k, conv), needs)


def _write_depthwise(k: Kernel, conv: _Depthwise) -> None:
    """Write the kernel of such a convolution."""
    if not conv.lines_of_x:
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
        self.dtype = i32 if _suits_integers(k.target) else f32
        self.lines_of_x = self._lines(k, op)
        spatial = self.reading.strides[1:-1]
        jumps = [s * n for s, n in zip(spatial, op.strides, strict=True)]
        holes = [s * n for s, n in zip(spatial, op.dilations, strict=True)]
        self.lines = Axes.merged(result[:-2], (self.reading.strides[0], *jumps[:-1]))
        self.outer = Axes.merged(self.kernel[:-1], holes[:-1])
        if self.lines_of_x:
            self.outer = Axes.merged(self.kernel[:-1], self.lines_of_x.strides)
        self.jump, self.hole = jumps[-1], holes[-1]
        self.rows, self.columns = math.prod(result[:-2]), result[-2]
        self.channels = Channels.of(k.target, result[-1], f32, x.type.dtype, self.rows)
        if self.lines_of_x:
            self.channels = replace(self.channels, blocks=1)
        self.padded = -(-result[-1] // self.channels.lanes) * self.channels.lanes
        self.work = 2.0 * math.prod(result) * math.prod(self.kernel)

    def _lines(self, k: KernelRequest, op: QuantizedConv) -> LineCopy | None:
        """The lines that are copied, if x is to be copied and no vectors are to be filled."""
        exact = not any(map(is_ranged, (*self.reading.shape, *k.step.outs[0].type.shape)))
        if self.dtype is f32 or not self.reading.copied or not exact:
            return None
        return LineCopy.of_conv(k.step, op, self.reading.dtype)

    @property
    def most_columns(self) -> int:
        """Columns of a tile, at most."""
        return MOST_COLUMNS if self.dtype is f32 else FEW_COLUMNS

    @property
    def width(self) -> int:
        """Places of a window along columns."""
        return self.kernel[-1]

    @property
    def stored(self) -> DType:
        """The element type of packed weights."""
        if self.dtype is f32:
            return f32
        plain = self.weight.type.dtype is i8 and not self.op.weight_zero_point
        return i8 if plain else i16

    def pack(self, weight: Array) -> Array:
        """The weight as [places, channels]."""
        missing = self.padded - weight.shape[0]
        padded = np.pad(self._differences(weight), ((0, 0), (0, missing)))
        return padded.astype(self.stored.numpy)

    def pack_starts(self, weight: Array) -> Array:
        """What sums begin with.

        If the zero point of x is an operand, that is still to be multiplied by it.
        """
        zero_point = self.op.x_zero_point if self.reading.zero is None else 1
        starts = self._differences(weight).sum(0) * -zero_point
        return np.pad(starts, (0, self.padded - starts.size)).astype(self.dtype.numpy)

    def _differences(self, weight: Array) -> Array:
        by_place = weight.reshape(weight.shape[0], -1).T.astype(np.int32)
        return by_place - self.op.weight_zero_point


class _Writer:
    """Writes the phase that computes the results."""

    def __init__(self, p: Phase, conv: _Depthwise) -> None:
        self.p, self.e, self.conv = p, p.e, conv
        self.lines = conv.lines_of_x and conv.lines_of_x.writer(p)
        self.x = self.lines.pointer if self.lines else pointer_to_x(p, conv.reading)
        self.weight = p.packed(conv.weight, "by_place", conv.pack, conv.stored)
        self.starts = p.packed(conv.weight, "starts", conv.pack_starts, conv.dtype)
        scale, bias = p.step.optional(2), p.step.optional(3)
        self.scale = None if scale is None else row_of(p, scale)
        self.bias = None if bias is None else row_of(p, bias)
        self.zero = (
            None if conv.reading.zero is None else zero_point_in(p, conv.reading, conv.dtype)
        )
        self.sink = p.sink()
        self.tile = p.scratch("tile")

    def write_row(self, row: Index, bounds: tuple[Index, Index]) -> None:
        """Write all tiles of a row of results."""
        conv, e = self.conv, self.e
        start = self.x
        if self.lines:
            self.lines.write(e.index(row))
        else:
            start = self.x + conv.lines.offset(row)
        for run in halved_runs(conv.columns, conv.most_columns):
            with e.loop(run.last, start=run.first, name="tile") as tile:
                column = tile * run.rows + run.shift
                first = e.index(row) * conv.columns + column
                outs = [self.sink.row(first + i) for i in range(run.rows)]
                self._write_tile(start + column * conv.jump, outs, bounds)

    def _write_tile(self, place: Pointer, outs: list[SinkRow], bounds: tuple[Index, Index]) -> None:
        def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
            bias, scale = (
                None if row is None else row.load(channel, lanes, mask).splat(lanes)
                for row in (self.bias, self.scale)
            )
            begin = self._begin(channel, lanes)
            if self.conv.dtype is i32 and bias is not None:
                begin, bias = begin + bias, None
            sums = self._sums(place + channel, self.weight + channel, [begin] * len(outs), mask)
            if self.conv.dtype is i32:
                sums = self._kept(sums)
            for out, total in zip(outs, sums, strict=True):
                out.put(channel, _result(total, bias, scale), mask)

        self.conv.channels.each(self.e, bounds, write_vector)

    def _begin(self, channel: Value, lanes: int) -> Value:
        """What the sums of a vector of channels begin with."""
        begin = self.starts.load(channel, lanes)
        return begin if self.zero is None else begin * self.zero.splat(lanes)

    def _kept(self, sums: list[Value]) -> list[Value]:
        """The sums through memory: so LLVM finishes all of them before what becomes of the first.

        Else it would begin a division early, and keep for that what all sums read.
        """
        for number, total in enumerate(sums):
            self.tile.store(total, number, in_order=True)
        return [self.tile.load(number) for number in range(len(sums))]

    def _sums(
        self, x: Pointer, weight: Pointer, sums: list[Value], mask: Value | None
    ) -> list[Value]:
        """The sums of neighbouring columns, given what they begin with."""
        conv, taps = self.conv, math.prod(self.conv.kernel[:-1])

        def add_row(tap: Index, sums: list[Value]) -> list[Value]:
            factors = weight + tap * (conv.width * conv.padded)
            return self._add(x + conv.outer.offset(tap), factors, sums, mask)

        if taps * conv.width > MOST_UNROLLED:
            return self.e.fold(taps, sums, add_row, name="tap")
        for tap in range(taps):
            sums = add_row(tap, sums)
        return sums

    def _add(
        self, x: Pointer, weight: Pointer, sums: list[Value], mask: Value | None
    ) -> list[Value]:
        """Add what one row of the windows contributes; elements that several see are read once."""
        conv, lanes = self.conv, sums[0].lanes
        users: dict[int, list[tuple[int, int]]] = {}
        for column in range(len(sums)):
            for tap in range(conv.width):
                place = column * conv.jump + tap * conv.hole
                users.setdefault(place, []).append((column, tap))
        in_order = conv.dtype is i32
        factors = [
            convert(weight.load(tap * conv.padded, lanes, in_order=in_order), conv.dtype)
            for tap in range(conv.width)
        ]
        sums = list(sums)
        for place in sorted(users):
            at = x + place
            loaded = at.load(in_order=True) if in_order else Row(at, 1).load(0, lanes, mask)
            element = convert(loaded, conv.dtype)
            for column, tap in users[place]:
                sums[column] = multiply_add(element, factors[tap], sums[column])
        return sums


def _result(total: Value, bias: Value | None, scale: Value | None) -> Value:
    """What becomes of a vector of sums."""
    whole = convert(total, i32)
    whole = whole if bias is None else whole + bias
    return whole if scale is None else convert(whole, f32) * scale
