"""Transposed convolutions: each result gathers the products of the taps that reach it.

The results of a phase (see the plan) in a row are rows of a matrix product, of elements of x with a
panel of the weight, for one tap after the other. Zeros around x spare all questions at the edges.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.choose import conv_algorithms
from afterglow.backends.cpu.kernels.conv_transpose_plan import ConvTransposePlan
from afterglow.backends.cpu.kernels.matmul.packing import Packer
from afterglow.backends.cpu.kernels.matmul.problem import Matrix
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms
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
    reduce_sum,
    remainder,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import (
    Accumulation,
    Factors,
    accumulate,
    by_rows,
    vector_step,
)
from afterglow.backends.cpu.micro.cost import PACKED_ELEMENT, plain_cost
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.partial_sums import sum_blocks
from afterglow.backends.cpu.micro.rows import Axes, Row, split
from afterglow.backends.cpu.micro.sliding import load
from afterglow.backends.cpu.micro.tile import TileRun
from afterglow.backends.job import Job
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.types.extent import is_ranged


def _name(step: OpInstr) -> str:
    weight, op = step.required[1], step.op
    assert isinstance(op, ConvTranspose)
    extents = "x".join(map(str, weight.type.shape[1:-1]))
    return f"conv_transpose_{extents}_s{max(op.strides)}"


def _needs(r: KernelRequest) -> KernelNeeds:
    """A padded copy of x, and a weight packed when the kernel runs, as far as there are such."""
    plan = ConvTransposePlan(r.step, r.target)
    workspace = {}
    if plan.copies:
        workspace["padded"] = Storage(plan.read_type, math.prod(plan.padded_shape))
    if plan.weight.region is Region.CONSTANT:
        return KernelNeeds(workspace, packed=(1,))
    return KernelNeeds({**workspace, "panels": Storage(plan.sums, plan.packed_size)})


@algorithms(ConvTranspose, name=_name, exact=("weight",))
def conv_transpose_algorithms(r: KernelRequest) -> list[Algorithm]:
    """Without strides those of a convolution with the kernel mirrored, else its own.

    There is none if each channel is on its own and weights are known only in the run: it is lowered
    to a depthwise convolution, whose kernel is faster even if it also reads zeros.
    """
    weight = r.step.required[1]
    if _is_depthwise(r.step) and weight.region is not Region.CONSTANT:
        return []
    turned = as_convolution(r)
    if turned is None:
        return [Algorithm(DIRECT, plain_cost(r.job), write_conv_transpose, _needs(r))]
    found = conv_algorithms(KernelRequest(turned, r.target))
    return [replace(way, write=partial(_write_turned, turned, way)) for way in found]


def _is_depthwise(step: OpInstr) -> bool:
    """Whether each channel of x makes one channel of the result."""
    x, weight = step.required[:2]
    assert isinstance(step.op, ConvTranspose)
    return x.type.shape[-1] == step.op.groups > 1 and weight.type.shape[-1] == 1


def _write_turned(turned: Job, algorithm: Algorithm, k: Kernel) -> None:
    """Write the kernel of the convolution that a transposed one is."""
    with k.seen_as(turned):
        algorithm.write(k)


def as_convolution(r: KernelRequest) -> Job | None:
    """The job as a plain convolution, of the weight seen from behind; None if it is not one."""
    step, op = r.step, r.step.op
    assert isinstance(op, ConvTranspose)
    pads, weight = op.pads_of_convolution(step.required[1].type.shape), step.required[1]
    plain = max(op.strides) == op.groups == 1 and not any(map(is_ranged, pads)) and min(pads) >= 0
    varies = weight.region is not Region.CONSTANT
    used = [b for other in r.job.steps for b in (*other.outs, *other.ins)].count(weight)
    if not plain or used > 1 or not (varies or weight.is_dense):
        return None
    if varies and ConvTransposePlan(step, r.target).along_depth:
        return None
    conv = Conv(op.strides, pads, op.dilations)
    ins = (step.ins[0], _from_behind(weight), *step.ins[2:])
    return Job(OpInstr(conv, step.outs, ins), r.job.before, r.job.after, r.job.locals)


def _from_behind(weight: Buffer) -> Buffer:
    """A weight [C, kernel…, O] seen as [O, kernel…, C], its taps in reverse order."""
    channels, *kernel, results = weight.type.shape
    first, *steps, last = weight.strides
    ends = ((extent - 1) * step for extent, step in zip(kernel, steps, strict=True))
    return Buffer(
        weight.name,
        weight.type.with_shape((results, *kernel, channels)),
        weight.region,
        base=weight.root,
        start=weight.start + sum(ends),
        strides=(last, *(-step for step in steps), first),
    )


def write_conv_transpose(k: Kernel) -> None:
    """Write the kernel of a transposed convolution."""
    plan = ConvTransposePlan(k.step, k.target)
    if plan.copies:
        _write_copy(k, plan)
    if plan.weight.region is not Region.CONSTANT:
        _write_packing(k, plan)
    with k.phase(plan.units, plan.work) as p:
        product = _Product(p, plan)
        with p.units() as unit:
            product.write(unit)


def _pointer_to_x(p: Phase, plan: ConvTransposePlan) -> Pointer:
    if not plan.copies:
        return p.pointer(plan.x)
    return p.workspace("padded")


def _write_copy(k: Kernel, plan: ConvTransposePlan) -> None:
    """A phase that copies x with zeros around it, a unit for each line along the last axis."""
    _, *extents, channels = plan.padded_shape
    lines = plan.batch * math.prod(extents[:-1])
    with k.phase(lines, PACKED_ELEMENT * math.prod(plan.padded_shape), "pad") as p:
        e, to, source = p.e, _pointer_to_x(p, plan), p.pointer(plan.x)
        with p.units() as line:
            target, length = to + line * (extents[-1] * channels), extents[-1] * channels
            rest: Index = line
            inside = equal(line, line)
            for axis, stride in zip(plan.axes[-2::-1], plan.x.strides[-3:0:-1], strict=True):
                rest, padded = split(rest, axis.extent + sum(axis.margins))
                place = e.index(padded) - axis.margins[0]
                inside = inside & (place >= 0) & (place < axis.extent)
                source = source + place * stride
            begin = source + rest * plan.x.strides[0]
            e.zero(target, length)
            with e.when(inside):
                _copy_pixels(p, plan, begin, target)


def _copy_pixels(p: Phase, plan: ConvTransposePlan, source: Pointer, to: Pointer) -> None:
    """Copy the elements of a line behind its margin."""
    columns, channels = plan.axes[-1], plan.x.type.shape[-1]
    across, step = plan.x.strides[-2:]
    lanes = p.e.lanes(plan.read_type) if step == 1 else 1
    whole = channels - channels % lanes
    with p.e.loop(columns.extent, name="column") as column:
        place = Row(source + column * across, step)
        target = to + columns.margins[0] * channels + column * channels
        with p.e.loop(whole, step=lanes, name="channel") as channel:
            target.store(load(place, channel, lanes, None, plan.read_type), channel)
        with p.e.loop(channels, start=whole, name="channel") as channel:
            target.store(load(place, channel, 1, None, plan.read_type), channel)


def _packed_weight(p: Phase, plan: ConvTransposePlan) -> Pointer:
    if plan.weight.region is Region.CONSTANT:
        return p.packed(plan.weight, "panels", plan.pack, plan.sums)
    return p.workspace("panels")


def _write_packing(k: Kernel, plan: ConvTransposePlan) -> None:
    """A phase that packs a weight which is known only then, a unit for each panel and tap."""
    channel_step, *tap_steps, column_step = plan.weight.strides
    kernel, taps = [axis.kernel for axis in plan.axes], len(plan.taps)
    places = [np.unravel_index(number, kernel) for number, _ in plan.taps]
    offsets = np.array([np.dot(place, tap_steps) for place in places], np.int32)
    none = Axes((), ())
    matrix = Matrix(plan.weight, none, none, channel_step, column_step)
    units = plan.groups * plan.panels * taps
    with k.phase(units, PACKED_ELEMENT * plan.packed_size, "pack") as p:
        e, weight, packed = p.e, p.pointer(plan.weight), _packed_weight(p, plan)
        table = p.table("offsets", offsets)
        packer = Packer(e, matrix, plan.tile, plan.inner, plan.results)
        with p.units() as unit:
            place, tap = split(unit, taps)
            group, panel = (e.index(part) for part in split(place, plan.panels))
            source = weight + table.load(tap) + group * (plan.inner * channel_step)
            to = packed + unit * plan.tap_size
            if plan.along_depth:
                _pack_lines(e, plan, source, to)
            else:
                packer.write(to, source, panel * plan.columns)


def _pack_lines(e: Emitter, plan: ConvTransposePlan, source: Pointer, to: Pointer) -> None:
    """Pack one tap where vectors run along the channels: a line for each of the few results."""
    channel_step, *_, column_step = plan.weight.strides
    e.zero(to, plan.tap_size)
    with e.loop(plan.inner) as channel, e.loop(plan.results) as column:
        value = (source + channel * channel_step + column * column_step).load()
        to.store(convert(value, plan.sums), column * plan.depth + channel)


class _Product:
    """The phase that computes the results, while it is being written."""

    def __init__(self, p: Phase, plan: ConvTransposePlan) -> None:
        self.e, self.plan, self.tile = p.e, plan, plan.tile
        self.x, self.weight, self.sink = _pointer_to_x(p, plan), _packed_weight(p, plan), p.sink()
        bias = p.step.optional(2)
        self.bias = None if bias is None else Row(p.pointer(bias), bias.strides[0])
        self.starts = p.table("starts", plan.phase_starts)
        self.backs = [
            (p.table(f"backs{number}" if number else "backs", steps), length)
            for number, (steps, length) in enumerate(plan.backs)
        ]

    def write(self, unit: Value) -> None:
        """One unit: a panel on a block of lines."""
        e, plan = self.e, self.plan
        place, panel = split(unit, plan.groups * plan.panels)
        block, part = split(place, plan.parts)
        side = (_DotSide if plan.along_depth else _Side)(self, e.index(panel))
        first = e.index(block) * plan.block
        with e.loop(smaller(first + plan.block, plan.lines), start=first, name="line") as line:
            self._write_line(side, line, e.index(part))

    def _write_line(self, side: _Side, line: Value, part: Value) -> None:
        """The results along the last axis, one phase after the other."""
        plan = self.plan
        place, steps = side.x, plan.strides[1:-1]
        rest: Index = line
        phase: Index = 0
        weight = 1
        for axis, step in zip(plan.axes[-2::-1], steps[-2::-1], strict=True):
            rest, result = split(rest, axis.results)
            base, own = split(self.e.index(result) + axis.begin, axis.stride)
            place = place + (base + axis.margins[0]) * step
            phase, weight = phase + own * weight, weight * axis.stride
        place = place + rest * plan.strides[0]
        for start, stop, count in plan.axes[-1].counts:
            with self.e.loop(stop, start=start, name="phase") as first:
                tiles = _tiles(self.plan, count, part)
                self._write_phase(side, line, place, phase, first, tiles)

    def _write_phase(
        self,
        side: _Side,
        line: Value,
        place: Pointer,
        above: Index,
        first: Value,
        tiles: list[tuple[TileRun, Index, Index]],
    ) -> None:
        """The results of one phase in a line: tiles of them."""
        plan, e = self.plan, self.e
        axis, step = plan.axes[-1], plan.strides[-2]
        shifted = first + axis.begin
        base, phase = quotient(shifted, axis.stride), remainder(shifted, axis.stride)
        number = above * axis.stride + phase
        taps = self.starts.load(number), self.starts.load(number + 1)
        begin = place + (base + axis.margins[0]) * step
        for run, start, stop in tiles:
            with e.loop(stop, start=start, name="tile") as tile:
                row = tile * run.rows + run.shift
                sums = self._sums(side, run, begin + row * step, taps)
                results = line * axis.results + first + row * axis.stride
                for r, vectors in enumerate(sums):
                    side.put(results + r * axis.stride, vectors)

    def _sums(
        self, side: _Side, run: TileRun, place: Pointer, taps: tuple[Value, Value]
    ) -> list[list[Value]]:
        step = self.plan.strides[-2]

        def add_tap(tap: Value, flat: list[Value]) -> list[Value]:
            start = (place + (0 - self._back(tap))).settled()
            weight = (side.weight + tap * self.plan.tap_size).settled()
            rows = by_rows(flat, self.tile.vectors)
            sums = side.add([start + r * step for r in range(run.rows)], weight, rows)
            return [vector for row in sums for vector in row]

        first, last = (self.e.index(place) for place in taps)
        zeros = [self.e.constant(self.plan.sums, 0, self.tile.lanes)] * self.tile.vectors * run.rows
        size = self.plan.taps_of_block

        def block(number: Value) -> list[Value]:
            start = first + number * size
            return self.e.fold(smaller(start + size, last), zeros, add_tap, start=start, name="tap")

        if size >= self.plan.most_taps:
            sums = self.e.fold(last, zeros, add_tap, start=first, name="tap")
        else:
            blocks = larger(quotient(last - first + (size - 1), size), 1)
            sums = sum_blocks(self.e, blocks, zeros, block)
        return by_rows(sums, self.tile.vectors)

    def _back(self, tap: Value) -> Value:
        """How far back a tap reads."""
        (first, length), *others = self.backs
        total = first.load(tap) * length if is_ranged(length) else first.load(tap)
        for steps, length in others:
            total = total + steps.load(tap) * length
        return total


def _tiles(plan: ConvTransposePlan, count: int, part: Value) -> list[tuple[TileRun, Index, Index]]:
    """Which tiles of the results of a phase belong to a part of a line, by their heights."""
    runs = plan.runs(count)
    if plan.parts == 1:
        return [(run, run.first, run.last) for run in runs]
    start, stop = (quotient((part + i) * runs[-1].last, plan.parts) for i in (0, 1))
    return [(run, larger(start, run.first), smaller(stop, run.last)) for run in runs]


class _Side:
    """Shared by the tiles of a panel: x of its group, weights, columns, bias."""

    def __init__(self, product: _Product, number: Value) -> None:
        plan, e = product.plan, product.e
        group, panel = split(number, plan.panels)
        self.e, self.plan, self.tile = e, plan, product.tile
        self.sink, self.bias = product.sink, product.bias
        self.x = product.x + e.index(group) * (plan.inner * plan.strides[-1])
        self.weight = product.weight + number * (len(plan.taps) * plan.tap_size)
        self.first = e.index(panel) * plan.columns
        self.column = e.index(group) * plan.results + self.first
        self.masks = self._masks()

    def _masks(self) -> list[Value | None]:
        tile, results = self.tile, self.plan.results
        if results % tile.columns == 0:
            return [None] * tile.vectors
        left = results - self.first
        return [first_lanes(left - v * tile.lanes, tile.lanes) for v in range(tile.vectors)]

    def add(
        self, rows: list[Pointer], weight: Pointer, sums: list[list[Value]]
    ) -> list[list[Value]]:
        """Add the products of one tap: of rows of x with the panel."""
        return accumulate(
            self.e,
            self.tile.with_rows(len(rows)),
            rows,
            weight,
            self.plan.inner,
            self.plan.sums,
            row_step=self.plan.strides[-1],
            initial=sums,
            one_chain=True,
        )

    def put(self, number: Value, vectors: list[Value]) -> None:
        """Give the sums of one place, and the bias, to the steps after it, then to memory."""
        row, lanes = self.sink.row(number), self.tile.lanes
        for v, (value, mask) in enumerate(zip(vectors, self.masks, strict=True)):
            column = self.column + v * lanes
            if self.bias is not None:
                value = value + load(self.bias, column, lanes, mask, self.plan.sums)
            row.put(column, value, mask)


class _DotSide(_Side):
    """The same, where vectors run along the channels of x: each becomes one result at the end."""

    def _masks(self) -> list[Value | None]:
        return [None] * self.tile.vectors

    def add(
        self, rows: list[Pointer], weight: Pointer, sums: list[list[Value]]
    ) -> list[list[Value]]:
        """Add the products of one tap, a vector of channels after the other."""
        lanes, inner, dtype = self.tile.lanes, self.plan.inner, self.plan.sums
        lines = [result * self.plan.depth for result in range(self.tile.vectors)]
        rest = inner % lanes
        step, factors = vector_step(dtype, lanes, lines), Factors(rows, weight)
        flat = [vector for row in sums for vector in row]
        flat = Accumulation(step, 1, lanes).within(self.e, factors, inner - rest, flat)
        if rest:
            mask = first_lanes(self.e.index(rest), lanes)
            flat = vector_step(dtype, lanes, lines, mask)(factors.at(inner - rest), flat)
        return by_rows(flat, self.tile.vectors)

    def put(self, number: Value, vectors: list[Value]) -> None:
        """Sum up the lanes of each vector, and give the sums away one by one."""
        row = self.sink.row(number)
        for o, vector in enumerate(vectors):
            total = reduce_sum(vector)
            if self.bias is not None:
                total = total + load(self.bias, self.column + o, 1, None, self.plan.sums)
            row.put(self.column + o, total)
