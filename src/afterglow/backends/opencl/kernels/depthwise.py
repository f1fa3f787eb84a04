"""Depthwise convolutions: vectors of channels, and some neighbouring places at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.channels import lanes_of
from afterglow.backends.items.language import offset
from afterglow.backends.items.windows import Sliding
from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.product import ITEMS_OF_UNIT, part_of
from afterglow.backends.opencl.kernels.tile import add_product
from afterglow.backends.opencl.limits import Limits
from afterglow.ops.convolution import Conv
from afterglow.types.dtype import f32

MOST_PLACES = 8
"""Neighbouring results at once: those of windows of three read each element once, not thrice."""


def write_depthwise(job: Job, limits: Limits) -> KernelSource:
    """A work-item for each line of results and some channels."""
    kernel = Kernel(job, limits)
    step = kernel.step
    assert isinstance(step.op, Conv)
    _Line(kernel, Sliding(kernel, step, step.op.windows(step.operand(1).type.shape))).write()
    return kernel.finish()


class _Line:
    """The results along the last spatial axis, for vectors of channels."""

    def __init__(self, kernel: Kernel, sliding: Sliding[Value]) -> None:
        self.kernel = kernel
        self.sliding = sliding
        self.shape = sliding.step.outs[0].type.shape
        self.lanes = lanes_of(kernel, self.shape)
        self.width = self.shape[-2]
        self.places = -(-self.width // -(-self.width // MOST_PLACES))
        """Results that are computed together."""

    def write(self) -> None:
        """A work-item for many results if units are few, else for those that belong together."""
        kernel, code, outer = self.kernel, self.kernel.code, self.shape[:-2]
        parts, vectors = -(-self.width // self.places), self.shape[-1] // self.lanes
        if not kernel.limits.is_processor:
            all_of = (*outer, parts, vectors)
            *where, part, vector = places_of(kernel, kernel.each(math.prod(all_of)), all_of)
            self._write_places(where, code.named(vector * self.lanes), part)
            return
        shares = -(-ITEMS_OF_UNIT * kernel.limits.units // math.prod(outer))
        each = max(1, vectors // shares)
        kernel.items, kernel.group = (math.prod(outer), -(-vectors // each)), (1, 1)
        where = places_of(kernel, code.work_item(0), outer)
        with part_of(kernel, 1, each, vectors) as vector, code.loop(parts) as part:
            self._write_places(where, code.named(vector * self.lanes), part)

    def _write_places(self, where: Sequence[Value], channel: Value, part: Value) -> None:
        """Some results; the last ones begin early enough to be as many, and are written once."""
        code, exact = self.kernel.code, self.width % self.places == 0
        own = code.named(part * self.places)
        first = own if exact else code.named(code.smaller(own, self.width - self.places))
        sums = self._sums(where, channel, first)
        for number, total in enumerate(sums):
            place = first + number
            with nullcontext() if exact else code.block(f"if ({place.text} >= {own.text})"):
                write_result(self.kernel, total, [*where, place, channel], self.lanes)

    def _sums(self, where: Sequence[Value], channel: Value, first: Value) -> list[Value]:
        """The bias, and all products of each window."""
        code, sliding = self.kernel.code, self.sliding
        bias = sliding.step.optional(2)
        zero = code.constant(f32, 0)
        start = zero if bias is None else read_number(self.kernel, bias, [channel], self.lanes)
        sums = [code.variable(start.splat(self.lanes)) for _ in range(self.places)]
        *corner, begin = sliding.corner([*where[1:], first])
        with sliding.taps(skip=1) as taps:
            seen = sliding.seen(corner, taps)
            with sliding.when_inside(seen):
                at = offset(code, [where[0], *seen, begin, channel], sliding.x.strides)
                source = self.kernel.numbers(sliding.x).shifted(at)
                number = sliding.number(taps) * sliding.windows.kernel[-1]
                self._add_line(sums, source, begin, code.named(number), channel)
        return sums

    def _add_line(
        self, sums: Sequence[Value], source: Pointer, begin: Value, number: Value, channel: Value
    ) -> None:
        """Add a line of the windows; elements are only asked for where some are in the padding."""
        code, windows = self.kernel.code, self.sliding.windows
        extent = self.sliding.spatial[-1]
        room = extent - windows.reach[-1] - (self.places - 1) * windows.strides[-1]
        if not self.sliding.reaches_beyond(len(windows.kernel) - 1):
            self._add_taps(sums, source, number, channel, None)
            return
        with code.block(f"if ({begin.text} >= 0 && {begin.text} <= {room})"):
            self._add_taps(sums, source, number, channel, None)
        with code.block("else"):
            self._add_taps(sums, source, number, channel, begin)

    def _add_taps(
        self,
        sums: Sequence[Value],
        source: Pointer,
        number: Value,
        channel: Value,
        begin: Value | None,
    ) -> None:
        """Add the products of each place of the line, asking if the first is given."""
        code, windows, channels = self.kernel.code, self.sliding.windows, self.shape[-1]
        data = self.sliding.step.operand(1)
        packed = self.kernel.packed(data, "taps first", lambda w: w.reshape(channels, -1).T)
        for tap in range(windows.kernel[-1]):
            factor = packed.numbers.load((number + tap) * channels + channel, self.lanes)
            for place, total in enumerate(sums):
                element = place * windows.strides[-1] + tap * windows.dilations[-1]
                at = code.index(element * self.sliding.x.strides[-2])
                inside = begin if begin is None else begin + element
                with nullcontext() if inside is None else self._when_inside(inside):
                    value = source.load(at, self.lanes)
                    add_product(self.kernel, total, value, factor)

    def _when_inside(self, place: Value) -> AbstractContextManager[None]:
        extent = self.sliding.spatial[-1]
        return self.kernel.code.block(f"if ({place.text} >= 0 && {place.text} < {extent})")
