"""Scatter: an item has a range of places, and goes through all updates for those that are in it.

So updates of one place come in their order, and no two items write to the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.gather import accepts_indices, in_range
from afterglow.backends.items.lanes import lanes_along
from afterglow.backends.items.language import Kernel, offset
from afterglow.backends.items.types import is_arithmetic
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import maximum, minimum
from afterglow.instr import OpInstr
from afterglow.ops.indexing import ScatterND, ScatterReduction

RANGES = 256
"""Ranges of places, on devices with many units."""
_COMBINE: dict[ScatterReduction, Callable[[ValueT, ValueT], ValueT]] = {
    ScatterReduction.NONE: lambda old, new: new,
    ScatterReduction.ADD: lambda old, new: old + new,
    ScatterReduction.MUL: lambda old, new: old * new,
    ScatterReduction.MAX: maximum,
    ScatterReduction.MIN: minimum,
}


def _accepts(step: OpInstr) -> bool:
    assert isinstance(step.op, ScatterND)
    moved = step.op.reduction is ScatterReduction.NONE
    return accepts_indices(step) and (moved or is_arithmetic(step.outs[0].type.dtype))


@shared(ScatterND, accepts=_accepts, epilogue=False)
def write_scatter(kernel: Kernel[ValueT]) -> None:
    """Copy a range of data, then put the updates in."""
    code, data, out = kernel.code, kernel.step.operand(0), kernel.step.outs[0]
    depth = kernel.step.operand(1).type.shape[-1]
    first, end, inner, lanes = _begin(kernel, depth)
    with code.loop(end, first) as number:
        at = [*places_of(kernel, number, out.type.shape[:depth]), *inner]
        old = kernel.pointer(data).load(offset(code, at, data.strides), lanes)
        kernel.pointer(out).store(old, offset(code, at, out.strides))
    _update(kernel, first, end, inner, lanes)


def _begin(kernel: Kernel[ValueT], depth: int) -> tuple[ValueT, ValueT, list[ValueT], int]:
    """The range of an item, and its first place in each slice, of `lanes` neighbours."""
    step, code = kernel.step, kernel.code
    indexed, rest = step.outs[0].type.shape[:depth], step.outs[0].type.shape[depth:]
    count = math.prod(indexed)
    ranges = min(count, kernel.units if kernel.is_processor else RANGES)
    own = (step.outs[0], step.operand(0), step.operand(2))
    lanes = lanes_along(kernel, rest[-1], [b.strides for b in own]) if rest else 1
    wide = (*rest[:-1], rest[-1] // lanes) if rest else ()
    part, *inner = places_of(kernel, kernel.each(ranges * math.prod(wide)), (ranges, *wide))
    if inner:
        inner[-1] = code.named(inner[-1] * lanes)
    size = -(-count // ranges)
    first = code.named(part * size)
    end = code.named(code.smaller(first + size, count))
    return first, end, inner, lanes


def _update(
    kernel: Kernel[ValueT], first: ValueT, end: ValueT, inner: list[ValueT], lanes: int
) -> None:
    """Put in what belongs into a range, in order."""
    step, code, out = kernel.step, kernel.code, kernel.step.outs[0]
    assert isinstance(step.op, ScatterND)
    indices = step.operand(1)
    *counts, depth = indices.type.shape
    with code.loop(math.prod(counts)) as number:
        which = places_of(kernel, number, counts)
        parts = [read(kernel, indices, [*which, code.index(c)]) for c in range(depth)]
        found = [in_range(kernel, "indices", value, c) for c, value in enumerate(parts)]
        place = code.index(0)
        for extent, index in zip(out.type.shape, found, strict=False):
            place = place * extent + index
        place = code.named(place)
        with code.when(code.is_between(place, first, end)):
            where = offset(code, [*found, *inner], out.strides)
            new = read(kernel, step.operand(2), [*which, *inner], lanes)
            old = kernel.pointer(out).load(where, lanes)
            kernel.pointer(out).store(_COMBINE[step.op.reduction](old, new), where)
