"""Convolutions in which each result is computed by an item of its own."""

from __future__ import annotations

from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.language import Kernel
from afterglow.backends.items.movement import begin
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.items.windows import Sliding
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import OpInstr
from afterglow.ops.convolution import Conv


def _accepts(step: OpInstr) -> bool:
    return is_number(step.outs[0].type.dtype)


@shared(Conv, accepts=_accepts)
def write_conv(kernel: Kernel[ValueT]) -> None:
    """The sum of the products of a window and the weights of a channel."""
    step, code = kernel.step, kernel.code
    assert isinstance(step.op, Conv)
    x, weight, bias, out = step.operand(0), step.operand(1), step.optional(2), step.outs[0]
    sliding = Sliding(kernel, step, step.op.windows(weight.type.shape))
    channels, columns = weight.type.shape[-1], out.type.shape[-1] // step.op.groups
    *where, channel = begin(kernel, step)
    dtype = computed(out.type.dtype)
    start = code.constant(dtype, 0)
    if bias is not None:
        start = convert(read_number(kernel, bias, [channel]), dtype)
    total = code.variable(start)
    group = code.named(channel.combined("/", columns))
    corner = sliding.corner(where[1:])
    with sliding.taps() as taps:
        seen = sliding.seen(corner, taps)
        with sliding.when_inside(seen), code.loop(channels) as c:
            value = read_number(kernel, x, [where[0], *seen, group * channels + c])
            factor = convert(read_number(kernel, weight, [channel, *taps, c]), dtype)
            code.assign(total, total + value * factor)
    write_result(kernel, total, [*where, channel])
