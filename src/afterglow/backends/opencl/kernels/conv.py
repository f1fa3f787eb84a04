"""Convolutions: implicit matrix products in tiles, depthwise, and one result an item for others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.clc.types import is_arithmetic
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read, write_result
from afterglow.backends.opencl.kernels.chain import places_of
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.movement import begin
from afterglow.backends.opencl.kernels.tile import Sums, Tile, panels
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.convolution import Conv
from afterglow.ops.windows import Windows
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


@dataclass(frozen=True)
class _Geometry:
    """A convolution by its windows, and where x lies."""

    step: OpInstr
    windows: Windows

    @staticmethod
    def of(step: OpInstr) -> _Geometry:
        assert isinstance(step.op, Conv)
        return _Geometry(step, step.op.windows(step.operand(1).type.shape))

    @property
    def x(self) -> Buffer:
        return self.step.operand(0)

    @property
    def spatial(self) -> tuple[int, ...]:
        return self.x.type.shape[1:-1]

    def is_checked(self, axis: int) -> bool:
        """Whether some windows reach beyond x along an axis."""
        windows = self.windows
        count = self.step.outs[0].type.shape[1 + axis]
        last = (count - 1) * windows.strides[axis] - windows.begins[axis] + windows.reach[axis]
        return windows.begins[axis] > 0 or last > self.spatial[axis]

    def corner(self, where: Sequence[Value]) -> list[Value]:
        """Where a window begins along each axis, which may be before x."""
        windows = self.windows
        return [
            place * stride - begin
            for place, stride, begin in zip(where, windows.strides, windows.begins, strict=True)
        ]

    @contextmanager
    def taps(self, kernel: Kernel) -> Iterator[list[Value]]:
        """Loops over the elements of a window; none along an axis where it has one."""
        with ExitStack() as loops:
            yield [
                kernel.code.index(0) if n == 1 else loops.enter_context(kernel.code.loop(n))
                for n in self.windows.kernel
            ]

    def seen(self, corner: Sequence[Value], taps: Sequence[Value]) -> list[Value]:
        """The place in x of an element of a window."""
        dilations = self.windows.dilations
        pairs = zip(corner, taps, dilations, strict=True)
        return [start + tap * dilation for start, tap, dilation in pairs]

    def inside(self, kernel: Kernel, seen: Sequence[Value]) -> Value | None:
        """Whether a place is in x, rather than in the padding; None if all are."""
        checks = [
            f"{place.text} >= 0 && {place.text} < {self.spatial[axis]}"
            for axis, place in enumerate(seen)
            if self.is_checked(axis)
        ]
        if not checks:
            return None
        text = " && ".join(checks)
        return kernel.code.define(text, kernel.code.index_type)


def _write_tiled(job: Job, limits: Limits) -> KernelSource:
    """Rows are the places of results, columns their channels, terms the elements of windows."""
    kernel = Kernel(job, limits)
    step = kernel.job.anchor
    assert step is not None
    assert isinstance(step.op, Conv)
    geometry, code = _Geometry.of(step), kernel.code
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
    _accumulate(kernel, geometry, sums, wheres, panel, group, groups)

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
    geometry: _Geometry,
    sums: Sums,
    wheres: Sequence[Sequence[Value]],
    panel: Value,
    group: Value,
    groups: int,
) -> None:
    """Add up all elements of the windows at some places."""
    code, x, weight = kernel.code, geometry.x, geometry.step.operand(1)
    channels = weight.type.shape[-1]
    terms, width = math.prod(weight.type.shape[1:]), sums.tile.columns
    source = _packed_weight(kernel, weight, groups, width)
    per_group = -(-(weight.type.shape[0] // groups) // width) * terms * width
    start = code.named(group * per_group + panel * (terms * width))
    corners = [[code.named(c) for c in geometry.corner(where[1:])] for where in wheres]
    given = kernel.pointer(x)
    bias = geometry.step.optional(2)
    if bias is not None:
        _begin_with_bias(kernel, sums, bias, panel, group, groups)
    with geometry.taps(kernel) as taps:
        number = code.index(0)
        for tap, extent in zip(taps, geometry.windows.kernel, strict=True):
            number = number * extent + tap
        term = code.named(start + number * (channels * width))
        starts, masks = [], []
        for where, corner in zip(wheres, corners, strict=True):
            seen = geometry.seen(corner, taps)
            masks.append(geometry.inside(kernel, seen))
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
    step = kernel.job.anchor
    assert step is not None
    geometry, code = _Geometry.of(step), kernel.code
    x, weight, bias = step.operand(0), step.operand(1), step.optional(2)
    shape = step.outs[0].type.shape
    lanes = _channel_lanes(kernel, shape[-1])
    wide = (*shape[:-1], shape[-1] // lanes)
    *where, vector = places_of(kernel, kernel.each(math.prod(wide)), wide)
    channel = code.named(vector * lanes)
    taps_first = kernel.packed(weight, "taps first", lambda data: data.reshape(shape[-1], -1).T)
    start = code.constant(f32, 0, lanes) if bias is None else read(kernel, bias, [channel], lanes)
    total = code.variable(start.splat(lanes))
    corner = [code.named(c) for c in geometry.corner(where[1:])]
    given = kernel.pointer(x)
    with geometry.taps(kernel) as taps:
        number = code.index(0)
        for tap, extent in zip(taps, geometry.windows.kernel, strict=True):
            number = number * extent + tap
        seen = geometry.seen(corner, taps)
        mask = geometry.inside(kernel, seen)
        with ExitStack() as stack:
            if mask is not None:
                stack.enter_context(code.when(mask))
            value = given.load(_dot([where[0], *seen, channel], x.strides), lanes)
            factor = taps_first.load(number * shape[-1] + channel, lanes)
            code.perform(f"{total.text} = fma({value.text}, {factor.text}, {total.text});")
    write_result(kernel, total, [*where, channel], lanes)
    return kernel.finish()


def _channel_lanes(kernel: Kernel, channels: int) -> int:
    """Channels that one item computes."""
    step = kernel.job.anchor
    assert step is not None
    results = [*step.outs, *(out for after in kernel.job.after for out in after.outs)]
    read_after = [b for after in kernel.job.after for b in after.ins if b is not None]
    in_memory = [b for b in (*results, *read_after) if b not in kernel.job.locals]
    if any(b.strides and b.strides[-1] not in (0, 1) for b in (step.operand(0), *in_memory)):
        return 1
    lanes = kernel.limits.lanes
    while lanes > 1 and channels % lanes:
        lanes //= 2
    return lanes


def _write_plain(job: Job, limits: Limits) -> KernelSource:
    """Each result by an item of its own."""
    kernel = Kernel(job, limits)
    step = kernel.job.anchor
    assert step is not None
    assert isinstance(step.op, Conv)
    geometry, code = _Geometry.of(step), kernel.code
    x, weight, bias, out = step.operand(0), step.operand(1), step.optional(2), step.outs[0]
    channels, columns = weight.type.shape[-1], out.type.shape[-1] // step.op.groups
    *where, channel = begin(kernel, step)
    dtype = out.type.dtype
    start = (
        code.constant(dtype, 0) if bias is None else convert(read(kernel, bias, [channel]), dtype)
    )
    total = code.variable(start)
    group = code.named(channel.combined("/", columns))
    corner = geometry.corner(where[1:])
    with geometry.taps(kernel) as taps, ExitStack() as stack:
        seen = geometry.seen(corner, taps)
        mask = geometry.inside(kernel, seen)
        if mask is not None:
            stack.enter_context(code.when(mask))
        with code.loop(channels) as c:
            value = read(kernel, x, [where[0], *seen, group * channels + c])
            factor = convert(read(kernel, weight, [channel, *taps, c]), dtype)
            code.assign(total, total + value * factor)
    write_result(kernel, total, [*where, channel])
    return kernel.finish()
