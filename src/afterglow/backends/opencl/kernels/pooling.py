"""Pooling: each window becomes one element, each channel on its own."""

from __future__ import annotations

from afterglow.backends.job import Job
from afterglow.backends.opencl.clc.types import computed, is_number
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read_number, write_result
from afterglow.backends.opencl.kernels.channels import begin_channels
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.reduction import start_of
from afterglow.backends.opencl.kernels.windows import Sliding
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import maximum
from afterglow.instr import OpInstr
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.reduction import ReduceMax


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_number(step.outs[0].type.dtype)


@anchor(MaxPool, accepts=_accepts)
def write_max_pool(job: Job, limits: Limits) -> KernelSource:
    """The largest of what each window sees."""
    kernel = Kernel(job, limits)
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
    return kernel.finish()


@anchor(AvgPool, accepts=_accepts)
def write_avg_pool(job: Job, limits: Limits) -> KernelSource:
    """The sum of each window, times one by how many elements count, which a table tells."""
    kernel = Kernel(job, limits)
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
    return kernel.finish()
