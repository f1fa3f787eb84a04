"""Convolutions of images so small that many taps see padding alone, with weights that vary.

A unit packs a panel of the weight, all taps, into memory of its thread, where it stays in the
second cache. Then it goes through the pixels of the result: a tile is one pixel of several images,
which see the same taps. Only these are multiplied.
"""

from __future__ import annotations

import math
from functools import cached_property

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind
from afterglow.backends.cpu.kernels.conv.geometry import conv_of
from afterglow.backends.cpu.kernels.conv.panels import (
    ConvWeights,
    PanelTaps,
    bias_needs,
    packs_operands,
)
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    larger,
    quotient,
    remainder,
)
from afterglow.backends.cpu.micro.accumulate import Accumulation, Factors, broadcast_step
from afterglow.backends.cpu.micro.cost import PACKED_ELEMENT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.partial_sums import sum_blocks
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.sliding import WindowAxis
from afterglow.backends.cpu.micro.tile import each_tile, most_rows
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr, Region
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged

VECTORS = 2
"""Vectors side by side in a panel."""
MOST_SEEN = 0.75
"""The part of all taps that lies in x, above which padding is multiplied like all else."""
LEAST_IMAGES = 4
"""Images below which tiles are too low."""
UNROLL = 4
"""Steps along the channels in one turn of the innermost loop."""


@dataclass(frozen=True)
class FewPixelsPlan:
    """The axes of the images, and the panels of the weight; each is a unit."""

    step: OpInstr
    target: Target

    @cached_property
    def axes(self) -> list[WindowAxis]:
        """How windows lie along each axis of x."""
        conv, (x, weight), result = conv_of(self.step), self.step.required, self.step.outs[0]
        facts = (
            result.type.shape[1:-1],
            x.type.shape[1:-1],
            weight.type.shape[1:-1],
            conv.strides,
            conv.dilations,
            conv.pads,
            x.strides[1:-1],
        )
        return [WindowAxis(*values) for values in zip(*facts, strict=False)]

    @cached_property
    def panels(self) -> Panels:
        """The panels of result channels."""
        results = self.step.outs[0].type.shape[-1]
        return Panels.narrowed(results, full_lanes(self.target, f32), VECTORS)

    @property
    def share_seen(self) -> float:
        """The part of all taps of all windows that lies in x."""
        share = 1.0
        for axis in self.axes:
            places = [(w, t) for w in range(axis.count) for t in range(axis.kernel)]
            share *= sum(axis.sees(*place) for place in places) / max(1, len(places))
        return share

    @property
    def depth(self) -> int:
        """Taps times channels."""
        weight = self.step.required[1]
        return math.prod(weight.type.shape[1:])

    @property
    def work(self) -> float:
        """FLOPs of the taps that see some of x."""
        result = self.step.outs[0]
        return 2.0 * result.type.size * self.depth * self.share_seen

    @property
    def cost(self) -> float:
        """Of products and of packing."""
        weight = self.step.required[1]
        return self.work + PACKED_ELEMENT * weight.type.size


def suits_few_pixels(step: OpInstr, target: Target) -> bool:
    """Whether the weight varies, and images are many and so small that much of them is padding."""
    (x, weight), result = step.required, step.outs[0].type
    known = not any(is_ranged(n) for n in (*x.type.shape, *result.shape))
    if not known or weight.region is Region.CONSTANT or conv_of(step).groups > 1:
        return False
    if x.type.dtype is not f32 or result.shape[0] < LEAST_IMAGES or 0 in result.shape:
        return False
    return target.vector_bits > f32.bits and FewPixelsPlan(step, target).share_seen <= MOST_SEEN


def few_pixels_algorithm(r: KernelRequest) -> Algorithm:
    """Products of those taps alone that see some of x."""
    plan = FewPixelsPlan(r.step, r.target)
    bias = bias_needs(r.step, plan.panels, 1)
    scratch = {"panel": Storage(f32, plan.depth * plan.panels.width)}
    needs = KernelNeeds(bias.workspace, scratch, bias.packed)
    waits = int(packs_operands(r.step, 2))
    return Algorithm(
        "few-pixels", plan.cost, lambda k: _write_few_pixels(k, plan), needs, waits=waits
    )


