"""Convolutions: implicit matrix products in tiles, depthwise, and one result an item for others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from afterglow.backends.items import conv
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.items.windows import Sliding
from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.kernels.copying import copy_line, fill_line, pitch_of
from afterglow.backends.opencl.kernels.depthwise import write_depthwise
from afterglow.backends.opencl.kernels.group_product import group_tile, write_group_product
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.product import Extents, Work, write_product
from afterglow.backends.opencl.kernels.table import ANCHORS
from afterglow.backends.opencl.kernels.tile import Panel, Rows, Tile, panels
from afterglow.backends.opencl.limits import Limits
from afterglow.instr import OpInstr, Region
from afterglow.ops.convolution import Conv
from afterglow.types import Array
from afterglow.types.dtype import f32


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_number(step.outs[0].type.dtype)


@ANCHORS.declare(Conv, accepts=_accepts)
def write_conv(job: Job, limits: Limits) -> KernelSource:
    """The kernel that suits its channels."""
    step = job.anchor
    assert step is not None
    weight, operands = step.operand(1), [b for b in (*step.outs, *step.ins) if b is not None]
    constant = all(b.root.region is Region.CONSTANT for b in operands[2:])
    if not constant or any(computed(b.type.dtype) is not f32 for b in operands):
        return _write_plain(job, limits)
    if weight.type.shape[-1] == 1 and weight.type.shape[0] == step.operand(0).type.shape[-1]:
        return write_depthwise(job, limits)
    return _write_tiled(job, limits)


def _sliding(kernel: Kernel) -> Sliding[Value]:
    step = kernel.step
    assert isinstance(step.op, Conv)
    return Sliding(kernel, step, step.op.windows(step.operand(1).type.shape))


def _write_tiled(job: Job, limits: Limits) -> KernelSource:
    """Rows are the places of results, columns their channels, terms the elements of windows."""
    kernel = Kernel(job, limits)
    step = kernel.step
    assert isinstance(step.op, Conv)
    out, weight, groups = step.outs[0], step.operand(1), step.op.groups
    extents = Extents(
        math.prod(out.type.shape[:-1]),
        out.type.shape[-1] // groups,
        math.prod(weight.type.shape[1:]),
        groups,
    )
    sliding = _sliding(kernel)
    if not limits.is_processor:
        work = Work(extents, group_tile(limits))
        write_group_product(kernel, work, _Windows(kernel, sliding, work), f32)
        return kernel.finish()
    tile = Tile.of(extents.rows, extents.columns, limits, f32)
    if sliding.is_matrix and sliding.x.type.dtype is f32:
        work = Work.by_panels(extents, tile, limits)
        write_product(kernel, work, _Places(kernel, sliding, work), f32)
        return kernel.finish()
    while tile.rows * pitch_of(extents.terms) * f32.itemsize > limits.local_bytes:
        if tile.rows == 1:
            return _write_plain(job, limits)
        tile = replace(tile, rows=-(-tile.rows // 2))
    work = Work.by_rows(extents, tile, limits)
    write_product(kernel, work, _Windows(kernel, sliding, work), f32)
    return kernel.finish()


class _Weights:
    """Weights in panels, group by group, and what the loops of a product want besides."""

    def __init__(self, kernel: Kernel, sliding: Sliding[Value], work: Work) -> None:
        self.kernel = kernel
        self.sliding = sliding
        self.work = work
        self.group = kernel.code.work_item(2)

    def panel(self, panel: Value) -> Panel:
        """Weights of some channels of a group."""
        width = self.work.tile.columns
        room = self.work.extents.terms * width
        return Panel(self._packed().shifted(self._panel_of_group(panel) * room), width)

    def weight(self, panel: Value, column: Value, term: Value) -> Value:
        """One of the weights of a panel."""
        row = self._panel_of_group(panel) * self.work.extents.terms + term
        return self._packed().load(row * self.work.tile.columns + column)

    def _packed(self) -> Pointer:
        groups, width = self.work.extents.count, self.work.tile.columns

        def pack(data: Array) -> Array:
            rows = data.reshape(groups, data.shape[0] // groups, -1)
            return panels(width)(rows.transpose(0, 2, 1))

        weight = self.sliding.step.operand(1)
        return self.kernel.packed(weight, f"panels of {width} in {groups} groups", pack).numbers

    def start(self, panel: Value) -> Panel | None:
        """The bias, from a copy with zeros behind each group."""
        bias = self.sliding.step.optional(2)
        if bias is None:
            return None
        width, columns = self.work.tile.columns, self.work.extents.columns
        groups, padded = self.work.extents.count, width * self.work.all_panels

        def pack(data: Array) -> Array:
            room = np.zeros((groups, padded), data.dtype)
            room[:, :columns] = data.reshape(groups, columns)
            return room

        source = self.kernel.packed(bias, f"panels of {width} in {groups} groups", pack)
        return Panel(source.numbers.shifted(self._panel_of_group(panel) * width), width)

    def place(self, row: Value, column: Value) -> list[Value]:
        """Where a window is, and a channel of the group."""
        shape, channel = self.sliding.step.outs[0].type.shape, self.work.extents.columns
        return [*places_of(self.kernel, row, shape[:-1]), self.group * channel + column]

    def _panel_of_group(self, panel: Value) -> Value:
        return self.group * self.work.all_panels + panel


class _Places(_Weights):
    """Windows of one place each, one after the other: the input itself is the matrix."""

    def rows(self, first: Value) -> Rows:
        """The channels of the group at each place."""
        x = self.sliding.x
        start = first * x.strides[-2] + self.group * (self.work.extents.terms * x.strides[-1])
        return Rows(self.kernel.pointer(x).shifted(start), x.strides[-2], x.strides[-1])


class _Windows(_Weights):
    """Windows of which each is copied into a row, with zeros for what lies in the padding."""

    def rows(self, first: Value) -> Rows:
        """A row of elements for each window of a tile."""
        code, tile, sliding = self.kernel.code, self.work.tile, self.sliding
        pitch, shape = pitch_of(self.work.extents.terms), sliding.step.outs[0].type.shape
        copy = code.shared(f32, tile.rows * pitch)
        with code.loop(tile.rows) as row:
            where = places_of(self.kernel, code.named(first + row), shape[:-1])
            corner = sliding.corner(where[1:])
            with sliding.taps() as taps:
                term = sliding.number(taps) * sliding.step.operand(1).type.shape[-1]
                self._copy(where[0], sliding.seen(corner, taps), copy, row * pitch + term)
        return Rows(copy, pitch, 1)

    def number(self, row: Value, term: Value) -> Value:
        """An element of a window; zero if it lies in the padding."""
        sliding, weight = self.sliding, self.sliding.step.operand(1).type.shape
        where = places_of(self.kernel, row, sliding.step.outs[0].type.shape[:-1])
        *taps, channel = places_of(self.kernel, term, weight[1:])
        seen = sliding.seen(sliding.corner(where[1:]), taps)
        inside = sliding.inside(seen)
        place = _dot([where[0], *seen, self.group * weight[-1] + channel], sliding.x.strides)
        source = self.kernel.numbers(sliding.x)
        return source.load(place) if inside is None else source.load_where(inside, place)

    def _copy(self, batch: Value, seen: list[Value], copy: Pointer, place: Value) -> None:
        """Copy the channels of one place, or zeros."""
        x, code, sliding = self.sliding.x, self.kernel.code, self.sliding
        channels = sliding.step.operand(1).type.shape[-1]
        source, to = self.kernel.numbers(x), code.named(place)
        inside = sliding.inside(seen)
        start = code.named(_dot([batch, *seen, self.group * channels], x.strides))
        with code.when(inside) if inside is not None else nullcontext():
            copy_line(source, start, x.strides[-1], copy, to, channels, self.work.tile.lanes)
        if inside is not None:
            with code.block("else"):
                fill_line(copy, to, channels, self.work.tile.lanes)


def _dot(places: Sequence[Value], strides: Sequence[int]) -> Value:
    total = places[0] * strides[0]
    for place, stride in zip(places[1:], strides[1:], strict=True):
        total = total + place * stride
    return total


def _write_plain(job: Job, limits: Limits) -> KernelSource:
    """Each result by an item of its own."""
    kernel = Kernel(job, limits)
    conv.write_conv(kernel)
    return kernel.finish()
