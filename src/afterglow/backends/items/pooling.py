"""Pooling: each window becomes one element, each channel on its own."""

from __future__ import annotations

from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.channels import begin_channels
from afterglow.backends.items.language import Kernel
from afterglow.backends.items.reduction import start_of
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.items.windows import Sliding
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import maximum
from afterglow.instr import OpInstr
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.reduction import ReduceMax


def _accepts(step: OpInstr) -> bool:
    return is_number(step.outs[0].type.dtype)


@shared(MaxPool, accepts=_accepts)
def write_max_pool(kernel: Kernel[ValueT]) -> None:
    """The largest of what each window sees."""
    step = kernel.step
    assert isinstance(step.op, MaxPool)
    sliding = Sliding(kernel, step, step.op.windows)
    where, channel, lanes = begin_channels(kernel)
    dtype = computed(step.outs[0].type.dtype)
    largest = kernel.code.variable(kernel.code.constant(dtype, start_of(ReduceMax, dtype), lanes))
    corner = sliding.corner(where[1:])
    with sliding.taps() as taps:
        seen = sliding.seen(corner, taps)
        with sliding.when_inside(seen):
            value = read_number(kernel, sliding.x, [where[0], *seen, channel], lanes)
            kernel.code.assign(largest, maximum(largest, value))
    write_result(kernel, largest, [*where, channel], lanes)


@shared(AvgPool, accepts=_accepts)
def write_avg_pool(kernel: Kernel[ValueT]) -> None:
    """The sum of each window, times one by how many elements count, which a table tells."""
    step = kernel.step
    assert isinstance(step.op, AvgPool)
    sliding = Sliding(kernel, step, step.op.windows)
    where, channel, lanes = begin_channels(kernel)
    dtype = computed(step.outs[0].type.dtype)
    total = kernel.code.variable(kernel.code.constant(dtype, 0, lanes))
    corner = sliding.corner(where[1:])
    with sliding.taps() as taps:
        seen = sliding.seen(corner, taps)
        with sliding.when_inside(seen):
            value = read_number(kernel, sliding.x, [where[0], *seen, channel], lanes)
            kernel.code.assign(total, total + value)
    factors = (1 / step.op.divisors(sliding.spatial)).astype(dtype.numpy)
    place = kernel.code.index(0)
    for index, extent in zip(where[1:], step.outs[0].type.shape[1:-1], strict=True):
        place = place * extent + index
    factor = kernel.code.table(factors).load(kernel.code.named(place))
    write_result(kernel, total * factor, [*where, channel], lanes)
