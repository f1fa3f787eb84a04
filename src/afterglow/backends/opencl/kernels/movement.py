"""Kernels that move elements: transposed, repeated, filled, counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read, write_result
from afterglow.backends.opencl.kernels.chain import places_of
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import OpInstr
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Iota
from afterglow.ops.movement import Expand, Transpose


def begin(kernel: Kernel, step: OpInstr) -> list[Value]:
    """A work-item for each element of a result: its place."""
    shape = step.outs[0].type.shape
    return places_of(kernel, kernel.each(math.prod(shape)), shape)


@anchor(Transpose, Expand)
def write_move(job: Job, limits: Limits) -> KernelSource:
    """Each element from where it was."""
    kernel = Kernel(job, limits)
    step = kernel.step
    places = begin(kernel, step)
    write_result(kernel, read(kernel, step.operand(0), _source(step, places)), places)
    return kernel.finish()


def _source(step: OpInstr, places: Sequence[Value]) -> list[Value]:
    """Where an element of the result is in the operand."""
    x = step.operand(0).type
    if isinstance(step.op, Transpose):
        return [places[step.op.perm.index(axis)] for axis in range(x.rank)]
    own = places[len(places) - x.rank :]
    return [p if n != 1 else p.like(0) for p, n in zip(own, x.shape, strict=True)]


@anchor(Fill)
def write_fill(job: Job, limits: Limits) -> KernelSource:
    """One number everywhere."""
    kernel = Kernel(job, limits)
    step = kernel.step
    assert isinstance(step.op, Fill)
    places = begin(kernel, step)
    write_result(kernel, kernel.code.constant(step.op.dtype, step.op.value), places)
    return kernel.finish()


@anchor(Iota)
def write_iota(job: Job, limits: Limits) -> KernelSource:
    """The index along an axis."""
    kernel = Kernel(job, limits)
    step = kernel.step
    assert isinstance(step.op, Iota)
    places = begin(kernel, step)
    place = places[step.op.axis]
    number = kernel.code.define(place.text, place.dtype)
    write_result(kernel, convert(number, step.op.dtype), places)
    return kernel.finish()
