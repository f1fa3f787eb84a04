"""Work-items for neighbouring channels of each place of a result."""

from __future__ import annotations

import math

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.kernels.chain import places_of
from afterglow.backends.opencl.kernels.kernel import Kernel
from afterglow.instr import Buffer

FLOAT_BITS = 32


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
    strides = chain_strides(job.after, shape)
    own: list[Buffer] = [*job.anchor.outs, job.anchor.operand(0)]
    steps = [each[-1] for each in strides.values()] + [b.strides[-1] for b in own]
    widest = max(b.type.dtype.bits for each in job.steps for b in (*each.outs, *each.ins) if b)
    if job.before or widest > FLOAT_BITS or any(step not in (0, 1) for step in steps):
        return 1
    lanes = kernel.limits.lanes
    while lanes > 1 and shape[-1] % lanes:
        lanes //= 2
    return lanes
