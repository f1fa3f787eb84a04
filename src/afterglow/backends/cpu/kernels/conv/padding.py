"""A copy of x with its padding in memory, in a type that the machine computes with."""

from __future__ import annotations

import math

from afterglow.backends.broadcast import Strides
from afterglow.backends.cpu.kernels.conv.geometry import conv_of, padded_shape, padded_strides
from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, convert, equal
from afterglow.backends.cpu.llvm.types import is_arithmetic
from afterglow.backends.cpu.micro.cost import PACKED_ELEMENT
from afterglow.backends.cpu.micro.kernel import PADDED, Kernel, Phase, Storage
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.instr import Buffer, OpInstr
from afterglow.types.dtype import f32
from afterglow.types.extent import largest


def needs_copy(step: OpInstr) -> bool:
    """Whether x cannot be read where it is."""
    x = _x(step)
    return padded_shape(step) != x.type.shape or not is_arithmetic(x.type.dtype)


def strides_of_x(step: OpInstr) -> Strides:
    """The strides of what the products read: x, or its copy."""
    return padded_strides(step) if needs_copy(step) else _x(step).strides


def pointer_to_x(p: Phase) -> Pointer:
    """The address of what the products read: x, or its copy."""
    x = _x(p.step)
    if not needs_copy(p.step):
        return p.pointer(x)
    return p.workspace(PADDED)


def padded_storage(step: OpInstr) -> dict[str, Storage]:
    """The workspace for the copy, if there is one."""
    if not needs_copy(step):
        return {}
    dtype = _x(step).type.dtype
    read = dtype if is_arithmetic(dtype) else f32
    return {PADDED: Storage(read, math.prod(padded_shape(step)))}


def write_padded(k: Kernel) -> None:
    """Write the phase that makes the copy, a unit for each run of pixels along the last axis."""
    shape, strides = padded_shape(k.step), padded_strides(k.step)
    lines = math.prod(shape[:-2])
    with k.phase(lines, PACKED_ELEMENT * math.prod(shape), "pad") as p:
        to, source = pointer_to_x(p), p.pointer(_x(k.step))
        with p.units() as line:
            _write_line(p, source, to + line * strides[-3] if largest(lines) > 1 else to, line)


def _write_line(p: Phase, source: Pointer, to: Pointer, line: Value) -> None:
    """Zeros, then a line of x, then zeros; or nothing but zeros."""
    e, x = p.e, _x(p.step)
    shape, channels = padded_shape(p.step), x.type.shape[-1]
    begins = conv_of(p.step).pads[: len(shape) - 2]
    place: Index = line
    inside = equal(line, line)
    for axis in range(len(shape) - 3, 0, -1):
        place, index = split(place, shape[axis])
        own = e.index(index) - begins[axis - 1]
        inside = inside & (own >= 0) & (own < x.type.shape[axis])
        source = source + own * x.strides[axis]
    source = source + e.index(place) * x.strides[0]
    before, extent = begins[-1] * channels, x.type.shape[-2]
    behind = before + extent * channels
    with e.when(inside):
        e.zero(to, before)
        _copy_pixels(p, source, to + before)
        e.zero(to + behind, shape[-2] * channels - behind)
    with e.when(~inside):
        e.zero(to, shape[-2] * channels)


def _copy_pixels(p: Phase, source: Pointer, to: Pointer) -> None:
    """Copy one line of x; pixels without gaps are one run."""
    x = _x(p.step)
    axes = Axes.merged(x.type.shape[-2:], x.strides[-2:])
    if len(axes.extents) > 1:
        (count, length), (gap, stride) = axes.extents, axes.strides
        with p.e.loop(count, name="pixel") as pixel:
            copy_run(p.e, source + pixel * gap, to + pixel * length, length, stride)
    else:
        length, stride = (*axes.extents, 1)[0], (*axes.strides, 1)[0]
        copy_run(p.e, source, to, length, stride)


def copy_run(e: Emitter, source: Pointer, to: Pointer, count: int, stride: int) -> None:
    """Copy elements that lie one after the other, or a stride apart."""
    if stride == 1 and source.dtype is to.dtype:
        e.copy(to, source, count)
        return
    lanes = e.lanes(to.dtype) if stride == 1 else 1
    whole = count - count % lanes
    with e.loop(whole, step=lanes) as i:
        to.store(convert((source + i * stride).load(0, lanes), to.dtype), i)
    with e.loop(count, start=whole) as i:
        to.store(convert((source + i * stride).load(), to.dtype), i)


def _x(step: OpInstr) -> Buffer:
    x = step.required[0]
    return x