def _write_few_pixels(k: Kernel, plan: FewPixelsPlan) -> None:
    """Write the phase whose units are panels."""
    factors = ConvWeights(k, plan.panels, 1, plan.depth)
    factors.write_bias()
    with k.phase(plan.panels.count, plan.work) as p:
        product = _Product(p, plan, factors)
        with p.units() as panel:
            for columns in each_kind(p.e, plan.panels, p.e.index(0), panel):
                product.write(columns)


class _Product:
    """The main phase while it is being written."""

    def __init__(self, p: Phase, plan: FewPixelsPlan, factors: ConvWeights) -> None:
        self.e, self.plan, self.sink = p.e, plan, p.sink()
        self.x, self.weight = plan.step.required
        self.source, self.weights = p.pointer(self.x), p.pointer(self.weight)
        self.panel, self.bias = p.scratch("panel"), factors.bias_in(p)

    def write(self, columns: Columns) -> None:
        """Pack a panel, then multiply all pixels with it."""
        e, plan = self.e, self.plan
        taps = PanelTaps.of(self.weight)
        with e.loop(taps.count, name="tap") as tap:
            to = self.panel + tap * (taps.depth * columns.width)
            taps.pack(e, self.weights + taps.outer.offset(tap), to, columns)
        pixels = math.prod(axis.count for axis in plan.axes)
        with e.loop(pixels, name="pixel") as pixel:
            self._write_pixel(pixel, pixels, columns)

    def _write_pixel(self, pixel: Value, pixels: int, columns: Columns) -> None:
        """One pixel of all images."""
        e, (images, *_) = self.e, self.x.type.shape
        rest: Index = pixel
        windows: list[Value] = []
        for axis in reversed(self.plan.axes):
            rest, own = split(rest, axis.count)
            windows.insert(0, e.index(own))
        bias = None if self.bias is None else columns.load(self.bias + columns.first)
        most = most_rows(self.plan.target, len(columns.widths), f32)
        for height, first in each_tile(e, images, most):
            sums = self._sums(height, self.source + first * self.x.strides[0], windows, columns)
            vectors = len(columns.widths)
            for row in range(height):
                values = sums[row * vectors : (row + 1) * vectors]
                made = values if bias is None else map(Value.__add__, values, bias)
                columns.put(self.sink, (first + row) * pixels + pixel, made)

    def _sums(
        self, height: int, image: Pointer, windows: list[Value], columns: Columns
    ) -> list[Value]:
        """The sums of one pixel of some images: in a block for each tap that they see."""
        e, plan, channels = self.e, self.plan, self.x.type.shape[-1]
        axes = list(zip(plan.axes, windows, strict=True))
        seen = [_seen(e, axis, window) for axis, window in axes]
        zeros = [e.constant(f32, 0, lanes) for lanes in columns.widths] * height
        core = Accumulation(broadcast_step(f32, columns.load), UNROLL)

        def block(number: Value) -> list[Value]:
            place, tap, weight = image, e.index(0), 1
            for (axis, window), (low, high) in zip(axes[::-1], seen[::-1], strict=True):
                own = remainder(number, high - low) + low
                number = quotient(number, high - low)
                place = place + (axis.first(window) + own * axis.dilation) * axis.step
                tap, weight = tap + own * weight, weight * axis.kernel
            rows = [place + row * self.x.strides[0] for row in range(height)]
            panel = self.panel + tap * (channels * columns.width)
            factors = Factors(rows, panel, self.x.strides[-1], columns.width)
            return core.along(e, factors, channels, zeros)

        count = math.prod((high - low for low, high in seen), start=e.index(1))
        return sum_blocks(e, count, zeros, block)


def _seen(e: Emitter, axis: WindowAxis, window: Value) -> tuple[Value, Value]:
    """The first of the taps of a window that lie in x, and the one after the last."""
    low, high = (e.index(end) for end in axis.taps(e, window))
    return low, larger(high, low)
