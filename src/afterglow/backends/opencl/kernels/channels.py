"""Work-items for neighbouring channels of each place of a result."""

from __future__ import annotations

import math

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.kernels.chain import places_of
from afterglow.backends.opencl.kernels.kernel import Kernel
from afterglow.backends.opencl.kernels.lanes import lanes_along
from afterglow.instr import Buffer


def begin_channels(kernel: Kernel) -> tuple[list[Value], Value, int]:
    """The place of a work-item without its channel, its first channel, and how many it has."""
    step = kernel.step
    shape = step.outs[0].type.shape
    lanes = lanes_of(kernel, shape)
    wide = (*shape[:-1], shape[-1] // lanes)
    *where, vector = places_of(kernel, kernel.each(math.prod(wide)), wide)
    return where, kernel.code.named(vector * lanes), lanes


def lanes_of(kernel: Kernel, shape: tuple[int, ...]) -> int:
    """Neighbouring channels that can be read and written together, at most as many as fit."""
    job = kernel.job
    assert job.anchor is not None
    if job.before:
        return 1
    own: list[Buffer] = [*job.anchor.outs, job.anchor.operand(0)]
    strides = [*chain_strides(job.after, shape).values(), *(b.strides for b in own)]
    return lanes_along(kernel, shape[-1], strides)
