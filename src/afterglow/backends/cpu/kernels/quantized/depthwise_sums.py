"""The sums of depthwise convolutions of bytes: of neighbouring columns, a vector of channels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from afterglow.backends.cpu.kernels.quantized.copying import pointer_to_x, zero_point_in
from afterglow.backends.cpu.kernels.quantized.depthwise_plan import DepthwisePlan
from afterglow.backends.cpu.kernels.quantized.dots import QUAD
from afterglow.backends.cpu.kernels.quantized.output import row_of
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    add_dot_quads,
    convert,
    fma,
    interleave,
)
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.rows import Row
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, i8, i32

MOST_UNROLLED = 32
"""Places of a window that are written one by one; with more, rows of it are a loop."""


class DepthwiseSums(ABC):
    """How the sums of a tile are made."""

    def __init__(self, p: Phase, plan: DepthwisePlan, dtype: DType) -> None:
        self.e, self.plan = p.e, plan
        self.x = pointer_to_x(p, plan.reading)
        bias = p.step.optional(3)
        self.bias = None if bias is None else row_of(p, bias)
        reading = plan.reading
        self.zero = None if reading.zero is None else zero_point_in(p, reading, dtype)

    @abstractmethod
    def at(
        self, place: Pointer, columns: int, channel: Value, lanes: int, mask: Value | None
    ) -> list[Value]:
        """The sums of neighbouring columns from a place of x on, with the bias."""

    def _begin(self, starts: Pointer, channel: Value, lanes: int) -> Value:
        """What sums begin with."""
        begin = (starts + channel).load(0, lanes)
        return begin if self.zero is None else begin * self.zero.splat(lanes)

    def _with_bias(self, total: Value, channel: Value, mask: Value | None) -> Value:
        if self.bias is None:
            return total
        bias = self.bias.load(channel, total.lanes, mask).splat(total.lanes)
        return convert(total, i32) + bias


class FloatSums(DepthwiseSums):
    """In floats, in which the sums of few enough products of bytes are exact."""

    def __init__(self, p: Phase, plan: DepthwisePlan) -> None:
        super().__init__(p, plan, f32)
        self.weight = p.packed(plan.weight, "by_place", self._pack, f32)

    def _pack(self, weight: Array) -> Array:
        """The weight as [places, channels], and then what sums begin with."""
        by_place = weight.reshape(weight.shape[0], -1).T.astype(np.float32)
        differences = by_place - self.plan.op.weight_zero_point
        return self.plan.fill(np.concatenate([differences, self.plan.starts(differences)]))

    def at(
        self, place: Pointer, columns: int, channel: Value, lanes: int, mask: Value | None
    ) -> list[Value]:
        """See the base class: row by row of the windows."""
        plan, weight = self.plan, self.weight + channel
        starts = self.weight + math.prod(plan.kernel) * plan.padded

        def add_row(tap: Index, sums: list[Value]) -> list[Value]:
            factors = weight + tap * (plan.width * plan.padded)
            return self._add(place + plan.outer.offset(tap), factors, sums, channel, mask)

        sums = [self._begin(starts, channel, lanes)] * columns
        if plan.height * plan.width > MOST_UNROLLED:
            sums = self.e.fold(plan.height, sums, add_row, name="tap")
        else:
            for tap in range(plan.height):
                sums = add_row(tap, sums)
        return [self._with_bias(total, channel, mask) for total in sums]

    def _add(
        self, x: Pointer, weight: Pointer, sums: list[Value], channel: Value, mask: Value | None
    ) -> list[Value]:
        """Add what one row of the windows contributes; elements that several see are read once."""
        plan, lanes, sums = self.plan, sums[0].lanes, list(sums)
        factors = [weight.load(tap * plan.padded, lanes) for tap in range(plan.width)]
        for place, users in plan.users(len(sums)).items():
            element = convert(Row(x + place, 1).load(channel, lanes, mask), f32)
            for column, tap in users:
                sums[column] = fma(element, factors[tap], sums[column])
        return sums


class QuadSums(DepthwiseSums):
    """In integers: bytes of four rows of the windows lie next to each other, and so do weights."""

    def __init__(self, p: Phase, plan: DepthwisePlan) -> None:
        super().__init__(p, plan, i32)
        self.weight = p.packed(plan.weight, "in_quads", self._pack, i8)
        self.starts = p.packed(plan.weight, "starts", self._pack_starts, i32)

    def _pack(self, weight: Array) -> Array:
        """The weight as [rows / 4, width, channels, 4]; rows that are not there are zeros."""
        plan = self.plan
        rows = np.moveaxis(weight.reshape(-1, plan.height, plan.width), 0, -1)
        quads = np.pad(rows, ((0, -plan.height % QUAD), (0, 0), (0, 0)))
        by_place = quads.reshape(-1, QUAD, plan.width, rows.shape[-1]).transpose(0, 2, 3, 1)
        return plan.fill(by_place.reshape(-1, rows.shape[-1], QUAD))

    def _pack_starts(self, weight: Array) -> Array:
        by_place = weight.reshape(weight.shape[0], -1).T.astype(np.int32)
        return self.plan.fill(self.plan.starts(by_place)).astype(np.int32)

    def at(
        self, place: Pointer, columns: int, channel: Value, lanes: int, mask: Value | None
    ) -> list[Value]:
        """See the base class: each quad is made once, for all windows that see it."""
        plan, weight = self.plan, self.weight + channel * QUAD
        begin = self._with_bias(self._begin(self.starts, channel, lanes), channel, mask)
        sums, size = [begin] * columns, plan.padded * QUAD
        for number, first in enumerate(range(0, plan.height, QUAD)):
            starts = [place + plan.outer.offset(first + i) for i in range(plan.height - first)]
            factors = [
                weight.load((number * plan.width + tap) * size, QUAD * lanes)
                for tap in range(plan.width)
            ]
            for offset, users in plan.users(columns).items():
                rows = [Row(x + offset, 1) for x in starts[:QUAD]]
                quad = _quad([row.load(channel, lanes, mask) for row in rows])
                for column, tap in users:
                    sums[column] = add_dot_quads(sums[column], quad, factors[tap])
        return sums


def _quad(rows: list[Value]) -> Value:
    """The bytes of up to four rows, those of a channel next to each other."""
    a, b, c, d = [*rows, *[rows[0].like(0)] * (QUAD - len(rows))]
    return interleave(interleave(a, c), interleave(b, d))
