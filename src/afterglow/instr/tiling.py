"""Along which axes a stack can run tile by tile.

A stack may be cut along an axis if every instruction in it is parallel along that axis, and all
agree, through the locals between them, on which axis of which buffer that is.
"""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.instr.buffer import Buffer
from afterglow.instr.instruction import OpInstr, Stack
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class TileAxis:
    """One way to cut a stack: for each of its buffers the axis to cut, None to take it whole."""

    extent: int
    axis_of: Mapping[Buffer, int | None]


def tile_axes(stack: Stack) -> list[TileAxis]:
    """Every axis along which the stack can be cut, in the order of the last result's axes."""
    last = stack.body[-1].outs[0]
    found = (_follow(stack, axis) for axis in range(last.type.rank))
    return [axis for axis in found if axis is not None]


def _follow(stack: Stack, axis: int) -> TileAxis | None:
    """The tile axis that cuts the last result along `axis`, if there is one.

    It is followed from the last step to the first, as one reads what another made: mostly, one
    round reaches all.
    """
    last = stack.body[-1].outs[0]
    axis_of: dict[Buffer, int | None] = {last: axis}
    pending = [*reversed(stack.body)]
    while pending:
        left: list[OpInstr] = []
        for step in pending:
            along = _result_axis(step, axis_of)
            if along is None:
                left.append(step)
            elif not _cut(step, along, stack, axis_of):
                return None
        if len(left) == len(pending):
            return None
        pending = left
    return TileAxis(last.type.shape[axis], axis_of)


def _result_axis(step: OpInstr, axis_of: Mapping[Buffer, int | None]) -> int | None:
    """The axis along which to cut a step: known from a result, or from what it reads."""
    for out in step.outs:
        if axis_of.get(out) is not None:
            return axis_of[out]
    result, types = step.outs[0].type, [None if b is None else b.type for b in step.ins]
    for axis in range(result.rank):
        runs = step.op.parallel(axis, result, types) or ()
        for buffer, along in zip(step.ins, runs, strict=False):
            if buffer is not None and along is not None and axis_of.get(buffer) == along:
                return axis
    return None


def _cut(step: OpInstr, axis: int, stack: Stack, axis_of: dict[Buffer, int | None]) -> bool:
    """Write down how a step's operands are cut; False if that contradicts what is known."""
    result = step.outs[0].type
    runs = step.op.parallel(axis, result, [None if b is None else b.type for b in step.ins])
    if runs is None or any(out.type.rank != result.rank for out in step.outs):
        return False
    cuts: list[tuple[Buffer, int | None]] = [(out, axis) for out in step.outs]
    for buffer, along in zip(step.ins, runs, strict=True):
        if buffer is None:
            continue
        if along is None and buffer in stack.locals:
            return False
        cuts.append((buffer, along))
    if step.predicate is not None:
        cuts.append((step.predicate, None))
    return all(axis_of.setdefault(buffer, along) == along for buffer, along in cuts)


def reads_pointwise(step: OpInstr, operand: Buffer) -> bool:
    """Whether each result element needs only the element at its place of an operand."""
    result, types = step.outs[0].type, [None if b is None else b.type for b in step.ins]
    if operand.type.shape != result.shape:
        return False
    places = [index for index, buffer in enumerate(step.ins) if buffer is operand]
    runs = (step.op.parallel(axis, result, types) for axis in range(result.rank))
    return all(
        run is not None and all(run[place] == axis for place in places)
        for axis, run in enumerate(runs)
    )


def is_anchor(step: OpInstr) -> bool:
    """Whether it needs more of its first operand than the element at the place of each result."""
    first = step.ins[0] if step.ins else None
    return not step.op.elementwise and (first is None or not reads_pointwise(step, first))


def reads_once(step: OpInstr, operand: Buffer) -> bool:
    """Whether an operand may as well be computed while it is read."""
    names = zip(step.op.operand_names, step.ins, strict=False)
    places = [name for name, buffer in names if buffer is operand]
    return len(places) == 1 and places[0] in step.op.reads_once


def may_take_over(stack: Stack, written: Buffer, read: Buffer) -> bool:
    """Whether a result of a stack may lie where something lies that the stack reads.

    Both must be cut into tiles in the same way, and nobody may read after the writing. Who reads
    must need one element for one result, or be able to work in place.
    """
    if written.type.shape != read.type.shape:
        return False
    if any(axis.axis_of.get(written) != axis.axis_of.get(read) for axis in tile_axes(stack)):
        return False
    writer = next(i for i, step in enumerate(stack.body) if written in step.outs)
    readers = [(i, step) for i, step in enumerate(stack.body) if read in step.ins]
    return all(
        (index < writer and reads_pointwise(step, read))
        or (index <= writer and read in step.inplace_operands())
        for index, step in readers
    )
