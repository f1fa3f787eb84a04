"""Convolutions: implicit matrix products in tiles, depthwise, and one result an item for others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.clc.types import is_arithmetic
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read, write_result
from afterglow.backends.opencl.kernels.chain import places_of
from afterglow.backends.opencl.kernels.channels import begin_channels
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.movement import begin
from afterglow.backends.opencl.kernels.tile import Sums, Tile, panels
from afterglow.backends.opencl.kernels.windows import Sliding
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.convolution import Conv
from afterglow.types import Array
from afterglow.types.dtype import f32


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_arithmetic(step.outs[0].type.dtype)


@anchor(Conv, accepts=_accepts)
def write_conv(job: Job, limits: Limits) -> KernelSource:
    """The kernel that suits its channels."""
    step = job.anchor
    assert step is not None
    weight = step.operand(1)
    constant = weight.root.region is Region.CONSTANT
    if not constant or any(b.type.dtype is not f32 for b in (*step.outs, *step.ins) if b):
        return _write_plain(job, limits)
    if weight.type.shape[-1] == 1 and weight.type.shape[0] == step.operand(0).type.shape[-1]:
        return _write_depthwise(job, limits)
    return _write_tiled(job, limits)


def _sliding(kernel: Kernel) -> Sliding:
    step = kernel.step
    assert isinstance(step.op, Conv)
    return Sliding(kernel, step, step.op.windows(step.operand(1).type.shape))


def _write_tiled(job: Job, limits: Limits) -> KernelSource:
    """Rows are the places of results, columns their channels, terms the elements of windows."""
    kernel = Kernel(job, limits)
    step = kernel.step
    assert isinstance(step.op, Conv)
    sliding, code = _sliding(kernel), kernel.code
    out, groups = step.outs[0], step.op.groups
    rows, columns = math.prod(out.type.shape[:-1]), out.type.shape[-1] // groups
    tile = Tile.of(rows, columns, limits.lanes)
    kernel.items = (-(-rows // tile.rows), -(-columns // tile.columns), groups)
    kernel.group = (1, 1, 1)
    first, panel, group = (
        code.named(code.work_item(0) * tile.rows),
        code.work_item(1),
        code.work_item(2),
    )
    wheres = [_place(kernel, first, m, rows, tile, out) for m in range(tile.rows)]
    sums = Sums(kernel, tile, f32)
    _accumulate(kernel, sliding, sums, wheres, panel, group, groups)

    def at(row: Value, column: Value) -> list[Value]:
        return [*places_of(kernel, code.named(row), out.type.shape[:-1]), group * columns + column]

    sums.store(first, rows, panel * tile.columns, columns, at)
    return kernel.finish()


def _place(
    kernel: Kernel, first: Value, number: int, rows: int, tile: Tile, out: Buffer
) -> list[Value]:
    """The place of a row of the tile, without its channel; the last row for those beyond."""
    row = first + number
    if rows % tile.rows and number:
        row = Value(kernel.code, row.dtype, 1, f"min({row.text}, {rows - 1})")
    return places_of(kernel, kernel.code.named(row), out.type.shape[:-1])


def _accumulate(
    kernel: Kernel,
    sliding: Sliding,
    sums: Sums,
    wheres: Sequence[Sequence[Value]],
    panel: Value,
    group: Value,
    groups: int,
) -> None:
    """Add up all elements of the windows at some places."""
    code, x, weight = kernel.code, sliding.x, sliding.step.operand(1)
    channels = weight.type.shape[-1]
    terms, width = math.prod(weight.type.shape[1:]), sums.tile.columns
    source = _packed_weight(kernel, weight, groups, width)
    per_group = -(-(weight.type.shape[0] // groups) // width) * terms * width
    start = code.named(group * per_group + panel * (terms * width))
    corners = [sliding.corner(where[1:]) for where in wheres]
    given = kernel.pointer(x)
    bias = sliding.step.optional(2)
    if bias is not None:
        _begin_with_bias(kernel, sums, bias, panel, group, groups)
    with sliding.taps() as taps:
        term = code.named(start + sliding.number(taps) * (channels * width))
        starts, masks = [], []
        for where, corner in zip(wheres, corners, strict=True):
            seen = sliding.seen(corner, taps)
            masks.append(sliding.inside(seen))
            places = [where[0], *seen, group * channels]
            starts.append(code.named(_dot(places, x.strides)))
        with code.fused_loop(channels) as c:
            numbers = [
                _masked(given, begins + c * x.strides[-1], mask)
                for begins, mask in zip(starts, masks, strict=True)
            ]
            sums.add(source, term + c * width, numbers)


def _begin_with_bias(
    kernel: Kernel, sums: Sums, bias: Buffer, panel: Value, group: Value, groups: int
) -> None:
    """Let the sums of each column begin with its bias, from a padded copy of it."""
    width, columns = sums.tile.columns, bias.type.shape[0] // groups
    padded = -(-columns // width) * width

    def pack(data: Array) -> Array:
        room = np.zeros((groups, padded), data.dtype)
        room[:, :columns] = data.reshape(groups, columns)
        return room

    source = kernel.packed(bias, f"panels of {width} in {groups} groups", pack)
    start = group * padded + panel * width
    for row in sums.sums:
        for n, total in enumerate(row):
            lanes = sums.tile.lanes
            kernel.code.assign(total, source.load(start + n * lanes, lanes))


def _masked(given: Pointer, place: Value, mask: Value | None) -> Value:
    if mask is None:
        return given.load(place)
    text = f"{mask.text} ? {given.name}[{place.text}] : 0.0f"
    return given.code.define(text, given.dtype)


def _packed_weight(kernel: Kernel, weight: Buffer, groups: int, width: int) -> Pointer:
    """The weights in panels, group by group."""

    def pack(data: Array) -> Array:
        rows = data.reshape(groups, data.shape[0] // groups, -1)
        return panels(width)(rows.transpose(0, 2, 1))

    return kernel.packed(weight, f"panels of {width} in {groups} groups", pack)


def _dot(places: Sequence[Value], strides: Sequence[int]) -> Value:
    total = places[0] * strides[0]
    for place, stride in zip(places[1:], strides[1:], strict=True):
        total = total + place * stride
    return total


def _write_depthwise(job: Job, limits: Limits) -> KernelSource:
    """Every channel by itself: neighbouring channels in a vector."""
    kernel = Kernel(job, limits)
    sliding, code = _sliding(kernel), kernel.code
    weight, bias = sliding.step.operand(1), sliding.step.optional(2)
    channels = weight.type.shape[0]
    where, channel, lanes = begin_channels(kernel)
    taps_first = kernel.packed(weight, "taps first", lambda data: data.reshape(channels, -1).T)
    start = code.constant(f32, 0) if bias is None else read(kernel, bias, [channel], lanes)
    total = code.variable(start.splat(lanes))
    corner, given = sliding.corner(where[1:]), kernel.pointer(sliding.x)
    with sliding.taps() as taps:
        seen = sliding.seen(corner, taps)
        with sliding.when_inside(seen):
            place = _dot([where[0], *seen, channel], sliding.x.strides)
            value = given.load(place, lanes)
            factor = taps_first.load(sliding.number(taps) * channels + channel, lanes)
            code.perform(f"{total.text} += {value.text} * {factor.text};")
    write_result(kernel, total, [*where, channel], lanes)
    return kernel.finish()


def _write_plain(job: Job, limits: Limits) -> KernelSource:
    """Each result by an item of its own."""
    kernel = Kernel(job, limits)
    step = kernel.step
    assert isinstance(step.op, Conv)
    sliding, code = _sliding(kernel), kernel.code
    x, weight, bias, out = step.operand(0), step.operand(1), step.optional(2), step.outs[0]
    channels, columns = weight.type.shape[-1], out.type.shape[-1] // step.op.groups
    *where, channel = begin(kernel, step)
    dtype = out.type.dtype
    start = (
        code.constant(dtype, 0) if bias is None else convert(read(kernel, bias, [channel]), dtype)
    )
    total = code.variable(start)
    group = code.named(channel.combined("/", columns))
    corner = sliding.corner(where[1:])
    with sliding.taps() as taps:
        seen = sliding.seen(corner, taps)
        with sliding.when_inside(seen), code.loop(channels) as c:
            value = read(kernel, x, [where[0], *seen, group * channels + c])
            factor = convert(read(kernel, weight, [channel, *taps, c]), dtype)
            code.assign(total, total + value * factor)
    write_result(kernel, total, [*where, channel])
    return kernel.finish()
