"""Kernels that move elements: transposed, repeated, filled, counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.backends.broadcast import chain_strides, strides_within
from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read, write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.lanes import lanes_along
from afterglow.backends.items.language import Kernel
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Iota
from afterglow.ops.movement import Expand, Transpose

MOST_RUN = 8
"""Results of an item that moves elements which lie apart."""


def begin(kernel: Kernel[ValueT], step: OpInstr) -> list[ValueT]:
    """An item for each element of a result: its place."""
    shape = step.outs[0].type.shape
    return places_of(kernel, kernel.each(math.prod(shape)), shape)


def begin_vectors(
    kernel: Kernel[ValueT], sources: Sequence[Buffer] = (), *, whole: bool = True
) -> tuple[list[ValueT], int]:
    """An item for some neighbouring results: the place of the first, and how many they are.

    `whole` says whether neighbours are such in the sources, too; else there is one result an item.
    """
    job, out = kernel.job, kernel.step.outs[0]
    shape = out.type.shape
    strides = [*chain_strides(job.after, shape).values(), out.strides]
    strides += [strides_within(source, source.type.shape) for source in sources]
    lanes = lanes_along(kernel, shape[-1], strides) if whole and shape else 1
    if lanes == 1:
        return begin(kernel, kernel.step), 1
    wide = (*shape[:-1], shape[-1] // lanes)
    *outer, vector = places_of(kernel, kernel.each(math.prod(wide)), wide)
    return [*outer, kernel.code.named(vector * lanes)], lanes


@shared(Transpose, Expand)
def write_move(kernel: Kernel[ValueT]) -> None:
    """Elements from where they were: vectors of them, or runs that lie apart."""
    step = kernel.step
    x, out = step.operand(0), step.outs[0].type
    if _keeps_last(step):
        places, lanes = begin_vectors(kernel, [x])
        write_result(kernel, read(kernel, x, _source(step, places), lanes), places, lanes)
        return
    run = _run(kernel, out.shape)
    wide = (*out.shape[:-1], out.shape[-1] // run) if out.rank else ()
    places = places_of(kernel, kernel.each(math.prod(wide)), wide)
    for number in range(run):
        place = [*places[:-1], kernel.code.named(places[-1] * run + number)] if wide else places
        write_result(kernel, read(kernel, x, _source(step, place)), place)


def _keeps_last(step: OpInstr) -> bool:
    """Whether neighbouring results were neighbours, or are the same element."""
    out = step.outs[0].type
    if isinstance(step.op, Transpose):
        return out.rank > 0 and step.op.perm[-1] == out.rank - 1
    return True


def _source(step: OpInstr, places: Sequence[ValueT]) -> list[ValueT]:
    """Where an element of the result is in the operand."""
    x = step.operand(0).type
    if isinstance(step.op, Transpose):
        return [places[step.op.perm.index(axis)] for axis in range(x.rank)]
    own = places[len(places) - x.rank :]
    return [p if n != 1 else p.like(0) for p, n in zip(own, x.shape, strict=True)]


def _run(kernel: Kernel[ValueT], shape: Sequence[int]) -> int:
    """Results of an item: a few along the last axis, if processors then spend less on places."""
    return shape[-1] if kernel.is_processor and shape and shape[-1] <= MOST_RUN else 1


@shared(Fill)
def write_fill(kernel: Kernel[ValueT]) -> None:
    """One number everywhere."""
    step = kernel.step
    assert isinstance(step.op, Fill)
    places, lanes = begin_vectors(kernel)
    value = kernel.code.constant(step.op.dtype, step.op.value, lanes)
    write_result(kernel, value, places, lanes)


@shared(Iota)
def write_iota(kernel: Kernel[ValueT]) -> None:
    """The index along an axis."""
    step = kernel.step
    assert isinstance(step.op, Iota)
    places = begin(kernel, step)
    place = places[step.op.axis]
    number = kernel.code.number(place)
    write_result(kernel, convert(number, step.op.dtype), places)
