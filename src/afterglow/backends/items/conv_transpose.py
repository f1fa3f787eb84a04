"""Transposed convolutions: each result gathers what the elements of x add to it.

An item has a vector of channels at a few places that lie a stride apart along the last axis: the
same taps reach all of them, so that weights are read once for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Generic

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.lanes import lanes_along
from afterglow.backends.items.language import Kernel, offset
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.pointwise.value import ValueT
from afterglow.instr import OpInstr
from afterglow.ops.convolution import ConvTranspose

PLACES = 8
"""Places of an item."""


def _accepts(step: OpInstr) -> bool:
    return is_number(step.outs[0].type.dtype) and step.operand(1).type.size > 0


@shared(ConvTranspose, accepts=_accepts)
def write_conv_transpose(kernel: Kernel[ValueT]) -> None:
    """The kernel of a transposed convolution."""
    _Gathering(kernel).write()


class _Gathering(Generic[ValueT]):
    """What one item does."""

    def __init__(self, kernel: Kernel[ValueT]) -> None:
        self.kernel, self.code, self.step = kernel, kernel.code, kernel.step
        op = kernel.step.op
        assert isinstance(op, ConvTranspose)
        self.x, self.weight, self.out = (
            self.step.operand(0),
            self.step.operand(1),
            self.step.outs[0],
        )
        self.windows = op.windows(self.weight.type.shape)
        self.columns = self.weight.type.shape[-1]
        self.channels = self.x.type.shape[-1] // op.groups
        self.lanes = self._lanes()
        self.stride = self.windows.strides[-1]
        extent = self.out.type.shape[-2]
        self.count = min(PLACES, -(-extent // self.stride))
        self._begin()

    def _lanes(self) -> int:
        """Neighbouring channels of a result."""
        after = chain_strides(self.kernel.job.after, self.out.type.shape).values()
        strides = [self.weight.strides, self.out.strides, *after]
        return lanes_along(self.kernel, self.columns, strides)

    def _begin(self) -> None:
        """Where the results of the item are."""
        code, (images, *outer, extent, channels) = self.code, self.out.type.shape
        blocks = -(-extent // (self.stride * self.count))
        shape = (images, *outer, blocks, self.stride, channels // self.lanes)
        places = places_of(self.kernel, self.kernel.each_alone(math.prod(shape)), shape)
        self.image, *self.rows, block, phase, vector = places
        self.first = code.named(block * (self.stride * self.count) + phase)
        self.channel = code.named(vector * self.lanes)
        self.group = code.named(self.channel.combined("/", self.columns))

    def write(self) -> None:
        """All taps that reach the places, then the results."""
        code, bias = self.code, self.step.optional(2)
        start = code.constant(computed(self.out.type.dtype), 0, self.lanes)
        if bias is not None:
            start = read_number(self.kernel, bias, [self.channel], self.lanes)
        self.sums = [code.variable(start.splat(self.lanes)) for _ in range(self.count)]
        with ExitStack() as loops:
            taps = [loops.enter_context(code.loop(n)) for n in self.windows.kernel]
            self._add_tap(taps)
        for number, total in enumerate(self.sums):
            place = self.first + number * self.stride
            with code.when(code.is_below(place, self.out.type.shape[-2])):
                at = [self.image, *self.rows, code.named(place), self.channel]
                write_result(self.kernel, total, at, self.lanes)

    def _add_tap(self, taps: Sequence[ValueT]) -> None:
        """Add what a tap brings, if it reaches the places."""
        windows, code = self.windows, self.code
        reached = [
            code.named(place + begin - tap * dilation)
            for place, begin, tap, dilation in zip(
                (*self.rows, self.first), windows.begins, taps, windows.dilations, strict=True
            )
        ]
        extents = self.x.type.shape[1:-1]
        checks = [code.is_multiple(r, s) for r, s in zip(reached, windows.strides, strict=True)]
        checks += [
            code.is_between(r, 0, s * n)
            for r, s, n in zip(reached[:-1], windows.strides, extents, strict=False)
        ]
        with code.when(code.all_of(checks)):
            steps = zip(reached, windows.strides, strict=True)
            self._add_products(taps, [code.named(r.combined("/", s)) for r, s in steps])

    def _add_products(self, taps: Sequence[ValueT], seen: Sequence[ValueT]) -> None:
        """Add the products of a tap, of all channels of x at the places that it sees."""
        code, x, weight = self.code, self.kernel.numbers(self.x), self.kernel.numbers(self.weight)
        extent = self.x.type.shape[-2]
        first = code.named(self.group * self.channels)
        starts, masks = [], []
        for number in range(self.count):
            place = code.named(seen[-1] + number)
            masks.append(code.is_between(place, 0, extent))
            at = [self.image, *seen[:-1], code.nearest(place, extent), first]
            starts.append(code.named(offset(code, at, self.x.strides)))
        inside = [code.kept(mask) for mask in masks]
        column = code.named(self.channel.combined("%", self.columns))
        with code.fused_loop(self.channels) as c:
            place = offset(code, [first + c, *taps, column], self.weight.strides)
            factors = weight.load(place, self.lanes)
            for total, start, mask in zip(self.sums, starts, inside, strict=True):
                held = x.load_where(mask, start + c * self.x.strides[-1])
                code.add_product(total, held, factors)
