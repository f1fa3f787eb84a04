"""Neighbouring elements that an item has in one vector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from afterglow.backends.broadcast import Strides
from afterglow.backends.items.language import Code, Combine, Kernel
from afterglow.backends.pointwise.value import ValueT

FLOAT_BITS = 32


def lanes_within(extent: int, most: int) -> int:
    """The most lanes, a power of two, of which an extent has a whole number."""
    while most > 1 and extent % most:
        most //= 2
    return most


def lanes_along(kernel: Kernel[Any], extent: int, strides: Iterable[Strides]) -> int:
    """Neighbours along the last axis that a kernel can read and write together."""
    if any(each[-1:] not in ((), (0,), (1,)) for each in strides):
        return 1
    buffers = (b for step in kernel.job.steps for b in (*step.outs, *step.ins) if b is not None)
    widest = max(FLOAT_BITS, *(b.type.dtype.bits for b in buffers))
    return lanes_within(extent, max(1, kernel.lanes * FLOAT_BITS // widest))


def combine_lanes(code: Code[ValueT], vector: ValueT, combine: Combine[ValueT]) -> ValueT:
    """All lanes of a vector as one number, by halves."""
    while vector.lanes > 1:
        vector = combine(*code.halves(vector))
    return vector
