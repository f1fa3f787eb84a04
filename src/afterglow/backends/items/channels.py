"""Work-items for neighbouring channels of each place of a result."""

from __future__ import annotations

import math

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.lanes import lanes_along
from afterglow.backends.items.language import Kernel
from afterglow.backends.pointwise.value import ValueT
from afterglow.instr import Buffer


def begin_channels(kernel: Kernel[ValueT]) -> tuple[list[ValueT], ValueT, int]:
    """The place of an item without its channel, its first channel, and how many it has."""
    step = kernel.step
    shape = step.outs[0].type.shape
    lanes = lanes_of(kernel, shape)
    wide = (*shape[:-1], shape[-1] // lanes)
    *where, vector = places_of(kernel, kernel.each(math.prod(wide)), wide)
    return where, kernel.code.named(vector * lanes), lanes


def lanes_of(kernel: Kernel[ValueT], shape: tuple[int, ...]) -> int:
    """Neighbouring channels that can be read and written together, at most as many as fit."""
    job = kernel.job
    assert job.anchor is not None
    if job.before:
        return 1
    own: list[Buffer] = [*job.anchor.outs, job.anchor.operand(0)]
    strides = [*chain_strides(job.after, shape).values(), *(b.strides for b in own)]
    return lanes_along(kernel, shape[-1], strides)
