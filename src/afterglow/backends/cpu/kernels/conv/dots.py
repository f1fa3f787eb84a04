"""Convolutions with very few result channels: vectors run along the depth, and are summed up last.

A tile is as many neighbouring pixels as their sums fit the registers. Windows and weights are
multiplied vector by vector; then the lanes of each sum are added, so that a vector has a result of
each pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.backends.broadcast import Strides, merge_alike
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.geometry import Geometry, conv_of
from afterglow.backends.cpu.kernels.conv.padding import (
    needs_copy,
    padded_storage,
    pointer_to_x,
    strides_of_x,
    write_padded,
)
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    equal,
    first_lanes,
    shuffle,
    smaller,
)
from afterglow.backends.cpu.micro.access import Writer, open_sink, placed_sink
from afterglow.backends.cpu.micro.accumulate import Accumulation, Factors, fold_axes, vector_step
from afterglow.backends.cpu.micro.cost import CONV_UNIT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.backends.cpu.micro.packing import Pack, Packing
from afterglow.backends.cpu.micro.partial_sums import FEW_TERMS, sum_blocks
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.backends.cpu.micro.tile import sum_type
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType
from afterglow.types.extent import is_ranged, larger_extent, largest

MOST_RESULTS = 3
"""Result channels; more fill vectors of their own."""
LEAST_LANES = 4
MOST_UNROLLED = 64
"""Multiplications in one turn of the innermost loop."""


def suits_dots(step: OpInstr, target: Target) -> bool:
    """Whether results are few, and windows are made of long runs."""
    weight, result = step.required[1], step.outs[0].type
    dtype = sum_type(result.dtype)
    lanes = target.vector_bits // dtype.bits
    if lanes < LEAST_LANES or not dtype.is_float or 0 in result.shape:
        return False
    if weight.region is not Region.CONSTANT or conv_of(step).groups > 1:
        return False
    taps = Geometry.of(step, strides_of_x(step)).taps
    long = bool(taps.extents) and taps.strides[-1] == 1 and taps.extents[-1] >= lanes
    return weight.type.shape[0] <= MOST_RESULTS and long


def dots_algorithm(r: KernelRequest, cost: float) -> Algorithm:
    """The sums along vectors of the windows."""
    needs = KernelNeeds(workspace=padded_storage(r.step), packed=(1,))
    return Algorithm("dot-products", cost, _write_dots, needs, waits=int(needs_copy(r.step)))


def _write_dots(k: Kernel) -> None:
    """Write the phase that multiplies x, or its padded copy, with the weight."""
    if needs_copy(k.step):
        write_padded(k)
    plan = DotConvPlan.of(k)
    with k.phase(plan.lines * plan.blocks, plan.geometry.work) as p:
        dots = _Dots(p, plan)
        with p.units() as unit:
            dots.write(unit)


@dataclass(frozen=True)
class DotConvPlan:
    """Pixels as lines that x and the result have in common, cut into tiles and blocks of them."""

    geometry: Geometry
    dtype: DType
    lanes: int
    pixels: int
    """Pixels of a tile: a power of two."""
    extents: tuple[int, ...]
    jumps: Strides
    placed: dict[Buffer, Strides]

    @staticmethod
    def of(k: Kernel) -> DotConvPlan:
        """The plan of a kernel that suits."""
        result, strides = k.step.outs[0].type, strides_of_x(k.step)
        geometry, dtype = Geometry.of(k.step, strides), sum_type(result.dtype)
        lanes = k.target.vector_bits // dtype.bits
        steps = zip(strides[1:-1], conv_of(k.step).strides, strict=True)
        jumps = (strides[0], *(stride * step for stride, step in steps))
        sinks = placed_sink(k)
        extents, merged = merge_alike(result.shape[:-1], [jumps, *(s[:-1] for s in sinks.values())])
        ends = zip(sinks.items(), merged[1:], strict=True)
        placed = {b: (own[-1], *pixels) for (b, own), pixels in ends}
        room = (k.target.vector_registers - 1) // geometry.results - 1
        pixels = min(lanes, 1 << (max(1, room).bit_length() - 1))
        return DotConvPlan(geometry, dtype, lanes, pixels, extents, merged[0], placed)

    @property
    def shape(self) -> tuple[int, ...]:
        """Result channels, then pixels."""
        return (self.geometry.results, *self.extents)

    @property
    def lines(self) -> int:
        """Lines of pixels."""
        return math.prod(self.extents[:-1])

    @property
    def tiles(self) -> int:
        """Whole tiles of a line."""
        return self.extents[-1] // self.pixels

    @property
    def rest(self) -> int:
        """Pixels of a line after the whole tiles."""
        return self.extents[-1] % self.pixels

    @property
    def block(self) -> int:
        """Tiles of a block."""
        work = 2.0 * self.pixels * self.geometry.depth * self.geometry.results
        return max(1, min(math.ceil(CONV_UNIT / work), largest(self.tiles)))

    @property
    def blocks(self) -> int:
        """Blocks of a line."""
        return larger_extent(-(-self.tiles // self.block), 1)


class _Dots:
    """The main phase while it is being written."""

    def __init__(self, p: Phase, plan: DotConvPlan) -> None:
        self.e, self.plan = p.e, plan
        (_, weight), bias = p.step.required, p.step.optional(2)
        self.weight = p.packed(weight, "lines", _pack_lines(plan.dtype), plan.dtype)
        self.x = pointer_to_x(p)
        self.sink: Writer = open_sink(p, plan.shape, plan.placed)
        self.bias = None if bias is None else self._values(p.pointer(bias), bias)

    def _values(self, bias: Pointer, buffer: Buffer) -> list[Value]:
        """The bias of each result channel, in all lanes."""
        places = range(self.plan.geometry.results)
        loads = [bias.load(channel * buffer.strides[0]) for channel in places]
        return [convert(value, self.plan.dtype).splat(self.plan.pixels) for value in loads]

    def write(self, unit: Value) -> None:
        """A block of tiles of a line; after the last one, the pixels that are left."""
        e, plan = self.e, self.plan
        line, number = split(unit, plan.blocks)
        block = e.index(number)
        x = self.x + Axes(plan.extents[:-1], plan.jumps[:-1]).offset(line)
        last = smaller((block + 1) * plan.block, plan.tiles)
        with e.loop(last, start=block * plan.block, name="tile") as tile:
            self._write_tile(x, line, tile * plan.pixels, plan.pixels)
        if is_ranged(plan.rest):
            with e.when(equal(block, plan.blocks - 1) & (e.index(plan.rest) > 0)):
                self._write_rest(x, line)
        elif plan.rest:
            with e.when(equal(block, plan.blocks - 1)):
                self._write_tile(x, line, plan.tiles * plan.pixels, plan.rest)

    def _write_rest(self, x: Pointer, line: Index) -> None:
        """The pixels that are left of a line, where their number is ranged."""
        e, plan = self.e, self.plan
        begin, stride = x + plan.tiles * plan.pixels * plan.jumps[-1], plan.jumps[-1]
        last = e.index(plan.rest) - 1
        rows = [begin + smaller(last, pixel) * stride for pixel in range(plan.pixels)]
        mask = first_lanes(e.index(plan.rest), plan.pixels)
        self._put_tile(rows, line, plan.tiles * plan.pixels, mask)

    def _write_tile(self, x: Pointer, line: Index, first: Index, count: int) -> None:
        e, plan = self.e, self.plan
        begin = x + first * plan.jumps[-1]
        rows = [begin + pixel * plan.jumps[-1] for pixel in range(count)]
        mask = None
        if count < plan.pixels:
            mask = first_lanes(e.index(count), plan.pixels)
        self._put_tile(rows, line, first, mask)

    def _put_tile(self, rows: list[Pointer], line: Index, first: Index, mask: Value | None) -> None:
        """The results of the windows that begin at some rows."""
        e, plan, count = self.e, self.plan, len(rows)
        zero = e.constant(plan.dtype, 0, plan.lanes)
        zeros = [zero] * (count * plan.geometry.results)
        sums = self._summed(plan.geometry.taps, Factors(rows, self.weight), zeros)
        for channel in range(plan.geometry.results):
            own = sums[channel :: plan.geometry.results]
            filled = own + own[-1:] * (plan.pixels - count)
            total = sum_lanes(filled)
            if self.bias is not None:
                total = total + self.bias[channel]
            self.sink.row(channel * plan.lines + line).put(first, total, mask)

    def _summed(self, taps: Axes, at: Factors, zeros: list[Value]) -> list[Value]:
        """The sums of all products: where they are many, in a block for each outermost tap."""
        plan = self.plan
        if len(taps.extents) == 1 or plan.geometry.depth <= FEW_TERMS * plan.lanes:
            return fold_axes(self.e, taps, at, zeros, self._add_run)
        stride, rest = taps.strides[0], Axes(taps.extents[1:], taps.strides[1:])
        length = math.prod(rest.extents)

        def block(tap: Value) -> list[Value]:
            here = at.moved(tap * stride, tap * length)
            return fold_axes(self.e, rest, here, zeros, self._add_run)

        return sum_blocks(self.e, taps.extents[0], zeros, block)

    def _add_run(self, at: Factors, length: int, sums: list[Value]) -> list[Value]:
        """Add elements that lie one after the other, a vector of each window at a time."""
        plan = self.plan
        lanes, rest = plan.lanes, length % plan.lanes
        whole = length - rest
        lines = [channel * plan.geometry.depth for channel in range(plan.geometry.results)]
        unroll = max(1, min(whole // lanes, MOST_UNROLLED // len(sums)))
        step = vector_step(plan.dtype, lanes, lines)
        sums = Accumulation(step, unroll, lanes).within(self.e, at, whole, sums)
        if not rest:
            return sums
        mask = first_lanes(self.e.index(rest), lanes)
        return vector_step(plan.dtype, lanes, lines, mask)(at.at(whole), sums)


def _pack_lines(dtype: DType) -> Pack:
    """The packing of a weight [O, kernel…, C]: in its own order, as the type of the sums."""

    def pack(weight: Array) -> Packing:
        return Packing(weight.shape, dtype.numpy, lambda made: np.copyto(made, weight, "unsafe"))

    return pack


def sum_lanes(vectors: Sequence[Value]) -> Value:
    """The sum of the lanes of each vector, in a vector; both counts are powers of two.

    Neighbours are merged: a vector then has the halves' sums of one, and after them the other's.
    """
    size, merged = vectors[0].lanes, list(vectors)
    while len(merged) > 1:
        size //= 2
        pairs = zip(merged[::2], merged[1::2], strict=True)
        merged = [_halved(a, b, size) for a, b in pairs]
    (total,) = merged
    while size > 1:
        size //= 2
        total = _halved(total, None, size)
    return total


def _halved(a: Value, b: Value | None, size: int) -> Value:
    """Of each piece of twice that size, the sum of its halves."""
    lanes = a.lanes * (1 if b is None else 2)
    low = [start + at for start in range(0, lanes, 2 * size) for at in range(size)]
    return shuffle(a, b, low) + shuffle(a, b, [lane + size for lane in low])
