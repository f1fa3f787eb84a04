"""Products and convolutions of bytes, whose sums are exact in 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable

from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read, write_result
from afterglow.backends.opencl.kernels.channels import begin_channels
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.movement import begin
from afterglow.backends.opencl.kernels.quantized_parts import (
    packed_weight,
    scaled,
    shifted,
    sliding_of,
    zero_of_x,
)
from afterglow.backends.opencl.kernels.quantized_tiles import Tiles
from afterglow.backends.opencl.kernels.quantized_words import write_words
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, Region
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.types import Array
from afterglow.types.dtype import i32


@anchor(QuantizedMatMul)
def write_quantized_matmul(job: Job, limits: Limits) -> KernelSource:
    """In tiles where the right matrix is known, else one result an item."""
    step = job.anchor
    assert step is not None
    assert isinstance(step.op, QuantizedMatMul)
    lhs, rhs = step.operand(0), step.operand(1)
    is_matrix = _is_known(rhs) and math.prod(rhs.type.shape[:-2]) == 1
    if not is_matrix or step.op.transpose_lhs or lhs.strides[-1] != 1:
        return _write_plain_matmul(Kernel(job, limits))
    return _write_known(Kernel(job, limits), _transposed if step.op.transpose_rhs else _straight)


def _write_known(kernel: Kernel, arrange: Callable[[Array], Array]) -> KernelSource:
    """A product with a known weight: of floats on processors, of words of four bytes on others."""
    if kernel.limits.is_processor:
        return Tiles(kernel, arrange).write()
    return write_words(kernel, arrange)


def _is_known(weight: Buffer) -> bool:
    return weight.root.region is Region.CONSTANT and weight.type.size > 0


def _straight(data: Array) -> Array:
    """A matrix [terms, columns] as tiles take it."""
    return data.reshape(1, *data.shape[-2:])


def _transposed(data: Array) -> Array:
    """A matrix [columns, terms] as tiles take it."""
    return _straight(data).transpose(0, 2, 1)


def _write_plain_matmul(kernel: Kernel) -> KernelSource:
    step, code = kernel.step, kernel.code
    assert isinstance(step.op, QuantizedMatMul)
    lhs, rhs = step.operand(0), step.operand(1)
    *batch, row, column = begin(kernel, step)
    total = code.variable(code.constant(i32, 0))
    with code.loop(lhs.type.shape[-2 if step.op.transpose_lhs else -1]) as k:
        at_left = [k, row] if step.op.transpose_lhs else [row, k]
        at_right = [column, k] if step.op.transpose_rhs else [k, column]
        left = shifted(read(kernel, lhs, _within(lhs, batch, at_left)), step.op.lhs_zero_point)
        right = shifted(read(kernel, rhs, _within(rhs, batch, at_right)), step.op.rhs_zero_point)
        code.assign(total, total + left * right)
    write_result(kernel, scaled(kernel, total, column, 1), [*batch, row, column])
    return kernel.finish()


def _within(buffer: Buffer, batch: list[Value], place: list[Value]) -> list[Value]:
    """The place of an element in an operand that is broadcast to a batch."""
    own = batch[len(batch) - (buffer.type.rank - 2) :]
    extents = zip(own, buffer.type.shape, strict=False)
    return [*(p if n != 1 else p.like(0) for p, n in extents), *place]


@anchor(QuantizedConv)
def write_quantized_conv(job: Job, limits: Limits) -> KernelSource:
    """By tiles, or by vectors of channels where each is by itself, else one result an item."""
    step = job.anchor
    assert step is not None
    x, weight = step.operand(0), step.operand(1)
    known = _is_known(weight)
    kernel = Kernel(job, limits)
    if known and weight.type.shape[-1] == 1 and weight.type.shape[0] == x.type.shape[-1]:
        return _write_depthwise(kernel)
    if not known or x.strides[-1] != 1:
        return _write_plain_conv(kernel)
    assert isinstance(step.op, QuantizedConv)
    groups, columns = step.op.groups, weight.type.shape[0] // step.op.groups

    def arrange(data: Array) -> Array:
        return data.reshape(groups, columns, -1).transpose(0, 2, 1)

    return _write_known(kernel, arrange)


def _write_depthwise(kernel: Kernel) -> KernelSource:
    """Every channel by itself: neighbouring channels in a vector."""
    sliding, code, step = sliding_of(kernel), kernel.code, kernel.step
    weight = step.operand(1)
    channels = weight.type.shape[0]
    where, channel, lanes = begin_channels(kernel)
    factors = packed_weight(kernel, "taps first", lambda data: data.reshape(channels, -1).T)
    total = code.variable(code.constant(i32, 0, lanes))
    corner, zero = sliding.corner(where[1:]), zero_of_x(kernel)
    with sliding.taps() as taps:
        seen = sliding.seen(corner, taps)
        with sliding.when_inside(seen):
            x = shifted(read(kernel, sliding.x, [where[0], *seen, channel], lanes), zero)
            place = sliding.number(taps) * channels + channel
            code.assign(total, total + x * convert(factors.load(place, lanes), i32))
    write_result(kernel, scaled(kernel, total, channel, lanes), [*where, channel], lanes)
    return kernel.finish()


def _write_plain_conv(kernel: Kernel) -> KernelSource:
    """Each result by an item of its own."""
    sliding, code, step = sliding_of(kernel), kernel.code, kernel.step
    assert isinstance(step.op, QuantizedConv)
    weight = step.operand(1)
    channels, columns = weight.type.shape[-1], weight.type.shape[0] // step.op.groups
    *where, channel = begin(kernel, step)
    total = code.variable(code.constant(i32, 0))
    group = code.named(channel.combined("/", columns))
    corner, zero = sliding.corner(where[1:]), zero_of_x(kernel)
    with sliding.taps() as taps:
        seen = sliding.seen(corner, taps)
        with sliding.when_inside(seen), code.loop(channels) as c:
            x = read(kernel, sliding.x, [where[0], *seen, group * channels + c])
            factor = read(kernel, weight, [channel, *taps, c])
            product = shifted(x, zero) * shifted(factor, step.op.weight_zero_point)
            code.assign(total, total + product)
    write_result(kernel, scaled(kernel, total, channel, 1), [*where, channel])
    return kernel.finish()
