"""Products and convolutions of bytes, whose sums are exact in 32 bits, one result an item."""

from __future__ import annotations

from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read, write_result
from afterglow.backends.items.channels import begin_channels
from afterglow.backends.items.language import Kernel
from afterglow.backends.items.matmul import within_batch
from afterglow.backends.items.movement import begin
from afterglow.backends.items.quantized_parts import (
    is_depthwise,
    packed_weight,
    scaled,
    shifted,
    sliding_of,
    zero_of_x,
)
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.types.dtype import i32


@shared(QuantizedMatMul)
def write_quantized_matmul(kernel: Kernel[ValueT]) -> None:
    """The sum of the products of a row and a column."""
    step, code = kernel.step, kernel.code
    assert isinstance(step.op, QuantizedMatMul)
    lhs, rhs = step.operand(0), step.operand(1)
    *batch, row, column = begin(kernel, step)
    total = code.variable(code.constant(i32, 0))
    with code.loop(lhs.type.shape[-2 if step.op.transpose_lhs else -1]) as k:
        at_left = [k, row] if step.op.transpose_lhs else [row, k]
        at_right = [column, k] if step.op.transpose_rhs else [k, column]
        x = read(kernel, lhs, [*within_batch(lhs, batch), *at_left])
        left = shifted(x, step.op.lhs_zero_point)
        y = read(kernel, rhs, [*within_batch(rhs, batch), *at_right])
        right = shifted(y, step.op.rhs_zero_point)
        code.assign(total, total + left * right)
    write_result(kernel, scaled(kernel, total, column, 1), [*batch, row, column])


@shared(QuantizedConv, accepts=is_depthwise)
def write_quantized_depthwise(kernel: Kernel[ValueT]) -> None:
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


@shared(QuantizedConv)
def write_quantized_conv(kernel: Kernel[ValueT]) -> None:
    """The sum of the products of a window and the weights of a channel."""
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
